"""Which items did workers die of, over all starts of the front and of the daemon?

An item is known by the SHA-256 of its bytes only. Each front gets the counts when it starts and runs no item that two
workers died of. Here it is also told which deaths speak against a release: the first one that an item had a part in,
and no later one, whatever release that was.
"""

import logging
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from shoal_wire.encoding import Counter, Seconds, Sha256, decode_struct, encode
from shoal_wire.errors import WireError
from shoal_wire.messages import ReleaseReference

from shoal_agent.files import Files
from shoal_agent.state import QUARANTINE

MAX_ITEMS = 512
"""The newest are kept."""

_LOG = logging.getLogger(__name__)


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """One item, and the last death that it had a part in."""

    item_sha256: Sha256
    deaths: Counter
    last_at: Seconds
    reference: ReleaseReference


class Suspects(msgspec.Struct, frozen=True, kw_only=True):
    """Content of quarantine.json, the oldest first."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    items: Annotated[tuple[Suspect, ...], Meta(max_length=MAX_ITEMS)] = ()


class Quarantine:
    """The counts, and their file."""

    def __init__(self, files: Files, state: Path) -> None:
        """Read the file. A damaged one is forgotten: each item then has its two chances again."""
        self._files = files
        self._path = state / QUARANTINE
        self._suspects = Suspects()
        try:
            self._suspects = decode_struct(files.read(self._path), Suspects, what=QUARANTINE)
        except FileNotFoundError:
            pass
        except WireError as error:
            _LOG.error("%s: %s; it begins anew", self._path, error)

    @property
    def deaths(self) -> dict[str, int]:
        """Deaths by item."""
        return {suspect.item_sha256: suspect.deaths for suspect in self._suspects.items}

    def note(self, item_sha256: str, *, reference: ReleaseReference, at: float) -> int:
        """A worker died while it ran this item; the deaths that it had a part in by now. On the disk when this returns.

        A disk that takes nothing is only logged: the front that runs now knows the item all the same.
        """
        deaths = self.deaths.get(item_sha256, 0) + 1
        suspect = Suspect(item_sha256=item_sha256, deaths=deaths, last_at=at, reference=reference)
        others = [other for other in self._suspects.items if other.item_sha256 != item_sha256]
        self._suspects = Suspects(items=(*others, suspect)[-MAX_ITEMS:])
        try:
            self._files.write(self._path, encode(self._suspects))
        except OSError as error:
            _LOG.error("%s: %s", self._path, error)
        return deaths
