"""What shows that a step of the demo is true? Rules over what board and fleet say; none reads a log."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from shoal_wire.messages import Reported
from shoal_wire.update import FAILED, UpdateState

from shoal_fleet.command.demo.sounds import Sound, answer_id
from shoal_fleet.command.views import Answer

_NAMED = 10
"""How many of the things that are wrong are named."""


class Shown(NamedTuple):
    """Whether a step's evidence holds, the evidence, and the same in words, a line each."""

    ok: bool
    evidence: dict[str, Any]
    words: tuple[str, ...]


class Expected(NamedTuple):
    """How an update must have ended."""

    state: UpdateState
    target: str
    """Digest of the manifest that was rolled out."""
    current: str
    """Digest of the manifest that the board must run now."""
    why: str = ""
    """A word that the board's reason must hold."""
    most_fetched_bytes: int | None = None
    """None where any number will do."""


def update_ended(reported: Reported, *, model: str, expected: Expected) -> Shown:
    """The signed report says that the newest update ended as expected, and what the slot of `model` holds."""
    slot = next((slot for slot in reported.slots if slot.release == model), None)
    update = reported.update
    if slot is None or update is None:
        evidence: dict[str, Any] = {"reported_counter": reported.counter, "slots": len(reported.slots)}
        return Shown(ok=False, evidence=evidence, words=("the board reports no update of that model",))
    running = slot.current
    ok = (
        update.state is expected.state
        and update.target.manifest_sha256 == expected.target
        and running is not None
        and running.manifest_sha256 == expected.current
        and expected.why in update.reason
        and (expected.most_fetched_bytes is None or update.fetched_bytes <= expected.most_fetched_bytes)
    )
    evidence = {
        "current_manifest_sha256": running and running.manifest_sha256,
        "expected_manifest_sha256": expected.current,
        "target_manifest_sha256": update.target.manifest_sha256,
        "update_state": update.state.value,
        "reason": update.reason,
        "reported_counter": reported.counter,
        "engine": f"{slot.engine} {slot.engine_version}".strip(),
        "fetched_bytes": update.fetched_bytes,
    }
    verb = "keeps" if update.state in FAILED else "runs"
    kept = f"{verb} release {running.version} ({running.manifest_sha256[:12]})" if running else "runs nothing"
    signed = f"signed report: {update.state.value}, {kept}, {update.fetched_bytes / 1000:.0f} kB fetched"
    return Shown(ok=ok, evidence=evidence, words=(update.reason, signed))


def every_sound_answered_once(
    device: str, sounds: Mapping[str, Sound], answers: Collection[Answer], left_in_folder: list[str]
) -> Shown:
    """Each sound has exactly one answer, by answer id, and none is a refusal; no other, and no file, is left."""
    expected = {answer_id(device, sound): sound.item for sound in sounds.values()}
    found = Counter(answer.answer_id for answer in answers)
    missing = sorted(item for identity, item in expected.items() if identity not in found)
    twice = sorted(identity for identity, count in found.items() if count > 1)
    foreign = sorted(set(found) - set(expected))
    refused = sorted(answer.item for answer in answers if answer.words.startswith("refused: "))
    evidence = {
        "sounds": len(sounds),
        "answers": sum(found.values()),
        "missing": missing[:_NAMED],
        "twice": twice[:_NAMED],
        "foreign": foreign[:_NAMED],
        "refused": refused[:_NAMED],
        "left_in_folder": left_in_folder[:_NAMED],
    }
    ok = not (missing or twice or foreign or refused or left_in_folder) and bool(expected)
    how = (
        "one for each"
        if ok
        else f"{len(missing)} missing, {len(twice)} twice, {len(foreign)} of something else, {len(refused)} refused"
    )
    return Shown(ok, evidence, (f"{len(sounds)} sounds placed, {sum(found.values())} answers: {how}",))
