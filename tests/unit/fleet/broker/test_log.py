"""Does the log of a broker that the fleet runs stay short, and does what it said last stay there?"""

import asyncio
from pathlib import Path

import pytest
from shoal_fleet.broker.log import MAX_LOG_BYTES, is_long, keep_short, put_aside, read_tail

DEADLINE_S = 60.0


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "mosquitto.log"


def grow(log: Path) -> None:
    with log.open("ab") as file:
        file.truncate(MAX_LOG_BYTES + 1)


def test_long_log_is_kept_as_the_one_before(log: Path) -> None:
    log.with_suffix(".log.1").write_text("older")
    grow(log)

    put_aside(log)

    assert not log.exists()
    assert is_long(log.with_suffix(".log.1"))


@pytest.mark.parametrize("text", [None, "short"])
def test_short_log_and_none_are_left_alone(log: Path, text: str | None) -> None:
    if text is not None:
        log.write_text(text)
    put_aside(log)
    assert (log.read_text() if log.exists() else None) == text
    assert not log.with_suffix(".log.1").exists()


def test_another_is_begun_each_time_that_the_log_has_grown(log: Path) -> None:
    begun = 0

    def begin_anew() -> None:
        nonlocal begun
        begun += 1
        put_aside(log)

    async def grow_twice() -> None:
        keeping = asyncio.create_task(keep_short(log, begin_anew=begin_anew, check_s=0.001))
        async with asyncio.timeout(DEADLINE_S):
            for times in (1, 2):
                grow(log)
                while begun < times:  # noqa: ASYNC110 (it tells nobody)
                    await asyncio.sleep(0.001)
        keeping.cancel()

    asyncio.run(grow_twice())
    assert begun == 2
    assert sum(path.stat().st_size for path in log.parent.iterdir()) == MAX_LOG_BYTES + 1


def test_tail_is_the_last_lines(log: Path) -> None:
    assert read_tail(log) == "(no log)"
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    assert read_tail(log).splitlines() == [f"line {number}" for number in range(92, 100)]
