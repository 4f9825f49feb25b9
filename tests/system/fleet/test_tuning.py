"""Does what one board found out reach another of its kind, over a real broker?"""

import time
from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from shoal_fleet.database import Sessions
from shoal_fleet.devices import service as devices
from shoal_fleet.messaging.worker import Messaging
from shoal_fleet.rollouts import service as rollouts
from shoal_fleet.rollouts.service import RolloutStart
from shoal_wire import envelope
from shoal_wire.encoding import decode
from shoal_wire.messages import Ack, Desired, ProbationLimits
from shoal_wire.tuning import BoardKind

from tests.system.fleet.broker_site import ADDRESS, DEADLINE_S, Client, Site, wait_until
from tests.unit.fleet.boards import Board, add_release, close_database, make_database, make_keys, reference, weights_of
from tests.unit.fleet.telemetry.rows import BOARD, LITERT, tuned

EMULATED = replace(BOARD, is_emulated=True)


class Fleet:
    """The fleet's database and its connection, with one release."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.sessions: Sessions = make_database(site.folder / "fleet.db")
        self._keys = make_keys()
        self._key = envelope.parse_public_key(self._keys.public.assignment, what="key")
        add_release(self.sessions, self._keys, name="notes", version=1)
        self.messaging = Messaging(
            self.sessions,
            host=ADDRESS,
            port=site.port,
            context=site.context(site.authority.issue_fleet(now=site.now)),
            signer=self._keys.assignment,
            vault=self._keys.vault,
            clock=time.time,
        )

    def connect(self, board: Board) -> Client:
        """The board's connection; it listens to all that is for it."""
        board.enrol(self.sessions)
        client = self.site.connect(self.site.device(board.id))
        assert client.subscribe(f"shoal/v1/{board.id}/down/+").startswith("Granted")
        return client

    def assign(self, board: Board) -> None:
        wanted = RolloutStart("notes", 1, (board.id,), ProbationLimits())
        with self.sessions() as session:
            rollouts.start(session, wanted, by="user:anna", vault=self._keys.vault, now=time.time())
        self.messaging.wake()

    def tells_its_kind(self, board: Board) -> bool:
        with self.sessions() as session:
            return devices.find_device(session, board.id).fingerprint is not None

    def receive_ack(self, client: Client) -> Ack:
        return decode(envelope.verify(client.receive()[1], envelope.ACK, [self._key], what="ack"), Ack, what="ack")

    def receive_desired(self, client: Client) -> Desired:
        payload = envelope.verify(client.receive()[1], envelope.DESIRED, [self._key], what="desired")
        return decode(payload, Desired, what="desired")


@pytest.fixture
def fleet(site: Site) -> Iterator[Fleet]:
    made = Fleet(site)
    site.runner.run(made.messaging.__aenter__())
    try:
        wait_until(lambda: made.messaging.is_connected, what="the fleet is connected")
        yield made
    finally:
        site.runner.run(made.messaging.__aexit__(None, None, None))
        close_database(made.sessions)


@pytest.mark.parametrize(("kind", "boards"), [(BOARD, [1]), (EMULATED, [])], ids=["real", "emulated"])
def test_a_new_board_gets_the_choice_of_one_of_its_kind(fleet: Fleet, kind: BoardKind, boards: list[int]) -> None:
    elder, newcomer = Board("board-0001"), Board("board-0002")
    found = tuned(
        replace(LITERT, variant="only"), release=reference("notes", 1), files=(weights_of("notes", 1),), board=kind
    )
    tell(fleet, elder, fleet.connect(elder), found=elder.batch(first=1, rows=[found]))

    client = fleet.connect(newcomer)
    reported = newcomer.sign_reported(newcomer.reported(kind=kind))
    client.publish(f"shoal/v1/{newcomer.id}/up/reported", payload=reported, retain=True)
    wait_until(lambda: fleet.tells_its_kind(newcomer), what="the report was taken")
    fleet.assign(newcomer)

    (assignment,) = fleet.receive_desired(client).assignments
    assert [known.boards for known in assignment.known] == boards
    for known in assignment.known:
        assert (known.model, known.candidate, known.files) == ("notes", found.choice, found.files)


def tell(fleet: Fleet, board: Board, client: Client, *, found: bytes) -> None:
    """As a device does: send, and send again while no acknowledgement comes. The fleet may not listen yet."""
    deadline = time.monotonic() + DEADLINE_S
    while client.messages.empty():
        client.publish(f"shoal/v1/{board.id}/up/batch", payload=found)
        pause = time.monotonic() + 0.5
        while client.messages.empty() and time.monotonic() < pause:
            time.sleep(0.02)
        assert time.monotonic() < deadline, "no acknowledgement"
    assert fleet.receive_ack(client).sequence == 1
