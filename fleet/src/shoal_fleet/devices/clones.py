"""Do two boards speak with one device's keys?

Rules only. Each start of a daemon has a random name, its stream, and every report carries it with a counter that is on
the board's disk before the report is sent. One board has one daemon at a time: once a later stream was heard, an
earlier one has nothing new to say. Two boards with the same keys push each other off the broker again and again, and
so their streams take turns.

What a single board may do, and isn't counted:

- A report comes twice: its stream said as much before.
- A report is overtaken by those of a later start: its counter lies below the first one of that start.
- The daemon is started anew, with the counter going on: a stream that wasn't heard before.
- The state folder is restored from an earlier day: a new stream whose counter goes back. It stays the only one.

Limits. Two boards that are never on at the same time look like one that is restored again and again: `went_back`
counts that, and nothing is held for it. Of a board whose daemon was started more than `MOST_STREAMS` times, the
earliest streams are forgotten; a broker that was taken over and kept their reports could play them for another board's,
which at worst has a device held that it could cut off anyway.
"""

import msgspec

MOST_STREAMS = 16
TURNS_TO_HOLD = 4
"""So many turns within `WINDOW_S` are no accident: one report that was under way at a restore can bring about two."""
WINDOW_S = 86400.0


class Stream(msgspec.Struct, frozen=True):
    """One start of the device's daemon, by its reports."""

    name: str
    first: int
    """Lowest counter that was heard."""
    highest: int


class Lineage(msgspec.Struct, frozen=True):
    """What is remembered of a device's reports. Streams stand in the order in which they were first heard."""

    streams: tuple[Stream, ...] = ()
    speaker: str = ""
    """The stream that said something new last."""
    turns: tuple[float, ...] = ()
    """When a stream spoke again after another had: Unix seconds by the fleet's clock, the last `TURNS_TO_HOLD`."""
    went_back: int = 0
    """How often a new stream began below what was heard before."""


def hear(lineage: Lineage, *, stream: str, counter: int, now: float) -> Lineage:
    """The lineage after a report whose signature was verified; the same object where it says nothing new."""
    known = _find(lineage, stream)
    if known is None:
        return _begin(lineage, stream=stream, counter=counter)
    if counter <= known.highest:
        return lineage
    grown = msgspec.structs.replace(known, highest=counter)
    streams = tuple(grown if one.name == stream else one for one in lineage.streams)
    heard = msgspec.structs.replace(lineage, streams=streams)
    if stream == lineage.speaker or _was_overtaken(lineage, known, counter=counter):
        return heard
    recent = (*(at for at in lineage.turns if now - at < WINDOW_S), now)
    return msgspec.structs.replace(heard, speaker=stream, turns=recent[-TURNS_TO_HOLD:])


def is_cloned(lineage: Lineage, *, now: float) -> bool:
    """Whether streams took turns so often of late that two boards must be speaking."""
    return sum(now - at < WINDOW_S for at in lineage.turns) >= TURNS_TO_HOLD


def _begin(lineage: Lineage, *, stream: str, counter: int) -> Lineage:
    goes_back = any(counter <= one.highest for one in lineage.streams)
    return msgspec.structs.replace(
        lineage,
        streams=(*lineage.streams, Stream(stream, counter, counter))[-MOST_STREAMS:],
        speaker=stream,
        went_back=lineage.went_back + goes_back,
    )


def _was_overtaken(lineage: Lineage, known: Stream, *, counter: int) -> bool:
    """Whether the speaker began later and above this report, as it does on one board: then this one was only slow."""
    speaker = _find(lineage, lineage.speaker)
    order = [one.name for one in lineage.streams]
    return speaker is not None and order.index(known.name) < order.index(speaker.name) and counter < speaker.first


def _find(lineage: Lineage, stream: str) -> Stream | None:
    return next((one for one in lineage.streams if one.name == stream), None)
