"""Does a device profile contradict itself, or another one? Rules only."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from shoal_wire.device_profile import Architecture, DeviceProfile, MeasuredSpeed

AES = {"aes-256-gcm": True, "chacha20-poly1305": False}
"""Whether a cipher is the faster one where the processor has AES instructions."""

SOURCED = (
    "processor",
    "cores",
    "clusters",
    "memory_bytes",
    "instructions",
    "lacks_instructions",
    "accelerators",
    "power_sources",
    "power_sensors",
    "thermal_limits",
    "storage",
)
"""Fields whose facts come from documents."""


class Measurement(NamedTuple):
    """What one row of `measured_speeds` is about: a profile has one row for each."""

    model: str
    variant: str
    engine: str
    threads: int
    precision: str
    batch: int
    device: str

    def __str__(self) -> str:
        words = f"{self.model} {self.variant} {self.engine} {self.precision} threads={self.threads}"
        words += f" batch={self.batch}" if self.batch != 1 else ""
        return f"{words} device={self.device}" if self.device else words


def subject_of(row: MeasuredSpeed) -> Measurement:
    """What a row is about."""
    return Measurement(row.model, row.variant, row.engine.value, row.threads, row.precision, row.batch, row.device)


def find_mistakes(profile: DeviceProfile) -> tuple[str, ...]:
    """What is wrong with a profile that could be parsed, a sentence each."""
    return tuple(mistake for rule in _RULES for mistake in rule(profile))


def find_clashes(profiles: Sequence[DeviceProfile]) -> tuple[str, ...]:
    """Names and signs that several profiles claim: a board can't be told to be of one of them."""
    clashes = [
        f"{one.name}: expected one profile of that name, found another"
        for one, other in itertools.combinations(profiles, 2)
        if one.name == other.name
    ]
    for one, other in itertools.combinations(profiles, 2):
        both = (set(one.compatible) & set(other.compatible)) | (set(one.processor_names) & set(other.processor_names))
        clashes += [f"{other.name}: {sign!r} is a sign of {one.name} as well" for sign in sorted(both)]
    return tuple(clashes)


def _sources(profile: DeviceProfile) -> Iterator[str]:
    told = [name for name in SOURCED if getattr(profile, name) not in (None, ())]
    if told and not profile.sources:
        yield f"sources: expected the documents that {', '.join(told)} come from, found none"


def _cores(profile: DeviceProfile) -> Iterator[str]:
    total = sum(cluster.cores for cluster in profile.clusters)
    if profile.clusters and profile.cores is not None and total != profile.cores:
        yield f"cores: {profile.cores}, but the clusters have {total}"


def _instructions(profile: DeviceProfile) -> Iterator[str]:
    both = sorted(set(profile.instructions) & set(profile.lacks_instructions))
    if both:
        yield f"lacks_instructions: {', '.join(both)} stand under instructions as well"


def _ciphers(profile: DeviceProfile) -> Iterator[str]:
    first = profile.ciphers[0]
    if "aes" in profile.instructions and not AES[first]:
        yield f"ciphers: {first} is first, but the processor has AES instructions"
    if "aes" in profile.lacks_instructions and AES[first]:
        yield f"ciphers: {first} is first, but the processor has no AES instructions"


def _signs(profile: DeviceProfile) -> Iterator[str]:
    if profile.processor_names and profile.architecture is not Architecture.X86_64:
        yield "processor_names: only x86 kernels print a name; use compatible"


def _speeds(profile: DeviceProfile) -> Iterator[str]:
    subjects = Counter(subject_of(row) for row in profile.measured_speeds)
    for subject, number in subjects.items():
        if number > 1:
            yield f"measured_speeds: {number} rows for {subject}"
    if profile.measured_speeds and not profile.compatible and not profile.processor_names:
        yield "measured_speeds: a profile that no board is known by has timings of no one kind of board"
    for row in profile.measured_speeds:
        where = f"measured_speeds: {subject_of(row)}"
        if (row.joules is None) != (row.joules_source is None):
            yield f"{where}: joules and joules_source go together"
        if row.p50_ms is not None and row.p95_ms is not None and row.p95_ms < row.p50_ms:
            yield f"{where}: p95_ms {row.p95_ms:g} is less than p50_ms {row.p50_ms:g}"
        if row.engine not in profile.engines:
            yield f"{where}: {row.engine.value} isn't among the profile's engines"


_RULES: tuple[Callable[[DeviceProfile], Iterator[str]], ...] = (
    _sources,
    _cores,
    _instructions,
    _ciphers,
    _signs,
    _speeds,
)
