"""Is an OpenVINO IR described as it is written, without entities and within bounds?"""

from pathlib import Path

import pytest
from shoal_agent.front.probe_models import PROBE_MODELS
from shoal_converters.errors import BadModel
from shoal_converters.inspection.openvino_file import read_openvino

SUM = PROBE_MODELS["openvino"][0].decode()
CONSTANT = (
    '<layer id="9" name="w" type="Const" version="opset1"><data element_type="{}" shape="2,3" offset="8" size="{}"/>'
    '<output><port id="0" precision="FP32"><dim>2</dim><dim>3</dim></port></output></layer>'
)


def save(folder: Path, text: str, *, weights: bytes | None = None) -> Path:
    path = folder / "model.xml"
    path.write_text(text)
    if weights is not None:
        path.with_suffix(".bin").write_bytes(weights)
    return path


def with_constant(element_type: str, *, size: int, more: str = "") -> str:
    return SUM.replace("<layers>", "<layers>" + CONSTANT.format(element_type, size) + more)


def test_says_inputs_outputs_and_layers(tmp_path: Path) -> None:
    facts = read_openvino(save(tmp_path, SUM))
    assert [tensor.words for tensor in facts.inputs] == ["left float32 [1, 3]", "right float32 [1, 3]"]
    assert [tensor.words for tensor in facts.outputs] == ["sum float32 [1, 3]"]
    assert {(one.name, one.version, one.count) for one in facts.operators} == {
        ("Parameter", "opset1", 2),
        ("Add", "opset1", 1),
        ("Result", "opset1", 1),
    }
    assert (facts.versions["IR"], facts.external_files, facts.traits) == ("11", (), ())


def test_free_axes_are_free(tmp_path: Path) -> None:
    facts = read_openvino(save(tmp_path, SUM.replace("<dim>1</dim>", "<dim>-1</dim>")))
    assert facts.inputs[0].shape == (-1, 3)


@pytest.mark.parametrize(("element_type", "precision"), [("f32", "fp32"), ("f16", "fp16"), ("u8", "int8-weights")])
def test_precision_is_that_of_most_weights(tmp_path: Path, element_type: str, precision: str) -> None:
    facts = read_openvino(save(tmp_path, with_constant(element_type, size=24), weights=bytes(32)))
    assert (facts.precision, facts.parameters, facts.external_files) == (precision, 6, ("model.bin",))


def test_fake_quantize_layers_are_static_int8(tmp_path: Path) -> None:
    fake = '<layer id="8" name="q" type="FakeQuantize" version="opset1"/>'
    facts = read_openvino(save(tmp_path, with_constant("f32", size=24, more=fake), weights=bytes(32)))
    assert (facts.precision, facts.how_quantized) == ("int8", "static INT8: 1 FakeQuantize layers")


@pytest.mark.parametrize(("weights", "words"), [(None, "must lie beside it, and doesn't"), (bytes(31), "cut short")])
def test_says_that_weights_are_missing_or_cut(tmp_path: Path, weights: bytes | None, words: str) -> None:
    facts = read_openvino(save(tmp_path, with_constant("f32", size=24), weights=weights))
    assert "incomplete" in facts.traits
    assert words in facts.notes[0]


def test_layers_of_no_operation_set_are_custom(tmp_path: Path) -> None:
    facts = read_openvino(save(tmp_path, SUM.replace('type="Add" version="opset1"', 'type="Gizmo" version="mine"')))
    assert (facts.custom_operators, facts.traits) == (("Gizmo",), ("custom-operators",))


BOMB = '<!DOCTYPE net [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><net version="11" name="&b;"/>'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BOMB, "has a document type"),
        ("<html></html>", "expected <net>, found <html>"),
        (SUM[: len(SUM) // 2], "broken or cut XML"),
        ("<net>" * 200, "nested more than 128 deep"),
        (with_constant("f32", size=-5), "negative place"),
        (with_constant("f32", size=24).replace('"8"', '"eight"'), "no number"),
        (SUM.replace('to-layer="3"', 'to-layer="7"'), "comes from nowhere"),
        ('<?xml version="1.0" encoding="klingon"?><net/>', "broken or cut XML"),
    ],
)
def test_refuses_hostile_and_broken_text(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(BadModel, match=reason):
        read_openvino(save(tmp_path, text))
