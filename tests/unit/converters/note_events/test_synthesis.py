"""Is a sound made from its score, and from nothing else?"""

import io
import wave

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from shoal_converters.note_events.synthesis import Score, ScoreNote, compose_score, synthesise_wav

RATE_HZ = 22_050


def samples_of(wav: bytes) -> NDArray[np.int16]:
    with wave.open(io.BytesIO(wav)) as reader:
        assert (reader.getnchannels(), reader.getsampwidth(), reader.getframerate()) == (1, 2, RATE_HZ)
        return np.frombuffer(reader.readframes(reader.getnframes()), dtype="<i2")


def one_note(pitch: int, *, voice: str) -> Score:
    return Score(voice=voice, length_s=2.0, notes=(ScoreNote(pitch=pitch, start_s=0.5, end_s=1.5),))


@given(st.integers(0, 2**32))
def test_scores_keep_to_their_limits(seed: int) -> None:
    score = compose_score(seed)
    assert 2.5 <= score.length_s <= 4.0
    assert 3 <= len(score.notes) <= 60
    assert all(48 <= note.pitch <= 83 for note in score.notes)
    assert all(0 < note.start_s < note.end_s < score.length_s for note in score.notes)
    assert list(score.notes) == sorted(score.notes, key=lambda note: (note.start_s, note.pitch))


@given(st.integers(0, 2**32))
def test_a_pitch_ends_well_before_it_is_struck_again(seed: int) -> None:
    ends: dict[int, float] = {}
    for note in compose_score(seed).notes:
        assert note.start_s - ends.get(note.pitch, 0.0) > 0.1
        ends[note.pitch] = note.end_s


def test_the_same_seed_gives_the_same_sound_and_another_seed_another() -> None:
    first, again, other = (synthesise_wav(compose_score(seed)) for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_the_sound_is_as_long_as_its_score_says() -> None:
    score = compose_score(1)
    assert samples_of(synthesise_wav(score)).size == round(score.length_s * RATE_HZ)


@pytest.mark.parametrize("voice", ["organ", "plucked"])
@pytest.mark.parametrize(("pitch", "frequency_hz"), [(57, 220.0), (60, 261.626), (69, 440.0), (81, 880.0)])
def test_a_note_has_the_frequency_of_its_pitch(voice: str, pitch: int, frequency_hz: float) -> None:
    """Frequencies of equal temperament with A4 = 440 Hz (ISO 16)."""
    samples = samples_of(synthesise_wav(one_note(pitch, voice=voice)))
    strength = np.abs(np.fft.rfft(samples))
    assert np.argmax(strength) * RATE_HZ / samples.size == pytest.approx(frequency_hz, abs=1.0)


@pytest.mark.parametrize("voice", ["organ", "plucked"])
def test_a_note_sounds_while_it_is_held_and_not_before_or_after(voice: str) -> None:
    samples = samples_of(synthesise_wav(one_note(60, voice=voice)))
    first, end = round(0.5 * RATE_HZ), round(1.5 * RATE_HZ)
    assert not samples[:first].any()
    assert not samples[end:].any()
    assert 20_000 < np.abs(samples[first : first + 2_000]).max() < 32_767
