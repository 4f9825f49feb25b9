"""Which release does a board go to, in which variant, and with which files? Rules only.

What tuning chose on this board goes first, then what the fleet knows of boards of its kind, then the publisher's order.
A choice is a wish: where it doesn't fit, the publisher's order decides as if there were none.
"""

import contextlib
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from shoal_wire.manifest import Manifest, Model, SealedFile, Variant
from shoal_wire.messages import Assignment
from shoal_wire.metadata import Floors

from shoal_agent.engine_table import ELSEWHERE
from shoal_agent.slots import HeldRelease, Journal
from shoal_agent.tuned import ServingChoices, variant_with
from shoal_agent.updater.chunks import chunk_ranges
from shoal_agent.updater.errors import Refused, TryLater

RESERVE_BYTES = 16 << 20
"""Kept free beside what is fetched: journal, outbox and system go on writing."""


class Board(NamedTuple):
    """What this board has, as far as it decides on releases."""

    engines: Mapping[str, Sequence[str]]
    """Engines that may run a variant here, by its format."""
    architecture: str
    """As `uname -m` prints it."""
    memory_bytes: int
    agent_version: str
    python: str = "{}.{}".format(*sys.version_info[:2])
    """That runs the agent."""
    choices: ServingChoices = ServingChoices()
    """What was chosen by tuning on this board."""
    all_variants: bool = False
    """Also fetch the other variants of models for which no choice is known, so that tuning can try them."""


class Plan(NamedTuple):
    """What a release needs on this board."""

    variant: str
    """Name of the variant chosen; of several models, theirs in the manifest's order, with commas between."""
    files: tuple[SealedFile, ...]
    """All that is to be fetched, each digest once; those that the release can do without come last."""
    spare: tuple[str, ...] = ()
    """Digests of those of `files` that the release can do without: of other variants, for tuning to try."""


def raise_floors(floors: Mapping[str, int], manifest: Manifest) -> dict[str, int]:
    """Lowest version still allowed of each model, and of the agent, after a signed manifest was seen. Floors never
    sink."""
    return merge_floors(floors, manifest.floors)


def merge_floors(floors: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    """The higher of both for each model."""
    return {**floors, **{name: max(floor, floors.get(name, 0)) for name, floor in others.items()}}


def find_revocation(manifest: Manifest, manifest_sha256: str, *, revoked: Floors) -> str | None:
    """Why a release may not be gone back to any more; None where it may.

    A floor that only a later release's manifest sets doesn't count here: that release may be the one that fails.
    """
    what = f"release {manifest.name} {manifest.version}"
    if manifest_sha256 in revoked.revoked:
        return f"{what}: was revoked by the release key"
    for name in manifest.floors:
        floor = revoked.floors.get(name, 0)
        if manifest.version < floor:
            thing = "the agent" if manifest.agent else f"model {name}"
            return f"{what}: version {manifest.version} of {thing} is below its floor, {floor}: it was revoked"
    return None


def plan_release(
    manifest: Manifest, assignment: Assignment, *, floors: Mapping[str, int], board: Board
) -> tuple[Plan, ...]:
    """Ways to have a release on this board, the best first. The others are for a disk without room for that one.

    Raises:
        Refused: the manifest is of another release, below a floor, for other boards or newer agents, or contradicts
            itself; or a grant is missing.
    """
    what = f"release {assignment.release} {assignment.version}"
    if (manifest.name, manifest.version) != (assignment.release, assignment.version):
        raise Refused(f"{what}: its manifest is of {manifest.name} {manifest.version}")
    for model in manifest.models:
        _check_model(model, manifest.version, floors=floors, board=board, what=what)
    granted = {grant.ciphertext_sha256 for grant in assignment.grants}
    ordinary, best, others = [], [], []
    for model in manifest.models:
        fitting = _fitting_variants(model, board, what=what)
        whole = [variant for variant in fitting if _is_whole(manifest, model, variant, granted)]
        chosen = _chosen_variant(manifest, model, whole, assignment=assignment, choices=board.choices)
        ordinary.append(fitting[0].name)
        best.append(chosen.name if chosen else fitting[0].name)
        others += [(model, variant) for variant in whole] if board.all_variants and chosen is None else []
    plan = _plan(manifest, best, granted=granted, what=what)
    spare = {file.ciphertext_sha256: file for other in others for file in _files(manifest, *other)}
    for file in plan.files:
        spare.pop(file.ciphertext_sha256, None)
    plans = [Plan(plan.variant, (*plan.files, *spare.values()), tuple(spare)), plan] if spare else [plan]
    if ordinary != best:
        with contextlib.suppress(Refused):
            plans.append(_plan(manifest, ordinary, granted=granted, what=what))
    return tuple(plans)


def needed_files(manifest: Manifest, variant: str) -> tuple[SealedFile, ...]:
    """Sealed files that a board holds of a release in a variant: those of the variant, and those of golden cases, whose
    recorded outputs only as far as they are this variant's.

    Each digest comes once.

    Raises:
        Refused: the release has no such variant.
    """
    what = f"release {manifest.name} {manifest.version}"
    if manifest.agent is not None:
        return _agent_files(manifest, variant, what=what)
    chosen = variant.split(",")
    if len(chosen) != len(manifest.models):
        raise Refused(f"{what}: {len(manifest.models)} models, but {variant!r} names {len(chosen)} variants")
    names: list[str] = []
    for model, name in zip(manifest.models, chosen, strict=True):
        files = next((candidate.files for candidate in model.variants if candidate.name == name), None)
        if files is None:
            raise Refused(f"{what}: model {model.name} has no variant {name}")
        names += [*files, *(case.file for case in model.golden), *model.reference_files(name)]
    return tuple({file.ciphertext_sha256: file for file in map(manifest.file, names)}.values())


def _agent_files(manifest: Manifest, variant: str, *, what: str) -> tuple[SealedFile, ...]:
    """The one archive of a release of the agent that a board takes; its name stands as the variant."""
    found = tuple(file for file in manifest.files if file.name == variant)
    if not found:
        raise Refused(f"{what}: has no file {variant!r}")
    return found


def planned_files(manifest: Manifest, journal: Journal) -> tuple[SealedFile, ...]:
    """Sealed files that an update fetches; those that its release can do without come last.

    Raises as `needed_files`.
    """
    needed = {file.ciphertext_sha256: file for file in needed_files(manifest, journal.variant)}
    spare = {file.ciphertext_sha256: file for file in manifest.files if file.ciphertext_sha256 in journal.spare}
    return tuple({**needed, **spare}.values())


def held_files(manifest: Manifest, held: HeldRelease) -> tuple[SealedFile, ...]:
    """Sealed files of a release that a slot holds: those that it needs, and those of other variants that it can open.

    Raises as `needed_files`.
    """
    granted = {grant.ciphertext_sha256 for grant in held.grants}
    files = {file.ciphertext_sha256: file for file in needed_files(manifest, held.variant)}
    for model in manifest.models:
        for variant in model.variants:
            if all(file.ciphertext_sha256 in granted for file in _files(manifest, model, variant)):
                files |= {file.ciphertext_sha256: file for file in _files(manifest, model, variant)}
    return tuple(files.values())


def space_needed(missing: Iterable[tuple[SealedFile, int]]) -> int:
    """Bytes that must be free for files to be fetched, with the reserve; 0 where nothing is missing. Beside each file:
    its bytes that are here already."""
    missing_bytes = sum(max(0, file.ciphertext_bytes - present_bytes) for file, present_bytes in missing)
    return missing_bytes + RESERVE_BYTES if missing_bytes else 0


def check_space(missing: Iterable[tuple[SealedFile, int]], *, free_bytes: int, what: str) -> None:
    """Put off what doesn't fit before anything is fetched. Beside each file: its bytes that are here already.

    Raises:
        TryLater: too little room.
    """
    needed_bytes = space_needed(missing)
    if needed_bytes > free_bytes:
        raise TryLater(say_shortage(needed_bytes, free_bytes=free_bytes, what=what))


def say_shortage(needed_bytes: int, *, free_bytes: int, what: str) -> str:
    """What people read about files that need that much, with the reserve."""
    missing_bytes = needed_bytes - RESERVE_BYTES
    return f"{what}: needs {missing_bytes} bytes on disk and {RESERVE_BYTES} in reserve, only {free_bytes} are free"


def hold(journal: Journal, manifest: Manifest) -> HeldRelease:
    """What a slot keeps of the release that an update leads to: only grants of files that the board has."""
    digests = {file.ciphertext_sha256 for file in planned_files(manifest, journal)}
    return HeldRelease(
        reference=journal.target,
        epoch=journal.epoch,
        generation=journal.generation,
        variant=journal.variant,
        grants=tuple(grant for grant in journal.assignment.grants if grant.ciphertext_sha256 in digests),
        known=journal.assignment.known,
    )


def _check_model(model: Model, version: int, *, floors: Mapping[str, int], board: Board, what: str) -> None:
    floor = max(model.floor, floors.get(model.name, 0))
    if version < floor:
        raise Refused(f"{what}: version {version} of model {model.name} is below its floor, {floor}: it was revoked")
    if _version(model.minimum_agent, what) > _version(board.agent_version, what):
        raise Refused(f"{what}: needs agent {model.minimum_agent} or newer, this is {board.agent_version}")
    needs = model.needs
    if needs.architectures and board.architecture not in needs.architectures:
        raise Refused(f"{what}: made for {', '.join(needs.architectures)}, this board is {board.architecture}")
    if needs.memory_bytes > board.memory_bytes:
        raise Refused(f"{what}: needs {needs.memory_bytes} bytes of memory, this board has {board.memory_bytes}")


def _fitting_variants(model: Model, board: Board, *, what: str) -> list[Variant]:
    """Those that an engine of this board computes right and that fit into its memory, in the publisher's order.

    Raises:
        Refused: there is none.
    """
    fitting = [
        variant
        for variant in model.variants
        if any(map(variant.is_right_in, board.engines.get(variant.format, ())))
        and variant.memory_bytes <= board.memory_bytes
    ]
    if fitting:
        return fitting
    found = ", ".join(sorted({variant.needed_engines for variant in model.variants}))
    has = "; ".join(f"{name} in {', '.join(engines)}" for name, engines in board.engines.items()) or "none"
    formats = {variant.format for variant in model.variants}
    elsewhere = "".join(f"; {sentence}" for name, sentence in ELSEWHERE.items() if name in formats)
    raise Refused(f"{what}: model {model.name} comes as {found}; engines of this board take {has}{elsewhere}")


def _chosen_variant(
    manifest: Manifest, model: Model, among: Sequence[Variant], *, assignment: Assignment, choices: ServingChoices
) -> Variant | None:
    """The variant with the files that were found to serve best, here or else on boards of this kind."""
    own = choices.models.get(model.name)
    found = [own.files] if own else []
    found += [known.files for known in assignment.known if known.model == model.name]
    variants = (variant_with(files, manifest=manifest, among=among) for files in found)
    return next((variant for variant in variants if variant is not None), None)


def _plan(manifest: Manifest, variants: Sequence[str], *, granted: Collection[str], what: str) -> Plan:
    variant = ",".join(variants)
    files = needed_files(manifest, variant)
    for file in files:
        chunk_ranges(file)
        if file.ciphertext_sha256 not in granted:
            raise Refused(f"{what}: no grant for its file {file.name}")
    return Plan(variant, files)


def _is_whole(manifest: Manifest, model: Model, variant: Variant, granted: Collection[str]) -> bool:
    """Whether nothing speaks against fetching its files."""
    files = _files(manifest, model, variant)
    try:
        for file in files:
            chunk_ranges(file)
    except Refused:
        return False
    return all(file.ciphertext_sha256 in granted for file in files)


def _files(manifest: Manifest, model: Model, variant: Variant) -> list[SealedFile]:
    """Those that it alone needs: its own, and its recorded outputs."""
    return [manifest.file(name) for name in (*variant.files, *model.reference_files(variant.name))]


def _version(text: str, what: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6}){0,3}", text):
        raise Refused(f"{what}: {text!r} is no version of the agent, expected numbers with dots")
    return tuple(map(int, text.split(".")))
