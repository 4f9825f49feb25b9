"""What can one do who has the broker's rights, to read and write every topic?

Devices: that one can't have them accept a desired document or an acknowledgement is in tests/system/agent/test_daemon.
"""

import base64
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import x25519
from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices import lifecycle
from shoal_fleet.devices import service as devices
from shoal_fleet.devices.models import Device
from shoal_fleet.messaging.models import RefusedMessages
from shoal_fleet.messaging.worker import Messaging
from shoal_fleet.rollouts import service as rollouts
from shoal_fleet.rollouts.models import DesiredRow
from shoal_fleet.rollouts.service import RolloutStart
from shoal_fleet.telemetry.models import AnswerRow
from shoal_wire import envelope, topics
from shoal_wire.encoding import decode, encode
from shoal_wire.errors import Untrusted
from shoal_wire.grant import GrantContext, RecipientKeys, open_grant
from shoal_wire.messages import Desired, Presence, ProbationLimits
from shoal_wire.topics import Down, Up
from sqlalchemy import select

from tests.system.fleet.broker_site import ADDRESS, Client, Site, wait_until
from tests.unit.fleet.boards import Board, add_release, close_database, make_database, make_keys, reference, slot
from tests.unit.fleet.telemetry.rows import answer

THIEF = "d-thief"


class Fleet:
    """A fleet's database and connection, two boards that are enrolled, and one who has the broker's rights."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.sessions: Sessions = make_database(site.folder / "fleet.db")
        self.keys = make_keys()
        self.board, self.other = Board("one"), Board("two")
        for board in (self.board, self.other):
            board.enrol(self.sessions)
        self.content_keys = add_release(self.sessions, self.keys, name="notes", version=1)
        self.thief = self._let_thief_in()

    def _let_thief_in(self) -> Client:
        rules = self.site.paths.access
        rules.write_text(rules.read_text() + f"\nuser {THIEF}\ntopic readwrite shoal/v1/#\n")
        self.site.broker.reload()
        client = self.site.connect(self.site.device(THIEF))
        trial = topics.down(THIEF, Down.ACK)
        wait_until(lambda: client.publish(trial) != "Not authorized", what="the thief has the broker's rights")
        client.subscribe("shoal/v1/#")
        return client

    @contextmanager
    def running(self) -> Iterator[Messaging]:
        messaging = Messaging(
            self.sessions,
            host=ADDRESS,
            port=self.site.port,
            context=self.site.context(self.site.authority.issue_fleet(now=self.site.now)),
            signer=self.keys.assignment,
            vault=self.keys.vault,
            clock=time.time,
        )
        self.site.runner.run(messaging.__aenter__())
        try:
            wait_until(lambda: messaging.is_connected, what="the fleet is connected")
            yield messaging
        finally:
            self.site.runner.run(messaging.__aexit__(None, None, None))

    def device(self, board: Board) -> Device:
        with self.sessions() as session:
            return devices.find_device(session, board.id)

    def refused(self, channel: Up) -> int:
        with self.sessions() as session:
            row = session.get(RefusedMessages, (self.board.id, channel.value))
            return 0 if row is None else row.count

    def roll_out(self) -> None:
        with self.sessions() as session:
            wanted = RolloutStart("notes", 1, (self.board.id,), ProbationLimits())
            rollouts.start(session, wanted, by="user:anna", vault=self.keys.vault, now=time.time())

    def is_published(self) -> bool:
        with self.sessions() as session:
            row = session.get(DesiredRow, self.board.id)
            return row is not None and row.published_at is not None

    def heard(self, topic: str) -> list[bytes]:
        """By the thief, in order."""
        self.thief.subscribe(topic)
        return [payload for at, payload in list(self.thief.messages.queue) if at == topic]


@pytest.fixture
def fleet(site: Site) -> Iterator[Fleet]:
    made = Fleet(site)
    yield made
    close_database(made.sessions)


def test_a_report_that_the_device_did_not_sign_changes_nothing(fleet: Fleet) -> None:
    board, other = fleet.board, fleet.other
    genuine = board.reported(slots=[slot(reference("notes", 1))])
    forged = msgspec.structs.replace(genuine, counter=99)
    forgeries = [
        other.sign(encode(forged), envelope.REPORTED),
        board.sign(encode(msgspec.structs.replace(forged, device=other.id)), envelope.REPORTED),
        board.sign(encode(forged), envelope.BATCH),
        encode(forged),
        b"nonsense",
    ]
    with fleet.running():
        up = topics.up(board.id, Up.REPORTED)
        fleet.thief.publish(up, payload=board.sign_reported(genuine))
        wait_until(lambda: fleet.device(board).reported_counter == genuine.counter, what="the genuine one counts")
        before = fleet.device(board).reported_envelope
        for number, payload in enumerate(forgeries, start=1):
            fleet.thief.publish(up, payload=payload)
            wait_until(lambda least=number: fleet.refused(Up.REPORTED) >= least, what="it was refused")  # type: ignore[misc]
        fleet.thief.publish(up, payload=board.sign_reported(genuine))
        fleet.thief.publish(topics.up(board.id, Up.BATCH), payload=other.batch(first=1, rows=[answer("forged")]))
        wait_until(lambda: fleet.refused(Up.BATCH) == 1, what="the forged batch was refused")
    row = fleet.device(board)
    assert (row.reported_counter, row.reported_envelope) == (genuine.counter, before)
    assert row.held_at is None, "what a broker can replay has no device held"
    with fleet.sessions() as session:
        assert session.scalars(select(AnswerRow)).all() == []


def test_content_keys_are_sealed_to_the_device_alone(fleet: Fleet) -> None:
    with fleet.running() as messaging:
        fleet.roll_out()
        messaging.wake()
        wait_until(fleet.is_published, what="the document is at the broker")
        (raw,) = set(fleet.heard(topics.down(fleet.board.id, Down.DESIRED)))
    for content_key in fleet.content_keys.values():
        for spelling in (content_key, base64.b64encode(content_key), content_key.hex().encode()):
            assert spelling not in raw
            assert spelling not in base64.b64decode(msgspec.json.decode(raw)["payload"])
    key = envelope.parse_public_key(fleet.keys.public.assignment, what="key")
    desired = decode(envelope.verify(raw, envelope.DESIRED, [key], what="desired"), Desired, what="desired")
    (assignment,) = desired.assignments
    context = GrantContext("notes", 1, fleet.board.id)
    for grant in assignment.grants:
        opened = open_grant(grant, RecipientKeys(fleet.board.hpke), context=context)
        assert opened == fleet.content_keys[grant.ciphertext_sha256]
        for keys in (RecipientKeys(fleet.other.hpke), RecipientKeys(x25519.X25519PrivateKey.generate())):
            with pytest.raises(Untrusted):
                open_grant(grant, keys, context=context)


def test_presence_is_all_that_can_be_forged_and_it_moves_nothing(fleet: Fleet) -> None:
    with fleet.running():
        up = topics.up(fleet.board.id, Up.PRESENCE)
        fleet.thief.publish(up, payload=encode(Presence(online=True, stream="0" * 32)))
        wait_until(lambda: fleet.device(fleet.board).is_online, what="the fleet takes it for connected")
    row = fleet.device(fleet.board)
    assert (row.last_seen_at, row.reported_envelope, row.lineage) == (None, None, None)


def test_a_held_device_gets_its_document_when_it_is_released(fleet: Fleet) -> None:
    """Not of the broker, but of who hears what there."""
    down = topics.down(fleet.board.id, Down.DESIRED)
    fleet.roll_out()
    hold(fleet)
    with fleet.running() as messaging:
        messaging.wake()
        report = fleet.other.sign_reported(fleet.other.reported())
        fleet.thief.publish(topics.up(fleet.other.id, Up.REPORTED), payload=report)
        wait_until(lambda: fleet.device(fleet.other).reported_counter > 0, what="the fleet has done its work")
        assert fleet.heard(down) == []
        with fleet.sessions() as session:
            lifecycle.release_hold(session, fleet.board.id, actor="user:anna", now=time.time())
        messaging.wake()
        wait_until(fleet.is_published, what="the document is at the broker")
        assert len(fleet.heard(down)) >= 1


def hold(fleet: Fleet) -> None:
    with fleet.sessions() as session, writing(session):
        device = session.get_one(Device, fleet.board.id)
        device.held_at, device.held_reason = 1.0, "a test"


def test_what_is_retained_of_a_device_out_of_use_is_cleared(fleet: Fleet) -> None:
    names = [topics.up(fleet.board.id, Up.PRESENCE), topics.up(fleet.board.id, Up.REPORTED)]
    names.append(topics.down(fleet.board.id, Down.DESIRED))
    for name in names:
        fleet.thief.publish(name, payload=b"of old", retain=True)
    with fleet.running() as messaging:
        with fleet.sessions() as session:
            lifecycle.decommission(session, fleet.board.id, actor="user:anna", now=time.time())
        messaging.wake()
        wait_until(lambda: all(b"" in fleet.heard(name) for name in names), what="each was cleared")
    late = fleet.site.connect(fleet.site.authority.issue_fleet(now=fleet.site.now))
    for _ in range(2):
        late.subscribe(f"shoal/v1/{fleet.board.id}/#")
    assert late.messages.empty()
