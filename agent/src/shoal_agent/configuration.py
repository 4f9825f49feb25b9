"""How is the agent told what to take work from, and how much of the board it may use?

One TOML file, by default `agent.toml` in the state folder, which need not be there:

    threads = 2
    outbox_bytes = 67108864

    engines = ["onnxruntime", "litert"]

    [interpreters]
    onnxruntime = "/opt/shoal/bin/python"

    [telemetry]
    interval_s = 60.0

    [tuning]
    at_install = true
    budget_s = 60.0

    [[sources]]
    kind = "folder"
    name = "microphone"
    path = "/srv/recordings"
    release = "note-events"

    [slots.note-events]
    deadline_s = 5.0
    swap = "resource-preserving"
    spares = 1

`SHOAL_THREADS`, `SHOAL_OUTBOX_BYTES` and `SHOAL_LOG_LEVEL` go before the file. Unknown keys are refused, and all
mistakes are told at once.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from shoal_wire.encoding import Identifier, ModelName
from shoal_wire.errors import Malformed
from shoal_wire.toml import read_toml
from shoal_wire.tuning import Objective

from shoal_agent.errors import WrongConfiguration


class FolderSource(msgspec.Struct, frozen=True, kw_only=True):
    """A folder whose files are work for one release."""

    kind: Literal["folder"]
    name: Identifier
    """Names the source in answers; part of what makes an answer's id."""
    path: Annotated[str, Meta(min_length=1)]
    """The folder; a relative one lies beside the configuration file. `${secret:NAME}` in it stands for a secret that
    was set with `shoal secret set`."""
    release: ModelName
    """The release that answers."""


SwapPolicy = Literal["availability-preserving", "resource-preserving"]
"""How one release takes another's place: load beside and flip, or unload first and let items wait for a moment.

The names are those of TensorFlow Serving's version policies.
"""


class SlotSetting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the releases of one model are served here."""

    deadline_s: Annotated[float, Meta(gt=0, le=3600)] = 30.0
    """How long one inference may take. Then it is cancelled, and a worker that doesn't obey is killed."""
    threads: Annotated[int, Meta(ge=0, le=1024)] = 0
    """Of the worker; 0 means an equal part of what all workers together may use."""
    swap: SwapPolicy = "availability-preserving"
    """Where memory doesn't suffice for two releases, the old one goes first in either case."""
    spares: Annotated[int, Meta(ge=0, le=1)] = 0
    """Workers in reserve, loaded and warm: one that dies is replaced at once. Each takes as much memory as the worker
    that answers, and is kept only where there is room for it."""


class TelemetrySetting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often the fleet hears of counts and memory. Each time costs 12 KB of flash and 2.4 KB of network."""

    interval_s: Annotated[float, Meta(ge=1, le=86_400)] = 60.0
    """Between counts of answers, while there are any. Answers and events don't wait for it."""
    idle_interval_s: Annotated[float, Meta(ge=1, le=86_400)] = 600.0
    """Between measurements of memory while nothing was answered."""


class TuningSetting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When and for how long the daemon measures which engine and variant of a release serves best on this board."""

    at_install: bool = True
    """After a release was kept, and again when engines, processor, governor or agent have changed."""
    budget_s: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    """For one model."""
    objective: Objective = "latency"
    all_variants: bool = True
    """Fetch every variant that an engine here runs, unless the fleet knows the best one for boards of this kind.

    Else only the first one in the publisher's order is fetched and tuned.
    """


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """All that the agent can be told."""

    sources: tuple[FolderSource, ...] = ()
    threads: Annotated[int, Meta(ge=0, le=1024)] = 0
    """Processor threads that all workers together may use; 0 means as many as this program may have at all times."""
    engines: tuple[Identifier, ...] = ()
    """Engines that may run models here; empty means all that are found."""
    interpreters: dict[Identifier, str] = {}
    """Engine to the Python interpreter that has it; the agent's own where none is named."""
    telemetry: TelemetrySetting = TelemetrySetting()
    tuning: TuningSetting = TuningSetting()
    slots: dict[ModelName, SlotSetting] = {}
    """By model; one that isn't named has the defaults."""
    outbox_bytes: Annotated[int, Meta(ge=1 << 20, le=1 << 40)] = 64 << 20
    """Size of the answers, events and counts that may wait for the fleet; beyond it the oldest counts are dropped."""
    identity_key: str = ""
    """URI of the identity key in a token or TPM (RFC 7512), for enrolment; empty: a file of the state folder."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"


ENVIRONMENT = {"SHOAL_THREADS": "threads", "SHOAL_OUTBOX_BYTES": "outbox_bytes", "SHOAL_LOG_LEVEL": "log_level"}
"""Variable to the field that it sets."""


def load_configuration(path: Path, *, environment: Mapping[str, str], is_required: bool) -> Configuration:
    """Read the file, if it is there, and the environment.

    Raises:
        WrongConfiguration: a line for each mistake; or the file is missing although it was asked for by name.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        if is_required:
            raise WrongConfiguration(f"{path}: there is no such file") from None
        raw = b""
    except OSError as error:
        raise WrongConfiguration(f"{path}: {error.strerror}") from None
    return parse_configuration(raw, path=path, environment=environment)


def parse_configuration(raw: bytes, *, path: Path, environment: Mapping[str, str]) -> Configuration:
    """The configuration in the bytes of the file at `path`. Raises as `load_configuration` does."""
    try:
        values = read_toml(raw, what=str(path))
    except Malformed as error:
        raise WrongConfiguration(str(error)) from None
    mistakes: list[str] = []
    sources = _read_sources(values.pop("sources", []), mistakes=mistakes, path=path)
    fields = _read_fields(values, Configuration, where=str(path), mistakes=mistakes, is_lax=False)
    named = {field: environment[name] for name, field in ENVIRONMENT.items() if name in environment}
    fields |= _read_fields(named, Configuration, where="environment", mistakes=mistakes, is_lax=True)
    if mistakes:
        raise WrongConfiguration("\n".join(mistakes))
    return Configuration(sources=sources, **fields)


def _read_sources(value: object, *, mistakes: list[str], path: Path) -> tuple[FolderSource, ...]:
    if not isinstance(value, list):
        mistakes.append(f"{path}: sources: expected [[sources]] tables, found {type(value).__name__}")
        return ()
    sources = []
    for index, item in enumerate(value, start=1):
        where = f"{path}: sources[{index}]"
        before = len(mistakes)
        if not isinstance(item, dict):
            mistakes.append(f"{where}: expected a table, found {type(item).__name__}")
            continue
        fields = _read_fields(item, FolderSource, where=where, mistakes=mistakes, is_lax=False)
        if len(mistakes) == before:
            source = FolderSource(**fields)
            sources.append(msgspec.structs.replace(source, path=str(path.absolute().parent / source.path)))
    names = [source.name for source in sources]
    mistakes += [f"{path}: sources: {name!r} is named twice" for name in sorted(set(names)) if names.count(name) > 1]
    return tuple(sources)


def _read_fields(
    values: Mapping[str, object], kind: type[msgspec.Struct], *, where: str, mistakes: list[str], is_lax: bool
) -> dict[str, Any]:
    """The fields of `kind` that `values` holds, each converted by itself so that every mistake is found."""
    known = {field.name: field for field in msgspec.structs.fields(kind)}
    mistakes += [f"{where}: unknown key {key!r}, expected {_listed(known)}" for key in values if key not in known]
    fields = {}
    for name, field in known.items():
        if name in values:
            try:
                fields[name] = msgspec.convert(values[name], field.type, strict=not is_lax)
            except msgspec.ValidationError as error:
                mistakes.append(f"{where}: {name}: {error}")
        elif field.required:
            mistakes.append(f"{where}: {name} is missing")
    return fields


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(names)
