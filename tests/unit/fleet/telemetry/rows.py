"""Rows of an outbox for tests."""

import hashlib

from msgspec.structs import replace
from shoal_wire.histogram import Sketch
from shoal_wire.messages import Answer, Event, Process, ReleaseReference, Telemetry, Tuned
from shoal_wire.tuning import BoardKind, Candidate, MeasuredCandidate

RELEASE = ReleaseReference("note-events", 1, "a" * 64)
BOARD = BoardKind(architecture="aarch64", board="Raspberry Pi 5", processor="Cortex-A76", processors=4)
LITERT = Candidate(variant="int8", engine="litert", threads=2)
ONNX = Candidate(variant="fp32", engine="onnxruntime", threads=1)
FILES = ("c" * 64,)


def answer(item: str, *, release: ReleaseReference = RELEASE, words: str = "C4 E4 G4") -> Answer:
    return Answer(
        answer_id=hashlib.sha256(item.encode()).hexdigest(),
        at=100.0,
        source="folder",
        item=item,
        reference=release,
        latency_ms=12.5,
        answer={"notes": [60, 64, 67]},
        words=words,
    )


def event(name: str) -> Event:
    return Event(at=101.0, name=name, detail="it happened", generation=3)


def process(name: str, *, pss_bytes: int = 30 << 20) -> Process:
    return Process(at=102.0, name=name, pss_bytes=pss_bytes, rss_bytes=2 * pss_bytes)


def telemetry(
    *latencies_ms: float,
    from_at: float = 0.0,
    to_at: float = 5.0,
    errors: int = 0,
    deaths: int = 0,
    release: ReleaseReference = RELEASE,
) -> Telemetry:
    sketch = Sketch()
    for latency_ms in latencies_ms:
        sketch.add(latency_ms)
    return Telemetry(
        from_at=from_at,
        to_at=to_at,
        reference=release,
        answers=len(latencies_ms),
        errors=errors,
        latency_ms=sketch.histogram(),
        deaths=deaths,
    )


def figures(candidate: Candidate, *, p50_ms: float) -> MeasuredCandidate:
    return MeasuredCandidate(
        candidate=candidate,
        engine_version="2.0.3",
        p50_ms=p50_ms,
        p95_ms=2 * p50_ms,
        answers_per_s=1000 / p50_ms,
        peak_bytes=64 << 20,
        load_ms=120.0,
    )


def tuned(
    choice: Candidate = LITERT,
    *,
    files: tuple[str, ...] = FILES,
    release: ReleaseReference = RELEASE,
    board: BoardKind = BOARD,
    p50_ms: float = 18.25,
    is_settled: bool = True,
    is_confirmed: bool = False,
) -> Tuned:
    return Tuned(
        at=103.0,
        board=board,
        model=release.release,
        reference=release,
        objective="latency",
        choice=choice,
        files=files,
        measured=(figures(choice, p50_ms=p50_ms), figures(replace(choice, threads=choice.threads + 1), p50_ms=99.0)),
        is_settled=is_settled,
        is_confirmed=is_confirmed,
    )
