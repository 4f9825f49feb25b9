"""Which examples does `documents/` hold, and what kind of document is each?"""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shoal_wire.encoding import Document
from shoal_wire.manifest import Manifest, ReleaseDraft
from shoal_wire.messages import (
    Ack,
    AssignmentKeys,
    Batch,
    Desired,
    EnrolmentRequest,
    EnrolmentResponse,
    Presence,
    RenewalChallenge,
    RenewalRequest,
    RenewalResponse,
    Reported,
)
from shoal_wire.metadata import FleetAuthorities, Floors

VECTORS = Path(__file__).parent

KINDS: dict[str, type[Document]] = {
    "ack": Ack,
    "agent_draft": ReleaseDraft,
    "agent_manifest": Manifest,
    "assignment_keys": AssignmentKeys,
    "batch": Batch,
    "desired": Desired,
    "enrolment_request": EnrolmentRequest,
    "enrolment_response": EnrolmentResponse,
    "fleet_authorities": FleetAuthorities,
    "floors": Floors,
    "manifest": Manifest,
    "presence": Presence,
    "release_draft": ReleaseDraft,
    "renewal_challenge": RenewalChallenge,
    "renewal_request": RenewalRequest,
    "renewal_response": RenewalResponse,
    "reported": Reported,
}

STRICT = frozenset({"agent_draft", "release_draft"})
"""Kinds that refuse unknown fields: people write them."""

OWNED = frozenset({"answer", "expected", "floors", "parameters", "reference_output"})
"""Fields whose JSON object wire passes on as it is."""

Way = tuple[str | int, ...]


def load(name: str) -> Any:
    """A vector file."""
    return json.loads((VECTORS / name).read_text())


def example(name: str) -> dict[str, Any]:
    """A document with every field."""
    full: dict[str, Any] = load(f"documents/{name}.json")["full"]
    return full


def to_json(value: Any) -> bytes:
    """As another implementation may write it: white space, keys unsorted, what isn't ASCII in UTF-8."""
    return json.dumps(value, indent=1, ensure_ascii=False).encode()


def places(value: Any, *, at: Way = ()) -> Iterator[tuple[Way, Any]]:
    """Every value of a document that wire looks at, with the way to it."""
    if at:
        yield at, value
    if at and at[-1] in OWNED:
        return
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        yield from places(child, at=(*at, key))


def replace(document: dict[str, Any], way: Way, value: Any) -> dict[str, Any]:
    """The document with one value replaced."""
    changed = copy.deepcopy(document)
    parent: Any = changed
    for step in way[:-1]:
        parent = parent[step]
    parent[way[-1]] = value
    return changed


def with_unknown_fields(document: dict[str, Any]) -> dict[str, Any]:
    """The document with a field that nobody knows in every object that wire looks at."""
    changed = copy.deepcopy(document)
    for way, value in [((), document), *places(document)]:
        if isinstance(value, dict) and not (way and way[-1] in OWNED):
            target: Any = changed
            for step in way:
                target = target[step]
            target["of_the_future"] = {"nested": [1, None, "ü"]}
    return changed
