"""Where does everything of the demo lie, and how is a fact read from the fleet?"""

import base64
import shutil
from pathlib import Path
from typing import Any

from shoal_wire import envelope
from shoal_wire.encoding import decode
from shoal_wire.messages import Reported

from shoal_fleet.command.client import Client
from shoal_fleet.command.demo.programs import Programs
from shoal_fleet.command.errors import UsageError

MODEL = "note-events"
DEVICE = "demo-board"
_MARK = "this-is-a-shoal-demo"


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

    def clear(self) -> None:
        """Start from nothing.

        Raises:
            UsageError: the folder holds something that no demo made.
        """
        if self.folder.exists():
            if any(self.folder.iterdir()) and not (self.folder / _MARK).exists():
                raise UsageError(f"{self.folder} holds something else: name an empty folder with --state")
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True, mode=0o700)
        (self.folder / _MARK).touch()


class Scene:
    """What the steps share: the programs, the API and the board's id."""

    def __init__(self, stage: Stage, programs: Programs, client: Client, device: str) -> None:
        self.stage = stage
        self.programs = programs
        self.client = client
        self.device = device

    def reported(self) -> Reported | None:
        """What the board says it runs, from the document that the board signed."""
        detail = self.client.get(f"/api/v1/devices/{self.device}")
        if detail["reported_envelope"] is None:
            return None
        key = envelope.parse_public_key(detail["identity_key"], what="the board's identity key")
        raw = base64.b64decode(detail["reported_envelope"])
        return decode(envelope.verify(raw, envelope.REPORTED, [key], what="reported"), Reported, what="reported")

    def answers(self, *, after: int = 0) -> list[dict[str, Any]]:
        """All answers in the fleet's database, or those after a row."""
        rows: list[dict[str, Any]] = []
        while page := self.client.get("/api/v1/answers", device=self.device, after_id=after, limit=500):
            rows += page
            after = page[-1]["id"]
        return rows
