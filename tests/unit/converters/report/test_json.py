"""Is the JSON report the same for the same build, and readable?"""

import math

import msgspec
import pytest
from shoal_converters.errors import BadData
from shoal_converters.report.json import parse_json, write_json
from shoal_converters.report.results import Attempt

from tests.unit.converters.report.report_example import report, variant


def test_equal_reports_give_equal_bytes_in_whatever_order_they_were_filled() -> None:
    versions = report().versions
    turned = report(versions=dict(reversed(versions.items())))
    assert list(turned.versions) != list(versions)
    assert write_json(turned) == write_json(report())


def test_what_was_written_is_read_back() -> None:
    assert parse_json(write_json(report())) == report()


def test_members_are_sorted() -> None:
    told = msgspec.json.decode(write_json(report()))
    assert list(told) == sorted(told)
    assert list(told["variants"][0]) == sorted(told["variants"][0])


def test_a_metric_that_is_not_defined_is_read_back_as_such() -> None:
    attempt = Attempt(method="min-max", value=math.nan, drop=math.nan, size_bytes=1, seconds=1.0)
    undefined = variant("onnx-int8", value=math.nan, attempts=(attempt,))
    (read,) = parse_json(write_json(report(variants=(undefined,)))).variants
    assert read.value is None
    assert math.isnan(read.attempts[0].value)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"name": 3}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_report_is_refused(raw: bytes) -> None:
    with pytest.raises(BadData, match="report"):
        parse_json(raw)
