"""Is a release taken only whole, signed and with keys that the fleet can pass on?"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from securesystemslib.signer import CryptoSigner
from shoal_fleet.database import Sessions
from shoal_fleet.errors import Conflict, NotFound, Refused
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.releases import content_keys, service
from shoal_fleet.releases.models import Release
from shoal_fleet.releases.sealed_store import SealedStore
from shoal_fleet.trust import service as trust
from shoal_wire.errors import Malformed, Untrusted
from shoal_wire.grant import Grant
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH

from tests.publisher import Publisher, SealedRelease, make_release
from tests.unit.fleet.boards import ISSUER, close_database, make_database, make_keys


class Site:
    """A fleet with a publisher and a store."""

    def __init__(self, folder: Path) -> None:
        self.sessions: Sessions = make_database()
        self.keys: OnlineKeys = make_keys()
        self.store = SealedStore(folder / "sealed")
        self.store.open()
        public = self.keys.public
        self.publisher = Publisher(
            {"snapshot": public.snapshot, "timestamp": public.timestamp, "assignment": public.assignment}
        )
        self.now = self.publisher.now.timestamp()
        with self.sessions() as session:
            trust.begin(
                session,
                root=self.publisher.signed_root(),
                targets=self.publisher.signed_targets(),
                target_files={ASSIGNMENT_KEYS_PATH: self.publisher.assignment_keys},
                keys=self.keys,
                issuer=ISSUER,
                now=self.now,
            )

    def upload(self, release: SealedRelease) -> None:
        async def parts() -> AsyncIterator[bytes]:
            yield release.ciphertext

        asyncio.run(self.store.receive(release.ciphertext_sha256, parts(), limit_bytes=10**6))

    def create(
        self,
        release: SealedRelease,
        *,
        targets: bytes | None = None,
        manifest: bytes | None = None,
        grants: Sequence[Grant] | None = None,
    ) -> Release:
        if targets is None:
            targets = self.publisher.next_targets(release)
        with self.sessions() as session:
            return service.create_release(
                session,
                targets=targets,
                manifest=release.manifest if manifest is None else manifest,
                grants=[release.grant(self.keys.public.hpke)] if grants is None else grants,
                store=self.store,
                keys=self.keys,
                issuer=ISSUER,
                now=self.now,
            )

    def names(self) -> list[tuple[str, int]]:
        with self.sessions() as session:
            return [(release.name, release.version) for release in service.list_releases(session)]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    close_database(site.sessions)


def test_release_can_be_read_and_its_key_opened(site: Site) -> None:
    release = make_release("m", 1)
    site.upload(release)
    site.create(release)
    with site.sessions() as session:
        found = service.find_release(session, name="m", version=1)
        assert service.read_manifest(session, found).files[0].ciphertext_sha256 == release.ciphertext_sha256
        opened = content_keys.read(session, found, vault=site.keys.vault)
    assert opened == {release.ciphertext_sha256: release.content_key}


def test_later_release_may_name_a_sealed_file_of_an_earlier_one(site: Site) -> None:
    first = make_release("m", 1)
    site.upload(first)
    site.create(first)
    second = dataclasses.replace(first, version=2, manifest=first.manifest.replace(b'"version": 1', b'"version": 2'))
    site.create(second)
    assert site.names() == [("m", 2), ("m", 1)]


def test_refuses_a_release_whose_sealed_file_is_missing(site: Site) -> None:
    with pytest.raises(Refused, match=r"file model: expected the sealed file .* found nothing; upload it first"):
        site.create(make_release("m", 1))
    assert site.names() == []


def test_refuses_a_sealed_file_of_another_size(site: Site) -> None:
    release = make_release("m", 1)
    site.upload(release)
    size = len(release.ciphertext)
    changed = release.manifest.replace(b'"ciphertext_bytes": %d' % size, b'"ciphertext_bytes": %d' % (size + 1))
    with pytest.raises(Refused, match=f"of {size + 1} bytes, found {size} bytes"):
        site.create(dataclasses.replace(release, manifest=changed))


def test_refuses_a_manifest_other_than_the_signed_one(site: Site) -> None:
    release = make_release("m", 1)
    site.upload(release)
    with pytest.raises(Refused, match="signed as"):
        site.create(release, manifest=release.manifest + b" ")


def test_refuses_a_manifest_under_another_name(site: Site) -> None:
    release = make_release("m", 1)
    site.upload(release)
    targets = site.publisher.next_targets(release)
    with pytest.raises(Refused, match=r"expected the target n/1/manifest\.json"):
        site.create(release, targets=targets, manifest=release.manifest.replace(b'"m"', b'"n"'))


def test_refuses_what_is_no_manifest(site: Site) -> None:
    with pytest.raises(Malformed):
        site.create(make_release("m", 1), manifest=b"{}")


def test_refuses_targets_by_another_key(site: Site) -> None:
    release = make_release("m", 1)
    site.upload(release)
    site.publisher.next_targets(release)
    with pytest.raises(Untrusted):
        site.create(release, targets=site.publisher.signed_targets(signer=CryptoSigner.generate_ed25519()))


def test_refuses_the_same_release_again(site: Site) -> None:
    release = make_release("m", 1)
    site.upload(release)
    site.create(release)
    with pytest.raises(Conflict, match="release m 1: exists"):
        site.create(release)


def test_refuses_a_grant_for_another_release(site: Site) -> None:
    release = make_release("m", 1)
    site.upload(release)
    with pytest.raises(Untrusted, match="not sealed to fleet for this release"):
        site.create(release, grants=[release.grant(site.keys.public.hpke, version=2)])


def test_refuses_a_grant_to_another_fleet(site: Site) -> None:
    release = make_release("m", 1)
    site.upload(release)
    with pytest.raises(Untrusted, match="not sealed to fleet"):
        site.create(release, grants=[release.grant(make_keys().public.hpke)])


@pytest.mark.parametrize("count", [0, 2])
def test_refuses_missing_and_doubled_grants(site: Site, count: int) -> None:
    release = make_release("m", 1)
    site.upload(release)
    with pytest.raises(Refused, match="expected one grant for each of its 1 sealed files"):
        site.create(release, grants=[release.grant(site.keys.public.hpke)] * count)


def test_refused_release_can_be_sent_again(site: Site) -> None:
    release = make_release("m", 1)
    targets = site.publisher.next_targets(release)
    with pytest.raises(Refused):
        site.create(release, targets=targets)
    site.upload(release)
    site.create(release, targets=targets)
    assert site.names() == [("m", 1)]


def test_unknown_release_is_not_found(site: Site) -> None:
    with site.sessions() as session, pytest.raises(NotFound, match="release m 3"):
        service.find_release(session, name="m", version=3)
