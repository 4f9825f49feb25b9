"""Which variants are released: those within the budget that are better at something than the full-precision form."""

import math

import pytest
from shoal_converters.gate import judge
from shoal_converters.report.results import Speed, VariantResult

MEGABYTE = 1 << 20


def variant(
    *,
    name: str = "onnx-int8",
    precision: str = "int8",
    drop: float | None = 0.0,
    size_bytes: int = MEGABYTE,
    p50_ms: float = 5.0,
) -> VariantResult:
    speed = Speed(
        engine="onnxruntime",
        precision="exact",
        threads=1,
        p50_ms=p50_ms,
        p95_ms=p50_ms,
        answers_per_s=1000 / p50_ms,
        memory_bytes=0,
        rounds_ms=(p50_ms,) * 6,
    )
    return VariantResult(
        name=name,
        format=name.partition("-")[0],
        precision=precision,
        how="by a test",
        size_bytes=size_bytes,
        value=None if drop is None else 0.9 - drop,
        drop=drop,
        speeds=(speed,),
    )


FULL = variant(name="onnx-fp32", precision="fp32", size_bytes=4 * MEGABYTE, p50_ms=10.0)


def test_releases_what_is_smaller_and_faster_within_the_budget() -> None:
    verdict = judge(variant(drop=0.01), metric="top-1", max_drop=0.01, full=FULL)
    assert verdict.is_released
    assert verdict.words == ""
    assert verdict.gains == ("smaller", "faster")


def test_refuses_what_loses_more_than_allowed_with_both_numbers() -> None:
    verdict = judge(variant(drop=0.034), metric="top-1", max_drop=0.01, full=FULL)
    assert not verdict.is_released
    assert "0.0340" in verdict.words
    assert "0.01" in verdict.words


def test_refuses_what_is_neither_smaller_nor_faster_with_both_ratios() -> None:
    verdict = judge(variant(size_bytes=5 * MEGABYTE, p50_ms=11.0), metric="top-1", max_drop=0.01, full=FULL)
    assert not verdict.is_released
    assert "1.25 x the size of onnx-fp32" in verdict.words
    assert "0.91 x as fast" in verdict.words


def test_says_of_what_is_only_smaller_that_it_is_not_faster() -> None:
    verdict = judge(variant(p50_ms=14.0), metric="top-1", max_drop=0.01, full=FULL)
    assert verdict.is_released
    assert "not faster" in verdict.words
    assert "0.71 x as fast" in verdict.words


def test_releases_full_precision_without_a_gain() -> None:
    assert judge(FULL, metric="top-1", max_drop=0.01, full=FULL).is_released


def test_releases_the_only_variant_of_a_format_without_a_gain() -> None:
    assert judge(variant(), metric="top-1", max_drop=0.01, full=None).is_released


def test_compares_by_the_name_of_the_variant_not_by_what_its_weights_are() -> None:
    """A source with float16 weights is the model itself all the same."""
    original = variant(name="tflite-fp32", precision="fp16-weights")
    assert judge(original, metric="top-1", max_drop=0.01, full=original).is_released
    slow = variant(name="tflite-int8", size_bytes=2 * MEGABYTE, p50_ms=9.0)
    assert not judge(slow, metric="top-1", max_drop=0.01, full=original).is_released


@pytest.mark.parametrize("drop", [None, math.nan])
def test_refuses_what_was_not_measured(drop: float | None) -> None:
    assert not judge(variant(drop=drop), metric="top-1", max_drop=0.01, full=FULL).is_released
