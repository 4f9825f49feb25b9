"""What shows that a step of the demo is true? Rules over what board and fleet say; none reads a log."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from shoal_wire.messages import Reported
from shoal_wire.update import UpdateState

from shoal_fleet.command.demo.sounds import Sound, answer_id


class Shown(NamedTuple):
    """Whether a step's evidence holds, the evidence, and the same in words."""

    ok: bool
    evidence: dict[str, Any]
    words: str


def update_ended(
    reported: Reported, *, state: UpdateState, current: str, refused_digest: str | None = None, why: str = ""
) -> Shown:
    """The board's newest update ended in `state`, its slot holds the manifest `current`, and the reason names `why`."""
    slot, update = reported.slots[0], reported.update
    assert update is not None, "there is an update once a rollout has ended"
    running = slot.current.manifest_sha256 if slot.current else None
    ok = update.state is state and running == current and why in update.reason
    ok = ok and (refused_digest is None or update.target.manifest_sha256 == refused_digest)
    evidence = {
        "current_manifest_sha256": running,
        "expected_manifest_sha256": current,
        "update_state": update.state.value,
        "reason": update.reason,
        "reported_counter": reported.counter,
        "engine": f"{slot.engine} {slot.engine_version}".strip(),
        "fetched_bytes": update.fetched_bytes,
    }
    words = f"board signs: {update.state.value}, current manifest {str(running)[:12]}; {update.reason}"
    return Shown(ok, evidence, words)


def every_sound_answered_once(
    device: str, sounds: Mapping[str, Sound], answers: Iterable[Mapping[str, Any]], left_in_folder: list[str]
) -> Shown:
    """Each sound has exactly one answer, by answer id; there is no other answer, and no file is left."""
    expected = {answer_id(device, sound): sound.item for sound in sounds.values()}
    found = Counter(answer["answer_id"] for answer in answers)
    missing = sorted(item for identity, item in expected.items() if identity not in found)
    twice = sorted(identity for identity, count in found.items() if count > 1)
    foreign = sorted(set(found) - set(expected))
    evidence = {
        "sounds": len(sounds),
        "answers": sum(found.values()),
        "missing": missing[:10],
        "twice": twice[:10],
        "foreign": foreign[:10],
        "left_in_folder": left_in_folder[:10],
    }
    ok = not (missing or twice or foreign or left_in_folder) and bool(expected)
    return Shown(ok, evidence, f"{len(sounds)} sounds placed, {sum(found.values())} answers, one for each")
