"""When does a step of the demo count as shown?"""

import hashlib
import json
from typing import Any

import msgspec
import pytest
from shoal_fleet.command.demo.evidence import (
    Expected,
    Shown,
    every_item_answered_once,
    on_every_board,
    update_ended,
)
from shoal_fleet.command.demo.items import Item, answer_id
from shoal_fleet.command.views import Answer
from shoal_wire.messages import ReleaseReference, Reported, SlotReport, UpdateReport
from shoal_wire.update import UpdateState

GOOD = ReleaseReference("notes", 2, "22" * 32)
BAD = ReleaseReference("notes", 3, "33" * 32)


def report(**changes: Any) -> Reported:
    """A board that went back from BAD to GOOD."""
    update = UpdateReport(
        epoch=1, generation=3, target=BAD, state=UpdateState.FELL_BACK, reason="p95 too high", fetched_bytes=10
    )
    slot = SlotReport(
        release="notes", current=GOOD, previous=None, serving=GOOD, engine="onnxruntime", variant="onnx-fp32"
    )
    fields = {"device": "d-1", "counter": 7, "stream": "0" * 32, "at": 1.0, "agent_version": "1", "profile": "x"}
    return Reported(**{**fields, "slots": (slot,), "update": update, **changes})


FORMATS = {"tflite-fp32": "tflite", "onnx-fp32": "onnx"}
EXPECTED = Expected(
    UpdateState.FELL_BACK,
    target=BAD.manifest_sha256,
    current=GOOD.manifest_sha256,
    engine="onnxruntime",
    model_format="onnx",
    why="p95",
    most_fetched_bytes=10,
)


def test_update_that_ended_as_expected_is_shown() -> None:
    shown = update_ended(report(), model="notes", formats=FORMATS, expected=EXPECTED)
    assert shown.ok
    assert shown.evidence["current_manifest_sha256"] == GOOD.manifest_sha256
    assert shown.evidence["target_manifest_sha256"] == BAD.manifest_sha256
    assert (shown.evidence["update_state"], shown.evidence["reported_counter"]) == ("fell-back", 7)
    assert (shown.evidence["engine"], shown.evidence["format"]) == ("onnxruntime", "onnx")
    assert shown.words[0] == "p95 too high"


@pytest.mark.parametrize(
    "changes",
    [
        {"state": UpdateState.COMMITTED},
        {"target": GOOD.manifest_sha256},
        {"current": BAD.manifest_sha256},
        {"engine": "litert"},
        {"model_format": "tflite"},
        {"why": "golden"},
        {"most_fetched_bytes": 9},
    ],
)
def test_anything_else_is_not(changes: dict[str, Any]) -> None:
    expected = EXPECTED._replace(**changes)
    assert not update_ended(report(), model="notes", formats=FORMATS, expected=expected).ok


@pytest.mark.parametrize(
    "changes",
    [
        {"slots": ()},
        {"update": None},
        {"slots": (msgspec.structs.replace(report().slots[0], current=None),)},
        {"slots": (msgspec.structs.replace(report().slots[0], release="other"),)},
        {"slots": (msgspec.structs.replace(report().slots[0], variant="unheard-of"),)},
    ],
)
def test_report_that_holds_no_evidence_is_not(changes: dict[str, Any]) -> None:
    assert not update_ended(report(**changes), model="notes", formats=FORMATS, expected=EXPECTED).ok


def item(name: str) -> Item:
    return Item(name, hashlib.sha256(name.encode()).hexdigest(), "C4")


PLACED = {"sounds": [item("a"), item("b")], "photographs": [item("a")]}
"""The same file in two folders is two items."""
ALL = (("sounds", "b"), ("photographs", "a"), ("sounds", "a"))


def answers(*items: tuple[str, str]) -> list[Answer]:
    return [
        Answer(number, "d-1", answer_id("d-1", source, item(name)), source, name, "C4")
        for number, (source, name) in enumerate(items, 1)
    ]


def test_each_item_with_one_answer_is_shown() -> None:
    shown = every_item_answered_once("d-1", PLACED, answers(*ALL), [])
    assert shown.ok
    assert (shown.evidence["sounds"], shown.evidence["photographs"], shown.evidence["answers"]) == (2, 1, 3)


def test_refused_item_is_not_an_answered_one() -> None:
    refused = msgspec.structs.replace(answers(ALL[0])[0], words="refused: not a WAV file")
    shown = every_item_answered_once("d-1", PLACED, [*answers(*ALL[1:]), refused], [])
    assert not shown.ok and shown.evidence["refused"] == ["b"]


@pytest.mark.parametrize(
    ("found", "left", "fault"),
    [
        (ALL[1:], [], {"missing": ["b"]}),
        ((*ALL, ALL[0]), [], {"twice": [answer_id("d-1", *("sounds", item("b")))]}),
        ((*ALL, ("photographs", "b")), [], {"foreign": [answer_id("d-1", "photographs", item("b"))]}),
        (ALL, ["sounds/c"], {"left_in_folder": ["sounds/c"]}),
    ],
)
def test_what_is_missing_doubled_foreign_or_left_is_named(
    found: tuple[tuple[str, str], ...], left: list[str], fault: dict[str, list[str]]
) -> None:
    shown = every_item_answered_once("d-1", PLACED, answers(*found), left)
    assert not shown.ok
    assert fault.items() <= shown.evidence.items()


@pytest.mark.parametrize("placed", [{}, {"sounds": []}, {"sounds": [item("a")], "photographs": []}])
def test_source_without_an_item_shows_nothing(placed: dict[str, list[Item]]) -> None:
    found = answers(*((source, one.name) for source, items in placed.items() for one in items))
    assert not every_item_answered_once("d-1", placed, found, []).ok


def test_answers_of_another_device_are_foreign() -> None:
    shown = every_item_answered_once("d-2", PLACED, answers(*ALL), [])
    assert (len(shown.evidence["missing"]), len(shown.evidence["foreign"])) == (3, 3)


def test_answer_id_is_that_of_the_protocol() -> None:
    text = json.dumps(["shoal/answer/v1", "d-1", "sounds", "ä.wav", "ab" * 32], separators=(",", ":"))
    assert answer_id("d-1", "sounds", Item("ä.wav", "ab" * 32, "")) == hashlib.sha256(text.encode("ascii")).hexdigest()


GOOD_BOARD = Shown(ok=True, evidence={"engine": "litert"}, words=("", "runs"))
BAD_BOARD = Shown(ok=False, evidence={"engine": "openvino"}, words=("too slow", "keeps"))


def test_step_holds_only_if_it_holds_on_every_board() -> None:
    assert on_every_board({"one": GOOD_BOARD, "two": GOOD_BOARD}).ok
    assert not on_every_board({"one": GOOD_BOARD, "two": BAD_BOARD}).ok
    assert not on_every_board({}).ok


def test_evidence_of_each_board_stands_under_its_name() -> None:
    shown = on_every_board({"one": GOOD_BOARD, "second": BAD_BOARD}, rollout="failed")
    assert shown.evidence == {
        "boards": {"one": {"engine": "litert"}, "second": {"engine": "openvino"}},
        "rollout": "failed",
    }
    assert shown.boards == {"one": ("", "runs"), "second": ("too slow", "keeps")}
