"""How many bytes of metadata does a board fetch for an update, in fleets of 10, 1,000 and 10,000 releases?

    python -m benchmarks.metadata_bytes [--releases 10 1000 10000] [--json]

The board's own code asks a repository in memory: with all releases in the targets metadata, and after the version that
moves them into bins. "first" is a board that has just enrolled, or was off so long that all has changed; "next" one
that was up to date before the one release that it is now to install.
"""

import argparse
import contextlib
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer import CryptoSigner
from shoal_agent.files import DiskFiles
from shoal_agent.updater.http_client import Answer
from shoal_agent.updater.repository import Places, Repository
from shoal_fleet.command.errors import NotFound
from shoal_fleet.command.metadata import Change, Signatories, describe, first_root, first_targets
from shoal_fleet.command.present import Present
from shoal_fleet.trust.signing import sign_snapshot, sign_timestamp
from shoal_wire import envelope
from shoal_wire.encoding import encode
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH
from shoal_wire.metadata import FLOORS_PATH, Floors
from tuf.api.metadata import Metadata, Root, Targets

MODELS = 50
NOW = datetime.now(UTC)


class Fleet:
    """A publisher's repository, served from memory; counts what is fetched."""

    def __init__(self) -> None:
        self.signers = {role: CryptoSigner.generate_ed25519() for role in ("root", "targets")}
        self.snapshot, self.timestamp = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
        online = {"snapshot": self.snapshot, "timestamp": self.timestamp}
        public = {role: envelope.public_text(key.public_key()) for role, key in online.items()}
        self.files: dict[str, bytes] = {}
        self.contents: dict[str, bytes] = {}
        self.versions: dict[str, int] = {}
        self.fetched: dict[str, int] = {}
        roles = {role: Signatories(1, [signer.public_key]) for role, signer in self.signers.items()}
        self.root = first_root(roles, public, now=NOW)
        self.keep("root", self.root)
        targets, keys = first_targets(public["snapshot"], now=NOW)
        self.contents[ASSIGNMENT_KEYS_PATH] = keys
        self.keep("targets", targets)

    def keep(self, role: str, metadata: Metadata[Any]) -> None:
        metadata.sign(self.signers["root" if role == "root" else "targets"])
        self.versions[role] = metadata.signed.version
        self.files[f"metadata/{metadata.signed.version}.{role}.json"] = metadata.to_bytes()

    def change(self) -> Change:
        return Change(
            Present(
                versions=self.versions,
                read=lambda name: self.read(f"metadata/{name}"),
                read_target=lambda path: self.files[f"targets/{path}"],
                last_signed=lambda _: None,
                first_root=self.files["metadata/1.root.json"],
            ),
            now=NOW,
        )

    def read(self, name: str) -> bytes:
        if name not in self.files:
            raise NotFound(name)
        return self.files[name]

    def publish(self, change: Change) -> None:
        following = change.finish()
        self.contents |= following.files
        for role, metadata in {"targets": following.targets, **following.bins}.items():
            if metadata is not None:
                self.keep(role, metadata)
        self.publish_online()

    def publish_release(self, path: str) -> None:
        change = self.change()
        change.list_release(path, b"")
        self.publish(change)

    def list_flat(self, contents: dict[str, bytes]) -> None:
        """As publishers did before there were bins."""
        targets = Metadata[Targets].from_bytes(self.files[f"metadata/{self.versions['targets']}.targets.json"])
        targets.signed.targets |= {path: describe(path, raw) for path, raw in contents.items()}
        targets.signed.version += 1
        targets.signatures.clear()
        self.keep("targets", targets)
        self.publish_online()

    def publish_online(self) -> None:
        now, root = NOW.timestamp(), Metadata[Root].from_bytes(self.files["metadata/1.root.json"]).signed
        listed = {role: version for role, version in self.versions.items() if role not in ("root", "snapshot")}
        number = self.versions.get("snapshot", 0) + 1
        snapshot = sign_snapshot(versions=listed, version=number, root=root, keys=self, at=now)
        timestamp = sign_timestamp(
            snapshot=snapshot, snapshot_version=number, version=number, root=root, keys=self, at=now
        )
        self.versions["snapshot"] = number
        self.files[f"metadata/{number}.snapshot.json"] = snapshot
        self.files["metadata/timestamp.json"] = timestamp
        for path, raw in self.contents.items():
            self.files[f"targets/{describe(path, raw).get_prefixed_paths()[0]}"] = raw

    @contextlib.contextmanager
    def get(self, url: str) -> Iterator[Answer]:
        raw = self.files.get(url.removeprefix("x:"))
        if raw is None:
            yield Answer(404, None, 0, iter(()))
            return
        self.fetched[url] = len(raw)
        yield Answer(200, None, len(raw), iter([raw]))

    def is_vouched_for_by(self, authorities: Sequence[x509.Certificate]) -> bool:
        return bool(authorities)


def path_of(number: int) -> str:
    return f"model-for-some-purpose-{number % MODELS}/{number // MODELS + 1}/manifest.json"


def fetch(fleet: Fleet, cache: Path, path: str) -> tuple[int, int, float]:
    """Bytes, requests and seconds of a look at the metadata for one release, without the manifest itself."""
    fleet.fetched.clear()
    began = time.process_time()
    places = Places(metadata="x:metadata/", targets="x:targets/")
    root = fleet.files["metadata/1.root.json"]
    repository = Repository(root=root, cache=cache, files=DiskFiles(), source=fleet, places=places)
    repository.refresh(at=NOW.timestamp())
    for own in (ASSIGNMENT_KEYS_PATH, FLOORS_PATH):
        target = repository.find(own)
        assert target is not None
        repository.fetch(target, limit_bytes=1 << 20)
    assert repository.find(path) is not None
    return sum(fleet.fetched.values()), len(fleet.fetched), time.process_time() - began


def measure(releases: int) -> list[dict[str, object]]:
    """Rows for one size of fleet: flat, and after the next version that moves all into bins."""
    fleet, rows = Fleet(), []
    floors = encode(Floors(floors={f"model-for-some-purpose-{number}": 2 for number in range(MODELS)}))
    fleet.contents[FLOORS_PATH] = floors
    paths = [path_of(number) for number in range(releases)]
    fleet.list_flat({path: path.encode() for path in paths} | {FLOORS_PATH: floors})
    for number, layout in enumerate(("flat", "bins")):
        new, newer = path_of(releases + 2 * number), path_of(releases + 2 * number + 1)
        publish = (lambda path: fleet.list_flat({path: b""})) if layout == "flat" else fleet.publish_release
        publish(new)
        with tempfile.TemporaryDirectory() as cache:
            for case, path in (("first", new), ("next", newer)):
                if case == "next":
                    publish(newer)
                size, requests, seconds = fetch(fleet, Path(cache), path)
                rows.append(
                    {
                        "releases": releases,
                        "layout": layout,
                        "case": case,
                        "bytes": size,
                        "requests": requests,
                        "cpu_s": round(seconds, 3),
                    }
                )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, nargs="*", default=[10, 1000, 10_000])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for releases in arguments.releases:
        for row in measure(releases):
            print(json.dumps(row) if arguments.json else "  ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
