"""Is a TFLite file described as it was written, and is a broken one refused?"""

from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shoal_converters.errors import BadModel
from shoal_converters.inspection.facts import Facts
from shoal_converters.inspection.tflite_file import read_tflite

from tests.tflite_bytes import add_model, hybrid_model, matmul_model

WEIGHTS = np.arange(6, dtype=np.float32).reshape(2, 3)


def save(folder: Path, raw: bytes) -> Path:
    path = folder / "model.tflite"
    path.write_bytes(raw)
    return path


def change(raw: bytes, edit: Any) -> bytes:
    """The model with what `edit` does to the schema's own object of it."""
    model = schema.ModelT.InitFromPackedBuf(raw, 0)
    edit(model)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def test_says_inputs_outputs_and_operators_with_versions(tmp_path: Path) -> None:
    facts = read_tflite(save(tmp_path, add_model(signature=(-1, 3))))
    assert [tensor.words for tensor in facts.inputs] == ["left float32 [any, 3]", "right float32 [any, 3]"]
    assert [(tensor.name, tensor.dtype) for tensor in facts.outputs] == [("sum", "float32")]
    assert [(one.name, one.version, one.count) for one in facts.operators] == [("ADD", "1", 1)]
    assert (facts.precision, facts.parameters) == ("fp32", 0)


def test_counts_weights(tmp_path: Path) -> None:
    facts = read_tflite(save(tmp_path, matmul_model(size=4, repeats=2)))
    assert (facts.parameters, facts.parameter_bytes) == (16, 64)


def test_says_how_an_input_is_quantized(tmp_path: Path) -> None:
    def quantize(model: Any) -> None:
        tensor = model.subgraphs[0].tensors[0]
        tensor.type = schema.TensorType.INT8
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale, tensor.quantization.zeroPoint = [0.5], [-7]

    facts = read_tflite(save(tmp_path, change(add_model(), quantize)))
    assert (facts.inputs[0].dtype, facts.inputs[0].scale, facts.inputs[0].zero_point) == ("int8", 0.5, -7)
    assert facts.inputs[0].words == "left int8 [1, 3], quantized: (q - -7) * 0.5"


def test_warns_of_dynamic_range_int8_that_the_old_runtime_computes_wrongly(tmp_path: Path) -> None:
    facts = read_tflite(save(tmp_path, hybrid_model(WEIGHTS, is_per_channel=True)))
    assert facts.precision == "int8-weights"
    assert facts.traits == ("dynamic-int8", "wrong-in-tflite-runtime")
    assert "tflite-runtime 2.14" in facts.notes[0]


def test_dynamic_range_int8_with_one_scale_is_right_everywhere(tmp_path: Path) -> None:
    facts = read_tflite(save(tmp_path, hybrid_model(WEIGHTS, is_per_channel=False)))
    assert (facts.traits, facts.notes) == (("dynamic-int8",), ())


def test_names_custom_operators_but_not_those_that_every_runtime_has(tmp_path: Path) -> None:
    def rename(name: str) -> Any:
        def edit(model: Any) -> None:
            code = model.operatorCodes[0]
            code.deprecatedBuiltinCode = code.builtinCode = schema.BuiltinOperator.CUSTOM
            code.customCode = name

        return edit

    own = read_tflite(save(tmp_path, change(add_model(), rename("FlexErf"))))
    assert (own.custom_operators, own.traits) == (("FlexErf",), ("custom-operators",))
    known = read_tflite(save(tmp_path, change(add_model(), rename("TFLite_Detection_PostProcess"))))
    assert (known.custom_operators, known.operators[0].name) == ((), "TFLite_Detection_PostProcess")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(st.data())
def test_a_cut_or_damaged_file_is_refused_or_read(tmp_path: Path, data: st.DataObject) -> None:
    raw = bytearray(hybrid_model(WEIGHTS, is_per_channel=True))
    at = data.draw(st.integers(8, len(raw) - 1))
    if data.draw(st.booleans()):
        del raw[at:]
    else:
        raw[at] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(read_tflite(save(tmp_path, bytes(raw))), Facts)
    except BadModel as error:
        assert "model.tflite" in str(error)


def test_a_list_that_claims_thousands_of_millions_is_refused(tmp_path: Path) -> None:
    raw = bytearray(add_model())
    table = int.from_bytes(raw[:4], "little")
    vtable = table - int.from_bytes(raw[table : table + 4], "little", signed=True)
    field = table + int.from_bytes(raw[vtable + 8 : vtable + 10], "little")  # Model.subgraphs, field 2
    vector = field + int.from_bytes(raw[field : field + 4], "little")
    raw[vector : vector + 4] = (2**31 - 1).to_bytes(4, "little")
    with pytest.raises(BadModel, match="a broken or cut TFLite file"):
        read_tflite(save(tmp_path, bytes(raw)))
