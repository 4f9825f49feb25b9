"""When does an earlier verdict still hold, and what is to serve after it?"""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from shoal_agent.errors import StateDamaged
from shoal_agent.files import DiskFiles
from shoal_agent.tuned import FOLDER, SERVING, Choice, Limits, load_choices, preferred_variant
from shoal_agent.tuning.verdicts import find_verdict, keep_verdict, key_of

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
    (tmp_path / FOLDER / f"{key_of(CONDITIONS)}.json").write_bytes(b"{")
    assert find_verdict(FILES, tmp_path, conditions=CONDITIONS, budget_s=60.0) is None


def test_what_was_chosen_is_to_serve_with_the_version_that_was_measured(tmp_path: Path) -> None:
    keep_verdict(FILES, tmp_path, VERDICT)
    chosen = load_choices(FILES, tmp_path).models["note-events"]
    assert (chosen.candidate, chosen.files, chosen.engine_version) == (FAST, ("b" * 64,), "1.2")
    keep_verdict(FILES, tmp_path, replace(VERDICT, choice=Choice(candidate=SMALL, why="")))
    assert load_choices(FILES, tmp_path).models["note-events"].candidate == SMALL


def test_a_verdict_without_a_choice_leaves_what_serves(tmp_path: Path) -> None:
    keep_verdict(FILES, tmp_path, VERDICT)
    keep_verdict(FILES, tmp_path, replace(VERDICT, choice=Choice(candidate=None, why="nobody")))
    assert load_choices(FILES, tmp_path).models["note-events"].candidate == FAST


def test_a_variant_is_preferred_in_a_later_release_only_with_the_same_bytes(tmp_path: Path) -> None:
    keep_verdict(FILES, tmp_path, VERDICT)
    choices = load_choices(FILES, tmp_path)
    same = {"t": ("c" * 64,), "renamed": ("b" * 64,)}
    assert preferred_variant(choices, model="note-events", variants=same) == "renamed"
    assert preferred_variant(choices, model="note-events", variants={"o": ("d" * 64,)}) is None
    assert preferred_variant(choices, model="another", variants=same) is None


def test_a_damaged_list_of_choices_is_told(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / SERVING).write_bytes(b'{"models": 1}')
    with pytest.raises(StateDamaged, match=SERVING):
        load_choices(FILES, tmp_path)
