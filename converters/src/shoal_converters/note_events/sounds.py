"""How do sounds with known scores come into a folder, one after the other, as a recorder would put them there?"""

from collections.abc import Iterator
from pathlib import Path

from shoal_converters.note_events.evaluation import PlayedSound, play
from shoal_converters.placing import Pace


def place_sounds(out: Path, *, count: int, seed: int, pace_s: float) -> Iterator[tuple[Path, PlayedSound]]:
    """Place `count` WAV files, of the seeds from `seed` on, and give each once it is there; see `Pace`.

    Raises:
        BuildFailed: the folder can't be written.
    """
    pace = Pace(out, pace_s=pace_s)
    for number in range(seed, seed + count):
        sound = play(number)
        yield pace.place(f"sound-{number:06d}.wav", sound.wav), sound
