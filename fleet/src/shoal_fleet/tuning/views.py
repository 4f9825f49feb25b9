"""What does the API say of verdicts, and of what is known?"""

from typing import Self

import msgspec
from pydantic import BaseModel
from shoal_wire.tuning import KnownChoice, Objective

from shoal_fleet.devices.views import BoardView
from shoal_fleet.tuning import service
from shoal_fleet.tuning.models import TunedRow


class CandidateView(BaseModel):
    """One way to run a model."""

    variant: str
    engine: str
    precision: str
    threads: int
    batch: int
    device: str
    """That the engine was asked for, in its own words; empty where it took what it takes unasked."""


class MeasuredView(BaseModel):
    """Figures of one candidate; `joules` of the whole board for an answer, null where it has no meter."""

    candidate: CandidateView
    engine_version: str
    p50_ms: float
    p95_ms: float
    answers_per_s: float
    peak_bytes: int
    load_ms: float
    joules: float | None
    placement: list[str]
    """Where the engine really ran it; empty from an agent that doesn't tell."""


class VerdictView(BaseModel):
    """What a device found out about one model. Times are Unix seconds: `at` by the device's clock."""

    id: int
    """Grows in the order in which verdicts were stored."""
    device: str
    at: float
    received_at: float
    board: BoardView
    model: str
    release: str
    version: int
    manifest_sha256: str
    objective: Objective
    choice: CandidateView
    files: list[str]
    """SHA-256 of the chosen variant's plaintext files."""
    measured: list[MeasuredView]
    is_settled: bool
    is_confirmed: bool
    """A choice that was known already, and only checked here."""

    @classmethod
    def of(cls, row: TunedRow) -> Self:
        """View of a row."""
        return cls.model_validate(
            {
                "id": row.id,
                "device": row.device_id,
                "at": row.at,
                "received_at": row.received_at,
                "board": BoardView.of(service.read_board(row)),
                "model": row.model,
                "release": row.release,
                "version": row.version,
                "manifest_sha256": row.manifest_sha256,
                "objective": row.objective,
                "choice": msgspec.to_builtins(service.read_choice(row)),
                "files": list(service.read_files(row)),
                "measured": msgspec.to_builtins(service.read_measured(row)),
                "is_settled": row.is_settled,
                "is_confirmed": row.is_confirmed,
            }
        )


class KnownView(BaseModel):
    """What a board of some kind is told about one model: measured there by others, not yet by itself."""

    model: str
    candidate: CandidateView
    files: list[str]
    engine_version: str
    p50_ms: float
    boards: int
    """How many boards found the same."""

    @classmethod
    def of(cls, known: KnownChoice) -> Self:
        """View of a choice."""
        return cls.model_validate(msgspec.to_builtins(known))
