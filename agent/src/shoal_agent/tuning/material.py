"""Where do a model, its files and its golden cases come from when it is tuned?

From the release that serves on this board: its sealed files are opened with the device's own key, in memory only. That
works without the daemon, so that a board can be tuned before it serves; it needs the daemon's user, who alone may read
the key. Or from a release folder, as a converter writes it, for those who build releases.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from shoal_wire.errors import WireError
from shoal_wire.manifest import Manifest, Model, SealedFile, parse_draft

from shoal_agent.daemon.grants import open_content_keys
from shoal_agent.files import Files
from shoal_agent.front.loading import LoadFailure, Stored, load_manifest, unseal
from shoal_agent.keys import load_keys
from shoal_agent.slots import STORE, HeldRelease, Slot
from shoal_agent.state import load_device, load_slots
from shoal_agent.tuning.errors import TuningFailed

RELEASE = "release.json"


@dataclass(frozen=True, kw_only=True)
class Material:
    """A model with what it takes to run it."""

    model: Model
    what: str
    """The release, in words."""
    digests: Mapping[str, str]
    """SHA-256 of each plaintext file, by its name."""
    sizes: Mapping[str, int]
    """Bytes of each plaintext file."""
    absent: frozenset[str]
    """Files that this board doesn't have."""
    read: Callable[[str], Iterable[bytes]]
    """The plaintext of a file that is here, in chunks. Raises TuningFailed."""

    def lacks(self, variant: str) -> tuple[str, ...]:
        """Files of a variant that aren't here, also of those that it must be checked with."""
        files = next(one.files for one in self.model.variants if one.name == variant)
        return tuple(name for name in (*files, *self.model.reference_files(variant)) if name in self.absent)

    def files_of(self, variant: str) -> tuple[str, ...]:
        """Digests of a variant's files, in their order."""
        files = next(one.files for one in self.model.variants if one.name == variant)
        return tuple(self.digests[name] for name in files)


def open_slot(files: Files, state: Path, *, name: str) -> Material:
    """The model of that name in the release that a slot holds.

    Raises:
        NotEnrolled, StateDamaged: see `state.py` and `keys.py`.
        TuningFailed: no slot holds such a model, or its release can't be opened.
    """
    device = load_device(files, state).device
    recipient = load_keys(files, state).recipient
    slots = load_slots(files, state).slots
    for held in _held(slots.values()):
        try:
            keys = open_content_keys(held, device=device, keys=recipient)
        except WireError as error:
            raise TuningFailed(f"{_words(held)}: {error}") from None
        for material in open_release(Stored(held=held, store=state / STORE, content_keys=keys), files=files):
            if material.model.name == name:
                return material
    raise TuningFailed(f"no slot of {state} holds a model {name!r}; it has the releases {sorted(slots) or 'none'}")


def open_release(stored: Stored, *, files: Files) -> list[Material]:
    """Every model of a release in the store.

    Raises:
        TuningFailed: its manifest is not in the store, or was changed.
    """
    try:
        manifest = load_manifest(stored)
    except LoadFailure as error:
        raise TuningFailed(f"{_words(stored.held)}: {error}") from None
    return [_of_stored(stored, manifest, model, files=files) for model in manifest.models]


def open_folder(folder: Path, *, name: str) -> Material:
    """The model of that name in a release folder.

    Raises:
        TuningFailed: there is no such folder or model, or a file is missing.
    """
    try:
        draft = parse_draft((folder / RELEASE).read_bytes())
        plaintexts = {file.name: (folder / file.path).read_bytes() for file in draft.files}
    except OSError as error:
        raise TuningFailed(f"release folder {folder}: {error}") from None
    except WireError as error:
        raise TuningFailed(f"release folder {folder}: {error}") from None
    model = next((one for one in draft.models if one.name == name), None)
    if model is None:
        raise TuningFailed(f"release folder {folder}: no model {name!r}, only {[one.name for one in draft.models]}")
    return Material(
        model=model,
        what=f"release folder {folder.name}",
        digests={file: hashlib.sha256(raw).hexdigest() for file, raw in plaintexts.items()},
        sizes={file: len(raw) for file, raw in plaintexts.items()},
        absent=frozenset(),
        read=lambda wanted: [plaintexts[wanted]],
    )


def _held(slots: Iterable[Slot]) -> list[HeldRelease]:
    return [slot.current for slot in slots if slot.current is not None]


def _words(held: HeldRelease) -> str:
    return f"release {held.reference.release} {held.reference.version}"


def _of_stored(stored: Stored, manifest: Manifest, model: Model, *, files: Files) -> Material:
    return Material(
        model=model,
        what=f"release {manifest.name} {manifest.version}",
        digests={file.name: file.plaintext_sha256 for file in manifest.files},
        sizes={file.name: file.plaintext_bytes for file in manifest.files},
        absent=frozenset(
            file.name
            for file in manifest.files
            if file.ciphertext_sha256 not in stored.content_keys
            or not files.size(stored.store / file.ciphertext_sha256)
        ),
        read=lambda wanted: _unsealed(stored, manifest.file(wanted)),
    )


def _unsealed(stored: Stored, file: SealedFile) -> Iterator[bytes]:
    try:
        yield from unseal(stored, file)
    except LoadFailure as error:
        raise TuningFailed(str(error)) from None
