"""Does every desired document reach the broker, also when the connection or the fleet ends in between?"""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from shoal_fleet.database import Sessions
from shoal_fleet.devices import service as devices
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.rollouts import service
from shoal_fleet.rollouts.publication import Publication, Receipt
from shoal_fleet.rollouts.service import RolloutStart
from shoal_wire import envelope
from shoal_wire.encoding import decode
from shoal_wire.errors import Untrusted
from shoal_wire.messages import Desired, ProbationLimits

from tests.unit.fleet.boards import NOW, Board, add_release


class RecordingPublisher:
    """Takes what is published as long as it is connected; a test confirms it."""

    def __init__(self) -> None:
        self.is_connected = True
        self.sent: list[tuple[str, bytes, bool]] = []
        self.receipts: list[Receipt] = []

    def publish(self, topic: str, payload: bytes, *, retain: bool, receipt: Receipt | None) -> bool:
        if not self.is_connected:
            return False
        self.sent.append((topic, payload, retain))
        assert receipt is not None
        self.receipts.append(receipt)
        return True


@pytest.fixture
def publisher() -> RecordingPublisher:
    return RecordingPublisher()


@pytest.fixture
def publication(sessions: Sessions, keys: OnlineKeys, publisher: RecordingPublisher) -> Publication:
    add_release(sessions, keys, name="notes", version=1)
    return make_publication(sessions, keys, publisher)


def make_publication(sessions: Sessions, keys: OnlineKeys, publisher: RecordingPublisher) -> Publication:
    return Publication(sessions, publisher=publisher, signer=keys.assignment, clock=lambda: NOW)


def start(sessions: Sessions, keys: OnlineKeys, *, now: float = NOW) -> None:
    with sessions() as session:
        wanted = RolloutStart("notes", 1, ("all",), ProbationLimits())
        service.start(session, wanted, by="user:anna", vault=keys.vault, now=now)


def test_publishes_a_signed_retained_document(
    sessions: Sessions, keys: OnlineKeys, board: Board, publication: Publication, publisher: RecordingPublisher
) -> None:
    start(sessions, keys)
    publication.publish_pending()
    ((topic, payload, retain),) = publisher.sent
    assert (topic, retain) == (f"shoal/v1/{board.id}/down/desired", True)
    key = envelope.parse_public_key(keys.public.assignment, what="key")
    desired = decode(envelope.verify(payload, envelope.DESIRED, [key], what="desired"), Desired, what="desired")
    assert (desired.device, desired.order) == (board.id, (1, 1))
    with pytest.raises(Untrusted):
        envelope.verify(payload, envelope.DESIRED, [Ed25519PrivateKey.generate().public_key()], what="desired")


def test_what_is_under_way_or_confirmed_is_not_published_again(
    sessions: Sessions, keys: OnlineKeys, board: Board, publication: Publication, publisher: RecordingPublisher
) -> None:
    start(sessions, keys)
    publication.publish_pending()
    publication.publish_pending()
    publication.confirm(publisher.receipts[0])
    publication.publish_pending()
    assert len(publisher.sent) == 1


def test_a_new_connection_brings_every_document_again(
    sessions: Sessions, keys: OnlineKeys, board: Board, publication: Publication, publisher: RecordingPublisher
) -> None:
    start(sessions, keys)
    publication.publish_all()
    publication.confirm(publisher.receipts[0])
    publication.publish_all()
    publication.publish_all()
    assert [receipt.order for receipt in publisher.receipts] == [(1, 1)] * 3


def test_what_was_written_without_a_connection_goes_out_at_the_next_one(
    sessions: Sessions, keys: OnlineKeys, board: Board, publication: Publication, publisher: RecordingPublisher
) -> None:
    publisher.is_connected = False
    start(sessions, keys)
    publication.publish_pending()
    publisher.is_connected = True
    publication.publish_pending()
    assert [receipt.order for receipt in publisher.receipts] == [(1, 1)]


def test_a_fleet_that_was_killed_before_the_confirmation_publishes_again(
    sessions: Sessions, keys: OnlineKeys, board: Board, publication: Publication, publisher: RecordingPublisher
) -> None:
    start(sessions, keys)
    publication.publish_pending()
    make_publication(sessions, keys, publisher).publish_pending()
    assert [receipt.order for receipt in publisher.receipts] == [(1, 1), (1, 1)]


def test_a_late_confirmation_of_an_older_document_leaves_the_newer_pending(
    sessions: Sessions, keys: OnlineKeys, board: Board, publication: Publication, publisher: RecordingPublisher
) -> None:
    start(sessions, keys)
    publication.publish_pending()
    start(sessions, keys)
    publication.confirm(publisher.receipts[0])
    publication.publish_pending()
    assert [receipt.order for receipt in publisher.receipts] == [(1, 1), (1, 2)]
    make_publication(sessions, keys, publisher).publish_pending()
    assert publisher.receipts[-1].order == (1, 2)


def test_a_revoked_device_gets_nothing(
    sessions: Sessions, keys: OnlineKeys, board: Board, publication: Publication, publisher: RecordingPublisher
) -> None:
    start(sessions, keys)
    with sessions() as session:
        devices.revoke(session, board.id, actor="user:anna", now=NOW)
    publication.publish_all()
    publication.publish_pending()
    assert publisher.sent == []


@pytest.mark.parametrize(
    ("dated", "published"),
    [(NOW - 1e6, NOW - 1e6), (NOW + 600.0, NOW + 600.0), (NOW + 5 * 365 * 86_400.0, NOW)],
    ids=["earlier", "nearly now", "ahead"],
)
def test_a_document_that_a_clock_dated_ahead_is_dated_anew(
    dated: float,
    published: float,
    sessions: Sessions,
    keys: OnlineKeys,
    board: Board,
    publication: Publication,
    publisher: RecordingPublisher,
) -> None:
    """Boards judge expiry by its time: with other keys of the fleet it would stop them again."""
    start(sessions, keys, now=dated)
    publication.publish_all()
    key = envelope.parse_public_key(keys.public.assignment, what="key")
    raw = envelope.verify(publisher.sent[0][1], envelope.DESIRED, [key], what="desired")
    desired = decode(raw, Desired, what="desired")
    assert (desired.issued_at, desired.order, len(desired.assignments)) == (published, (1, 1), 1)
