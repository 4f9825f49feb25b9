"""What does a small verdict look like?"""

from shoal_agent.tuned import Choice, Conditions, Limits, Measured, Refused, Verdict
from shoal_wire.tuning import Candidate

FAST = Candidate(variant="o", engine="onnxruntime", threads=2)
SMALL = Candidate(variant="t", engine="litert", threads=1)
SLOW = Candidate(variant="o", engine="openvino", threads=1)

CONDITIONS = Conditions(
    model_sha256="a" * 64,
    variants={"o": ("b" * 64,), "t": ("c" * 64,)},
    engines={"onnxruntime.onnx": "1.2", "openvino.onnx": "3.4", "litert.tflite": "5.6"},
    processor="x86_64 <A & B>",
    processors=2,
    governor="ondemand",
    thermal="cool",
    agent_version="0.1.0",
    objective="latency",
    limits=Limits(),
    candidates=(FAST, SMALL, SLOW),
)


def measured(candidate: Candidate, *, p50_ms: float, peak_mb: int, is_finalist: bool = True) -> Measured:
    return Measured(
        candidate=candidate,
        rounds=6 if is_finalist else 3,
        is_finalist=is_finalist,
        p50_ms=p50_ms,
        p95_ms=p50_ms * 1.2,
        answers_per_s=1000 / p50_ms,
        peak_bytes=peak_mb * 1_000_000,
        load_ms=500.0,
    )


VERDICT = Verdict(
    model="note-events",
    at=1.0,
    conditions=CONDITIONS,
    budget_s=60.0,
    took_s=42.0,
    is_settled=True,
    meter="",
    measured=(
        measured(FAST, p50_ms=5.25, peak_mb=90),
        measured(SMALL, p50_ms=8.5, peak_mb=40),
        measured(SLOW, p50_ms=20.0, peak_mb=140, is_finalist=False),
    ),
    refused=(
        Refused(candidate=Candidate(variant="x", engine="litert", threads=1), reason="F1 0.1, at least 0.9 wanted"),
    ),
    pareto=(FAST, SMALL),
    choice=Choice(candidate=FAST, why="best for latency of 3: p50 5.25 ms"),
)
