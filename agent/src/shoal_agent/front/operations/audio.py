"""How do the bytes of a sound file become the windows that a model takes?

WAV is read by hand: the standard library's reader knows no float samples. The layout is from Microsoft's and IBM's
"Multimedia Programming Interface and Data Specifications 1.0" (1991) and, for WAVE_FORMAT_EXTENSIBLE, Microsoft's
"Multiple channel audio data and WAVE files" (2001).
"""

import math
import struct
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from shoal_agent.front.operations.errors import BadInput
from shoal_agent.front.operations.values import Prepared, Sound, Windowing

MAX_CHANNELS = 8
MIN_SAMPLE_RATE_HZ = 4_000
MAX_SAMPLE_RATE_HZ = 192_000
MAX_WINDOWS = 4_096

_PCM = 1
_FLOAT = 3
_EXTENSIBLE = 0xFFFE
_SAMPLE_TYPES = {(_PCM, 16): "<i2", (_FLOAT, 32): "<f4"}
_SILENCE_S = 0.1
_ROLL_OFF = 0.05
"""Part of the lower rate's band over which resampling fades out, to ring less than a sharp edge would."""

_Wave = NDArray[np.float64]

SampleRate = Annotated[int, Meta(ge=MIN_SAMPLE_RATE_HZ, le=MAX_SAMPLE_RATE_HZ)]


class DecodeWav(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`audio.decode_wav`: WAV with PCM16 or float32 samples, mixed to one channel, at `sample_rate_hz`."""

    takes: ClassVar[type] = bytes
    gives: ClassVar[type] = Sound

    sample_rate_hz: SampleRate
    max_s: Annotated[float, Meta(gt=0, le=600)] = 60.0
    """Longest sound that is taken, in seconds."""

    def apply(self, raw: bytes) -> Sound:
        """Read a whole WAV file.

        Raises:
            BadInput: not WAV, cut short, another sample type, empty, or longer than `max_s`.
        """
        wav_format, data = _find_chunks(raw)
        sample_type, channels, rate_hz = _parse_format(wav_format)
        frame_bytes = np.dtype(sample_type).itemsize * channels
        if not data or len(data) % frame_bytes:
            raise BadInput(f"WAV: {len(data)} bytes of samples, expected a multiple of {frame_bytes} that is not 0")
        length_s = len(data) / frame_bytes / rate_hz
        if length_s > self.max_s:
            raise BadInput(f"WAV: {length_s:.1f} s long, expected at most {self.max_s:g} s")
        samples = np.frombuffer(data, dtype=sample_type).reshape(-1, channels)
        if not np.isfinite(samples).all():
            raise BadInput("WAV: a sample is infinite or not a number, expected values in [-1, 1]")
        mono = samples.mean(axis=1, dtype=np.float64)
        if sample_type == "<i2":
            mono /= 32_768.0
        if rate_hz != self.sample_rate_hz:
            mono = _resample(mono, from_hz=rate_hz, to_hz=self.sample_rate_hz)
        return Sound(samples=np.clip(mono, -1.0, 1.0).astype(np.float32), sample_rate_hz=self.sample_rate_hz)


class Window(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`audio.window`: windows of `length` samples, each a float32[1, length, 1] for the input `input`.

    Windows begin a whole number of frames apart, so that frames of neighbours coincide. The sound has silence before
    it (half an overlap) and after it (to the end of the last window).
    """

    takes: ClassVar[type] = Sound
    gives: ClassVar[Any] = Prepared[Windowing]

    input: Annotated[str, Meta(min_length=1, max_length=200)]
    length: Annotated[int, Meta(ge=1, le=1 << 24)]
    frame_samples: Annotated[int, Meta(ge=1, le=1 << 20)]
    """Samples from one frame of the model's output to the next."""
    overlap_frames: Annotated[int, Meta(ge=0, multiple_of=2)]

    def __post_init__(self) -> None:
        window_frames = -(-self.length // self.frame_samples)
        if self.overlap_frames >= window_frames:
            raise ValueError(
                f"overlap_frames is {self.overlap_frames}, expected less than the {window_frames} frames of a window"
            )

    def apply(self, sound: Sound) -> Prepared[Windowing]:
        """Cut a sound. The windows are views of one read-only buffer.

        Raises:
            BadInput: it would take more than MAX_WINDOWS windows.
        """
        cut = Windowing(
            sound_samples=sound.samples.size,
            sample_rate_hz=sound.sample_rate_hz,
            frame_samples=self.frame_samples,
            window_frames=-(-self.length // self.frame_samples),
            overlap_frames=self.overlap_frames,
        )
        if cut.windows > MAX_WINDOWS:
            raise BadInput(f"sound: needs {cut.windows} windows, expected at most {MAX_WINDOWS}")
        step = cut.step_frames * self.frame_samples
        lead = cut.overlap_frames // 2 * self.frame_samples
        end = max((cut.windows - 1) * step + self.length, lead + sound.samples.size)
        padded = np.zeros(end, dtype=np.float32)
        padded[lead : lead + sound.samples.size] = sound.samples
        padded.flags.writeable = False
        calls = [
            {self.input: padded[first : first + self.length].reshape(1, self.length, 1)}
            for first in range(0, cut.windows * step, step)
        ]
        return Prepared(calls=calls, context=cut)


def _find_chunks(raw: bytes) -> tuple[bytes, memoryview]:
    """Give the `fmt ` chunk and the samples of a WAV file."""
    if len(raw) < 12 or raw[:4] != b"RIFF" or raw[8:12] != b"WAVE":
        raise BadInput(f"WAV: begins with {raw[:12]!r}, expected RIFF....WAVE")
    wav_format = b""
    at = 12
    while at + 8 <= len(raw):
        name = raw[at : at + 4]
        (size,) = struct.unpack_from("<I", raw, at + 4)
        if at + 8 + size > len(raw):
            raise BadInput(f"WAV: chunk {name!r} of {size} bytes is cut short: {len(raw) - at - 8} bytes are there")
        if name == b"fmt ":
            wav_format = raw[at + 8 : at + 8 + size]
        if name == b"data":
            return wav_format, memoryview(raw)[at + 8 : at + 8 + size]
        at += 8 + size + size % 2
    raise BadInput(f"WAV: no chunk b'data' in {len(raw)} bytes")


def _parse_format(wav_format: bytes) -> tuple[str, int, int]:
    """Give NumPy's sample type, the number of channels and the sample rate in Hz."""
    if len(wav_format) < 16:
        raise BadInput(f"WAV: chunk b'fmt ' before the samples has {len(wav_format)} bytes, expected 16 or more")
    code, channels, rate_hz, _, _, bits = struct.unpack_from("<HHIIHH", wav_format)
    if code == _EXTENSIBLE and len(wav_format) >= 40:
        (code,) = struct.unpack_from("<H", wav_format, 24)
    if (code, bits) not in _SAMPLE_TYPES:
        raise BadInput(f"WAV: format {code} with {bits} bits a sample, expected 1 with 16 (PCM16) or 3 with 32 (float)")
    if not 1 <= channels <= MAX_CHANNELS:
        raise BadInput(f"WAV: {channels} channels, expected 1 to {MAX_CHANNELS}")
    if not MIN_SAMPLE_RATE_HZ <= rate_hz <= MAX_SAMPLE_RATE_HZ:
        raise BadInput(f"WAV: {rate_hz} Hz, expected {MIN_SAMPLE_RATE_HZ} to {MAX_SAMPLE_RATE_HZ}")
    return _SAMPLE_TYPES[code, bits], channels, rate_hz


def _resample(samples: _Wave, *, from_hz: int, to_hz: int) -> _Wave:
    """Change the sample rate in the frequency domain: what the lower rate can't hold is taken away.

    Silence is added behind the sound, so that its end doesn't ring into its beginning, and up to a length at which
    both rates have a whole number of samples.
    """
    unit = from_hz // math.gcd(from_hz, to_hz)
    padded = -(-(samples.size + round(_SILENCE_S * from_hz)) // unit) * unit
    resampled = padded // unit * (to_hz // math.gcd(from_hz, to_hz))
    spectrum = np.fft.rfft(samples, n=padded)
    kept = min(padded, resampled) // 2
    rolled_off = max(1, round(_ROLL_OFF * kept))
    spectrum = spectrum[:kept]
    spectrum[kept - rolled_off :] *= np.cos(np.linspace(0, np.pi / 2, rolled_off)) ** 2
    wanted = max(1, round(samples.size * to_hz / from_hz))
    return np.fft.irfft(spectrum, n=resampled)[:wanted] * (resampled / padded)
