"""What was found in a folder that somebody else's tool wrote?"""

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from shoal_converters.errors import BadModel
from shoal_converters.importing.drafting import Known

MAX_JSON_BYTES = 16 << 20
MAX_YAML_BYTES = 1 << 20
LICENCE_FILES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "COPYING", "NOTICE")


@dataclass(frozen=True, kw_only=True)
class Found:
    """A model, as far as its folder tells."""

    kind: str
    """What the folder is, for people."""
    name: str
    version: int = 1
    model: Path | None = None
    """File or folder; None where there are weights only."""
    files: tuple[Path, ...] = ()
    """Others worth keeping: licence, tokenizer, requirements."""
    task: str = ""
    """Empty where nothing tells."""
    known: Known = field(default_factory=Known)
    origin: str = ""
    """Where it comes from, in words, for provenance."""
    notes: tuple[str, ...] = ()


def read_json(path: Path) -> object:
    """A JSON file of bounded length.

    Raises:
        BadModel: it can't be read.
    """
    raw = read_bounded(path, limit_bytes=MAX_JSON_BYTES)
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadModel(f"{path}: not JSON ({error})") from None


def read_bounded(path: Path, *, limit_bytes: int) -> bytes:
    """The bytes of a file.

    Raises:
        BadModel: it can't be read, or is longer.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(limit_bytes + 1)
    except OSError as error:
        raise BadModel(f"{path}: {error.strerror or error}") from None
    if len(raw) > limit_bytes:
        raise BadModel(f"{path}: more than {limit_bytes} bytes")
    return raw


def list_licences(folder: Path) -> tuple[Path, ...]:
    """Files that say under which licence a model may be used."""
    return tuple(folder / name for name in LICENCE_FILES if (folder / name).is_file())
