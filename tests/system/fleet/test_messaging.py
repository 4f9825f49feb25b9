"""Do devices and fleet reach each other over a real broker, through deaths of broker and fleet?"""

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices import service as devices
from shoal_fleet.messaging.models import RefusedMessages
from shoal_fleet.messaging.worker import Messaging
from shoal_fleet.rollouts import service as rollouts
from shoal_fleet.rollouts.models import DesiredRow, Rollout
from shoal_fleet.rollouts.service import RolloutStart
from shoal_fleet.telemetry.models import AnswerRow
from shoal_wire import envelope
from shoal_wire.encoding import decode, encode
from shoal_wire.messages import Ack, Desired, Presence, ProbationLimits
from shoal_wire.update import UpdateState
from sqlalchemy import select, text

from tests.system.fleet import fleet_that_dies
from tests.system.fleet.broker_site import ADDRESS, DEADLINE_S, Client, Site, wait_until
from tests.unit.fleet.boards import (
    Board,
    add_release,
    close_database,
    make_database,
    make_keys,
    progress,
    reference,
    slot,
)
from tests.unit.fleet.telemetry.rows import answer

ACCEPTED = {"Success", "No matching subscribers"}


class Fleet:
    """The fleet's database and keys, its connection while it runs, and one board that is enrolled."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.database = site.folder / "fleet.db"
        self.sessions: Sessions = make_database(self.database)
        self.keys = make_keys()
        self.key = envelope.parse_public_key(self.keys.public.assignment, what="key")
        self.board = Board("board-0001")
        self.board.enrol(self.sessions)
        self._identity = site.authority.issue_fleet(now=site.now)
        self._device_identity = site.device(self.board.id)

    @contextmanager
    def running(self) -> Iterator[Messaging]:
        messaging = Messaging(
            self.sessions,
            host=ADDRESS,
            port=self.site.port,
            context=self.site.context(self._identity),
            signer=self.keys.assignment,
            vault=self.keys.vault,
            clock=time.time,
        )
        self.site.runner.run(messaging.__aenter__())
        try:
            yield messaging
        finally:
            self.site.runner.run(messaging.__aexit__(None, None, None))

    @contextmanager
    def dying(self) -> Iterator["subprocess.Popen[str]"]:
        """A fleet that is killed between a commit and its acknowledgement; ready to be sent a batch."""
        authority, chain = self.site.folder / "authority.pem", self.site.folder / "fleet.pem"
        authority.write_bytes(self.site.authority.certificate_pem)
        chain.write_bytes(self._identity.certificate_pem + self._identity.key_pem)
        command = [sys.executable, "-m", fleet_that_dies.__name__]
        arguments = [str(self.database), str(self.site.port), str(authority), str(chain)]
        with subprocess.Popen(
            command + arguments, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                yield process
            finally:
                process.kill()

    def connect_board(self) -> Client:
        """The board's connection; it listens to all that is for it."""
        client = self.site.connect(self._device_identity)
        assert client.subscribe(f"shoal/v1/{self.board.id}/down/+").startswith("Granted")
        return client

    def publish(self, client: Client, channel: str, payload: bytes, *, retain: bool = False) -> None:
        assert client.publish(f"shoal/v1/{self.board.id}/up/{channel}", payload=payload, retain=retain) in ACCEPTED

    def receive_ack(self, client: Client) -> Ack:
        topic, payload = client.receive()
        assert topic == f"shoal/v1/{self.board.id}/down/ack"
        return decode(envelope.verify(payload, envelope.ACK, [self.key], what="ack"), Ack, what="ack")

    def receive_desired(self, client: Client) -> Desired:
        topic, payload = client.receive()
        assert topic == f"shoal/v1/{self.board.id}/down/desired"
        return decode(envelope.verify(payload, envelope.DESIRED, [self.key], what="desired"), Desired, what="desired")

    def start_rollout(self) -> Rollout:
        add_release(self.sessions, self.keys, name="notes", version=1)
        with self.sessions() as session:
            wanted = RolloutStart("notes", 1, ("all",), ProbationLimits())
            return rollouts.start(session, wanted, by="user:anna", vault=self.keys.vault, now=time.time())

    def is_published(self) -> bool:
        with self.sessions() as session:
            row = session.get(DesiredRow, self.board.id)
            return row is not None and row.published_at is not None

    def items(self) -> list[str]:
        with self.sessions() as session:
            return list(session.scalars(select(AnswerRow.item).order_by(AnswerRow.id)))


@pytest.fixture
def fleet(site: Site) -> Iterator[Fleet]:
    made = Fleet(site)
    yield made
    close_database(made.sessions)


def test_a_batch_is_committed_and_then_acknowledged(fleet: Fleet) -> None:
    with fleet.running() as messaging:
        wait_until(lambda: messaging.is_connected, what="the fleet is connected")
        client = fleet.connect_board()
        batch = fleet.board.batch(first=1, rows=[answer("one"), answer("two")])
        send_until_answered(fleet, client, batch)
        assert fleet.items() == ["one", "two"]


def send_until_answered(fleet: Fleet, client: Client, batch: bytes) -> Ack:
    """As a device does: send, and send again while no acknowledgement comes. The fleet may not listen yet."""
    deadline = time.monotonic() + DEADLINE_S
    while client.messages.empty():
        fleet.publish(client, "batch", batch)
        pause = time.monotonic() + 0.5
        while client.messages.empty() and time.monotonic() < pause:
            time.sleep(0.02)
        assert time.monotonic() < deadline, "no acknowledgement"
    return fleet.receive_ack(client)


def test_a_fleet_killed_between_commit_and_acknowledgement_doubles_nothing(fleet: Fleet) -> None:
    client = fleet.connect_board()
    batch = fleet.board.batch(first=1, rows=[answer("one"), answer("two")])
    with fleet.dying() as process:
        deadline = time.monotonic() + DEADLINE_S
        while process.poll() is None and time.monotonic() < deadline:
            fleet.publish(client, "batch", batch)  # again: the fleet may not listen yet
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
        assert process.poll() == -signal.SIGKILL
    assert fleet.items() == ["one", "two"]
    assert client.messages.empty()
    with fleet.running() as messaging:
        wait_until(lambda: messaging.is_connected, what="the fleet is connected")
        ack = send_until_answered(fleet, client, batch)
    assert (ack.stream, ack.sequence) == (fleet.board.stream, 2)
    assert fleet.items() == ["one", "two"]


def test_a_desired_document_waits_at_the_broker_for_a_board_that_is_off(fleet: Fleet) -> None:
    with fleet.running() as messaging:
        fleet.start_rollout()
        messaging.wake()
        wait_until(fleet.is_published, what="the broker has confirmed the document")
    desired = fleet.receive_desired(fleet.connect_board())
    assert (desired.device, desired.order) == (fleet.board.id, (1, 1))
    assert [one.release for one in desired.assignments] == ["notes"]


def test_what_was_assigned_while_the_fleet_had_no_broker_goes_out_when_it_has_one(fleet: Fleet) -> None:
    site = fleet.site
    site.runner.run(site.broker.stop())
    with fleet.running() as messaging:
        fleet.start_rollout()
        messaging.wake()
        site.runner.run(site.broker.start())
        wait_until(fleet.is_published, what="the broker has confirmed the document")
        assert fleet.receive_desired(fleet.connect_board()).order == (1, 1)


def test_a_broker_that_forgot_everything_is_told_again(fleet: Fleet) -> None:
    site = fleet.site
    with fleet.running() as messaging:
        fleet.start_rollout()
        messaging.wake()
        wait_until(fleet.is_published, what="the broker has confirmed the document")
        site.runner.run(site.broker.stop())
        shutil.rmtree(site.paths.state)
        site.paths.state.mkdir(mode=0o700)
        site.runner.run(site.broker.start())
        assert fleet.receive_desired(fleet.connect_board()).order == (1, 1)


def test_a_report_made_while_the_fleet_was_off_moves_the_rollout_when_it_is_back(fleet: Fleet) -> None:
    rollout = fleet.start_rollout()
    client = fleet.connect_board()
    target = reference("notes", 1)
    update = progress(target, UpdateState.COMMITTED, order=(1, 1))
    reported = fleet.board.reported(order=(1, 1), slots=[slot(target)], update=update)
    fleet.publish(client, "reported", fleet.board.sign_reported(reported), retain=True)
    fleet.publish(client, "presence", encode(Presence(online=True, stream=fleet.board.stream)), retain=True)
    with fleet.running():
        wait_until(lambda: state_of(fleet, rollout) == ("succeeded", True), what="report and presence were taken")


def state_of(fleet: Fleet, rollout: Rollout) -> tuple[str, bool]:
    with fleet.sessions() as session:
        return rollouts.find_rollout(session, rollout.id).state.value, is_online(fleet)


def test_a_board_that_goes_back_is_told_so_at_once(fleet: Fleet) -> None:
    fleet.start_rollout()
    with fleet.running():
        wait_until(fleet.is_published, what="the broker has confirmed the document")
        client = fleet.connect_board()
        assert fleet.receive_desired(client).order == (1, 1)
        update = progress(reference("notes", 1), UpdateState.FELL_BACK, order=(1, 1), reason="too slow")
        reported = fleet.board.reported(order=(1, 1), update=update)
        fleet.publish(client, "reported", fleet.board.sign_reported(reported), retain=True)
        following = fleet.receive_desired(client)
    assert (following.order, following.assignments) == ((1, 2), ())


def test_nonsense_is_counted_and_what_follows_is_taken(fleet: Fleet) -> None:
    stranger = Board("board-0002")
    with fleet.running() as messaging:
        wait_until(lambda: messaging.is_connected, what="the fleet is connected")
        client = fleet.connect_board()
        batch = fleet.board.batch(first=1, rows=[answer("one")])
        send_until_answered(fleet, client, batch)
        fleet.publish(client, "nonsense", b"\x00")
        fleet.publish(client, "presence", json.dumps({"online": "perhaps"}).encode())
        payload = encode(fleet.board.plain_batch(first=2, rows=[answer("two")]))
        fleet.publish(client, "batch", stranger.sign(payload, envelope.BATCH))
        fleet.publish(client, "batch", fleet.board.batch(first=2, rows=[answer("three")]))
        while fleet.receive_ack(client).sequence < 2:
            pass  # of the first batch, which may have been sent twice
    assert fleet.items() == ["one", "three"]
    with fleet.sessions() as session:
        counted = {(row.channel, row.count) for row in session.scalars(select(RefusedMessages))}
    assert counted == {("presence", 1), ("batch", 1)}


def test_a_report_that_met_a_failing_database_is_taken_once_it_works(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    client = fleet.connect_board()
    with fleet.running() as messaging:
        wait_until(lambda: messaging.is_connected, what="the fleet is connected")
        rename_table(fleet, "device", "device_aside")
        presence = encode(Presence(online=True, stream=fleet.board.stream))
        fleet.publish(client, "presence", presence, retain=True)
        wait_until(lambda: "database failed" in caplog.text, what="the fleet has met the database's failure")
        rename_table(fleet, "device_aside", "device")
        wait_until(lambda: is_online(fleet), what="presence was taken")


def rename_table(fleet: Fleet, old: str, new: str) -> None:
    with fleet.sessions() as session, writing(session):
        session.execute(text(f"ALTER TABLE {old} RENAME TO {new}"))


def is_online(fleet: Fleet) -> bool:
    with fleet.sessions() as session:
        return devices.find_device(session, fleet.board.id).is_online
