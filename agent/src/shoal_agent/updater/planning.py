"""Which release does a board go to, in which variant, and with which files? Rules only."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shoal_wire.manifest import Manifest, Model, SealedFile, Variant
from shoal_wire.messages import Assignment

from shoal_agent.engine_table import ELSEWHERE
from shoal_agent.slots import HeldRelease, Journal
from shoal_agent.updater.chunks import chunk_ranges
from shoal_agent.updater.errors import Refused

RESERVE_BYTES = 16 << 20
"""Kept free beside what is fetched: journal, outbox and system go on writing."""


class Board(NamedTuple):
    """What this board has, as far as it decides on releases."""

    formats: tuple[str, ...]
    """Formats of variants for which an engine is configured."""
    architecture: str
    """As `uname -m` prints it."""
    memory_bytes: int
    agent_version: str


class Plan(NamedTuple):
    """What a release needs on this board."""

    variant: str
    """Name of the variant chosen; of several models, theirs in the manifest's order, with commas between."""
    files: tuple[SealedFile, ...]


def raise_floors(floors: Mapping[str, int], manifest: Manifest) -> dict[str, int]:
    """Lowest version still allowed of each model, after a signed manifest was seen. Floors never sink."""
    raised = {model.name: max(model.floor, floors.get(model.name, 0)) for model in manifest.models}
    return {**floors, **raised}


def plan_release(manifest: Manifest, assignment: Assignment, *, floors: Mapping[str, int], board: Board) -> Plan:
    """Variant and files of a release for this board.

    Raises:
        Refused: the manifest is of another release, below a floor, for other boards or newer agents, or contradicts
            itself; or a grant is missing.
    """
    what = f"release {assignment.release} {assignment.version}"
    if (manifest.name, manifest.version) != (assignment.release, assignment.version):
        raise Refused(f"{what}: its manifest is of {manifest.name} {manifest.version}")
    for model in manifest.models:
        _check_model(model, manifest.version, floors=floors, board=board, what=what)
    variant = ",".join(_choose_variant(model, board, what=what).name for model in manifest.models)
    files = needed_files(manifest, variant)
    granted = {grant.ciphertext_sha256 for grant in assignment.grants}
    for file in files:
        chunk_ranges(file)
        if file.ciphertext_sha256 not in granted:
            raise Refused(f"{what}: no grant for its file {file.name}")
    return Plan(variant, files)


def needed_files(manifest: Manifest, variant: str) -> tuple[SealedFile, ...]:
    """Sealed files that a board holds of a release in a variant: those of the variant, and those of golden cases.

    Each digest comes once.

    Raises:
        Refused: the release has no such variant.
    """
    what = f"release {manifest.name} {manifest.version}"
    chosen = variant.split(",")
    if len(chosen) != len(manifest.models):
        raise Refused(f"{what}: {len(manifest.models)} models, but {variant!r} names {len(chosen)} variants")
    names: list[str] = []
    for model, name in zip(manifest.models, chosen, strict=True):
        files = next((candidate.files for candidate in model.variants if candidate.name == name), None)
        if files is None:
            raise Refused(f"{what}: model {model.name} has no variant {name}")
        names += [*files, *(case.file for case in model.golden)]
    return tuple({file.ciphertext_sha256: file for file in map(manifest.file, names)}.values())


def check_space(missing: Iterable[tuple[SealedFile, int]], *, free_bytes: int, what: str) -> None:
    """Refuse what doesn't fit before anything is fetched. Beside each file: its bytes that are here already.

    Raises:
        Refused: too little room.
    """
    needed = sum(max(0, file.ciphertext_bytes - present_bytes) for file, present_bytes in missing)
    if needed and needed + RESERVE_BYTES > free_bytes:
        raise Refused(
            f"{what}: needs {needed} bytes on disk and {RESERVE_BYTES} in reserve, only {free_bytes} are free"
        )


def hold(journal: Journal, manifest: Manifest) -> HeldRelease:
    """What a slot keeps of the release that an update leads to: only grants of files that the board needs."""
    digests = {file.ciphertext_sha256 for file in needed_files(manifest, journal.variant)}
    return HeldRelease(
        reference=journal.target,
        epoch=journal.epoch,
        generation=journal.generation,
        variant=journal.variant,
        grants=tuple(grant for grant in journal.assignment.grants if grant.ciphertext_sha256 in digests),
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


def _choose_variant(model: Model, board: Board, *, what: str) -> Variant:
    """The first in the publisher's order that an engine of this board runs."""
    for variant in model.variants:
        if variant.format in board.formats and variant.memory_bytes <= board.memory_bytes:
            return variant
    formats = sorted({variant.format for variant in model.variants})
    found = ", ".join(formats)
    has = ", ".join(board.formats) or "none"
    elsewhere = "".join(f"; {ELSEWHERE[name]}" for name in formats if name in ELSEWHERE)
    raise Refused(f"{what}: model {model.name} comes as {found}; engines of this board take {has}{elsewhere}")


def _version(text: str, what: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6}){0,3}", text):
        raise Refused(f"{what}: {text!r} is no version of the agent, expected numbers with dots")
    return tuple(map(int, text.split(".")))
