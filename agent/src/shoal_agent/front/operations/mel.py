"""What does a sound look like as a spectrogram that a model takes: which loudness at which pitch and time?

Two formulas turn hertz into mel. `htk`: S. Young et al., "The HTK Book" (version 3.4, 2006), equation 5.13, after
O'Shaughnessy. `slaney`: M. Slaney, "Auditory Toolbox" (version 2, Interval Research technical report 1998-010), linear
up to 1 kHz and logarithmic above. Filters are triangles between neighbours on that scale, as in both.

All is computed in float64 and rounded to float32 at the end, so that boards differ by roundings only.
"""

from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.lib.stride_tricks import sliding_window_view

from shoal_agent.front.operations.errors import BadInput, BadPipeline
from shoal_agent.front.operations.outputs import Finite, Name, Numbers
from shoal_agent.front.operations.values import Hearing, Prepared, Samples, Sound, Spectrogram

MAX_FFT = 1 << 14
MAX_BINS = 512
MAX_FRAMES = 1 << 16
"""Of a spectrogram: 11 minutes at 10 ms."""
_BLOCK_FRAMES = 256
"""That are transformed at a time, so that a long sound takes little memory."""
_KEPT_FILTERS = 8
"""Sets of filters that are kept for the next sound: one for each pipeline that is likely to serve at once."""

_SLANEY_HZ_PER_MEL = 200 / 3
_SLANEY_BEND_HZ = 1_000.0
_SLANEY_BEND_MEL = _SLANEY_BEND_HZ / _SLANEY_HZ_PER_MEL
_SLANEY_LOG_STEP = np.log(6.4) / 27
"""Above the bend, 27 mels multiply the frequency by 6.4."""

Scale = Literal["htk", "slaney"]
Hertz = Annotated[float, Meta(ge=0, le=96_000)]


class LogMel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`audio.log_mel`: logarithm of the energy in bands of pitch, frame by frame: float32[frames, bins].

    A frame is `window_s` of sound under a periodic Hann window (0.5 - 0.5 cos(2 pi k / n)), with zeros behind it up
    to `fft` samples. The magnitudes of its discrete Fourier transform, not scaled by its length, are raised to
    `power` and weighted by `bins` triangular filters.
    """

    takes: ClassVar[type] = Sound
    gives: ClassVar[type] = Spectrogram

    window_s: Annotated[float, Meta(gt=0, le=2)]
    hop_s: Annotated[float, Meta(gt=0, le=10)]
    """From the beginning of a frame to that of the next. Both times are rounded to whole samples."""
    fft: Annotated[int, Meta(ge=16, le=MAX_FFT, multiple_of=2)]
    """Samples of the transform, at least those of a window."""
    bins: Annotated[int, Meta(ge=1, le=MAX_BINS)]
    low_hz: Hertz
    """Where the lowest filter begins."""
    high_hz: Hertz
    """Where the highest one ends: at most half the sample rate."""
    mel: Scale
    triangles: Literal["hertz", "mel"] = "hertz"
    """On which scale the sides of a filter are straight. librosa and torchaudio have them so in hertz, TensorFlow and
    Kaldi in mel."""
    normalise: Literal["none", "area"] = "none"
    """`area`: each filter is multiplied by 2 / (its width in hertz), as Slaney has it; else its peak is 1."""
    power: Literal[1, 2]
    log: Literal["natural", "log10", "db"]
    """`db`: 10 log10 of a power, 20 log10 of a magnitude."""
    floor: Annotated[float, Meta(gt=0, le=1)]
    """So that silence has a logarithm."""
    floor_by: Literal["clip", "add"] = "clip"
    """Whether what is smaller is raised to the floor, or the floor is added to all."""
    centre: Literal["none", "zeros", "reflect"] = "none"
    """`none`: frame i begins at sample i x hop, and frames end with the sound. Else it has its middle there, beyond
    both ends of the sound are `fft` / 2 samples of silence or of its mirror image, and frames are 1 + samples // hop.
    """

    def __post_init__(self) -> None:
        if self.high_hz < self.low_hz + 1:
            raise ValueError(f"high_hz is {self.high_hz:g}, expected at least 1 above low_hz, {self.low_hz:g}")

    def apply(self, sound: Sound) -> Spectrogram:
        """Look at a whole sound.

        Raises:
            BadInput: it is shorter than a frame, or has more than MAX_FRAMES.
            BadPipeline: window, hop or highest frequency don't fit the sound's rate.
        """
        rate_hz = sound.sample_rate_hz
        window, hop = round(self.window_s * rate_hz), round(self.hop_s * rate_hz)
        if not 2 <= window <= self.fft or hop < 1:
            raise BadPipeline(
                f"audio.log_mel: window and hop are {window} and {hop} samples at {rate_hz} Hz, expected a window of "
                f"2 to {self.fft} (fft) and a hop of 1 or more"
            )
        if self.high_hz > rate_hz / 2:
            raise BadPipeline(f"audio.log_mel: high_hz is {self.high_hz:g}, expected at most {rate_hz / 2:g}")
        padded = self._pad(sound.samples, window=window)
        if padded.size < window:
            raise BadInput(f"sound: {padded.size} samples, expected at least the {window} of a frame")
        frames = 1 + (sound.samples.size // hop if self.centre != "none" else (padded.size - window) // hop)
        if frames > MAX_FRAMES:
            raise BadInput(f"sound: {frames} frames, expected at most {MAX_FRAMES}")
        starts = sliding_window_view(padded, window)[::hop][:frames]
        filters = make_filters(
            sample_rate_hz=rate_hz,
            fft=self.fft,
            bins=self.bins,
            low_hz=self.low_hz,
            high_hz=self.high_hz,
            mel=self.mel,
            triangles=self.triangles,
            normalise=self.normalise,
        )
        values = np.empty((frames, self.bins), dtype=np.float32)
        hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
        for first in range(0, frames, _BLOCK_FRAMES):
            block = slice(first, first + _BLOCK_FRAMES)
            magnitudes = np.abs(np.fft.rfft(starts[block] * hann, n=self.fft))
            values[block] = self._take_logarithm(magnitudes**self.power @ filters)
        return Spectrogram(values=values, frame_s=hop / rate_hz, sound_s=sound.samples.size / rate_hz)

    def _pad(self, samples: Samples, *, window: int) -> Samples:
        """The sound with what is before and behind it, beginning where the first frame's window does."""
        if self.centre == "none":
            return samples
        half = self.fft // 2
        if self.centre == "reflect" and samples.size <= half:
            raise BadInput(f"sound: {samples.size} samples, expected more than {half} for its mirror image")
        padded = np.pad(samples, half, mode="reflect" if self.centre == "reflect" else "constant")
        # The window lies in the middle of the transform's samples.
        return padded[(self.fft - window) // 2 :]

    def _take_logarithm(self, energies: Numbers) -> Numbers:
        raised = np.maximum(energies, self.floor) if self.floor_by == "clip" else energies + self.floor
        if self.log == "natural":
            return np.log(raised)
        factor = 1 if self.log == "log10" else 20 / self.power
        return np.asarray(factor * np.log10(raised))


class FeedSpectrogram(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`spectrogram.feed`: a spectrogram as the float32 input `input`, `(value - mean) / std`.

    Its shape is [1, frames, bins] or, by `layout`, [1, bins, frames]; with a channel [1, 1, …] or […, 1].
    """

    takes: ClassVar[type] = Spectrogram
    gives: ClassVar[Any] = Prepared[Hearing]

    input: Name
    layout: Literal["frames-bins", "bins-frames"] = "frames-bins"
    channel: Literal["none", "first", "last"] = "none"
    mean: Finite = 0.0
    std: Annotated[float, Meta(gt=0, le=1e30)] = 1.0

    def apply(self, spectrogram: Spectrogram) -> Prepared[Hearing]:
        """Lay it out; the model is called once."""
        values = (spectrogram.values - np.float32(self.mean)) / np.float32(self.std)
        if self.layout == "bins-frames":
            values = values.T
        shape = {"none": values.shape, "first": (1, *values.shape), "last": (*values.shape, 1)}[self.channel]
        fed = {self.input: np.ascontiguousarray(values).reshape(1, *shape)}
        call_s = len(spectrogram.values) * spectrogram.frame_s
        return Prepared(calls=[fed], context=Hearing(call_s=call_s, sound_s=spectrogram.sound_s, fed=fed))


@lru_cache(maxsize=_KEPT_FILTERS)
def make_filters(
    *,
    sample_rate_hz: int,
    fft: int,
    bins: int,
    low_hz: float,
    high_hz: float,
    mel: Scale,
    triangles: Literal["hertz", "mel"],
    normalise: Literal["none", "area"],
) -> Numbers:
    """Weights of each frequency of a transform in each bin, float64[fft // 2 + 1, bins]; read-only.

    `bins` + 2 points lie evenly on the mel scale; filter i rises from point i to i + 1 and falls to i + 2. Where bins
    are many and the transform is short, a filter may lie between two of its frequencies and be 0.
    """
    low, high = _to_mel(np.array([low_hz, high_hz]), scale=mel).tolist()
    points = np.linspace(low, high, bins + 2)
    frequencies = np.arange(fft // 2 + 1, dtype=np.float64) * (sample_rate_hz / fft)
    corners = _to_hz(points, scale=mel)
    places, sides = (frequencies, corners) if triangles == "hertz" else (_to_mel(frequencies, scale=mel), points)
    widths = np.diff(sides)
    rising = (places[:, np.newaxis] - sides[:-2]) / widths[:-1]
    falling = (sides[2:] - places[:, np.newaxis]) / widths[1:]
    filters = np.maximum(0.0, np.minimum(rising, falling))
    if normalise == "area":
        filters *= 2 / (corners[2:] - corners[:-2])
    filters.flags.writeable = False
    return filters


def _to_mel(hertz: Numbers, *, scale: Scale) -> Numbers:
    if scale == "htk":
        return np.asarray(2595 * np.log10(1 + hertz / 700))
    above = np.log(np.maximum(hertz, _SLANEY_BEND_HZ) / _SLANEY_BEND_HZ) / _SLANEY_LOG_STEP
    return np.asarray(np.minimum(hertz, _SLANEY_BEND_HZ) / _SLANEY_HZ_PER_MEL + above)


def _to_hz(mels: Numbers, *, scale: Scale) -> Numbers:
    if scale == "htk":
        return np.asarray(700 * (10 ** (mels / 2595) - 1))
    above = np.exp(_SLANEY_LOG_STEP * np.maximum(mels - _SLANEY_BEND_MEL, 0))
    return np.asarray(np.minimum(mels, _SLANEY_BEND_MEL) * _SLANEY_HZ_PER_MEL * above)
