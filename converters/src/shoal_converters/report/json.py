"""How does a report become a file that programs read, and how is one read back?"""

import math
from typing import Any

import msgspec

from shoal_converters.errors import BadData
from shoal_converters.report.results import Report

MAX_BYTES = 256 << 20
"""Pictures of worst examples are in it."""


def write_json(report: Report) -> bytes:
    """JSON text with sorted keys: equal reports give equal bytes. Ends with a newline.

    Numbers that JSON doesn't have, such as an AUC that isn't defined, are left out.
    """
    told = _leave_out(msgspec.to_builtins(report))
    return msgspec.json.format(msgspec.json.encode(told, order="sorted"), indent=1) + b"\n"


def parse_json(raw: bytes) -> Report:
    """The report that `write_json` wrote.

    Raises:
        BadData: too long, not JSON, or not a report.
    """
    if len(raw) > MAX_BYTES:
        raise BadData(f"report: {len(raw)} bytes, expected at most {MAX_BYTES}")
    try:
        return msgspec.json.decode(raw, type=Report)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadData(f"report: {error}; expected the JSON that shoal-convert wrote") from None


def _leave_out(told: Any) -> Any:
    """Without the members of objects that are infinite or not a number."""
    if isinstance(told, dict):
        return {
            key: _leave_out(value)
            for key, value in told.items()
            if not isinstance(value, float) or math.isfinite(value)
        }
    return [_leave_out(one) for one in told] if isinstance(told, list | tuple) else told
