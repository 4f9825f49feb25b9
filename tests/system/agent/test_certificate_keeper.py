"""When does the daemon have its certificate renewed, and how often does it ask?"""

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from shoal_agent.daemon.recording import Recorder
from shoal_agent.daemon.renewal import TURNED_AWAY, CertificateKeeper
from shoal_agent.enrolment import make_csr
from shoal_agent.files import DiskFiles
from shoal_agent.keys import make_missing_keys
from shoal_agent.state import CERTIFICATE
from shoal_fleet.pki.authority import Authority
from shoal_wire.messages import Event

DEADLINE_S = 60.0
RENEWS, REFUSES, CANNOT_REACH = 0, 1, 75
PROGRAM = """
import pathlib, sys
calls = pathlib.Path(sys.argv[2]) / "calls"
calls.write_text(calls.read_text() + "x" if calls.exists() else "x")
print("said by the program", file=sys.stderr)
sys.exit({exit_code})
"""


class Notes:
    """Takes events, as `Recorder` does."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def note(self, row: Event) -> None:
        self.events.append(row)


class Bench:
    """A state folder with a certificate of a chosen age, and a program in place of renewal."""

    def __init__(self, folder: Path, *, age_days: float, exit_code: int, is_known: bool = True) -> None:
        self.state = folder / "state"
        self.notes = Notes()
        self.renewed = 0
        now = datetime.now(UTC)
        authority = Authority.create(folder / "authority", now=now)
        keys = make_missing_keys(DiskFiles(), self.state)
        pem = authority.issue_client(
            make_csr(keys.tls).encode(), device_id="d-board", now=now - timedelta(days=age_days), valid_days=30
        )
        DiskFiles().write(self.state / CERTIFICATE, pem)
        recorder: Recorder = self.notes  # type: ignore[assignment]
        self.keeper = CertificateKeeper(
            (sys.executable, "-c", PROGRAM.format(exit_code=exit_code)),
            files=DiskFiles(),
            state=self.state,
            is_known=is_known,
            recorder=recorder,
            on_renewed=self.count,
        )

    def count(self) -> None:
        self.renewed += 1

    def calls(self) -> int:
        path = self.state / "calls"
        return len(path.read_text()) if path.exists() else 0

    async def run(self, *, until: Callable[[], bool]) -> None:
        """Serve until that holds and a program that was started has ended."""
        serving = asyncio.create_task(self.keeper.serve())
        async with asyncio.timeout(DEADLINE_S):
            while not until():  # noqa: ASYNC110 (files tell nobody)
                await asyncio.sleep(0.02)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving


def test_a_certificate_that_is_due_is_renewed_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, age_days=25, exit_code=RENEWS)
    asyncio.run(bench.run(until=lambda: bench.renewed > 0))
    assert (bench.calls(), bench.renewed) == (1, 1)
    assert [(event.name, event.detail) for event in bench.notes.events] == [
        ("certificate-renewed", "said by the program")
    ]


def test_one_that_has_expired_is_renewed_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, age_days=45, exit_code=RENEWS)
    asyncio.run(bench.run(until=lambda: bench.renewed > 0))
    assert bench.calls() == 1


@pytest.mark.parametrize(("is_known", "turned_away", "calls"), [(True, TURNED_AWAY - 1, 0), (False, 0, 1)])
def test_a_fresh_one_is_left_alone_unless_the_fleet_is_not_known_yet(
    tmp_path: Path, is_known: bool, turned_away: int, calls: int
) -> None:
    bench = Bench(tmp_path, age_days=1, exit_code=RENEWS, is_known=is_known)
    for _ in range(turned_away):
        bench.keeper.note_turned_away()
    asyncio.run(bench.run(until=lambda: bench.renewed == calls))
    assert bench.calls() == calls


def test_a_board_that_brokers_turn_away_asks_though_its_clock_sees_no_reason(tmp_path: Path) -> None:
    bench = Bench(tmp_path, age_days=1, exit_code=RENEWS)
    for _ in range(TURNED_AWAY):
        bench.keeper.note_turned_away()
    asyncio.run(bench.run(until=lambda: bench.renewed > 0))
    assert bench.calls() == 1


def test_connections_in_between_count_from_the_start(tmp_path: Path) -> None:
    bench = Bench(tmp_path, age_days=1, exit_code=RENEWS)
    for _ in range(5):
        for _ in range(TURNED_AWAY - 1):
            bench.keeper.note_turned_away()
        bench.keeper.note_connected()
    asyncio.run(bench.run(until=lambda: True))
    assert bench.calls() == 0


@pytest.mark.parametrize(("exit_code", "events"), [(REFUSES, ["renewal-refused"]), (CANNOT_REACH, [])])
def test_who_is_refused_or_reaches_nobody_waits_before_it_asks_again(
    tmp_path: Path, exit_code: int, events: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path, age_days=25, exit_code=exit_code)
    asyncio.run(bench.run(until=lambda: "certificate not renewed" in caplog.text))
    assert (bench.calls(), bench.renewed) == (1, 0)
    assert [event.name for event in bench.notes.events] == events
