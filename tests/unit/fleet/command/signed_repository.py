"""How does a test get what a fleet would serve of a publisher's metadata, without a fleet?"""

from datetime import datetime

from securesystemslib.signer import CryptoSigner
from shoal_fleet.command.errors import NotFound
from shoal_fleet.command.metadata import Change, Signatories, first_root, first_targets
from shoal_fleet.command.present import Present
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH
from tuf.api.metadata import Metadata

from tests.unit.fleet.command.material import NOW, make_fleet_keys


class SignedRepository:
    """Files by name, as the publisher signed them; a change is signed by the keys that count."""

    def __init__(self) -> None:
        self.fleet = make_fleet_keys()
        self.signers = {"root": CryptoSigner.generate_ed25519(), "targets": CryptoSigner.generate_ed25519()}
        self.files: dict[str, bytes] = {}
        self.targets: dict[str, bytes] = {}
        self.versions: dict[str, int] = {}
        self.signed: dict[str, bytes] = {}
        """What the publisher remembers, by role."""
        online = {"snapshot": self.fleet.snapshot, "timestamp": self.fleet.timestamp}
        roles = {role: Signatories(1, [signer.public_key]) for role, signer in self.signers.items()}
        targets, keys = first_targets(self.fleet.assignment, now=NOW)
        self.keep("root", first_root(roles, online, now=NOW))
        self.keep("targets", targets)
        self.keep_target(ASSIGNMENT_KEYS_PATH, keys)

    def keep(self, role: str, metadata: Metadata) -> None:  # type: ignore[type-arg]
        """Sign and serve a version."""
        metadata.sign(self.signers["root" if role == "root" else "targets"])
        raw = metadata.to_bytes()
        self.versions[role] = metadata.signed.version
        self.files[f"{metadata.signed.version}.{role}.json"] = raw
        self.signed[role] = raw

    def keep_target(self, path: str, content: bytes) -> None:
        self.targets[path] = content

    def read(self, name: str) -> bytes:
        try:
            return self.files[name]
        except KeyError:
            raise NotFound(name) from None

    def read_target(self, prefixed: str) -> bytes:
        folder, _, name = prefixed.rpartition("/")
        return self.targets[f"{folder}/{name.partition('.')[2]}"]

    def present(self, *, remembers: bool = True) -> Present:
        return Present(
            versions=self.versions,
            read=self.read,
            read_target=self.read_target,
            last_signed=self.signed.get if remembers else lambda _: None,
            first_root=self.files["1.root.json"],
        )

    def change(self, *, now: datetime = NOW) -> Change:
        return Change(self.present(), now=now)

    def publish(self, change: Change) -> list[str]:
        """Sign a change and serve it; returns the roles that are new."""
        following = change.finish()
        for path, content in following.files.items():
            self.keep_target(path, content)
        changed = {"root": following.root, "targets": following.targets, **following.bins}
        for role, metadata in changed.items():
            if metadata is not None:
                self.keep(role, metadata)
        return [role for role, metadata in changed.items() if metadata is not None]
