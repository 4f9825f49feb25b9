"""When is a release tuned, and when again?"""

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from shoal_agent.configuration import Configuration, TuningSetting
from shoal_agent.daemon.looked import (
    LOOKED,
    MAX_DOWNS,
    Circumstances,
    Look,
    Looks,
    begin,
    digest_of,
    end,
    is_due,
    is_given_up,
    keep_looks,
    load_looks,
    read_circumstances,
)
from shoal_agent.files import DiskFiles
from shoal_agent.slots import HeldRelease
from shoal_agent.tuned import FOLDER
from shoal_wire.grant import Grant
from shoal_wire.messages import ReleaseReference
from shoal_wire.tuning import BoardKind

HOUR_S = 3600.0
NOW = 1_000_000.0
UP_S = 60.0
DIGEST, OTHER = "a" * 64, "b" * 64
BOARD = BoardKind(architecture="aarch64", processor="0xd0b", processors=4, governor="ondemand")
CIRCUMSTANCES = Circumstances(
    board=BOARD, agent_version="0.1.0", objective="latency", engines={"onnxruntime.onnx": ("1.20",)}
)


def held(version: int = 1, *, files: tuple[str, ...] = ("c" * 64,)) -> HeldRelease:
    grants = tuple(Grant(ciphertext_sha256=file, counter=1, sealed_key="") for file in files)
    reference = ReleaseReference("notes", version, f"{version:064x}")
    return HeldRelease(reference=reference, epoch=1, generation=version, variant="v", grants=grants)


def test_what_was_never_looked_into_is_due_and_what_was_found_out_is_not() -> None:
    assert is_due(None, digest=DIGEST, now=NOW, up_s=UP_S)
    done = Look(digest=DIGEST, at=NOW, attempts=1, is_done=True)
    assert not is_due(done, digest=DIGEST, now=NOW + 1e9, up_s=UP_S)
    assert is_due(done, digest=OTHER, now=NOW, up_s=UP_S)


@pytest.mark.parametrize(("attempts", "hours"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 24), (60, 24)])
def test_what_failed_waits_for_hours_and_each_time_longer(attempts: int, hours: int) -> None:
    failed = Look(digest=DIGEST, at=NOW, attempts=attempts, is_done=False)
    assert not is_due(failed, digest=DIGEST, now=NOW + hours * HOUR_S - 1, up_s=UP_S)
    assert is_due(failed, digest=DIGEST, now=NOW + hours * HOUR_S, up_s=UP_S)


@pytest.mark.parametrize(("attempts", "hours"), [(1, 1), (3, 4)])
def test_a_clock_behind_the_last_attempt_makes_it_wait_one_pause_from_the_start_of_the_daemon(
    attempts: int, hours: int
) -> None:
    failed = Look(digest=DIGEST, at=NOW, attempts=attempts, is_done=False)
    assert not is_due(failed, digest=DIGEST, now=0.0, up_s=hours * HOUR_S - 1)
    assert is_due(failed, digest=DIGEST, now=0.0, up_s=hours * HOUR_S)


@pytest.mark.parametrize("now", [0.0, NOW + 1e9], ids=["clock in the past", "long ago"])
def test_a_tuning_that_takes_the_board_down_five_times_is_not_tried_again_until_something_changes(now: float) -> None:
    look = None
    for attempt in range(5):
        assert is_due(look, digest=DIGEST, now=now, up_s=1e9), attempt
        assert not is_given_up(look, digest=DIGEST)
        look = begin(look, digest=DIGEST, now=NOW)
    assert not is_due(look, digest=DIGEST, now=now, up_s=1e9)
    assert is_given_up(look, digest=DIGEST)
    assert not is_given_up(look, digest=OTHER)
    assert is_due(look, digest=OTHER, now=now, up_s=UP_S)


def test_a_tuning_that_ended_is_tried_again_however_often_it_failed() -> None:
    look = None
    for _ in range(2 * MAX_DOWNS):
        look = end(begin(look, digest=DIGEST, now=NOW), is_done=False)
    assert look is not None and (look.attempts, look.downs) == (10, 0)
    assert is_due(look, digest=DIGEST, now=NOW + 24 * HOUR_S, up_s=UP_S)


def test_one_that_found_out_is_done() -> None:
    look = end(begin(None, digest=DIGEST, now=NOW), is_done=True)
    assert look == Look(digest=DIGEST, at=NOW, attempts=1, is_done=True)


def test_attempts_are_counted_for_the_same_circumstances_only() -> None:
    first = begin(None, digest=DIGEST, now=NOW)
    assert first == Look(digest=DIGEST, at=NOW, attempts=1, is_done=False, downs=1)
    assert begin(first, digest=DIGEST, now=NOW).attempts == 2
    assert begin(first, digest=OTHER, now=NOW).attempts == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"board": replace(BOARD, governor="performance")},
        {"board": replace(BOARD, processors=2)},
        {"board": replace(BOARD, processor="0xd08")},
        {"agent_version": "0.2.0"},
        {"objective": "memory"},
        {"engines": {"onnxruntime.onnx": ("1.21",)}},
        {"engines": {"onnxruntime.onnx": ("1.20",), "openvino.onnx": ("2025.4",)}},
    ],
    ids=["governor", "threads", "processor", "agent", "objective", "engine", "more engines"],
)
def test_the_digest_changes_with_everything_that_can_be_seen(changed: dict[str, Any]) -> None:
    assert digest_of(held(), replace(CIRCUMSTANCES, **changed)) != digest_of(held(), CIRCUMSTANCES)


def test_the_digest_is_the_releases_and_that_of_the_files_which_are_here() -> None:
    assert digest_of(held(2), CIRCUMSTANCES) != digest_of(held(), CIRCUMSTANCES)
    assert digest_of(held(files=("c" * 64, "d" * 64)), CIRCUMSTANCES) != digest_of(held(), CIRCUMSTANCES)
    assert digest_of(held(files=("d" * 64, "c" * 64)), CIRCUMSTANCES) == digest_of(
        held(files=("c" * 64, "d" * 64)), CIRCUMSTANCES
    )
    assert digest_of(replace(held(), generation=7), CIRCUMSTANCES) == digest_of(held(), CIRCUMSTANCES)


def test_another_interpreter_is_known_by_its_age(tmp_path: Path) -> None:
    interpreter = tmp_path / "python"
    configuration = Configuration(
        engines=("litert",), interpreters={"litert": str(interpreter)}, tuning=TuningSetting(objective="memory")
    )

    def read() -> Circumstances:
        return read_circumstances(configuration, board=BOARD, agent_version="0.1.0")

    absent = read()
    assert (absent.objective, set(absent.engines)) == ("memory", {"litert.tflite"})
    interpreter.write_text("")
    there = read()
    assert there == read() and there != absent


@pytest.mark.parametrize("packages", ["lib/python3.11/site-packages", "lib/python3/dist-packages"])
def test_an_engine_that_was_upgraded_in_another_interpreters_environment_is_noticed(
    tmp_path: Path, packages: str
) -> None:
    """As pip does it: the interpreter, a link to the system's, stays as it is."""
    system, interpreter = tmp_path / "system-python", tmp_path / "venv" / "bin" / "python"
    system.write_text("")
    interpreter.parent.mkdir(parents=True)
    interpreter.symlink_to(system)
    folder = tmp_path / "venv" / packages
    (folder / "ai_edge_litert-1.0.dist-info").mkdir(parents=True)
    os.utime(folder, ns=(1, 1))
    configuration = Configuration(engines=("litert",), interpreters={"litert": str(interpreter)})

    def read() -> Circumstances:
        return read_circumstances(configuration, board=BOARD, agent_version="0.1.0")

    before = read()
    assert read() == before
    (folder / "ai_edge_litert-1.0.dist-info").rename(folder / "ai_edge_litert-1.1.dist-info")
    assert read() != before


def test_an_engine_of_the_agents_own_interpreter_is_known_by_its_version() -> None:
    pytest.importorskip("onnxruntime")
    from importlib.metadata import version

    found = read_circumstances(Configuration(engines=("onnxruntime",)), board=BOARD, agent_version="0.1.0")
    assert found.engines == {"onnxruntime.onnx": (version("onnxruntime"),)}


def test_what_was_looked_into_is_read_again_and_a_damaged_file_is_nothing(tmp_path: Path) -> None:
    assert load_looks(DiskFiles(), tmp_path) == Looks()
    looks = Looks(slots={"notes": begin(None, digest=DIGEST, now=NOW)})
    keep_looks(DiskFiles(), tmp_path, looks)
    assert load_looks(DiskFiles(), tmp_path) == looks
    (tmp_path / FOLDER / LOOKED).write_bytes(b"{")
    assert load_looks(DiskFiles(), tmp_path) == Looks()


def test_a_file_that_may_not_be_read_is_nothing(tmp_path: Path) -> None:
    (tmp_path / FOLDER / LOOKED).mkdir(parents=True)
    assert load_looks(DiskFiles(), tmp_path) == Looks()
