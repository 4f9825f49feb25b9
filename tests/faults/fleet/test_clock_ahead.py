"""Drills: the fleet's clock ran ahead, signed, and was set right. Do boards that saw it go on, and by what?

The fleet's own service signs and serves; a board's own trust code asks it.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from shoal_agent.files import DiskFiles
from shoal_agent.updater.errors import Untrustworthy
from shoal_agent.updater.http_client import Answer
from shoal_agent.updater.records import Records
from shoal_agent.updater.trust import Trust
from shoal_fleet.database import writing
from shoal_fleet.errors import NotFound
from shoal_fleet.signing_keys import make_next
from shoal_fleet.trust import service
from shoal_fleet.trust.service import MetadataUpdate
from shoal_wire import envelope, paths
from shoal_wire.encoding import encode
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH, Desired
from tuf.api.metadata import Metadata, Timestamp

from tests.publisher import Publisher, make_release, online_key, signed
from tests.unit.fleet.boards import ISSUER, close_database, make_database, make_keys

DAY_S = 86_400.0
NOW = datetime.now(UTC).timestamp()
URL = "https://fleet.example"
DEVICE = "d-board"


class Fleet:
    """The fleet's side of trust, with a publisher and a clock that a drill sets. A board's `Source`, too."""

    def __init__(self) -> None:
        self.now = NOW
        self.sessions = make_database()
        self.keys = make_keys()
        public = self.keys.public
        self.publisher = Publisher(
            {"snapshot": public.snapshot, "timestamp": public.timestamp, "assignment": public.assignment}
        )
        with self.sessions() as session:
            service.begin(
                session,
                root=self.publisher.signed_root(),
                targets=self.publisher.signed_targets(),
                target_files={ASSIGNMENT_KEYS_PATH: self.publisher.assignment_keys},
                keys=self.keys,
                issuer=ISSUER,
                now=self.now,
            )

    def keep_up(self) -> bool:
        """What the server does each minute."""
        with self.sessions() as session:
            return service.renew(session, keys=self.keys, now=self.now)

    def trouble(self) -> str:
        with self.sessions() as session:
            return service.find_trouble(session, now=self.now)

    def release(self, version: int) -> None:
        release = make_release("notes", version)
        new = MetadataUpdate(targets=self.publisher.next_targets(release), files={release.path: release.manifest})
        self._update(new)

    def rotate_keys(self) -> None:
        """`shoal-fleet keys rotate`, then `shoal keys rotate --fleet`."""
        with self.sessions() as session, writing(session):
            public = make_next(session, vault=self.keys.vault, now=self.now).public()
        publisher = self.publisher
        for role in ("snapshot", "timestamp"):
            (old,) = publisher.root.roles[role].keyids
            publisher.root.revoke_key(old, role)
            publisher.root.add_key(online_key(public[role]), role)
        publisher.root.version += 1
        content = json.dumps({"protocol": 1, "keys": [public["assignment"]]}).encode()
        publisher.list_target(ASSIGNMENT_KEYS_PATH, content)
        publisher.targets.version += 1
        self._update(
            MetadataUpdate(
                roots=[signed(publisher.root, publisher.root_key)],
                targets=publisher.signed_targets(),
                files={ASSIGNMENT_KEYS_PATH: content},
            )
        )

    def timestamp(self) -> Timestamp:
        with self.sessions() as session:
            return Metadata[Timestamp].from_bytes(service.read_metadata(session, "timestamp.json")).signed

    @contextlib.contextmanager
    def get(self, url: str) -> Iterator[Answer]:
        readers = {paths.TUF_METADATA: service.read_metadata, paths.TUF_TARGETS: service.read_target}
        place, read = next((place, read) for place, read in readers.items() if url.startswith(URL + place))
        try:
            with self.sessions() as session:
                raw = read(session, url.removeprefix(URL + place))
        except NotFound:
            yield Answer(404, None, 0, iter(()))
            return
        yield Answer(200, None, len(raw), iter([raw]))

    def is_vouched_for_by(self, authorities: Sequence[x509.Certificate]) -> bool:
        return True

    def _update(self, new: MetadataUpdate) -> None:
        with self.sessions() as session:
            service.update(session, new, keys=self.keys, issuer=ISSUER, by="token:ci", now=self.now)


class Board:
    """A board whose clock is right."""

    def __init__(self, state: Path, fleet: Fleet) -> None:
        self.state, self.fleet, self.clock = state, fleet, NOW
        self.records = Records(state, files=DiskFiles())
        (state / "tuf").mkdir(parents=True)
        (state / "tuf" / "root.json").write_bytes(fleet.publisher.signed_root())
        (state / "device.json").write_text(json.dumps({"device": DEVICE, "devices_url": URL}))

    def look(self) -> Trust:
        trust = Trust(self.records, source=self.fleet, url=URL, now=lambda: self.clock)
        trust.refresh()
        return trust

    def hear(self, *, issued_at: float) -> None:
        """A desired document of that time, by the fleet's present key."""
        desired = Desired(device=DEVICE, epoch=1, generation=1, issued_at=issued_at, assignments=())
        raw = envelope.seal(encode(desired), envelope.DESIRED, self.fleet.keys.assignment)
        (self.state / "desired.dsse").write_bytes(raw)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    fleet = Fleet()
    yield fleet
    close_database(fleet.sessions)


@pytest.fixture
def board(fleet: Fleet, tmp_path: Path) -> Board:
    board = Board(tmp_path, fleet)
    board.look()
    return board


@pytest.mark.parametrize("days", [2, 60, 89])
def test_ahead_within_what_the_publisher_signed_boards_go_on_by_themselves(
    days: int, fleet: Fleet, board: Board, caplog: pytest.LogCaptureFixture
) -> None:
    fleet.now = NOW + days * DAY_S
    assert fleet.keep_up()
    board.look()
    board.hear(issued_at=fleet.now + 3 * 3600)
    board.look()

    fleet.now = board.clock = NOW + 60.0
    assert not fleet.keep_up(), "nothing is due: what is signed counts"
    assert "it signs with the later time until then" in fleet.trouble()
    for version in (1, 2):
        fleet.release(version)
        board.look()
        assert board.records.time_floor().at == pytest.approx(NOW + days * DAY_S + 3 * 3600, abs=1)
    assert "signs with the later time" in caplog.text

    fleet.now = board.clock = NOW + days * DAY_S + 17 * 3600
    fleet.keep_up()
    assert (fleet.trouble(), fleet.timestamp().expires.timestamp() > fleet.now) == ("", True)
    if days < 89:
        board.look()


def test_ahead_beyond_that_other_keys_of_the_fleet_have_them_go_on(fleet: Fleet, board: Board) -> None:
    fleet.now = NOW + 5 * 365 * DAY_S
    assert fleet.keep_up()
    board.hear(issued_at=fleet.now)
    with pytest.raises(Untrustworthy, match="expired"):
        board.look()

    fleet.now = board.clock = NOW + 60.0
    assert "shoal-fleet keys rotate" in fleet.trouble()
    assert fleet.keep_up(), "boards that didn't see it are spared"
    assert fleet.timestamp().expires.timestamp() == pytest.approx(fleet.now + DAY_S, abs=1)
    for days in (0, 1, 2):
        fleet.now = board.clock = NOW + 60.0 + days * DAY_S
        fleet.keep_up()
        assert "boards that saw it take everything for expired" in fleet.trouble(), "it stays until the keys go"
    fleet.release(1)
    assert "boards that saw it take everything for expired" in fleet.trouble()
    with pytest.raises(Untrustworthy, match="expired"):
        board.look()

    fleet.rotate_keys()
    assert fleet.trouble() == ""
    board.look()
    board.hear(issued_at=fleet.now)  # as the server signs it anew
    board.look()
    assert board.records.time_floor().at == pytest.approx(fleet.now, abs=1)
    fleet.release(2)
    board.look()
    assert fleet.trouble() == ""


def test_a_board_that_did_not_see_it_goes_on_without_other_keys(fleet: Fleet, board: Board) -> None:
    fleet.now = NOW + 5 * 365 * DAY_S
    fleet.keep_up()
    fleet.now = board.clock = NOW + 60.0
    fleet.keep_up()
    board.look()
    fleet.release(1)
    board.look()
