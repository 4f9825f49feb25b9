"""By which choices of tuning must a release not serve, and by which was it checked last?

A choice is right for the golden cases that tuning ran it on. A release with other golden cases is checked with it
before it serves so; where it fails, or fronts die of it, the release does without from then on, over all starts of the
daemon.
"""

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from shoal_wire.encoding import ModelName, Sha256, decode_struct, encode
from shoal_wire.errors import WireError
from shoal_wire.manifest import Manifest, parse_manifest

from shoal_agent.files import Files
from shoal_agent.slots import HeldRelease, stored
from shoal_agent.tuned import FOLDER, MAX_BYTES, ServingChoice, Verdict, describe_model

PROVEN = "proven.json"
MAX_RELEASES = 64
"""For which something is kept; the newest are."""
MAX_CHOICES = 64
"""That are kept for a release; the newest are."""

_LOG = logging.getLogger(__name__)

Choices = dict[ModelName, ServingChoice]


class Distrust(msgspec.Struct, frozen=True, kw_only=True):
    """What a release must not serve by."""

    manifest_sha256: Sha256
    choices: Annotated[tuple[Sha256, ...], Meta(max_length=MAX_CHOICES)]
    """Digests of model and choice, the oldest first."""
    instead: Choices = {}
    """Those with which it passed its golden cases, where another was chosen before that update ended."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A release that passed its golden cases, and the choices with which it did."""

    release: ModelName
    manifest_sha256: Sha256
    choices: Choices


class Proven(msgspec.Struct, frozen=True, kw_only=True):
    """Content of `tuning/proven.json`."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    checked: Checked | None = None
    """In the update that goes on; None when none does."""
    distrusted: Annotated[tuple[Distrust, ...], Meta(max_length=MAX_RELEASES)] = ()
    """The oldest first."""


class ProvenChoices:
    """What is known, and its file."""

    def __init__(self, files: Files, state: Path) -> None:
        """Read the file. A damaged one is forgotten: what it distrusted is tried once more."""
        self._files = files
        self._state = state
        self._path = state / FOLDER / PROVEN
        self._proven = Proven()
        try:
            self._proven = decode_struct(files.read(self._path), Proven, what=PROVEN, limit_bytes=MAX_BYTES)
        except FileNotFoundError:
            pass
        except (WireError, OSError) as error:
            _LOG.error("%s: %s; it begins anew", self._path, error)

    @property
    def release_checked(self) -> str:
        """Name of the release that was checked in the update that goes on; empty without one."""
        return self._proven.checked.release if self._proven.checked else ""

    def checked_with(self, held: HeldRelease) -> Choices | None:
        """With which choices the release passed in the update that goes on; None where it wasn't checked in it."""
        checked = self._proven.checked
        return checked.choices if checked and checked.manifest_sha256 == held.reference.manifest_sha256 else None

    def trusted(self, held: HeldRelease, choices: Mapping[ModelName, ServingChoice]) -> Choices:
        """Those of the choices by which the release may serve, or what it serves by instead."""
        distrust = self._distrust(held)
        usable = {}
        for model, choice in choices.items():
            for one in (choice, distrust.instead.get(model)):
                if one is not None and _digest(model, one) not in distrust.choices:
                    usable[model] = one
                    break
        return usable

    def note_checked(self, held: HeldRelease, choices: Mapping[ModelName, ServingChoice]) -> None:
        """The release passed its golden cases with these choices."""
        reference = held.reference
        checked = Checked(release=reference.release, manifest_sha256=reference.manifest_sha256, choices=dict(choices))
        self._keep(msgspec.structs.replace(self._proven, checked=checked))

    def distrust(
        self, held: HeldRelease, choices: Mapping[ModelName, ServingChoice], *, instead: Choices | None = None
    ) -> bool:
        """The release must not serve by those of these choices that are for its models; whether one of them is."""
        manifest = self._manifest(held)
        models = {model.name for model in manifest.models} if manifest else choices.keys()
        bad = [_digest(model, choice) for model, choice in choices.items() if model in models]
        if not bad:
            return False
        before = self._distrust(held)
        distrust = Distrust(
            manifest_sha256=before.manifest_sha256,
            choices=tuple([*(digest for digest in before.choices if digest not in bad), *bad][-MAX_CHOICES:]),
            instead=before.instead if instead is None else instead,
        )
        others = [one for one in self._proven.distrusted if one.manifest_sha256 != before.manifest_sha256]
        self._keep(msgspec.structs.replace(self._proven, distrusted=(*others, distrust)[-MAX_RELEASES:]))
        return True

    def end_update(self, held: HeldRelease | None, *, served_by: Choices, choices: Choices) -> None:
        """The update in which a release was checked is over, and led to `held`, which serves by `served_by`.

        What was chosen meanwhile was perhaps found on another release, with other golden cases. It is distrusted,
        unless its verdict is about this release's: it serves on as it does.
        """
        if held is not None:
            newer = {model: choice for model, choice in choices.items() if served_by.get(model) != choice}
            strange = {model: choice for model, choice in newer.items() if not self._is_about(held, model, choice)}
            self.distrust(held, strange, instead={model: served_by[model] for model in strange if model in served_by})
        self._keep(msgspec.structs.replace(self._proven, checked=None))

    def _is_about(self, held: HeldRelease, name: ModelName, choice: ServingChoice) -> bool:
        """Whether tuning made the choice with the golden cases of this very release."""
        manifest = self._manifest(held)
        model = next((model for model in manifest.models if model.name == name), None) if manifest else None
        if manifest is None or model is None:
            return False
        digests = [manifest.file(name).plaintext_sha256 for name in model.golden_files]
        try:
            raw = self._files.read(self._state / FOLDER / f"{choice.key}.json")
            verdict = decode_struct(raw, Verdict, what="verdict", limit_bytes=MAX_BYTES)
        except (OSError, WireError):
            return False
        return verdict.conditions.model_sha256 == describe_model(model, digests)

    def _manifest(self, held: HeldRelease) -> Manifest | None:
        """None where it can't be read."""
        try:
            return parse_manifest(self._files.read(stored(self._state, held.reference.manifest_sha256)))
        except (OSError, WireError):
            return None

    def _distrust(self, held: HeldRelease) -> Distrust:
        digest = held.reference.manifest_sha256
        found = (one for one in self._proven.distrusted if one.manifest_sha256 == digest)
        return next(found, Distrust(manifest_sha256=digest, choices=()))

    def _keep(self, proven: Proven) -> None:
        """On the disk when this returns. A disk that takes nothing is only logged: this start knows it all the same."""
        if proven == self._proven:
            return
        self._proven = proven
        try:
            self._files.write(self._path, encode(proven))
        except OSError as error:
            _LOG.error("%s: %s", self._path, error)


def _digest(model: ModelName, choice: ServingChoice) -> str:
    return hashlib.sha256(model.encode() + b"\0" + encode(choice)).hexdigest()
