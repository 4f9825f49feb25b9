"""When does a step of the demo count as shown?"""

import hashlib
import json
from typing import Any

import msgspec
import pytest
from shoal_fleet.command.demo.evidence import Expected, every_sound_answered_once, update_ended
from shoal_fleet.command.demo.sounds import Sound, answer_id
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
    slot = SlotReport(release="notes", current=GOOD, previous=None, serving=GOOD, engine="onnxruntime")
    fields = {"device": "d-1", "counter": 7, "stream": "0" * 32, "at": 1.0, "agent_version": "1", "profile": "x"}
    return Reported(**{**fields, "slots": (slot,), "update": update, **changes})


EXPECTED = Expected(
    UpdateState.FELL_BACK, target=BAD.manifest_sha256, current=GOOD.manifest_sha256, why="p95", most_fetched_bytes=10
)


def test_update_that_ended_as_expected_is_shown() -> None:
    shown = update_ended(report(), model="notes", expected=EXPECTED)
    assert shown.ok
    assert shown.evidence["current_manifest_sha256"] == GOOD.manifest_sha256
    assert shown.evidence["target_manifest_sha256"] == BAD.manifest_sha256
    assert (shown.evidence["update_state"], shown.evidence["reported_counter"]) == ("fell-back", 7)
    assert shown.words[0] == "p95 too high"


@pytest.mark.parametrize(
    "changes",
    [
        {"state": UpdateState.COMMITTED},
        {"target": GOOD.manifest_sha256},
        {"current": BAD.manifest_sha256},
        {"why": "golden"},
        {"most_fetched_bytes": 9},
    ],
)
def test_anything_else_is_not(changes: dict[str, Any]) -> None:
    assert not update_ended(report(), model="notes", expected=EXPECTED._replace(**changes)).ok


@pytest.mark.parametrize(
    "changes",
    [
        {"slots": ()},
        {"update": None},
        {"slots": (msgspec.structs.replace(report().slots[0], current=None),)},
        {"slots": (msgspec.structs.replace(report().slots[0], release="other"),)},
    ],
)
def test_report_that_holds_no_evidence_is_not(changes: dict[str, Any]) -> None:
    assert not update_ended(report(**changes), model="notes", expected=EXPECTED).ok


SOUNDS = {item: Sound(item, hashlib.sha256(item.encode()).hexdigest(), "C4") for item in ("a.wav", "b.wav")}


def answers(*items: str) -> list[Answer]:
    known = {item: answer_id("d-1", sound) for item, sound in SOUNDS.items()}
    return [Answer(number, known.get(item, item), item, "C4") for number, item in enumerate(items, 1)]


def test_each_sound_with_one_answer_is_shown() -> None:
    shown = every_sound_answered_once("d-1", SOUNDS, answers("b.wav", "a.wav"), [])
    assert shown.ok
    assert (shown.evidence["sounds"], shown.evidence["answers"]) == (2, 2)


def test_refused_sound_is_not_an_answered_one() -> None:
    refused = msgspec.structs.replace(answers("b.wav")[0], words="refused: not a WAV file")
    shown = every_sound_answered_once("d-1", SOUNDS, [*answers("a.wav"), refused], [])
    assert not shown.ok and shown.evidence["refused"] == ["b.wav"]


@pytest.mark.parametrize(
    ("items", "left", "fault"),
    [
        (("a.wav",), [], {"missing": ["b.wav"]}),
        (("a.wav", "b.wav", "b.wav"), [], {"twice": [answer_id("d-1", SOUNDS["b.wav"])]}),
        (("a.wav", "b.wav", "x"), [], {"foreign": ["x"]}),
        (("a.wav", "b.wav"), ["c.wav"], {"left_in_folder": ["c.wav"]}),
    ],
)
def test_what_is_missing_doubled_foreign_or_left_is_named(
    items: tuple[str, ...], left: list[str], fault: dict[str, list[str]]
) -> None:
    shown = every_sound_answered_once("d-1", SOUNDS, answers(*items), left)
    assert not shown.ok
    assert fault.items() <= shown.evidence.items()


def test_no_sound_at_all_shows_nothing() -> None:
    assert not every_sound_answered_once("d-1", {}, [], []).ok


def test_answers_of_another_device_are_foreign() -> None:
    shown = every_sound_answered_once("d-2", SOUNDS, answers("a.wav", "b.wav"), [])
    assert (len(shown.evidence["missing"]), len(shown.evidence["foreign"])) == (2, 2)


def test_answer_id_is_that_of_the_protocol() -> None:
    text = json.dumps(["shoal/answer/v1", "d-1", "sounds", "ä.wav", "ab" * 32], separators=(",", ":"))
    assert answer_id("d-1", Sound("ä.wav", "ab" * 32, "")) == hashlib.sha256(text.encode("ascii")).hexdigest()
