"""Is each message verified, stored and answered, and what is wrong only counted?"""

import base64
import json
from collections.abc import Iterator

import msgspec
import pytest
from shoal_fleet.database import Sessions
from shoal_fleet.devices import service as devices
from shoal_fleet.devices.models import Device
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.messaging.dispatch import Dispatcher
from shoal_fleet.messaging.inbox import Message
from shoal_fleet.messaging.models import RefusedMessages
from shoal_fleet.rollouts import service as rollouts
from shoal_fleet.rollouts.models import RolloutDevice
from shoal_fleet.rollouts.publication import Receipt
from shoal_fleet.rollouts.service import RolloutStart
from shoal_fleet.telemetry.models import EventRow
from shoal_wire import envelope
from shoal_wire.encoding import decode, encode
from shoal_wire.errors import Untrusted
from shoal_wire.messages import Ack, AgentReport, Event, Presence, ProbationLimits
from shoal_wire.topics import Topic, Up
from shoal_wire.update import UpdateState
from sqlalchemy import func, select

from tests.unit.fleet.boards import (
    NOW,
    Board,
    add_release,
    close_database,
    make_database,
    make_keys,
    progress,
    reference,
    slot,
)

ROW = Event(at=1.0, name="started")


class RecordingPublisher:
    """Takes what is published, and looks what the database holds at that moment."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self.sent: list[tuple[str, bytes, bool]] = []
        self.rows_when_sent: list[int] = []

    def publish(self, topic: str, payload: bytes, *, retain: bool, receipt: Receipt | None) -> bool:
        assert receipt is None
        with self._sessions() as session:
            self.rows_when_sent.append(session.scalars(select(func.count(EventRow.id))).one())
        self.sent.append((topic, payload, retain))
        return True


class Site:
    """A dispatcher with a database and a board that the fleet knows."""

    def __init__(self) -> None:
        self.sessions = make_database()
        self.keys: OnlineKeys = make_keys()
        self.publisher = RecordingPublisher(self.sessions)
        self.board = Board("yard")
        self.board.enrol(self.sessions)
        self._dispatcher = Dispatcher(
            self.sessions,
            publisher=self.publisher,
            signer=self.keys.assignment,
            vault=self.keys.vault,
            clock=lambda: NOW,
        )

    def receive(self, channel: Up, payload: bytes, *, device: str | None = None) -> None:
        self._dispatcher.dispatch(Message(Topic(device or self.board.id, channel), payload))

    def refused(self, channel: Up, *, device: str | None = None) -> tuple[int, str]:
        with self.sessions() as session:
            row = session.get(RefusedMessages, (device or self.board.id, channel.value))
            return (0, "") if row is None else (row.count, row.last_reason)

    def device(self) -> Device:
        with self.sessions() as session:
            return devices.find_device(session, self.board.id)

    def events(self) -> int:
        with self.sessions() as session:
            return session.scalars(select(func.count(EventRow.id))).one()


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    close_database(made.sessions)


def test_a_report_of_an_agent_on_trial_is_acknowledged_once_it_is_committed_and_again_when_it_comes_again(
    site: Site,
) -> None:
    site.receive(Up.BATCH, site.board.batch(first=1, rows=[ROW, ROW]))
    site.publisher.sent.clear()
    about = AgentReport(machine="aarch64", python="3.11", state_format=1, can_update=True)
    site.receive(Up.REPORTED, site.board.sign_reported(site.board.reported(agent=about)))
    assert site.publisher.sent == [], "it is on no trial"
    on_trial = site.board.reported(agent=msgspec.structs.replace(about, is_on_trial=True))
    for _ in range(2):
        site.receive(Up.REPORTED, site.board.sign_reported(on_trial))
    key = envelope.parse_public_key(site.keys.public.assignment, what="key")
    sent = [envelope.verify(raw, envelope.ACK, [key], what="ack") for _, raw, _ in site.publisher.sent]
    acks = [decode(raw, Ack, what="ack") for raw in sent]
    assert acks == [Ack(device=site.board.id, stream=site.board.stream, sequence=2, reported=on_trial.counter)] * 2


def test_a_batch_is_acknowledged_after_its_commit_by_the_assignment_key(site: Site) -> None:
    site.receive(Up.BATCH, site.board.batch(first=1, rows=[ROW, ROW]))
    ((topic, payload, retain),) = site.publisher.sent
    assert (topic, retain) == (f"shoal/v1/{site.board.id}/down/ack", False)
    assert site.publisher.rows_when_sent == [2]
    key = envelope.parse_public_key(site.keys.public.assignment, what="key")
    ack = decode(envelope.verify(payload, envelope.ACK, [key], what="ack"), Ack, what="ack")
    assert (ack.device, ack.stream, ack.sequence) == (site.board.id, site.board.stream, 2)
    other = envelope.parse_public_key(site.keys.public.snapshot, what="key")
    with pytest.raises(Untrusted):
        envelope.verify(payload, envelope.ACK, [other], what="ack")


def test_a_batch_after_a_gap_is_answered_with_the_present_watermark(site: Site) -> None:
    site.receive(Up.BATCH, site.board.batch(first=7, rows=[ROW]))
    ack = json.loads(base64.b64decode(json.loads(site.publisher.sent[0][1])["payload"]))
    assert (ack["sequence"], site.events()) == (0, 0)


def test_a_batch_signed_by_the_key_of_another_device_is_counted_and_not_answered(site: Site) -> None:
    payload = encode(site.board.plain_batch(first=1, rows=[ROW]))
    for _ in range(3):
        site.receive(Up.BATCH, Board("roof").sign(payload, envelope.BATCH))
    count, reason = site.refused(Up.BATCH)
    assert (count, site.publisher.sent, site.events()) == (3, [], 0)
    assert "expected a signature by" in reason


def test_a_batch_on_the_topic_of_another_device_is_refused(site: Site) -> None:
    other = Board("roof")
    other.enrol(site.sessions)
    site.receive(Up.BATCH, site.board.batch(first=1, rows=[ROW]), device=other.id)
    assert site.refused(Up.BATCH, device=other.id)[0] == 1
    assert site.events() == 0


@pytest.mark.parametrize("channel", Up)
def test_a_device_that_is_not_known_is_counted(site: Site, channel: Up) -> None:
    stranger = Board("stranger")
    payloads = {
        Up.PRESENCE: encode(Presence(online=True, stream=stranger.stream)),
        Up.REPORTED: stranger.sign_reported(stranger.reported()),
        Up.BATCH: stranger.batch(first=1, rows=[ROW]),
    }
    site.receive(channel, payloads[channel], device=stranger.id)
    assert site.refused(channel, device=stranger.id) == (1, f"device '{stranger.id}': not of this fleet")


@pytest.mark.parametrize("channel", Up)
def test_a_revoked_device_is_not_listened_to(site: Site, channel: Up) -> None:
    with site.sessions() as session:
        devices.revoke(session, site.board.id, actor="user:anna", now=NOW)
    payloads = {
        Up.PRESENCE: encode(Presence(online=True, stream=site.board.stream)),
        Up.REPORTED: site.board.sign_reported(site.board.reported()),
        Up.BATCH: site.board.batch(first=1, rows=[ROW]),
    }
    site.receive(channel, payloads[channel])
    count, reason = site.refused(channel)
    assert count == 1
    assert "revoked" in reason
    assert (site.publisher.sent, site.device().reported_counter, site.device().is_online) == ([], 0, False)


@pytest.mark.parametrize("channel", Up)
@pytest.mark.parametrize("raw", [b"", b"\x00\xff", b"null", b"[]", b'{"online":"yes"}', b"[" * 3000, b"{" * 3000])
def test_garbage_is_counted_with_its_reason(site: Site, channel: Up, raw: bytes) -> None:
    site.receive(channel, raw)
    count, reason = site.refused(channel)
    assert count == 1
    assert site.board.id in reason


@pytest.mark.parametrize(
    "presence",
    [
        {"online": 1, "stream": "0" * 32},
        {"online": True, "stream": "../x"},
        {"online": True},
        {"online": True, "stream": "0" * 32, "at": -1},
        {"online": True, "stream": "0" * 32, "pad": "x" * 5000},
        {"online": True, "stream": "0" * 32, "critical": ["mood"]},
    ],
)
def test_presence_of_a_wrong_type_changes_nothing(site: Site, presence: dict[str, object]) -> None:
    site.receive(Up.PRESENCE, json.dumps(presence).encode())
    assert site.refused(Up.PRESENCE)[0] == 1
    assert not site.device().is_online


def test_presence_is_kept(site: Site) -> None:
    seen = []
    for online in (True, False):
        site.receive(Up.PRESENCE, encode(Presence(online=online, stream=site.board.stream)))
        seen.append(site.device().is_online)
    assert seen == [True, False]


REPORTED = json.loads(encode(Board("yard").reported()))


@pytest.mark.parametrize(
    "change",
    [
        {"counter": "1"},
        {"counter": -1},
        {"slots": {}},
        {"slots": [{"release": "notes"}]},
        {"update": {"state": "committed"}},
        {"epoch": None},
        {"at": "now"},
        {"stream": 5},
    ],
)
def test_a_reported_document_of_a_wrong_type_changes_nothing(site: Site, change: dict[str, object]) -> None:
    raw = json.dumps({**REPORTED, **change}).encode()
    site.receive(Up.REPORTED, site.board.sign(raw, envelope.REPORTED))
    assert site.refused(Up.REPORTED)[0] == 1
    assert site.device().reported_counter == 0


def test_a_reported_document_with_a_lower_counter_is_ignored(site: Site) -> None:
    newer = site.board.reported(counter=5, order=(1, 2))
    older = site.board.reported(counter=4, order=(1, 9))
    for reported in (newer, older):
        site.receive(Up.REPORTED, site.board.sign_reported(reported))
    assert (site.device().reported_counter, site.device().reported_generation) == (5, 2)
    assert site.refused(Up.REPORTED) == (0, "")


def test_a_reported_document_moves_the_rollout(site: Site) -> None:
    add_release(site.sessions, site.keys, name="notes", version=1)
    with site.sessions() as session:
        wanted = RolloutStart("notes", 1, (site.board.id,), ProbationLimits())
        rollout = rollouts.start(session, wanted, by="user:anna", vault=site.keys.vault, now=NOW)
    target = reference("notes", 1)
    update = progress(target, UpdateState.COMMITTED, order=(1, 1))
    site.receive(
        Up.REPORTED, site.board.sign_reported(site.board.reported(order=(1, 1), slots=[slot(target)], update=update))
    )
    with site.sessions() as session:
        row = session.get(RolloutDevice, (rollout.id, site.board.id))
        assert row is not None
        assert row.state.value == "succeeded"
