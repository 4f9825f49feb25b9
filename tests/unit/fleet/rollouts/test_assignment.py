"""Who gets content keys, by which suite, and how many of them fit into a document?"""

import pytest
from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices import service as devices
from shoal_fleet.errors import Refused
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.releases import service as releases
from shoal_fleet.rollouts import service
from shoal_fleet.rollouts.assignment import assign, open_release
from shoal_fleet.rollouts.desired import MAX_DESIRED_BYTES
from shoal_fleet.rollouts.models import DesiredRow, GrantCounter
from shoal_fleet.rollouts.service import RolloutStart
from shoal_wire.encoding import encode
from shoal_wire.grant import MLKEM768_X25519, GrantContext, RecipientKeys, open_grant
from shoal_wire.hybrid_key import HybridPrivateKey, hybrid_public_text
from shoal_wire.messages import Assignment, ProbationLimits
from sqlalchemy import select

from tests.unit.fleet.boards import NOW, Board, add_release

HYBRID = HybridPrivateKey(bytes(range(96)))


@pytest.fixture
def hybrid_board(sessions: Sessions, board: Board) -> Board:
    """The board, which has offered a hybrid key."""
    with sessions() as session, writing(session):
        devices.find_device(session, board.id).hybrid_key = hybrid_public_text(HYBRID.public_key())
    return board


def make_assignment(sessions: Sessions, keys: OnlineKeys, board: Board, *, version: int = 1) -> Assignment:
    with sessions() as session, writing(session):
        opened = open_release(session, releases.find_release(session, name="notes", version=version), vault=keys.vault)
        device = devices.find_device(session, board.id)
        return assign(session, opened, device=device, probation=ProbationLimits())


def roll_out(sessions: Sessions, keys: OnlineKeys) -> int:
    """Bytes of the board's desired document once it is assigned the release."""
    with sessions() as session:
        wanted = RolloutStart("notes", 1, ["all"], ProbationLimits())
        service.start(session, wanted, by="user:anna", vault=keys.vault, now=NOW)
        return len(session.scalars(select(DesiredRow)).one().document)


def test_board_that_offered_a_hybrid_key_gets_hybrid_grants(
    sessions: Sessions, keys: OnlineKeys, hybrid_board: Board
) -> None:
    content_keys = add_release(sessions, keys, name="notes", version=1)
    grants = make_assignment(sessions, keys, hybrid_board).grants
    context = GrantContext("notes", 1, hybrid_board.id)
    both = RecipientKeys(hybrid_board.hpke, HYBRID)
    assert {grant.suite for grant in grants} == {MLKEM768_X25519}
    assert {grant.ciphertext_sha256: open_grant(grant, both, context=context) for grant in grants} == content_keys


@pytest.mark.parametrize("files", [1, 2])
def test_revoked_board_gets_no_grant_whoever_asks(
    sessions: Sessions, keys: OnlineKeys, board: Board, files: int
) -> None:
    add_release(sessions, keys, name="notes", version=1, files=files)
    with sessions() as session:
        devices.revoke(session, board.id, actor="user:anna", now=NOW)
    with pytest.raises(Refused, match="is revoked, so it gets no content keys any more"):
        make_assignment(sessions, keys, board)
    with sessions() as session:
        assert session.scalars(select(GrantCounter)).all() == []


def test_hybrid_grant_costs_as_much_as_its_kem_says(sessions: Sessions, keys: OnlineKeys, hybrid_board: Board) -> None:
    add_release(sessions, keys, name="notes", version=1, files=1)
    grant = make_assignment(sessions, keys, hybrid_board).grants[0]
    # FIPS 203: 1,088 bytes of ciphertext; X25519: 32; the content key 32; the tag 16. In base64: four thirds of that.
    assert len(grant.sealed_key) == (1088 + 32 + 32 + 16) // 3 * 4 + 4
    assert 1_700 < len(encode(grant)) < 1_750


def test_desired_document_holds_a_hundred_hybrid_grants(
    sessions: Sessions, keys: OnlineKeys, hybrid_board: Board
) -> None:
    add_release(sessions, keys, name="notes", version=1, files=100)
    assert roll_out(sessions, keys) < MAX_DESIRED_BYTES


def test_more_hybrid_grants_than_the_broker_takes_are_refused_whole(
    sessions: Sessions, keys: OnlineKeys, hybrid_board: Board
) -> None:
    add_release(sessions, keys, name="notes", version=1, files=130)
    with pytest.raises(Refused, match=rf"expected at most {MAX_DESIRED_BYTES}: .*too many files"):
        roll_out(sessions, keys)
    with sessions() as session:
        assert session.scalars(select(GrantCounter)).all() == []


def test_as_many_grants_by_the_older_suite_fit(sessions: Sessions, keys: OnlineKeys, board: Board) -> None:
    assert board.hpke
    add_release(sessions, keys, name="notes", version=1, files=700)
    assert roll_out(sessions, keys) < MAX_DESIRED_BYTES
