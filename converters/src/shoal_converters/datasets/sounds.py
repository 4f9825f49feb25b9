"""Which sounds of a folder are items, and what is heard in them?

WAV files in a folder with labels (see `labelled_files`). For events, rows have the columns `label`, `start_s` and
`end_s`; a sound in a folder named for a label is that label from its beginning to its end, or has no events where that
is the option `background`.
"""

from functools import partial

import numpy as np
from shoal_agent.front.operations.audio import DecodeWav
from shoal_agent.front.operations.errors import BadInput

from shoal_converters.datasets.found import Asked, Found, Loaded, Options, parse_options, read_bytes
from shoal_converters.datasets.labelled_files import LabelledFile, list_files
from shoal_converters.errors import BadData

SUFFIXES = (".wav",)
EVENTS = "events"
"""Name of the task for which a label alone isn't enough."""
_RATE_HZ = 16_000
"""At which sounds are looked at; they are passed on as they are."""


class SoundOptions(Options, frozen=True, kw_only=True):
    """Of a set of sounds."""

    background: str = ""
    """Folder of sounds in which there is nothing."""


def find_sounds(asked: Asked) -> list[Found]:
    """WAV files, as `audio.decode_wav` takes them.

    Raises:
        BadData, BadRecipe: see `list_files`.
    """
    options = parse_options(asked, SoundOptions)
    files = list_files(asked.place, suffixes=SUFFIXES)
    return [
        Found(
            name=file.name,
            suffix=".wav",
            stratum=file.label if isinstance(file.label, str) else "",
            load=partial(_load, file, background=options.background, has_events=asked.task == EVENTS),
        )
        for file in files
    ]


def _load(file: LabelledFile, *, background: str, has_events: bool) -> Loaded:
    raw = read_bytes(file.path)
    try:
        sound = DecodeWav(sample_rate_hz=_RATE_HZ, max_s=600.0).apply(raw)
    except BadInput as error:
        raise BadData(f"{file.path}: {error}") from None
    if not has_events or file.label is None:
        return Loaded(raw, file.label)
    length_s = float(np.round(sound.samples.size / _RATE_HZ, 3))
    if isinstance(file.label, str):
        whole = [{"label": file.label, "start_s": 0.0, "end_s": length_s}]
        return Loaded(raw, {"events": [] if file.label == background else whole, "duration_s": length_s})
    return Loaded(raw, {"events": file.label, "duration_s": length_s})
