"""A fleet with published releases, and a board on which one serves: what every test of the whole system starts from."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.faults.system.board import Board
from tests.faults.system.processes import wait_for
from tests.faults.system.releases import GOOD
from tests.faults.system.site import Site

ENDED = {"succeeded", "failed", "aborted"}


class Stage(NamedTuple):
    """A fleet and its board."""

    site: Site
    board: Board

    def make_ready(self) -> None:
        """All run, nothing is armed, and a good release serves: also after a test that failed."""
        for path in self.board.control.iterdir():
            path.unlink()
        if not self.site.is_running:
            self.site.start()
        if not self.board.is_running:
            self.board.start()
        if self.board.current_version() not in GOOD:
            self.update(GOOD[0])

    def update(self, version: int) -> None:
        """An update that nothing disturbs."""
        rollout = self.site.roll_out(self.board, version)
        with self.board.listening():
            self.wait_for_attempt(rollout, "succeeded")
        self.site.expect_every_answer_once(self.board)

    def wait_for_attempt(self, rollout: int, state: str) -> None:
        """Until the fleet says so of the board, at the end of its attempt."""
        wait_for(lambda: self.site.attempt(rollout)["state"] in ENDED, what=lambda: self._describe(rollout))
        assert self.site.attempt(rollout)["state"] == state, self._describe(rollout)

    def expect_serving(self, version: int | None) -> None:
        """That release serves by the board's own report, nothing else is left of the update, and sounds are answered,
        each once."""
        wait_for(
            lambda: self.site.serves(self.board, version), what=lambda: f"{version}: {self.site.reported(self.board)}"
        )
        probe = self.board.give()
        self.site.expect_every_answer_once(self.board)
        assert self.site.version_that_answered(probe) == version
        self.board.check_processes()

    def _describe(self, rollout: int) -> str:
        log = self.board.log.read_text().splitlines()[-40:]
        return "\n".join([str(self.site.attempt(rollout)), str(self.board.journal()), *log])


@contextmanager
def open_stage(folder: Path, folders: Mapping[int, Path], *, environment: Mapping[str, str]) -> Iterator[Stage]:
    """A fleet with releases, and a board that is enrolled but not started."""
    site = Site(folder, environment=environment)
    board = Board(folder / "board")
    board.folder.mkdir()
    try:
        site.publish(folders)
        board.enrol(site.make_token("board"))
        yield Stage(site, board)
    finally:
        if board.is_running:
            board.stop()
        site.stop()
