"""Is a sound's spectrogram what the formulas say, and is it laid out as a model takes it?"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from shoal_agent.front.operations.errors import BadInput, BadPipeline
from shoal_agent.front.operations.mel import FeedSpectrogram, LogMel, make_filters
from shoal_agent.front.operations.values import Sound, Spectrogram

RATE_HZ = 8_000


def log_mel(**changed: Any) -> LogMel:
    usual: dict[str, Any] = {
        "window_s": 0.016,
        "hop_s": 0.008,
        "fft": 256,
        "bins": 12,
        "low_hz": 60.0,
        "high_hz": 3_800.0,
        "mel": "htk",
        "power": 2,
        "log": "natural",
        "floor": 1e-6,
    }
    return LogMel(**(usual | changed))


def noise(samples: int = 700) -> Sound:
    values = np.random.default_rng(3).uniform(-0.5, 0.5, samples).astype(np.float32)
    return Sound(samples=values, sample_rate_hz=RATE_HZ)


def tone(frequency_hz: float) -> Sound:
    times = np.arange(RATE_HZ) / RATE_HZ
    return Sound(samples=np.sin(2 * math.pi * frequency_hz * times).astype(np.float32), sample_rate_hz=RATE_HZ)


def mel_of(hertz: float, scale: str) -> float:
    """The two formulas, as their authors write them."""
    if scale == "htk":
        return 1127 * math.log(1 + hertz / 700)
    return 3 * hertz / 200 if hertz < 1_000 else 15 + 27 * math.log(hertz / 1_000) / math.log(6.4)


def hertz_of(mel: float, scale: str) -> float:
    """Found by halving, so that the inverse needs no formula of its own."""
    low, high = 0.0, 20_000.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if mel_of(middle, scale) < mel else (low, middle)
    return low


def energies_by_hand(frame: NDArray[np.float64], step: LogMel) -> list[float]:
    """Energy of each band, by the sums of the definitions; `frame` is as long as the transform, under its window."""
    turns = np.outer(np.arange(step.fft // 2 + 1), np.arange(step.fft)) / step.fft
    magnitudes = np.abs(np.exp(-2j * math.pi * turns) @ frame)
    frequencies = [at * RATE_HZ / step.fft for at in range(step.fft // 2 + 1)]
    low, high = mel_of(step.low_hz, step.mel), mel_of(step.high_hz, step.mel)
    mels = [low + (high - low) * at / (step.bins + 1) for at in range(step.bins + 2)]
    energies = []
    for at in range(step.bins):
        corners = mels[at : at + 3]
        places = [mel_of(frequency, step.mel) for frequency in frequencies]
        if step.triangles == "hertz":
            corners, places = [hertz_of(mel, step.mel) for mel in corners], frequencies
        weights = np.interp(places, corners, [0.0, 1.0, 0.0])
        if step.normalise == "area":
            weights *= 2 / (hertz_of(mels[at + 2], step.mel) - hertz_of(mels[at], step.mel))
        energies.append(float(weights @ magnitudes**step.power))
    return energies


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"mel": "slaney", "normalise": "area"},
        {"triangles": "mel", "power": 1},
        {"mel": "slaney", "triangles": "mel"},
        {"normalise": "area", "low_hz": 0.0, "high_hz": 4_000.0},
        {"window_s": 0.032},
    ],
)
def test_energies_are_those_of_the_definitions(changed: dict[str, Any]) -> None:
    sound, step = noise(), log_mel(**changed)
    window = round(step.window_s * RATE_HZ)
    found = step.apply(sound)
    assert found.values.dtype == np.float32
    assert found.values.shape == (1 + (700 - window) // 64, 12)
    assert (found.frame_s, found.sound_s) == (0.008, 700 / RATE_HZ)
    hann = np.array([math.sin(math.pi * at / window) ** 2 for at in range(window)])
    for at in (0, 3, len(found.values) - 1):
        frame = np.zeros(256)
        frame[:window] = sound.samples[at * 64 : at * 64 + window] * hann
        expected = [math.log(max(energy, 1e-6)) for energy in energies_by_hand(frame, step)]
        assert found.values[at].tolist() == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("centre", ["zeros", "reflect"])
@pytest.mark.parametrize("window", [128, 255, 256])
def test_a_centred_frame_has_its_middle_at_its_time(centre: str, window: int) -> None:
    sound, step = noise(), log_mel(centre=centre, window_s=window / RATE_HZ)
    found = step.apply(sound).values
    assert len(found) == 1 + 700 // 64
    before = sound.samples[1:129][::-1] if centre == "reflect" else np.zeros(128, np.float32)
    after = sound.samples[-129:-1][::-1] if centre == "reflect" else np.zeros(128, np.float32)
    whole = np.concatenate([before, sound.samples, after]).astype(np.float64)
    margin = (256 - window) // 2
    hann = np.zeros(256)
    hann[margin : margin + window] = [math.sin(math.pi * at / window) ** 2 for at in range(window)]
    for at in (0, 5, len(found) - 1):
        expected = [math.log(energy) for energy in energies_by_hand(whole[at * 64 : at * 64 + 256] * hann, step)]
        assert found[at].tolist() == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, math.log(1e-3)),
        ({"log": "log10"}, -3.0),
        ({"log": "db"}, -30.0),
        ({"log": "db", "power": 1}, -60.0),
        ({"log": "log10", "floor_by": "add"}, -3.0),
    ],
)
def test_silence_is_the_logarithm_of_the_floor(changed: dict[str, Any], expected: float) -> None:
    silence = Sound(samples=np.zeros(400, np.float32), sample_rate_hz=RATE_HZ)
    values = log_mel(floor=1e-3, **changed).apply(silence).values
    assert values == pytest.approx(np.full(values.shape, expected), rel=1e-6)


def test_a_floor_that_is_added_raises_everything() -> None:
    added = np.exp(log_mel(floor=0.5, floor_by="add").apply(noise()).values.astype(np.float64))
    plain = np.exp(log_mel(floor=1e-6).apply(noise()).values.astype(np.float64))
    assert added - plain == pytest.approx(np.full(plain.shape, 0.5), rel=1e-3)


@pytest.mark.parametrize("mel", ["htk", "slaney"])
@pytest.mark.parametrize("frequency_hz", [300, 1_000, 2_900])
def test_a_tone_is_loudest_in_the_band_that_it_lies_in(mel: Any, frequency_hz: float) -> None:
    step = log_mel(mel=mel, window_s=0.032)
    low, high = mel_of(60, mel), mel_of(3_800, mel)
    nearest = round((mel_of(frequency_hz, mel) - low) / (high - low) * 13) - 1
    assert set(step.apply(tone(frequency_hz)).values.argmax(axis=1)) == {nearest}


def test_bands_lie_at_the_frequencies_that_slaney_published() -> None:
    """40 filters between 133.3 and 6,855 Hz: 13 evenly 66.7 Hz apart, then 27 by a factor of 1.0711703."""
    filters = make_filters(
        sample_rate_hz=16_000,
        fft=16_384,
        bins=40,
        low_hz=400 / 3,
        high_hz=1_000 * 1.0711703**28,
        mel="slaney",
        triangles="hertz",
        normalise="none",
    )
    middles = [200 + 66.666667 * at for at in range(13)] + [1_000 * 1.0711703**at for at in range(1, 28)]
    assert (filters.argmax(axis=0) * 16_000 / 16_384).tolist() == pytest.approx(middles, abs=0.6)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"fft": 64}, "128 and 64 samples at 8000 Hz, expected a window of 2 to 64"),
        ({"hop_s": 0.00001}, "a hop of 1 or more"),
        ({"high_hz": 4_001.0}, "expected at most 4000"),
    ],
)
def test_refuses_parameters_that_do_not_fit_the_rate(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(BadPipeline, match=said):
        log_mel(**changed).apply(noise())


def test_refuses_bands_upside_down() -> None:
    with pytest.raises(ValueError, match="at least 1 above low_hz"):
        log_mel(low_hz=500.0, high_hz=400.0)


@pytest.mark.parametrize(
    ("samples", "changed", "said"),
    [
        (127, {}, "127 samples, expected at least the 128 of a frame"),
        (128, {"centre": "reflect"}, "expected more than 128 for its mirror image"),
        (70_000, {"window_s": 0.0005, "hop_s": 0.000125}, "frames, expected at most 65536"),
    ],
)
def test_refuses_sounds_of_no_frame_or_of_too_many(samples: int, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        log_mel(**changed).apply(Sound(samples=np.zeros(samples, np.float32), sample_rate_hz=RATE_HZ))


@pytest.mark.parametrize(
    ("layout", "channel", "shape"),
    [
        ("frames-bins", "none", (1, 2, 3)),
        ("bins-frames", "none", (1, 3, 2)),
        ("frames-bins", "first", (1, 1, 2, 3)),
        ("bins-frames", "last", (1, 3, 2, 1)),
    ],
)
def test_lays_a_spectrogram_out(layout: Any, channel: Any, shape: tuple[int, ...]) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    step = FeedSpectrogram(input="in", layout=layout, channel=channel, mean=1.0, std=2.0)
    prepared = step.apply(Spectrogram(values=values, frame_s=0.25, sound_s=0.6))
    (call,) = prepared.calls
    assert call["in"].shape == shape
    assert call["in"].dtype == np.float32
    assert call["in"].flags.c_contiguous
    placed = call["in"].reshape(shape[1:3] if channel != "first" else shape[2:4])
    for frame in range(2):
        for bin_ in range(3):
            place = (frame, bin_) if layout == "frames-bins" else (bin_, frame)
            assert placed[place] == (3 * frame + bin_ - 1) / 2
    assert (prepared.context.call_s, prepared.context.sound_s) == (0.5, 0.6)


@given(st.integers(128, 1_500), st.integers(1, 200), st.sampled_from(["none", "zeros"]))
def test_frames_of_any_sound_are_finite_and_as_many_as_said(samples: int, hop: int, centre: Any) -> None:
    found = log_mel(hop_s=hop / RATE_HZ, centre=centre).apply(noise(samples)).values
    assert len(found) == (1 + samples // hop if centre == "zeros" else 1 + (samples - 128) // hop)
    assert np.isfinite(found).all()
