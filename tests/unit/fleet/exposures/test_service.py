"""Which files can a device open that was shut out, and where are they in use or under another key?"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from shoal_fleet.access.models import ReleaseName
from shoal_fleet.access.roles import DEFAULT_PROJECT
from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices import service as devices
from shoal_fleet.exposures.service import Exposed, list_exposed, list_revoked
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.releases.content_keys import keep
from shoal_fleet.releases.models import Release
from shoal_fleet.rollouts import service as rollouts
from shoal_fleet.rollouts.service import RolloutStart
from shoal_fleet.trust.models import Target
from shoal_wire.messages import ProbationLimits

from tests.unit.fleet.boards import NOW, Board, close_database, make_database, make_keys, manifest_of


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Site:
    """A fleet with two boards; `lost` is the one that is shut out."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.keys: OnlineKeys = make_keys()
        self.lost, self.kept = Board("lost"), Board("kept")
        for board in (self.lost, self.kept):
            board.enrol(sessions)

    def release(self, name: str, version: int, files: Mapping[str, tuple[str, str]]) -> None:
        """`files`: name to plaintext and seal."""
        manifest = json.loads(manifest_of(name, version))
        template = manifest["files"][0]
        manifest["files"] = [
            template | {"name": file, "plaintext_sha256": digest(plain), "ciphertext_sha256": digest(sealed)}
            for file, (plain, sealed) in files.items()
        ]
        raw = json.dumps(manifest).encode()
        sha256 = hashlib.sha256(raw).hexdigest()
        with self.sessions() as session, writing(session):
            session.merge(ReleaseName(name=name, project=DEFAULT_PROJECT))
            row = Release(name=name, version=version, manifest_sha256=sha256, targets_version=1, created_at=NOW)
            session.add(row)
            session.flush()
            session.add(Target(path=f"{name}/{version}/manifest.json", sha256=sha256, raw=raw))
            keep(session, row, {digest(sealed): bytes(32) for _, sealed in files.values()}, vault=self.keys.vault)

    def roll_out(self, name: str, version: int, *boards: Board) -> None:
        wanted = RolloutStart(name, version, [board.id for board in boards], ProbationLimits())
        with self.sessions() as session:
            rollouts.start(session, wanted, by="user:anna", vault=self.keys.vault, now=NOW)

    def exposed(self) -> list[Exposed]:
        with self.sessions() as session:
            return list_exposed(session, [self.lost.id])

    def short(self) -> list[tuple[str, int, str, int, int | None]]:
        return [(one.release, one.version, one.file, one.assigned_devices, one.replaced_by) for one in self.exposed()]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    sessions = make_database(tmp_path / "fleet.db")
    yield Site(sessions)
    close_database(sessions)


def test_device_that_was_never_assigned_exposes_nothing(site: Site) -> None:
    site.release("notes", 1, {"model": ("weights", "sealed")})
    site.roll_out("notes", 1, site.kept)
    assert site.exposed() == []


def test_every_file_that_it_ever_got_a_key_of_is_exposed(site: Site) -> None:
    site.release("notes", 1, {"model": ("weights 1", "sealed 1")})
    site.release("notes", 2, {"model": ("weights 2", "sealed 2")})
    site.release("birds", 1, {"model": ("birds", "sealed birds")})
    site.roll_out("notes", 1, site.lost)
    site.roll_out("notes", 2, site.lost)
    assert site.short() == [("notes", 2, "model", 1, None), ("notes", 1, "model", 0, None)]


def test_shared_sealed_file_exposes_the_release_that_it_never_got(site: Site) -> None:
    site.release("notes", 1, {"model": ("weights", "sealed"), "golden": ("sound", "sealed sound")})
    site.release("notes", 2, {"model": ("more weights", "sealed more"), "golden": ("sound", "sealed sound")})
    site.roll_out("notes", 1, site.lost)
    assert [row[:3] for row in site.short()] == [("notes", 2, "golden"), ("notes", 1, "model"), ("notes", 1, "golden")]


def test_same_contents_under_another_key_replace_it(site: Site) -> None:
    site.release("notes", 1, {"model": ("weights", "sealed")})
    site.release("notes", 2, {"model": ("weights", "sealed anew")})
    site.roll_out("notes", 1, site.lost, site.kept)
    assert site.short() == [("notes", 1, "model", 2, 2)]


def test_another_key_that_the_device_holds_too_replaces_nothing(site: Site) -> None:
    site.release("notes", 1, {"model": ("weights", "sealed")})
    site.release("notes", 2, {"model": ("weights", "sealed anew")})
    site.roll_out("notes", 1, site.lost)
    site.roll_out("notes", 2, site.lost)
    assert [row[4] for row in site.short()] == [None, None]


def test_only_devices_that_are_in_use_count_as_assigned(site: Site) -> None:
    site.release("notes", 1, {"model": ("weights", "sealed")})
    site.roll_out("notes", 1, site.lost, site.kept)
    with site.sessions() as session:
        devices.revoke(session, site.lost.id, actor="user:anna", now=NOW)
    with site.sessions() as session:
        assert list_revoked(session) == [site.lost.id]
    assert site.short() == [("notes", 1, "model", 1, None)]
