"""Does the daemon do its part of an update, deliver every answer once, and refuse what isn't its fleet's?

The real daemon as a program, a real broker, and an updater and a front that are fakes which speak the real channel.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from shoal_agent.daemon.memory import children
from shoal_agent.files import DiskFiles
from shoal_agent.status import read_status
from shoal_wire import envelope
from shoal_wire.envelope import KeySigner
from shoal_wire.messages import Ack, Desired, Reported
from shoal_wire.update import UpdateState

from tests.system.agent.board import DEVICE_ID, MODEL, Board
from tests.system.agent.fake_fleet import FakeFleet, with_field
from tests.system.agent.fake_front import POISON
from tests.system.fleet.broker_site import wait_until


def committed(report: Reported, *, version: int, generation: int) -> bool:
    """Whether the report says that this version was committed and serves."""
    slots = {slot.release: slot for slot in report.slots}
    slot, update = slots.get(MODEL), report.update
    return (
        slot is not None
        and slot.current is not None
        and slot.current.version == version
        and slot.serving == slot.current
        and update is not None
        and update.state is UpdateState.COMMITTED
        and update.generation == generation
    )


def ended(report: Reported, *, state: UpdateState, generation: int) -> bool:
    update = report.update
    return update is not None and update.state is state and update.generation == generation


def wait_committed(board: Board, *, version: int, generation: int) -> None:
    wait_until(
        lambda: board.fleet.last_report(lambda report: committed(report, version=version, generation=generation)),
        what=f"version {version} is reported as committed",
    )


def wait_serving(board: Board, *, version: int) -> None:
    def serves(report: Reported) -> bool:
        return any(slot.serving is not None and slot.serving.version == version for slot in report.slots)

    wait_until(lambda: board.fleet.last_report(serves), what=f"version {version} serves")


def wait_left(board: Board, most: int) -> None:
    wait_until(lambda: len(list(board.items.iterdir())) <= most, what="some items are done")


def wait_more_answers(board: Board, before: int) -> None:
    wait_until(lambda: len(board.fleet.answers()) > before, what="answers arrive")


def wait_answers(board: Board, names: set[str]) -> None:
    """Every item has exactly one answer in the fleet, by answer id, and none is left in its folder."""
    wait_until(lambda: {answer.item for answer in board.fleet.answers()} >= names, what="all answers arrived")
    wait_until(lambda: not list(board.items.iterdir()), what="all items are done")
    assert len({answer.answer_id for answer in board.fleet.answers()}) == len(names)


def test_updates_and_delivers_every_answer_once(board: Board) -> None:
    board.trust_fleet()
    names = board.add_items(30)
    board.fleet.assign(board.assignment(1), generation=1)
    with board.daemon():
        wait_committed(board, version=1, generation=1)
        wait_answers(board, names)
        assert len(board.fleet.answers()) == len(names)
        board.fleet.assign(board.assignment(2), generation=2)
        wait_serving(board, version=2)
        names |= board.add_items(10, prefix="more")
        wait_committed(board, version=2, generation=2)
        wait_answers(board, names)
        wait_until(lambda: bool(board.fleet.counts()), what="counts arrive")
    report = board.fleet.reports[-1]
    assert report.slots[0].previous is not None and report.slots[0].previous.version == 1
    assert (report.slots[0].engine, report.slots[0].placement) == ("fake", ("cpu",))
    counters = [report.counter for report in board.fleet.reports]
    assert counters == sorted(set(counters))
    status = read_status(DiskFiles(), board.state)
    assert not status.is_running
    assert status.slots[0].current is not None and status.slots[0].current.version == 2


def test_measures_its_processes(board: Board) -> None:
    board.trust_fleet()
    board.add_items(10)
    board.fleet.assign(board.assignment(1), generation=1)
    with board.daemon() as daemon:
        wait_until(lambda: {row.name for row in board.fleet.processes()} >= {"daemon", "front"}, what="memory rows")
        assert read_status(DiskFiles(), board.state).is_running
        assert len(children(daemon.pid)) >= 1
    assert all(0 < row.pss_bytes <= row.rss_bytes for row in board.fleet.processes())


def test_looks_for_keys_no_more_once_they_are_known(board: Board) -> None:
    """With nothing to do, a board leaves its disk and the network alone."""
    board.trust_fleet()
    refreshed = board.state / "refreshed"
    with board.daemon():
        wait_until(lambda: len(board.fleet.processes()) > 1 and refreshed.exists(), what="rows and keys")
        refreshed.unlink()
        before = len(board.fleet.processes())
        wait_until(lambda: len(board.fleet.processes()) > before + 5, what="half a minute of rows")
        assert not refreshed.exists()


def test_says_that_it_is_online_and_offline_when_it_stops(board: Board) -> None:
    with board.daemon() as daemon:
        wait_until(lambda: bool(board.fleet.reports), what="a first report")
        assert board.fleet.presence[-1].online
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(20) == 0
        wait_until(lambda: not board.fleet.presence[-1].online, what="the last will")


def test_killed_daemon_loses_and_doubles_nothing(board: Board) -> None:
    board.trust_fleet()
    names: set[str] = set()
    board.fleet.assign(board.assignment(1), generation=1)
    for number in range(6):
        before = len(board.fleet.answers())
        names |= board.add_items(15, prefix=f"start-{number}")
        daemon = board.start()
        if number % 2:
            wait_more_answers(board, before)
        else:
            wait_left(board, len(list(board.items.iterdir())) - 1)
        daemon.kill()
        daemon.communicate()
    with board.daemon():
        wait_answers(board, names)
        names |= board.add_items(10, prefix="more")  # probation starts over with each front
        wait_committed(board, version=1, generation=1)
        wait_answers(board, names)
    assert board.fleet.lost == 0
    assert len(board.fleet.watermarks) >= 3


def test_children_end_with_a_killed_daemon(board: Board) -> None:
    board.trust_fleet()
    board.fleet.assign(board.assignment(1), generation=1)
    daemon = board.start()
    wait_until(lambda: len(children(daemon.pid)) == 2, what="updater and front run")
    orphans = children(daemon.pid)
    daemon.kill()
    daemon.communicate()
    wait_until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in orphans), what="children have ended")


def test_updater_that_dies_in_every_state_is_started_again(board: Board) -> None:
    board.trust_fleet()
    names = board.add_items(10)
    board.fleet.assign(board.assignment(1), generation=1)
    with board.daemon(updater="crash"):
        wait_committed(board, version=1, generation=1)
        wait_answers(board, names)
    assert len(list(board.state.glob("crashed-in-*"))) == 3
    assert len(board.fleet.events("updater-ended")) == 3


@pytest.mark.parametrize("behaviour", ["dies", "babbles"])
def test_front_that_ends_is_started_again(board: Board, behaviour: str) -> None:
    board.trust_fleet()
    names = board.add_items(20)
    board.fleet.assign(board.assignment(1), generation=1)
    with board.daemon(front=behaviour):
        wait_committed(board, version=1, generation=1)
        wait_answers(board, names)
        wait_until(lambda: bool(board.fleet.events("front-ended")), what="the fleet hears of it")
    assert (board.state / "misbehaved").exists()


def test_release_that_fails_its_golden_cases_is_not_switched_to(board: Board) -> None:
    board.trust_fleet()
    board.fleet.assign(board.assignment(1), generation=1)
    with board.daemon(front="refuse"):
        wait_until(
            lambda: board.fleet.last_report(lambda report: ended(report, state=UpdateState.REFUSED, generation=1)),
            what="the refusal is reported",
        )
    assert board.fleet.reports[-1].slots[0].refused == (1,)
    assert board.fleet.reports[-1].slots[0].current is None


def test_release_that_cannot_be_loaded_goes_back(board: Board) -> None:
    board.trust_fleet()
    board.add_items(10)
    board.fleet.assign(board.assignment(1), generation=1)
    with board.daemon(front="load-fails"):
        wait_committed(board, version=1, generation=1)
        board.fleet.assign(board.assignment(2), generation=2)
        wait_until(
            lambda: board.fleet.last_report(
                lambda report: (
                    ended(report, state=UpdateState.FELL_BACK, generation=2)
                    and report.slots[0].serving is not None
                    and report.slots[0].serving.version == 1
                )
            ),
            what="the fall-back is reported",
        )


def test_previous_release_stands_in_for_one_that_crashes(board: Board) -> None:
    """After its commit: slots.json goes on to call the new release current, the report says what serves."""
    board.trust_fleet()
    board.add_items(10)
    board.fleet.assign(board.assignment(1), generation=1)
    with board.daemon(front="crash-loops"):
        wait_committed(board, version=1, generation=1)
        board.fleet.assign(board.assignment(2), generation=2)
        wait_serving(board, version=2)
        board.add_items(7, prefix="probation")
        wait_committed(board, version=2, generation=2)
        names = board.add_items(10, prefix="more")
        wait_until(
            lambda: board.fleet.last_report(
                lambda report: (
                    (slot := report.slots[0]).current is not None
                    and slot.current.version == 2
                    and slot.serving is not None
                    and slot.serving.version == 1
                )
            ),
            what="the first release stands in for the second",
        )
        wait_until(lambda: not list(board.items.iterdir()), what="no item is left")
        wait_until(lambda: bool(board.fleet.events("standing-in")), what="the fleet hears of it")
        assert {answer.item for answer in board.fleet.answers()} >= names
    assert "its workers died" in board.fleet.events("standing-in")[0].detail
    status = read_status(DiskFiles(), board.state)
    assert status.slots[0].current is not None and status.slots[0].current.version == 2


def test_item_that_two_workers_died_of_is_known_to_the_next_front(board: Board) -> None:
    board.trust_fleet()
    names = board.add_items(20)
    board.fleet.assign(board.assignment(1), generation=1)
    with board.daemon(front="poisoned"):
        wait_answers(board, names)
        wait_until(lambda: bool(board.fleet.events("item-quarantined")), what="the fleet hears of it")
    (died, again) = board.fleet.events("worker-died")
    assert died.detail == again.detail and "signal 11" in died.detail and "in fake 1" in died.detail
    assert load_quarantine(board) == {POISON: 2}


def load_quarantine(board: Board) -> dict[str, int]:
    items = json.loads((board.state / "quarantine.json").read_bytes())["items"]
    return {item["item_sha256"]: item["deaths"] for item in items}


def test_grant_for_another_device_is_refused(board: Board) -> None:
    board.trust_fleet()
    board.fleet.assign(board.assignment(1, device="d-another"), generation=1)
    with board.daemon():
        wait_until(
            lambda: board.fleet.last_report(lambda report: ended(report, state=UpdateState.REFUSED, generation=1)),
            what="the refusal is reported",
        )
    update = board.fleet.reports[-1].update
    assert update is not None and f"not sealed to {DEVICE_ID}" in update.reason


def test_rows_wait_for_a_fleet_that_is_deaf(board: Board) -> None:
    board.trust_fleet()
    names = board.add_items(10)
    board.fleet.deaf = 1
    board.fleet.assign(board.assignment(1), generation=1)
    with board.daemon():
        wait_answers(board, names)
    assert board.fleet.lost == 0


def test_comes_back_after_the_broker_did(board: Board) -> None:
    board.trust_fleet()
    site = board.site
    with board.daemon():
        wait_until(lambda: bool(board.fleet.reports), what="a first report")
        board.fleet.close()
        site.runner.run(site.broker.stop())
        names = board.add_items(10)
        site.runner.run(site.broker.start())
        board.fleet = FakeFleet(
            site.connect_fleet(),
            device=DEVICE_ID,
            identity=board.keys.identity.public_key(),
            key=ed25519.Ed25519PrivateKey.generate(),
        )
        board.trust_fleet()
        board.fleet.assign(board.assignment(1), generation=1)
        wait_committed(board, version=1, generation=1)
        wait_answers(board, names)


def test_refuses_a_document_signed_by_a_foreign_key(board: Board) -> None:
    board.trust_fleet()
    foreign = KeySigner(ed25519.Ed25519PrivateKey.generate())
    with board.daemon():
        board.fleet.assign(board.assignment(1), generation=7, key=foreign)
        wait_until(lambda: (board.state / "refreshed").exists(), what="it looks for newer keys")
        wait_until(lambda: bool(board.fleet.events("desired-waits")), what="the fleet hears of it")
        assert not (board.state / "desired.dsse").exists()
        board.fleet.assign(board.assignment(1), generation=1)
        wait_until(lambda: board.fleet.last_report(lambda report: report.generation == 1), what="the good one counts")
    assert all(report.generation in (0, 1) for report in board.fleet.reports)


WRONG_DESIRED: dict[str, dict[str, object]] = {
    "wrong type": {"generation": "one"},
    "negative generation": {"generation": -1},
    "critical field that isn't known": {"critical": ["never-heard-of"], "never-heard-of": 1},
    "other device": {"device": "d-another"},
    "assignments that are no list": {"assignments": {"release": MODEL}},
    "protocol zero": {"protocol": 0},
}


def test_refuses_wrong_desired_documents_and_goes_on(board: Board) -> None:
    board.trust_fleet()
    fleet = board.fleet
    (board.state / "trust.json").write_bytes(fleet.keys)
    good = Desired(device=DEVICE_ID, epoch=1, generation=5, issued_at=0.0, assignments=())
    with board.daemon():
        wait_until(lambda: bool(fleet.reports), what="a first report")
        for fields in WRONG_DESIRED.values():
            fleet.publish_desired(envelope.seal(with_field(good, **fields), envelope.DESIRED, fleet.signer))
        fleet.publish_desired(b"{")
        fleet.publish_desired(envelope.seal(with_field(good), envelope.ACK, fleet.signer))
        changed = bytearray(envelope.seal(with_field(good), envelope.DESIRED, fleet.signer))
        changed[changed.index(b'"sig":"') + 9] ^= 1
        fleet.publish_desired(bytes(changed))
        wait_until(
            lambda: len(fleet.events("desired-refused")) == len(WRONG_DESIRED) + 3, what="all of them were refused"
        )
        assert not (board.state / "desired.dsse").exists()
        fleet.assign(generation=6)
        wait_until(lambda: fleet.last_report(lambda report: report.generation == 6), what="a good one is accepted")
        fleet.assign(generation=5)
        fleet.assign(generation=7)
        wait_until(lambda: fleet.last_report(lambda report: report.generation == 7), what="a newer one is accepted")
    assert [report.generation for report in fleet.reports if report.generation] == sorted(
        report.generation for report in fleet.reports if report.generation
    )


def test_an_older_document_is_not_accepted_after_a_restart(board: Board) -> None:
    (board.state / "trust.json").write_bytes(board.fleet.keys)
    board.fleet.assign(generation=6)
    with board.daemon():
        wait_until(lambda: board.fleet.last_report(lambda report: report.generation == 6), what="accepted")
    (board.state / "desired.dsse").unlink()
    board.fleet.assign(generation=5)
    with board.daemon():
        wait_until(lambda: len({report.stream for report in board.fleet.reports}) == 2, what="a report after it")
        board.fleet.assign(generation=6)
        wait_until(lambda: (board.state / "desired.dsse").exists(), what="the same one is taken again")
    assert {report.generation for report in board.fleet.reports} <= {0, 6}


def test_wrong_acknowledgements_remove_nothing(board: Board) -> None:
    (board.state / "trust.json").write_bytes(board.fleet.keys)
    fleet = board.fleet
    fleet.deaf = 1000
    board.trust_fleet()
    names = board.add_items(6)
    fleet.assign(board.assignment(1), generation=1)
    foreign = KeySigner(ed25519.Ed25519PrivateKey.generate())
    with board.daemon():
        wait_until(lambda: not list(board.items.iterdir()), what="all answers wait in the outbox")
        stream = fleet.reports[-1].stream
        ack = Ack(device=DEVICE_ID, stream=stream, sequence=3)
        fleet.publish_ack(envelope.seal(with_field(ack), envelope.ACK, foreign))
        fleet.publish_ack(envelope.seal(with_field(ack, sequence="3"), envelope.ACK, fleet.signer))
        fleet.publish_ack(envelope.seal(with_field(ack, sequence=10**6), envelope.ACK, fleet.signer))
        fleet.publish_ack(envelope.seal(with_field(ack, device="d-another"), envelope.ACK, fleet.signer))
        fleet.publish_ack(envelope.seal(with_field(ack), envelope.DESIRED, fleet.signer))
        fleet.publish_ack(b"null")
        fleet.deaf = 0
        wait_answers(board, names)
        wait_until(lambda: len(fleet.events("message-refused")) == 4, what="the fleet hears of them")
        wait_until(lambda: bool(fleet.events("ack-refused")), what="the fleet hears of the foreign one")
    assert fleet.lost == 0


def test_only_one_daemon_uses_a_state_folder(board: Board) -> None:
    with board.daemon():
        wait_until(lambda: bool(board.fleet.reports), what="a first report")
        second = board.start()
        _, log = second.communicate(timeout=60)
        assert second.returncode == 1
        assert "another shoal-agent runs" in log


def test_tells_the_service_manager(board: Board, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        os.environ["NOTIFY_SOCKET"], os.environ["WATCHDOG_USEC"] = str(tmp_path / "notify"), "200000"
        try:
            daemon = board.start()
        finally:
            del os.environ["NOTIFY_SOCKET"], os.environ["WATCHDOG_USEC"]
        heard = [manager.recv(100).decode() for _ in range(3)]
        daemon.terminate()
        daemon.communicate()
        assert heard == ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]


def test_status_command_says_what_the_board_holds(board: Board) -> None:
    board.trust_fleet()
    board.add_items(10)
    board.fleet.assign(board.assignment(1), generation=1)
    with board.daemon():
        wait_committed(board, version=1, generation=1)
        command = [str(Path(sys.executable).with_name("shoal-agent")), "status", "--json", "--state", str(board.state)]
        status = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    assert status["is_running"] is True
    assert (status["device"], status["slots"][0]["current"]["version"]) == (DEVICE_ID, 1)
    assert status["update"]["state"] == "committed"


def test_the_installed_command_runs_the_real_updater(board: Board) -> None:
    """Its TUF root is damaged, which the updater finds; the fleet hears of it."""
    (board.state / "trust.json").write_bytes(board.fleet.keys)
    (board.state / "tuf").mkdir()
    (board.state / "tuf" / "root.json").write_bytes(b"{")
    board.fleet.assign(board.assignment(1), generation=1)
    command = [str(Path(sys.executable).with_name("shoal-agent")), "run", "--state", str(board.state)]
    daemon = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: bool(board.fleet.events("updater-ended")), what="the fleet hears of it")
        wait_until(
            lambda: board.fleet.last_report(
                lambda report: report.update is not None and report.update.target.version == 1
            ),
            what="the update is reported",
        )
    finally:
        daemon.terminate()
        _, log = daemon.communicate(timeout=60)
        print(log)
    assert daemon.returncode == 0
    assert "root.json" in log
