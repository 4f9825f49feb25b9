"""What shows that a step of the demo is true? Rules over what boards and fleet say; none reads a log."""

from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from shoal_wire.messages import Reported
from shoal_wire.update import FAILED, UpdateState

from shoal_fleet.command.demo.items import Item, answer_id
from shoal_fleet.command.views import Answer

_NAMED = 10
"""How many of the things that are wrong are named."""


class Shown(NamedTuple):
    """Whether a step's evidence holds, the evidence, and the same in words, a line each."""

    ok: bool
    evidence: dict[str, Any]
    words: tuple[str, ...]
    boards: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Words of each board, by its name."""


class Expected(NamedTuple):
    """How an update must have ended on a board."""

    state: UpdateState
    target: str
    """Digest of the manifest that was rolled out."""
    current: str
    """Digest of the manifest that the board must run now."""
    engine: str
    """That must run it."""
    model_format: str
    """Of the variant that must run."""
    why: str = ""
    """A word that the board's reason must hold."""
    most_fetched_bytes: int | None = None
    """None where any number will do."""


def update_ended(reported: Reported, *, model: str, formats: Mapping[str, str], expected: Expected) -> Shown:
    """The signed report says that the newest update ended as expected, and what the slot of `model` runs on what.

    `formats`: of the release's variants, by name.
    """
    slot = next((slot for slot in reported.slots if slot.release == model), None)
    update = reported.update
    if slot is None or update is None:
        evidence: dict[str, Any] = {"reported_counter": reported.counter, "slots": len(reported.slots)}
        return Shown(ok=False, evidence=evidence, words=("reports no update of that model",))
    running = slot.current
    ok = (
        update.state is expected.state
        and update.target.manifest_sha256 == expected.target
        and running is not None
        and running.manifest_sha256 == expected.current
        and slot.engine == expected.engine
        and formats.get(slot.variant) == expected.model_format
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
        "variant": slot.variant,
        "format": formats.get(slot.variant),
        "fetched_bytes": update.fetched_bytes,
    }
    verb = "keeps" if update.state in FAILED else "runs"
    kept = f"{verb} release {running.version} ({running.manifest_sha256[:12]})" if running else "runs nothing"
    how = f"in {slot.engine} as {formats.get(slot.variant)}"
    signed = f"signed: {update.state.value}, {kept} {how}, {update.fetched_bytes / 1000:.0f} kB fetched"
    return Shown(ok=ok, evidence=evidence, words=(update.reason, signed))


def every_item_answered_once(
    device: str, placed: Mapping[str, Collection[Item]], answers: Collection[Answer], left_in_folders: Collection[str]
) -> Shown:
    """Each item of a board has exactly one answer, by answer id, and none is a refusal; no other, and no file, is left.

    `placed`: by source; none may be without an item. `answers`: all of that device.
    """
    expected = {answer_id(device, source, item): item.name for source, items in placed.items() for item in items}
    found = Counter(answer.answer_id for answer in answers)
    missing = sorted(name for identity, name in expected.items() if identity not in found)
    twice = sorted(identity for identity, count in found.items() if count > 1)
    foreign = sorted(set(found) - set(expected))
    refused = sorted(answer.item for answer in answers if answer.words.startswith("refused: "))
    left = sorted(left_in_folders)
    evidence = {
        **{source: len(items) for source, items in placed.items()},
        "answers": found.total(),
        "missing": missing[:_NAMED],
        "twice": twice[:_NAMED],
        "foreign": foreign[:_NAMED],
        "refused": refused[:_NAMED],
        "left_in_folder": left[:_NAMED],
    }
    ok = not (missing or twice or foreign or refused or left) and bool(placed) and all(placed.values())
    how = (
        "one for each"
        if ok
        else f"{len(missing)} missing, {len(twice)} twice, {len(foreign)} of something else, {len(refused)} refused"
    )
    what = " and ".join(f"{len(items)} {source}" for source, items in placed.items())
    return Shown(ok, evidence, (f"{what} placed, {found.total()} answers: {how}",))


def on_every_board(shown: Mapping[str, Shown], **common: object) -> Shown:
    """One step out of what each board shows, by the board's name, and what holds for all of them together."""
    boards = {name: one.evidence for name, one in shown.items()}
    ok = bool(shown) and all(one.ok for one in shown.values())
    return Shown(ok, {"boards": boards, **common}, words=(), boards={name: one.words for name, one in shown.items()})
