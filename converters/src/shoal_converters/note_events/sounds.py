"""How do sounds with known scores come into a folder, one after the other, as a recorder would put them there?"""

import time
from collections.abc import Iterator
from pathlib import Path

from shoal_converters.errors import BuildFailed
from shoal_converters.note_events.evaluation import PlayedSound, play


def place_sounds(out: Path, *, count: int, seed: int, pace_s: float) -> Iterator[tuple[Path, PlayedSound]]:
    """Place `count` WAV files, of the seeds from `seed` on, and give each once it is there.

    One every `pace_s` seconds, the first at once. Who watches the folder sees a file whole or not at all: until it is
    complete its name begins with a dot.

    Raises:
        BuildFailed: the folder can't be written.
    """
    began_s = time.monotonic()
    for number in range(count):
        sound = play(seed + number)
        time.sleep(max(0.0, began_s + number * pace_s - time.monotonic()))
        placed = out / f"sound-{sound.seed:06d}.wav"
        unfinished = out / f".{placed.name}"
        try:
            out.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(sound.wav)
            unfinished.replace(placed)
        except OSError as error:
            raise BuildFailed(f"{placed}: {error}") from error
        yield placed, sound
