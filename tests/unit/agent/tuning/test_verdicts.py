"""When does an earlier verdict still hold, and what is to serve after it?"""

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from shoal_agent.errors import StateDamaged
from shoal_agent.files import DiskFiles
from shoal_agent.tuned import FOLDER, SERVING, Choice, Limits, Verdict, load_choices
from shoal_agent.tuning.verdicts import MAX_SERVING, MAX_VERDICTS, find_verdict, keep_verdict, key_of, serve_by

from tests.unit.agent.tuning.verdict_example import CONDITIONS, FAST, SMALL, VERDICT

FILES = DiskFiles()


def test_the_verdict_that_was_kept_is_found(tmp_path: Path) -> None:
    keep_verdict(FILES, tmp_path, VERDICT)
    assert find_verdict(FILES, tmp_path, conditions=CONDITIONS, budget_s=60.0) == VERDICT


@pytest.mark.parametrize(
    "changed",
    [
        {"model_sha256": "d" * 64},
        {"variants": {"o": ("d" * 64,), "t": ("c" * 64,)}},
        {"engines": {"onnxruntime.onnx": "1.3", "openvino.onnx": "3.4", "litert.tflite": "5.6"}},
        {"processor": "another"},
        {"processors": 4},
        {"governor": "performance"},
        {"thermal": "hot"},
        {"agent_version": "0.2.0"},
        {"objective": "memory"},
        {"limits": Limits(p95_ms=10.0)},
        {"candidates": (FAST,)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_no_verdict_holds_once_a_condition_has_changed(tmp_path: Path, changed: dict[str, Any]) -> None:
    keep_verdict(FILES, tmp_path, VERDICT)
    assert find_verdict(FILES, tmp_path, conditions=replace(CONDITIONS, **changed), budget_s=60.0) is None


def test_a_verdict_that_time_cut_short_gives_way_to_a_larger_budget(tmp_path: Path) -> None:
    unsettled = replace(VERDICT, is_settled=False, budget_s=60.0)
    keep_verdict(FILES, tmp_path, unsettled)
    assert find_verdict(FILES, tmp_path, conditions=CONDITIONS, budget_s=60.0) == unsettled
    assert find_verdict(FILES, tmp_path, conditions=CONDITIONS, budget_s=61.0) is None


def test_a_verdict_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    keep_verdict(FILES, tmp_path, VERDICT)
    path = tmp_path / FOLDER / f"{key_of(CONDITIONS)}.json"
    path.write_bytes(b"{")
    assert find_verdict(FILES, tmp_path, conditions=CONDITIONS, budget_s=60.0) is None
    path.unlink()
    path.mkdir()
    assert find_verdict(FILES, tmp_path, conditions=CONDITIONS, budget_s=60.0) is None


def verdict_of(number: int) -> Verdict:
    """One of a model of its own."""
    conditions = replace(CONDITIONS, model_sha256=f"{number:064x}")
    return replace(VERDICT, model=f"model-{number}", conditions=conditions)


def test_the_verdicts_used_last_are_kept_and_nothing_else_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    for number in range(MAX_VERDICTS):
        keep_verdict(FILES, tmp_path, verdict_of(number))
        os.utime(folder / f"{key_of(verdict_of(number).conditions)}.json", ns=(number, number))
    half = folder / f".{'0' * 64}.json.new"
    for other in (half, folder / SERVING, folder / "looked.json", folder / "lock"):
        other.write_bytes(b"")
        os.utime(other, ns=(0, 0))
    keep_verdict(FILES, tmp_path, verdict_of(0))
    assert not half.exists()
    keep_verdict(FILES, tmp_path, verdict_of(MAX_VERDICTS))
    found = [
        number
        for number in range(MAX_VERDICTS + 1)
        if find_verdict(FILES, tmp_path, conditions=verdict_of(number).conditions, budget_s=60.0)
    ]
    assert found == [0, *range(2, MAX_VERDICTS + 1)]
    assert {"looked.json", "lock", SERVING} < set(FILES.names(folder))


def test_models_that_serve_are_forgotten_only_when_there_are_many_and_their_verdict_is_gone(tmp_path: Path) -> None:
    for number in range(MAX_SERVING + 1):
        serve_by(FILES, tmp_path, verdict_of(number))
        if number == MAX_SERVING - 1:
            assert len(load_choices(FILES, tmp_path).models) == MAX_SERVING
            keep_verdict(FILES, tmp_path, verdict_of(1))
            keep_verdict(FILES, tmp_path, verdict_of(MAX_SERVING))
    assert set(load_choices(FILES, tmp_path).models) == {"model-1", f"model-{MAX_SERVING}"}


def test_a_verdict_that_is_only_kept_changes_nothing_that_serves(tmp_path: Path) -> None:
    serve_by(FILES, tmp_path, VERDICT)
    keep_verdict(FILES, tmp_path, replace(VERDICT, choice=Choice(candidate=SMALL, why="")))
    assert load_choices(FILES, tmp_path).models["note-events"].candidate == FAST


def test_what_was_chosen_is_to_serve_with_the_version_that_was_measured(tmp_path: Path) -> None:
    serve_by(FILES, tmp_path, VERDICT)
    chosen = load_choices(FILES, tmp_path).models["note-events"]
    assert (chosen.candidate, chosen.files, chosen.engine_version) == (FAST, ("b" * 64,), "1.2")
    serve_by(FILES, tmp_path, replace(VERDICT, choice=Choice(candidate=SMALL, why="")))
    assert load_choices(FILES, tmp_path).models["note-events"].candidate == SMALL


def test_a_verdict_without_a_choice_leaves_what_serves(tmp_path: Path) -> None:
    serve_by(FILES, tmp_path, VERDICT)
    serve_by(FILES, tmp_path, replace(VERDICT, choice=Choice(candidate=None, why="nobody")))
    assert load_choices(FILES, tmp_path).models["note-events"].candidate == FAST


def test_a_damaged_list_of_choices_is_told(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / SERVING).write_bytes(b'{"models": 1}')
    with pytest.raises(StateDamaged, match=SERVING):
        load_choices(FILES, tmp_path)
