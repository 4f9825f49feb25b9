"""Does every row of a board reach the fleet's database once, whatever happens in between?

3,000 answers come while the fleet is away, over a broker that is a service of its own and drops what it can't hold.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest
from shoal_agent.state import OUTBOX
from shoal_fleet.broker.process import find_mosquitto

from tests.faults.system.processes import wait_for
from tests.faults.system.releases import GOOD
from tests.faults.system.stage import Stage, open_stage

ROWS = 3_000


class BrokerService:
    """Mosquitto on the files that a fleet wrote, which holds next to nothing for who is slow."""

    def __init__(self, folder: Path) -> None:
        self._configuration = folder / "small.conf"
        written = (folder / "mosquitto.conf").read_text()
        small = re.sub(r"^(max_inflight_messages|max_queued_messages) \d+$", r"\1 1", written, flags=re.MULTILINE)
        assert small.count(" 1\n") >= 2
        self._configuration.write_text(small)
        self._log = folder / "mosquitto.log"
        self.start()

    @property
    def has_dropped(self) -> bool:
        return "messages are being dropped" in self._log.read_text()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([find_mosquitto(), "-c", str(self._configuration)], stderr=log)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory, folders: dict[int, Path]) -> Iterator[tuple[Stage, BrokerService]]:
    """A fleet, its broker apart, and a board on which a release serves."""
    version = GOOD[0]
    environment = {"SHOAL_BROKER": "unit"}
    with open_stage(tmp_path_factory.mktemp("stage"), {version: folders[version]}, environment=environment) as stage:
        broker = BrokerService(stage.site.state / "broker")
        try:
            stage.board.start()
            stage.update(version)
            yield stage, broker
        finally:
            broker.kill()


def give(stage: Stage, count: int) -> None:
    """Items that are no sounds: each is answered with the reason."""
    for _ in range(count):
        stage.board.give(b"no sound", prefix="item")


def wait_until_answered(stage: Stage) -> None:
    """An item's file goes once its answer is in the outbox."""
    wait_for(lambda: not any(stage.board.items.iterdir()), what="all items are in the outbox")


def give_and_wait(stage: Stage, count: int) -> None:
    give(stage, count)
    wait_until_answered(stage)


def waiting_rows(stage: Stage) -> int:
    """Answers and events. Counts don't matter, and the file learns of an acknowledgement with its next rows."""
    with closing(connect(f"file:{stage.board.state / OUTBOX}?mode=ro", uri=True)) as database:
        (count,) = database.execute("SELECT COUNT(*) FROM waiting WHERE NOT is_count").fetchone()
    return int(count)


def expect_all_delivered(stage: Stage) -> None:
    stage.site.expect_every_answer_once(stage.board)
    wait_for(lambda: waiting_rows(stage) == 0, what=lambda: f"{waiting_rows(stage)} rows still wait on the board")


def test_rows_that_the_broker_drops_are_sent_again(apart: tuple[Stage, BrokerService]) -> None:
    stage, broker = apart
    with stage.site.suspended():
        give_and_wait(stage, ROWS)
        wait_for(lambda: broker.has_dropped, what="the broker dropped batches")
    expect_all_delivered(stage)


def test_no_row_is_lost_with_a_broker_that_is_killed(apart: tuple[Stage, BrokerService]) -> None:
    stage, broker = apart
    stage.site.kill()
    give_and_wait(stage, ROWS // 2)
    broker.kill()
    give_and_wait(stage, ROWS // 2)
    assert waiting_rows(stage) >= ROWS
    broker.start()
    stage.site.start()
    expect_all_delivered(stage)


def test_no_row_is_lost_with_a_daemon_that_is_killed(apart: tuple[Stage, BrokerService]) -> None:
    """As it fills its outbox, and again as it empties it."""
    stage, _ = apart
    stage.site.kill()
    give(stage, ROWS)
    wait_for(lambda: waiting_rows(stage) > ROWS // 3, what="a third of the rows is in the outbox")
    stage.board.kill_daemon()
    stage.board.start()
    wait_until_answered(stage)
    stage.board.kill_daemon()
    stage.site.start()
    stage.board.start()
    before = stage.site.answers().total()
    wait_for(lambda: stage.site.answers().total() > before, what="the first of the rows have come")
    stage.board.kill_daemon()
    stage.board.start()
    expect_all_delivered(stage)
