"""Does the sentence about a build read right, for one variant and for many?"""

import pytest
from shoal_converters.report.verdict import tell_verdict

from tests.unit.converters.report.report_example import report, variant


@pytest.mark.parametrize(
    ("released", "made", "said"),
    [
        (1, 1, "The only variant of net version 2 is released, within 0.01 of"),
        (2, 2, "All 2 variants of net version 2 are released, within"),
        (1, 3, "1 of 3 variants of net version 2 is released, within"),
        (2, 3, "2 of 3 variants of net version 2 are released, within"),
        (0, 1, "Nothing of net version 2 is released, where"),
    ],
)
def test_says_how_many_are_released(released: int, made: int, said: str) -> None:
    told = tuple(variant(f"onnx-{place}", is_released=place < released, reason="why") for place in range(made))
    assert tell_verdict(report(name="net", version=2, variants=told)).startswith(said)


@pytest.mark.parametrize(("samples", "said"), [(1, "on 1 item"), (2_000, "on 2,000 items")])
def test_says_on_how_many_items(samples: int, said: str) -> None:
    told = tell_verdict(report(samples=samples, variants=(variant("onnx-fp32"),), missing={}))
    assert told.rstrip(".").endswith(said)
