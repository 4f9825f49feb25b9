"""What does a board do with a release that was revoked: while it comes, while it serves, where it would go back to?"""

import msgspec
from shoal_wire.messages import TrustReport
from shoal_wire.update import UpdateState

from tests.faults.updater.board import BoardFolder, Site
from tests.faults.updater.scripted_daemon import ScriptedDaemon

TRY_LATER = 75


def report(board: BoardFolder) -> TrustReport:
    return msgspec.json.decode((board.state / "trust-report.json").read_bytes(), type=TrustReport)


def events(daemon: ScriptedDaemon) -> dict[object, str]:
    return {name: str(detail) for name, detail in daemon.events()}


def test_board_never_goes_back_to_a_revoked_release(own_board: BoardFolder, own_site: Site) -> None:
    own_site.publisher.revoke(below=2)
    own_site.publisher.publish()
    daemon = ScriptedDaemon(own_board.state, suspect=own_site.second.manifest_sha256, latency_ms=5000.0)

    own_board.settle(daemon)

    assert own_board.ended() == (UpdateState.FELL_BACK, 2)
    assert own_board.versions() == (None, None)
    said = events(daemon)
    assert "this board keeps it until it is updated" in said["release-revoked"]
    assert "this board won't go back to it" in said["previous-revoked"]


def test_board_keeps_a_revoked_release_that_serves_while_nothing_better_comes(
    own_board: BoardFolder, own_site: Site
) -> None:
    own_site.publisher.revoke(below=2)
    own_site.publisher.publish()
    daemon = ScriptedDaemon(own_board.state, suspect=own_site.second.manifest_sha256, fails_golden=True)

    own_board.settle(daemon)

    assert own_board.ended() == (UpdateState.REFUSED, 2)
    assert own_board.versions() == (1, None)
    assert report(own_board).revoked == ("yard-camera-detector",)


def test_release_that_is_revoked_while_it_comes_is_not_installed(own_board: BoardFolder, own_site: Site) -> None:
    assert own_board.start(ScriptedDaemon(own_board.state, check_short=1)).code == TRY_LATER
    assert own_board.journal().state is UpdateState.CHECKING
    own_site.publisher.revoke(below=3)
    own_site.publisher.publish()
    looked = msgspec.structs.replace(report(own_board), at=report(own_board).at - 2 * 86_400)
    (own_board.state / "trust-report.json").write_bytes(msgspec.json.encode(looked))

    own_board.settle(ScriptedDaemon(own_board.state))

    assert own_board.ended() == (UpdateState.REFUSED, 2)
    assert "below its floor, 3: it was revoked" in own_board.journal().reason
    assert own_board.versions() == (1, None)


def test_floor_holds_without_the_target_that_set_it(own_board: BoardFolder, own_site: Site) -> None:
    """A release key that was stolen can't lower it either."""
    own_site.publisher.revoke(below=3)
    own_site.publisher.publish()
    own_board.settle(ScriptedDaemon(own_board.state))
    assert own_board.ended() == (UpdateState.REFUSED, 2)
    own_site.publisher.revoke(below=1)
    own_site.publisher.publish()
    own_board.desire(own_site.publisher.desire(own_site.publisher.assign(own_site.second), generation=3))

    own_board.settle(ScriptedDaemon(own_board.state))

    assert own_board.ended() == (UpdateState.REFUSED, 3)
    assert "below its floor, 3" in own_board.journal().reason
