"""Where does everything of the demo lie, and how is a fact read from the fleet?"""

import base64
import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from shoal_wire import envelope
from shoal_wire.encoding import decode
from shoal_wire.messages import Reported

from shoal_fleet.command.client import Client
from shoal_fleet.command.demo.programs import Programs
from shoal_fleet.command.errors import UsageError
from shoal_fleet.command.views import Answer, DeviceProof, parse

MODEL = "note-events"
DEVICE = "demo-board"
_MARK = "this-is-a-shoal-demo"
_PAGE = 500


class Stage:
    """One folder with a folder each for fleet, board, publisher and operator."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.fleet = self.folder / "fleet"
        self.agent = self.folder / "agent"
        self.publisher = self.folder / "publisher"
        self.releases = self.folder / "releases"
        self.sounds = self.folder / "sounds"
        self.login = self.folder / "operator" / "login.json"
        self.logs = self.folder / "logs"

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
    """What the steps share: the programs, the API and the board's id."""

    def __init__(self, stage: Stage, programs: Programs, client: Client, device: str) -> None:
        self.stage = stage
        self.programs = programs
        self.client = client
        self.device = device

    def reported(self) -> Reported | None:
        """What the board says it runs, from the document that the board signed; None before its first.

        Raises:
            WireError: it isn't what the board signed.
        """
        proof = parse(self.client.get(f"/api/v1/devices/{self.device}"), DeviceProof, what="device")
        if proof.reported_envelope is None:
            return None
        key = envelope.parse_public_key(proof.identity_key, what="the board's identity key")
        raw = base64.b64decode(proof.reported_envelope)
        return decode(envelope.verify(raw, envelope.REPORTED, [key], what="reported"), Reported, what="reported")

    def answers(self, *, after: int = 0) -> list[Answer]:
        """All answers in the fleet's database, or those after a row."""
        rows: list[Answer] = []
        while True:
            shown = self.client.get("/api/v1/answers", device=self.device, after_id=after, limit=_PAGE)
            page = parse(shown, list[Answer], what="answers")
            if not page:
                return rows
            rows += page
            after = page[-1].id
