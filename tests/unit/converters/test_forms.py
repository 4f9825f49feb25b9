"""Does a form become a variant that promises what is known of its files?"""

from shoal_converters.forms import Form
from shoal_wire.manifest import Binding, Variant


def test_variant_has_bindings_and_engines_of_its_form() -> None:
    binding = Binding("x", "serving_x", "int8", (1, 4), scale=0.5)
    form = Form(
        name="tflite-int8-weights",
        format="tflite",
        precision="int8-weights",
        files={"model.tflite": b"weights"},
        bindings=(binding,),
        runtimes=("litert", "openvino"),
    )
    assert form.variant == Variant(
        name="tflite-int8-weights",
        format="tflite",
        precision="int8-weights",
        files=("model.tflite",),
        bindings=(binding,),
        runtimes=("litert", "openvino"),
    )
