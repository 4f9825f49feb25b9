"""Do two variants differ as far as they were made to, output by output and layer by layer?"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, quantize_static
from PIL import Image
from shoal_agent.front.probe_models import PROBE_MODELS
from shoal_converters.command_line import run
from shoal_converters.comparing.command import add_parser
from shoal_converters.comparing.sides import find_sides
from shoal_wire.encoding import encode
from shoal_wire.manifest import (
    Binding,
    DraftFile,
    GoldenCase,
    Model,
    Operation,
    ReleaseDraft,
    Tensor,
    Variant,
)

RANDOM = np.random.default_rng(5)
KERNEL = RANDOM.standard_normal((4, 3, 3, 3)).astype(np.float32)
DENSE = RANDOM.standard_normal((4, 2)).astype(np.float32)


def shoal_diff(*arguments: str) -> int:
    parser = argparse.ArgumentParser(prog="shoal-convert")
    add_parser(parser.add_subparsers(required=True))
    return run(parser, ["diff", *arguments])


def diff_json(first: Path, second: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    assert shoal_diff(str(first), str(second), "--json", *more) == 0
    (line,) = capsys.readouterr().out.splitlines()
    document: dict[str, Any] = json.loads(line)
    return document


def save_network(path: Path, *, gain: float = 1.0, is_channels_last: bool = False, name: str = "x") -> Path:
    """conv, relu, mean, dense: `gain` multiplies the result of the convolution."""
    shape = [1, 6, 6, 3] if is_channels_last else [1, 3, 6, 6]
    turn = [helper.make_node("Transpose", [name], ["turned"], perm=[0, 3, 1, 2])] if is_channels_last else []
    nodes = [
        *turn,
        helper.make_node("Conv", ["turned" if is_channels_last else name, "kernel"], ["conv"]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("GlobalAveragePool", ["relu"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("MatMul", ["flat", "dense"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
        [numpy_helper.from_array(KERNEL * np.float32(gain), "kernel"), numpy_helper.from_array(DENSE, "dense")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    """A few random pictures."""

    def __init__(self) -> None:
        random = np.random.default_rng(6)
        self._calls = iter([{"x": random.standard_normal((1, 3, 6, 6)).astype(np.float32)} for _ in range(8)])

    def get_next(self) -> dict[str, Any] | None:
        return next(self._calls, None)


def test_a_model_does_not_differ_from_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save_network(tmp_path / "a.onnx")
    told = diff_json(path, path, capsys)
    assert [output["difference"]["max_abs"] for output in told["outputs"]] == [0.0]
    assert [layer["name"] for layer in told["layers"]] == ["conv", "relu", "mean"]
    assert all(layer["difference"]["max_abs"] == 0.0 for layer in told["layers"])


def test_a_changed_layer_is_where_they_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = diff_json(save_network(tmp_path / "a.onnx"), save_network(tmp_path / "b.onnx", gain=1.5), capsys)
    assert told["outputs"][0]["difference"]["rms_relative"] == pytest.approx(0.5, rel=1e-4)
    assert told["layers"][0]["difference"]["rms_relative"] == pytest.approx(0.5, rel=1e-4)
    assert told["layers"][0]["difference"]["cosine"] == pytest.approx(1.0)


def test_a_quantized_layer_is_compared_with_what_the_next_one_gets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = save_network(tmp_path / "a.onnx"), tmp_path / "b.onnx"
    quantize_static(first, second, Calibration())
    told = diff_json(first, second, capsys)
    layers = {layer["name"]: layer["difference"]["rms_relative"] for layer in told["layers"]}
    assert {"relu", "mean"} <= layers.keys()
    assert all(0 < difference < 0.1 for difference in layers.values())
    assert "random inputs lie outside the range that a quantized model was calibrated for: use --data" in told["notes"]


def test_channels_last_and_another_name_are_the_same_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second = save_network(tmp_path / "b.onnx", is_channels_last=True, name="image")
    told = diff_json(save_network(tmp_path / "a.onnx"), second, capsys)
    assert told["outputs"][0]["difference"]["max_abs"] < 1e-5
    assert any("'x' is taken for 'image'" in note for note in told["notes"])
    assert any("become [1, 6, 6, 3]" in note for note in told["notes"])


def test_formats_are_compared_output_by_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for name, content in (("a.onnx", "onnx"), ("b.tflite", "tflite"), ("c.xml", "openvino")):
        paths.append(tmp_path / name)
        paths[-1].write_bytes(PROBE_MODELS[content][0])
    for other in paths[1:]:
        told = diff_json(paths[0], other, capsys, "--count", "3")
        assert told["calls"] == 3
        assert told["outputs"][0]["difference"]["max_abs"] < 1e-6
        assert "layers aren't compared" in told["notes"][0]


def test_openvino_models_are_compared_layer_by_layer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    import openvino

    paths = []
    for name, gain in (("a", 1.0), ("b", 1.5)):
        model = openvino.convert_model(str(save_network(tmp_path / f"{name}.onnx", gain=gain)))
        paths.append(tmp_path / f"{name}.xml")
        openvino.save_model(model, str(paths[-1]), compress_to_fp16=False)
    told = diff_json(paths[0], paths[1], capsys)
    assert told["layers"][0]["operator"] == "Convolution"
    assert told["layers"][0]["difference"]["rms_relative"] == pytest.approx(0.5, rel=1e-3)


def save_release(folder: Path, *, runtimes: tuple[str, ...] = ()) -> Path:
    """One model as ONNX, as the same with channels last, and with another gain, which `runtimes` compute right."""
    folder.mkdir()
    save_network(folder / "first.onnx")
    save_network(folder / "last.onnx", is_channels_last=True, name="image")
    save_network(folder / "louder.onnx", gain=1.5)
    Image.fromarray(np.arange(108, dtype=np.uint8).reshape(6, 6, 3)).save(folder / "golden.png")
    turned = Binding("x", "image", "float32", (1, 6, 6, 3), permutation=(0, 2, 3, 1))
    model = Model(
        name="net",
        task="classification",
        inputs=(Tensor("x", "float32", (1, 3, 6, 6)),),
        outputs=(Tensor("y", "float32", (1, 2)),),
        pre=(
            Operation("image.decode"),
            Operation("image.fit", {"width": 6, "height": 6, "how": "stretch", "method": "nearest"}),
            Operation("image.feed", {"input": "x", "colours": "rgb", "layout": "nchw", "dtype": "float32"}),
        ),
        post=(Operation("embedding.read", {"output": "y"}),),
        variants=(
            Variant("first", "onnx", "fp32", ("first.onnx",)),
            Variant("last", "onnx", "fp32", ("last.onnx",), bindings=(turned,)),
            Variant("louder", "onnx", "fp32", ("louder.onnx",), runtimes=runtimes),
        ),
        golden=(GoldenCase("one", "golden.png", {}, Operation("classes.first"), ""),),
    )
    files = [*(DraftFile(f"{name}.onnx", "model", f"{name}.onnx") for name in ("first", "last", "louder"))]
    draft = ReleaseDraft(
        name="net",
        version=1,
        created_at="2026-01-01",
        licence="MIT",
        provenance="",
        models=(model,),
        files=(*files, DraftFile("golden.png", "golden", "golden.png")),
    )
    (folder / "release.json").write_bytes(encode(draft))
    return folder


def test_variants_of_a_release_are_compared_as_their_bindings_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = save_release(tmp_path / "net-1")
    told = diff_json(Path(f"{release}:first"), Path(f"{release}:last"), capsys, "--no-layers")
    assert told["outputs"][0]["difference"]["rms_relative"] < 1e-5
    assert told["notes"] == [f"inputs are those of the golden cases of {release}:net/first"]
    assert told["calls"] == 1


def test_a_variant_is_run_in_an_engine_that_computes_it_right(tmp_path: Path) -> None:
    release = save_release(tmp_path / "net-1", runtimes=("openvino",))
    assert [side.engine for side in find_sides(f"{release}")] == ["onnxruntime", "onnxruntime", "openvino"]
    elsewhere = save_release(tmp_path / "net-2", runtimes=("tensorrt",))
    assert [side.variant for side in find_sides(f"{elsewhere}")] == ["net/first", "net/last"]


def test_golden_cases_of_the_second_are_taken_where_the_first_is_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release, alone = save_release(tmp_path / "net-1"), save_network(tmp_path / "a.onnx")
    told = diff_json(alone, Path(f"{release}:louder"), capsys, "--no-layers")
    assert told["notes"] == [f"inputs are those of the golden cases of {release}:net/louder"]
    assert told["outputs"][0]["difference"]["rms_relative"] == pytest.approx(0.5, rel=1e-4)


def test_golden_cases_that_cannot_be_the_inputs_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release, alone = save_release(tmp_path / "net-1"), save_network(tmp_path / "a.onnx", name="image")
    told = diff_json(alone, Path(f"{release}:first"), capsys, "--no-layers", "--count", "2")
    assert any(
        "expected the arrays ['image'], found ['x'], so they aren't the inputs" in note for note in told["notes"]
    )
    assert told["calls"] == 2


def test_releases_are_compared_by_variants_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = save_release(tmp_path / "net-1"), save_release(tmp_path / "net-2")
    assert shoal_diff(str(first), str(second), "--json", "--no-layers", "--count", "1") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["first"].rpartition("/")[2] for line in lines] == ["first", "last", "louder"]
    assert shoal_diff(f"{first}:medium", str(second)) == 1
    assert "variant 'medium' isn't among them" in capsys.readouterr().err


def test_own_inputs_are_taken_and_models_of_another_kind_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save_network(tmp_path / "a.onnx")
    np.savez(tmp_path / "feeds.npz", x=np.zeros((1, 3, 6, 6), np.float32))
    told = diff_json(path, path, capsys, "--data", str(tmp_path / "feeds.npz"), "--no-layers")
    assert (told["calls"], told["layers"]) == (1, [])
    other = tmp_path / "b.onnx"
    other.write_bytes(PROBE_MODELS["onnx"][0])
    assert shoal_diff(str(path), str(other)) == 1
    assert "1 and 2 inputs" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        shoal_diff(str(path), str(other), "--count", "0")
    assert ended.value.code == 2
