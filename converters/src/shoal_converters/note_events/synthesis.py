"""Which notes a sound holds and how it sounds: a score from a seed, and its WAV bytes by additive synthesis.

The score is known before a sample is made, so it is an answer that no program has guessed. The same seed gives
the same score everywhere; samples may differ in the last bit between builds of NumPy.
"""

import random
import struct
from collections.abc import Callable
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE_HZ = 22_050
LOWEST_PITCH = 48
HIGHEST_PITCH = 83
_LEAD_S = 0.15
_MINIMUM_S = 2.5
_MAXIMUM_S = 4.0
_TAIL_S = 0.25
_PEAK = 0.7
_HARMONICS = 8
_CHORDS = ((0,), (0,), (0,), (0, 4), (0, 3), (0, 7), (0, 4, 7), (0, 3, 7))
"""Semitones above the lowest note of each thing that may be struck; single notes are likelier."""


class ScoreNote(msgspec.Struct, frozen=True, kw_only=True):
    """One note as played: MIDI pitch number, and start and end in seconds from the first sample."""

    pitch: int
    start_s: float
    end_s: float


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """The notes of one sound, by start and then pitch; `voice` names its timbre."""

    voice: str
    length_s: float
    notes: tuple[ScoreNote, ...]


def compose_score(seed: int) -> Score:
    """Give the score that belongs to `seed`: 2.5 to 4 s of notes, pairs and triads, no pitch struck twice in a row.

    Only `random.Random.random` is used, the one generator whose sequence Python promises to keep.
    """
    draw = random.Random(seed).random  # noqa: S311 (music, not a secret)
    voice = _pick(tuple(_VOICES), draw())
    length_s = round(_MINIMUM_S + (_MAXIMUM_S - _MINIMUM_S) * draw(), 3)
    notes: list[ScoreNote] = []
    last: frozenset[int] = frozenset()
    start_s = _LEAD_S
    while True:
        span_s = 0.22 + 0.4 * draw()
        if start_s + span_s > length_s - _TAIL_S:
            break
        pitches = last
        while pitches & last or not pitches:
            chord = _pick(_CHORDS, draw())
            root = LOWEST_PITCH + int(draw() * (HIGHEST_PITCH - LOWEST_PITCH - chord[-1] + 1))
            pitches = frozenset(root + step for step in chord)
        end_s = start_s + span_s * 0.92
        notes.extend(
            ScoreNote(pitch=pitch, start_s=round(start_s, 3), end_s=round(end_s, 3)) for pitch in sorted(pitches)
        )
        last = pitches
        start_s += span_s
    return Score(voice=voice, length_s=length_s, notes=tuple(notes))


def synthesise_wav(score: Score) -> bytes:
    """Play a score: a complete WAV file, PCM16, mono, 22,050 Hz."""
    sound = np.zeros(round(score.length_s * SAMPLE_RATE_HZ), dtype=np.float64)
    voice = _VOICES[score.voice]
    for note in score.notes:
        first = round(note.start_s * SAMPLE_RATE_HZ)
        tone = voice(440.0 * 2.0 ** ((note.pitch - 69) / 12), note.end_s - note.start_s)[: sound.size - first]
        sound[first : first + tone.size] += tone
    loudest = float(np.abs(sound).max(initial=0.0))
    scale = _PEAK / loudest if loudest > 0.0 else 0.0
    return _wrap_pcm16(np.rint(sound * scale * 32_767).astype("<i2"))


_Choice = TypeVar("_Choice")
_Wave = NDArray[np.float64]


def _pick(choices: tuple[_Choice, ...], fraction: float) -> _Choice:
    return choices[int(fraction * len(choices))]


def _play_organ(frequency_hz: float, length_s: float) -> _Wave:
    """Steady harmonics between a soft start and a soft end."""
    time_s = _clock(length_s)
    tone = sum(
        (np.sin(2 * np.pi * frequency_hz * n * time_s) / n**1.3 for n in _audible(frequency_hz)),
        start=np.zeros_like(time_s),
    )
    return tone * _ramp(time_s, length_s=length_s, attack_s=0.012, release_s=0.03)


def _play_plucked(frequency_hz: float, length_s: float) -> _Wave:
    """Harmonics that die away, the high ones first, as those of a string do."""
    time_s = _clock(length_s)
    tone = sum(
        (
            np.sin(2 * np.pi * frequency_hz * n * time_s) * np.exp(-(0.8 + 0.9 * n) * time_s) / n
            for n in _audible(frequency_hz)
        ),
        start=np.zeros_like(time_s),
    )
    return tone * _ramp(time_s, length_s=length_s, attack_s=0.003, release_s=0.02)


_VOICES: dict[str, Callable[[float, float], _Wave]] = {"organ": _play_organ, "plucked": _play_plucked}


def _clock(length_s: float) -> _Wave:
    return np.arange(round(length_s * SAMPLE_RATE_HZ), dtype=np.float64) / SAMPLE_RATE_HZ


def _audible(frequency_hz: float) -> list[int]:
    """Numbers of the harmonics that a sample rate of 22,050 Hz can hold."""
    return [n for n in range(1, _HARMONICS + 1) if frequency_hz * n < 0.45 * SAMPLE_RATE_HZ]


def _ramp(time_s: _Wave, *, length_s: float, attack_s: float, release_s: float) -> _Wave:
    return np.minimum(1.0, np.minimum(time_s / attack_s, np.maximum(length_s - time_s, 0.0) / release_s))


def _wrap_pcm16(samples: NDArray[np.int16]) -> bytes:
    data = samples.tobytes()
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, SAMPLE_RATE_HZ, 2 * SAMPLE_RATE_HZ, 2, 16)
    return (
        b"RIFF"
        + struct.pack("<I", 4 + len(form) + 8 + len(data))
        + b"WAVE"
        + form
        + (b"data" + struct.pack("<I", len(data)) + data)
    )
