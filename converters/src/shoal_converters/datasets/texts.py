"""Which lines of a file are items, and what is expected of each?

A JSON object a line: `text` (a string), and `label` unless the set has no labels.
"""

from functools import partial

import msgspec

from shoal_converters.datasets.found import Asked, Found, Loaded, Options, parse_options, read_bytes
from shoal_converters.errors import BadData


class _Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str
    label: object = None


def find_texts(asked: Asked) -> list[Found]:
    """Texts, named by their line from 1; their bytes are UTF-8.

    Raises:
        BadData: unreadable, or a line that isn't such an object.
        BadRecipe: there are no options.
    """
    parse_options(asked, Options)
    found = []
    for number, raw in enumerate(read_bytes(asked.place).splitlines(), 1):
        if not raw.strip():
            continue
        try:
            line = msgspec.json.decode(raw, type=_Line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadData(f"{asked.place}: line {number}: {error}") from None
        stratum = line.label if isinstance(line.label, str) else ""
        load = partial(Loaded, line.text.encode(), line.label)
        found.append(Found(name=f"line {number}", suffix=".txt", stratum=stratum, load=load))
    return found
