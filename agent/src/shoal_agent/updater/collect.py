"""Which files of the store, and which plans, does nobody need any more?"""

from collections.abc import Iterable

from shoal_wire.manifest import SealedFile

from shoal_agent.slots import PLANS, HeldRelease, stored
from shoal_agent.updater.errors import BrokenInstallation, Refused
from shoal_agent.updater.planning import held_files
from shoal_agent.updater.records import PART, Records


def collect(records: Records, *, planned: Iterable[SealedFile] = (), manifest_sha256: str = "") -> None:
    """Remove what neither a slot nor this update names: files, their beginnings, plans built of them, and what
    cut-short writes left.

    While a release in a slot has no readable manifest, nobody knows what it needs, and the store is left alone.
    """
    keep = {manifest_sha256}
    for file in planned:
        keep |= {file.ciphertext_sha256, file.ciphertext_sha256 + PART, file.plaintext_sha256}
    try:
        for held in records.held():
            keep |= _names(held, records)
    except (BrokenInstallation, Refused):
        return
    for name in records.store_names():
        if name not in keep:
            records.files.remove(stored(records.state, name))
    for name in records.files.names(records.state / PLANS):
        # A plan is named for the plaintext of its model; a dot begins what a cut-short write left.
        if name.lstrip(".").partition("-")[0] not in keep:
            records.files.remove(records.state / PLANS / name)
    records.remove_temporary()


def _names(held: HeldRelease, records: Records) -> set[str]:
    manifest = records.manifest(held.reference.manifest_sha256)
    files = held_files(manifest, held)
    digests = {digest for file in files for digest in (file.ciphertext_sha256, file.plaintext_sha256)}
    return {held.reference.manifest_sha256, *digests}
