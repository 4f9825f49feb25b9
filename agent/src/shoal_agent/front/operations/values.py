"""What passes from one operation to the next?

raw bytes -> Sound -> Prepared (calls for the model, and their context)
Outputs (of the model, with that context) -> Posteriors -> Answer
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tensors = dict[str, NDArray[Any]]
"""Tensors by name: the inputs or the outputs of one inference."""

Answer = dict[str, Any]
"""What a pipeline says of one item: a JSON object."""

Samples = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Sound:
    """One channel of sound, float32[n] in [-1, 1]."""

    samples: Samples
    sample_rate_hz: int


@dataclass(frozen=True, kw_only=True)
class Windowing:
    """How a sound was cut, so that its outputs can be put together again.

    A window holds `window_frames` frames, each `frame_samples` long; neighbours share `overlap_frames` (an even
    number). The first window begins half an overlap before the sound, so that every window has frames to trim on
    both sides.
    """

    sound_samples: int
    sample_rate_hz: int
    frame_samples: int
    window_frames: int
    overlap_frames: int

    @property
    def frame_s(self) -> float:
        """Seconds from one frame to the next."""
        return self.frame_samples / self.sample_rate_hz

    @property
    def sound_frames(self) -> int:
        """Frames that the sound itself has, the last one perhaps begun only."""
        return -(-self.sound_samples // self.frame_samples)

    @property
    def step_frames(self) -> int:
        """Frames from the beginning of one window to that of the next."""
        return self.window_frames - self.overlap_frames

    @property
    def windows(self) -> int:
        """Windows that hold the sound: at least one."""
        return max(1, -(-self.sound_frames // self.step_frames))


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Inputs for the model, one dict per inference in the order of time, and what `Pipeline.finish` must know."""

    calls: Sequence[Tensors]
    context: Windowing


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Outputs of the model, one dict per inference in the order of `Prepared.calls`."""

    calls: Sequence[Tensors]
    context: Windowing


@dataclass(frozen=True, kw_only=True)
class Posteriors:
    """How likely a note begins, and sounds, in each frame: float32[frames, pitches] both, in [0, 1]."""

    onsets: NDArray[np.float32]
    frames: NDArray[np.float32]
    frame_s: float


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How near an answer came to the expected one. `score` is in [0, 1]; `words` gives the numbers behind it."""

    passed: bool
    score: float
    words: str
