"""How is a YAML file from outside read? As plain values: no objects, no references, of bounded length."""

from pathlib import Path

import yaml

from shoal_converters.errors import BadModel
from shoal_converters.importing.found import read_bounded

MAX_YAML_BYTES = 1 << 20
MAX_DEPTH = 64
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C where PyYAML was built with it: many times faster."""


def read_yaml(path: Path) -> dict[str, object]:
    """A mapping out of a YAML file.

    Raises:
        BadModel: it can't be read, isn't a mapping, or has references, by which a short text can stand for a huge one.
    """
    return parse_yaml(read_bounded(path, limit_bytes=MAX_YAML_BYTES), what=str(path))


def parse_yaml(raw: bytes, *, what: str) -> dict[str, object]:
    """A mapping out of YAML text. Raises as `read_yaml` does."""
    try:
        _check_events(raw, what=what)
        found = yaml.load(raw, Loader=LOADER)  # noqa: S506 -- one of the safe ones
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadModel(f"{what}: not YAML that can be read ({' '.join(str(error).split())[:200]})") from None
    if not isinstance(found, dict):
        raise BadModel(f"{what}: expected a mapping, found {type(found).__name__}")
    return {str(key): value for key, value in found.items()}


def _check_events(raw: bytes, *, what: str) -> None:
    """Refuse references and deep nesting before anything is built."""
    depth = 0
    for event in yaml.parse(raw, Loader=LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise BadModel(f"{what}: has references (*name), which aren't read")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise BadModel(f"{what}: nested more than {MAX_DEPTH} deep")
