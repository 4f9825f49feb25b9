"""Which files must be here before a variant can be tuned?"""

import pytest
from shoal_agent.tuning.material import Material
from shoal_wire.manifest import GoldenCase, Model, Operation, ReferenceOutputs, Variant

VARIANTS = (Variant("o", "onnx", "fp32", ("o.onnx",)), Variant("t", "tflite", "fp32", ("t.tflite",)))
CASE = GoldenCase(
    name="c",
    file="c.wav",
    expected={},
    comparison=Operation("equal"),
    source="by hand",
    outputs=(ReferenceOutputs(("o",), "o.npz", 0.1, "measured"),),
)
MODEL = Model(name="m", task="t", inputs=(), outputs=(), pre=(), post=(), variants=VARIANTS, golden=(CASE,))


@pytest.mark.parametrize(
    ("absent", "variant", "lacks"),
    [
        ((), "o", ()),
        (("o.onnx", "t.tflite"), "o", ("o.onnx",)),
        (("o.npz",), "o", ("o.npz",)),
        (("o.npz",), "t", ()),
    ],
)
def test_variant_lacks_its_files_and_those_that_it_is_checked_with(
    absent: tuple[str, ...], variant: str, lacks: tuple[str, ...]
) -> None:
    material = Material(
        model=MODEL, what="a test", digests={}, sizes={}, absent=frozenset(absent), read=lambda name: []
    )
    assert material.lacks(variant) == lacks
