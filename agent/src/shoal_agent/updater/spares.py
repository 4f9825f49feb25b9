"""Which files that only tuning wants come along with an update, and when does it go on without the rest?

The release serves without them, so nothing that happens to one of them holds an update up: neither a line that is down,
nor a full disk, nor an answer that never ends.
"""

from collections.abc import Callable, Sequence

from shoal_wire.manifest import SealedFile

from shoal_agent.slots import stored
from shoal_agent.updater.errors import Refused, TryLater
from shoal_agent.updater.fetch import Patience, Source, Watch, fetch_file
from shoal_agent.updater.records import Records
from shoal_agent.updater.verify import find_damage

LIMIT_S = 600.0
"""For all of them together, in one start of the updater."""
STARTS = 2
"""Starts that may end in the middle of them, one after another, before the update goes on without."""


class _TooLong(Exception):
    """The limit is over."""


def fetch_spares(
    files: Sequence[SealedFile],
    *,
    source: Source,
    records: Records,
    watch: Watch,
    patience: Patience,
    monotonic: Callable[[], float],
) -> dict[str, str]:
    """Put these files into the store, as far as that goes; by digest, why one is left out.

    A file that is wrong is left out alone. After one that doesn't come now, or when time is up, so are all that follow
    and aren't here.

    Raises:
        Superseded, ChannelClosed: as `watch` does.
    """
    left_out: dict[str, str] = {}
    limited = _limit(watch, monotonic=monotonic)
    for place, file in enumerate(files):
        try:
            if not _is_here(file, records, pulse=limited.pulse):
                fetch_file(file, source=source, records=records, watch=limited, patience=patience)
        except Refused as error:
            left_out[file.ciphertext_sha256] = str(error)
        except (TryLater, OSError, _TooLong) as error:
            return left_out | {rest.ciphertext_sha256: str(error) for rest in _missing(files[place:], records)}
    return left_out


def _limit(watch: Watch, *, monotonic: Callable[[], float]) -> Watch:
    """The same watch for `LIMIT_S` from now on; it raises _TooLong after that."""
    deadline = monotonic() + LIMIT_S

    def pulse() -> None:
        watch.pulse()
        if monotonic() > deadline:
            raise _TooLong(f"files that only tuning would try took longer than {LIMIT_S:.0f} s")

    def pause(pause_s: float) -> None:
        pulse()
        watch.pause(pause_s)

    return Watch(pulse=pulse, pause=pause, fetched=watch.fetched)


def _missing(files: Sequence[SealedFile], records: Records) -> list[SealedFile]:
    """Those of which the store has no file of their size; it is read back before anything is made of it."""
    state, disk = records.state, records.files
    return [file for file in files if disk.size(stored(state, file.ciphertext_sha256)) != file.ciphertext_bytes]


def _is_here(file: SealedFile, records: Records, *, pulse: Callable[[], None]) -> bool:
    path = stored(records.state, file.ciphertext_sha256)
    return find_damage(file, path, files=records.files, pulse=pulse) is None
