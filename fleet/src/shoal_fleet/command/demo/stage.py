"""Where does everything of the demo lie, and how is a fact read from the fleet?"""

import base64
import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from shoal_wire import envelope
from shoal_wire.encoding import decode
from shoal_wire.messages import Reported

from shoal_fleet.command.client import Client
from shoal_fleet.command.demo.boards import Board, Feed
from shoal_fleet.command.demo.items import Item, Placing
from shoal_fleet.command.demo.programs import Programs
from shoal_fleet.command.errors import UsageError
from shoal_fleet.command.views import Answer, DeviceProof, parse

_MARK = "this-is-a-shoal-demo"
_PAGE = 500


class Stage:
    """One folder with a folder each for fleet, boards, publisher and operator."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.fleet = self.folder / "fleet"
        self.publisher = self.folder / "publisher"
        self.releases = self.folder / "releases"
        self.login = self.folder / "operator" / "login.json"
        self.logs = self.folder / "logs"

    def board(self, board: Board) -> Path:
        """A board's folder. Each source of items has one in it."""
        return self.folder / "boards" / board.name

    def agent(self, board: Board) -> Path:
        """State folder of a board's agent."""
        return self.board(board) / "agent"

    @contextlib.contextmanager
    def cleared(self) -> Iterator[None]:
        """Start from nothing, and keep other demos out meanwhile.

        Raises:
            UsageError: the folder holds something that no demo made, or a demo is at work in it.
        """
        mark = self.folder / _MARK
        if self.folder.exists() and not mark.exists() and any(self.folder.iterdir()):
            raise UsageError(f"{self.folder} holds something else: name an empty folder with --state")
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for path in self.folder.iterdir():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                elif path != mark:
                    path.unlink()
            yield
        except BlockingIOError:
            raise UsageError(f"a demo is at work in {self.folder}: name another folder with --state") from None
        finally:
            os.close(descriptor)


class Scene:
    """What the steps share: the programs, the API, the boards' ids and what was placed for them."""

    def __init__(self, stage: Stage, programs: Programs, client: Client, devices: Mapping[str, str]) -> None:
        """`devices`: id by name of the board."""
        self.stage = stage
        self.programs = programs
        self.client = client
        self.devices = devices
        self.placings: dict[tuple[Board, Feed], Placing] = {}

    def placed(self, board: Board, feed: Feed) -> Mapping[str, Item]:
        """What was placed for a board so far, by file name."""
        placing = self.placings.get((board, feed))
        return placing.placed() if placing else {}

    def reported(self, board: Board) -> Reported | None:
        """What a board says it runs, from the document that the board signed; None before its first.

        Raises:
            WireError: it isn't what the board signed.
        """
        proof = parse(self.client.get(f"/api/v1/devices/{self.devices[board.name]}"), DeviceProof, what="device")
        if proof.reported_envelope is None:
            return None
        key = envelope.parse_public_key(proof.identity_key, what="the board's identity key")
        raw = base64.b64decode(proof.reported_envelope)
        return decode(envelope.verify(raw, envelope.REPORTED, [key], what="reported"), Reported, what="reported")

    def answers(self, *, after: int = 0) -> list[Answer]:
        """All boards' answers in the fleet's database, or those after a row."""
        rows: list[Answer] = []
        while True:
            page = parse(self.client.get("/api/v1/answers", after_id=after, limit=_PAGE), list[Answer], what="answers")
            rows += page
            if len(page) < _PAGE:
                return rows
            after = page[-1].id
