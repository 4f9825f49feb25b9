"""Which four releases does the example have, and what sets each apart?

1. Post-processing with low thresholds: hears notes that were not played.
2. Better thresholds; the same network and golden sounds, byte for byte.
3. As 2, with windows that overlap so far that a sound needs about ten times as many: right, but slow.
4. As 2, with weights damaged after its accuracy was measured: the golden cases must refuse it.
"""

from dataclasses import dataclass, replace

from shoal_agent.front.operations.pipeline import Pipeline
from shoal_wire.manifest import Operation

WINDOW_SAMPLES = 43_844
FRAME_SAMPLES = 256
FRAMES = 172
LOWEST_PITCH = 21
PITCHES = 88
INPUT = "serving_default_input_2:0"
FRAME_OUTPUT = "StatefulPartitionedCall:1"
ONSET_OUTPUT = "StatefulPartitionedCall:2"
CONTOUR_OUTPUT = "StatefulPartitionedCall:0"
"""Found by experiment: a held tone keeps :1 high until it ends and :2 only where it begins."""

ONSET_TOLERANCE_S = 0.05


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What sets a release apart."""

    version: int
    overlap_frames: int
    onset_threshold: float
    frame_threshold: float
    min_note_ms: float
    is_damaged: bool = False

    @property
    def pre(self) -> tuple[Operation, ...]:
        window = {"input": INPUT, "length": WINDOW_SAMPLES, "frame_samples": FRAME_SAMPLES}
        return (
            Operation("audio.decode_wav", {"sample_rate_hz": 22_050, "max_s": 30.0}),
            Operation("audio.window", {**window, "overlap_frames": self.overlap_frames}),
        )

    @property
    def post(self) -> tuple[Operation, ...]:
        return (
            Operation("notes.unwrap", {"onset_output": ONSET_OUTPUT, "frame_output": FRAME_OUTPUT}),
            Operation(
                "notes.decode",
                {
                    "onset_threshold": self.onset_threshold,
                    "frame_threshold": self.frame_threshold,
                    "min_note_ms": self.min_note_ms,
                    "lowest_pitch": LOWEST_PITCH,
                },
            ),
        )

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline(pre=self.pre, post=self.post)


FIRST = Recipe(version=1, overlap_frames=30, onset_threshold=0.3, frame_threshold=0.3, min_note_ms=80.0)
BETTER = Recipe(version=2, overlap_frames=30, onset_threshold=0.6, frame_threshold=0.5, min_note_ms=100.0)
SLOW = replace(BETTER, version=3, overlap_frames=160)
DAMAGED = replace(BETTER, version=4, is_damaged=True)
RECIPES = (FIRST, BETTER, SLOW, DAMAGED)


def compare_notes(minimum_f1: float) -> Operation:
    """The comparison of a golden case."""
    return Operation("notes.f1", {"onset_tolerance_s": ONSET_TOLERANCE_S, "minimum_f1": minimum_f1})
