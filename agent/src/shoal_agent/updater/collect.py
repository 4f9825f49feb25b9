"""Which files of the store does nobody need any more?"""

from collections.abc import Iterable

from shoal_wire.manifest import SealedFile

from shoal_agent.slots import HeldRelease, stored
from shoal_agent.updater.errors import BrokenInstallation, Refused
from shoal_agent.updater.planning import needed_files
from shoal_agent.updater.records import PART, Records


def collect(records: Records, *, planned: Iterable[SealedFile] = (), manifest_sha256: str = "") -> None:
    """Remove what neither a slot nor the plan names: files, their beginnings, and what cut-short writes left.

    While a release in a slot has no readable manifest, nobody knows what it needs, and the store is left alone.
    """
    keep = {manifest_sha256}
    for file in planned:
        keep |= {file.ciphertext_sha256, file.ciphertext_sha256 + PART}
    try:
        for held in records.held():
            keep |= _names(held, records)
    except (BrokenInstallation, Refused):
        return
    for name in records.store_names():
        if name not in keep:
            records.files.remove(stored(records.state, name))
    records.remove_temporary()


def _names(held: HeldRelease, records: Records) -> set[str]:
    manifest = records.manifest(held.reference.manifest_sha256)
    files = needed_files(manifest, held.variant)
    return {held.reference.manifest_sha256, *(file.ciphertext_sha256 for file in files)}
