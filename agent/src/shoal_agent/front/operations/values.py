"""What passes from one operation to the next?

Each chain is raw bytes -> … -> Prepared (calls for the model, and their context), then Outputs (of the model, with
that context) -> … -> Answer. Sounds go by way of Sound and Spectrogram, pictures by way of Picture and FittedPicture,
tables by way of Table; outputs by way of Posteriors (notes), FrameScores (events), Detections (faces), Candidates
(objects) and Scores (classes).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

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
class Picture:
    """A picture the right way up: uint8[height, width, 3], red, green, blue."""

    pixels: NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where a picture lies in a model's input, in fractions of that input's width and height.

    Where the input shows a part of the picture only, the picture reaches beyond it: `left` and `top` may be below 0,
    `width` and `height` above 1. A picture has at least one pixel of the input each way.
    """

    left: float
    top: float
    width: float
    height: float
    fed: Tensors = field(default_factory=dict, compare=False)
    """Inputs of the model, for answers that compare its outputs with them."""


@dataclass(frozen=True, kw_only=True)
class FittedPicture:
    """A picture that has the size of a model's input: uint8[height, width, 3], red, green, blue."""

    pixels: NDArray[np.uint8]
    placement: Placement


Context = TypeVar("Context")
"""What post-processing must know of pre-processing: how a sound was cut, where a picture was placed."""


@dataclass(frozen=True, kw_only=True)
class Prepared(Generic[Context]):
    """Inputs for the model, one dict per inference in the order of time, and what `Pipeline.finish` must know.

    Where a call depends on what came before it (a state, the next token), `calls` holds the first one only, and
    `follow` gives the one after call number n (from 0), whose outputs it is given; None after the last.
    """

    calls: Sequence[Tensors]
    context: Context
    follow: Callable[[int, Tensors], Tensors | None] | None = None


@dataclass(frozen=True, kw_only=True)
class Outputs(Generic[Context]):
    """Outputs of the model, one dict per inference in the order of `Prepared.calls`."""

    calls: Sequence[Tensors]
    context: Context


@dataclass(frozen=True, kw_only=True)
class Posteriors:
    """How likely a note begins, and sounds, in each frame: float32[frames, pitches] both, in [0, 1]."""

    onsets: NDArray[np.float32]
    frames: NDArray[np.float32]
    frame_s: float


@dataclass(frozen=True, kw_only=True)
class Detections:
    """What a detector proposes for one picture, in no order, in fractions of the model's input.

    boxes: float64[n, 4], left, top, right, bottom. points: float64[n, points, 2], x, y. scores: float64[n] in [0, 1].
    """

    boxes: NDArray[np.float64]
    points: NDArray[np.float64]
    scores: NDArray[np.float64]
    placement: Placement


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Boxes that may hold an object of one picture, in no order, in fractions of the model's input.

    boxes: float64[n, 4], left, top, right, bottom, each with an area. scores: float64[n] in [0, 1]. classes: int64[n],
    places in `labels`.
    """

    boxes: NDArray[np.float64]
    scores: NDArray[np.float64]
    classes: NDArray[np.int64]
    labels: tuple[str, ...]
    placement: Placement


@dataclass(frozen=True, kw_only=True)
class Scores:
    """How likely an item is of each class: float64[n] in [0, 1]."""

    values: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Spectrogram:
    """A sound as loudness by time and pitch: float32[frames, bins]."""

    values: NDArray[np.float32]
    frame_s: float
    """Seconds from the beginning of one frame to that of the next."""
    sound_s: float


@dataclass(frozen=True, kw_only=True)
class Hearing:
    """How the calls of a model share a sound, one after another from its start."""

    call_s: float
    """Seconds of sound that each call adds to those before it."""
    sound_s: float
    """Length of the sound itself; the last call may reach beyond it."""
    fed: Tensors = field(compare=False)
    """Inputs of the first call."""


@dataclass(frozen=True, kw_only=True)
class FrameScores:
    """How likely each label is in each frame of a sound: float64[frames, labels]."""

    values: NDArray[np.float64]
    frame_s: float
    sound_s: float


@dataclass(frozen=True, kw_only=True)
class Table:
    """Measured values, one row after another: float64[rows, columns], all finite."""

    values: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What a model was fed of a table."""

    fed: Tensors = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """What a model was fed of a text."""

    mask: NDArray[np.int64]
    """int64[1, n]: 1 for each token of the text, 0 for what only fills up."""
    fed: Tensors = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A text that a model goes on with, one token in each call."""

    choose: Callable[[int, Tensors], int]
    """The token that the outputs of call number n (from 0) give."""
    decode: Callable[[Sequence[int]], str]
    """The text of tokens."""
    stop: frozenset[int]
    """Tokens that end the text and are no part of it."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How near an answer came to the expected one. `score` is in [0, 1]; `words` gives the numbers behind it."""

    passed: bool
    score: float
    words: str
