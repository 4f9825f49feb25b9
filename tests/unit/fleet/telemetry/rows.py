"""Rows of an outbox for tests."""

import hashlib

from shoal_wire.histogram import Sketch
from shoal_wire.messages import Answer, Event, Process, ReleaseReference, Telemetry

RELEASE = ReleaseReference("note-events", 1, "a" * 64)


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
    *latencies_ms: float, from_at: float = 0.0, to_at: float = 5.0, errors: int = 0, release: ReleaseReference = RELEASE
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
    )
