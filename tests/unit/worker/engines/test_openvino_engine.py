"""Does the OpenVINO adapter load, run, cancel and refuse as a worker needs it?

On a GPU or an NPU it is a fake that is asked: nothing here has run on one.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from shoal_worker.engines import load_engine, openvino_engine
from shoal_worker.errors import BadTensor, EngineFailed, EngineMissing, ModelRefused, RunCancelled
from shoal_worker.memory import linked, seal_bytes
from shoal_worker.messages import Load, TensorSpec

from tests import onnx_bytes, tflite_bytes
from tests.fake_openvino import FakeOpenVinoCore

REQUEST = Load(engine="openvino", format="onnx", threads=1, precision="exact", memory_arena=True, device="")
LEFT = np.array([[1, 2, 3]], np.float32)


def representation(model: bytes, folder: Path) -> list[bytes]:
    """The two files of OpenVINO's own format, written by OpenVINO."""
    import openvino

    openvino.serialize(openvino.Core().read_model(model), folder / "model.xml", folder / "model.bin")
    return [(folder / "model.xml").read_bytes(), (folder / "model.bin").read_bytes()]


def add_files(model_format: str, folder: Path) -> Sequence[bytes]:
    if model_format == "onnx":
        return [onnx_bytes.add_model()]
    if model_format == "tflite":
        return [tflite_bytes.add_model(signature=(-1, 3))]
    return representation(onnx_bytes.add_model(), folder)


@pytest.mark.parametrize("model_format", ["onnx", "tflite", "openvino"])
@pytest.mark.parametrize("precision", ["exact", "fast"])
def test_adds(model_format: str, precision: str, tmp_path: Path) -> None:
    request = replace(REQUEST, format=model_format, precision=precision)
    engine = load_engine(request, files=add_files(model_format, tmp_path))
    for rows in (1, 2):
        array = np.repeat(LEFT, rows, axis=0)
        outputs = engine.prepare({"left": array, "right": 2 * array}).run()
        assert outputs["sum"].tolist() == [[3.0, 6.0, 9.0]] * rows
    assert engine.inputs == (TensorSpec("left", "float32", (None, 3)), TensorSpec("right", "float32", (None, 3)))
    assert engine.outputs == (TensorSpec("sum", "float32", (None, 3)),)
    assert engine.placement == ("CPU",)
    assert "CPU" in engine.devices


def test_tensors_keep_the_names_of_the_file_where_compiling_takes_casts_away() -> None:
    from onnx import TensorProto, helper

    half = helper.make_tensor("two", TensorProto.FLOAT16, [1], [2.0])
    nodes = [
        helper.make_node("Cast", ["image"], ["a-cast"], to=TensorProto.FLOAT16),
        helper.make_node("Mul", ["a-cast", "two"], ["b-double"]),
        helper.make_node("Cast", ["b-double"], ["logits"], to=TensorProto.FLOAT),
    ]
    image, logits = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in ("image", "logits"))
    graph = helper.make_graph(nodes, "halves", [image], [logits], [half])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    engine = load_engine(REQUEST, files=[model.SerializeToString()])
    assert [spec.name for spec in engine.inputs] == ["image"]
    assert engine.prepare({"image": LEFT}).run()["logits"].tolist() == [[2.0, 4.0, 6.0]]


def test_weights_come_from_the_second_file(tmp_path: Path) -> None:
    files = representation(onnx_bytes.matmul_chain_model(size=4, length=1), tmp_path)
    assert len(files[1]) >= 4 * 4 * 4
    engine = load_engine(replace(REQUEST, format="openvino"), files=files)
    assert engine.prepare({"x": np.ones((4, 4), np.float32)}).run()["y"].tolist() == [[0.0] * 4] * 4


def test_exact_computes_in_float32_whatever_the_processor_would_like() -> None:
    # 1 + 2**-10 needs eleven bits of mantissa; bfloat16 has eight.
    engine = load_engine(REQUEST, files=[onnx_bytes.add_model()])
    fine = np.full((1, 3), 1 + 2**-10, np.float32)
    assert engine.prepare({"left": fine, "right": fine}).run()["sum"].tolist() == [[2 + 2**-9] * 3]


@pytest.mark.parametrize(
    ("precision", "types", "chosen"),
    [
        ("exact", ("FP32", "FP16"), {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}),
        ("fast", ("FP32", "FP16"), {"INFERENCE_PRECISION_HINT": "f16"}),
        ("fast", ("FP32", "FP16", "BF16"), {"INFERENCE_PRECISION_HINT": "bf16"}),
        ("fast", ("FP32",), {"INFERENCE_PRECISION_HINT": "f32"}),
    ],
)
def test_a_gpu_is_asked_for_in_the_types_that_precision_allows(
    precision: str, types: tuple[str, ...], chosen: dict[str, object]
) -> None:
    core = FakeOpenVinoCore("GPU", placement=("GPU.0",), types=types)
    request = replace(REQUEST, device="GPU", precision=precision)
    engine = openvino_engine.load_by(core, request, files=[onnx_bytes.add_model()])
    assert (engine.devices, engine.placement) == (("CPU", "GPU"), ("GPU.0",))
    assert core.asked == ("GPU", {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1} | chosen)
    assert engine.prepare({"left": LEFT, "right": 2 * LEFT}).run()["sum"].tolist() == [[3.0, 6.0, 9.0]]


def test_a_device_without_float32_is_refused_where_exactness_was_asked_for() -> None:
    core = FakeOpenVinoCore("NPU", placement=("NPU",), types=("FP16",), computes="f16")
    files = [onnx_bytes.add_model()]
    with pytest.raises(ModelRefused, match="precision exact needs f32, NPU computes in f16; ask for fast"):
        openvino_engine.load_by(core, replace(REQUEST, device="NPU"), files=files)
    request = replace(REQUEST, device="NPU", precision="fast")
    assert openvino_engine.load_by(core, request, files=files).placement == ("NPU",)


def test_its_threads_may_run_on_every_core() -> None:
    before = set(os.listdir("/proc/self/task"))
    engine = load_engine(replace(REQUEST, threads=2), files=[onnx_bytes.matmul_chain_model(size=64, length=2)])
    engine.prepare({"x": np.ones((64, 64), np.float32)}).run()
    started = set(os.listdir("/proc/self/task")) - before
    assert started or os.cpu_count() == 1
    assert {frozenset(os.sched_getaffinity(int(task))) for task in started} <= {frozenset(os.sched_getaffinity(0))}


def test_openvino_pins_threads_to_cores_unless_it_is_told_not_to() -> None:
    import openvino

    core = openvino.Core()
    assert core.compile_model(core.read_model(onnx_bytes.add_model()), "CPU").get_property("ENABLE_CPU_PINNING")


def test_no_descriptor_of_a_tflite_model_is_left_once_it_is_loaded() -> None:
    before = len(os.listdir("/proc/self/fd"))
    load_engine(replace(REQUEST, format="tflite"), files=[tflite_bytes.add_model()])
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_tflite_model_is_read_by_the_path_that_its_front_made() -> None:
    fd = seal_bytes(tflite_bytes.add_model())
    try:
        with linked(fd, ending=".tflite") as path:
            engine = load_engine(replace(REQUEST, format="tflite", path=path), files=[b"taken from the path"])
    finally:
        os.close(fd)
    assert [spec.name for spec in engine.inputs] == ["left", "right"]


def test_its_reporting_package_cannot_be_imported() -> None:
    load_engine(REQUEST, files=[onnx_bytes.add_model()])
    assert sys.modules["openvino_telemetry"] is None
    with pytest.raises(ImportError):
        importlib.import_module("openvino_telemetry")


def test_other_files_that_an_onnx_model_names_are_not_looked_for(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(np.ones(3, np.float32).tobytes())
    model = onnx_bytes.external_weight_model(location=str(tmp_path / "weights"))
    with pytest.raises(ModelRefused, match="would read weights from another file"):
        load_engine(REQUEST, files=[model])


@pytest.mark.parametrize("model_format", ["onnx", "tflite", "openvino"])
@pytest.mark.parametrize("model", [b"", b"not a model"], ids=["empty", "text"])
def test_bytes_that_are_no_model_are_refused(model_format: str, model: bytes) -> None:
    files = [model, b""] if model_format == "openvino" else [model]
    with pytest.raises(ModelRefused, match="openvino doesn't take the model"):
        load_engine(replace(REQUEST, format=model_format), files=files)


def test_truncated_models_are_refused(tmp_path: Path) -> None:
    description, weights = representation(onnx_bytes.matmul_chain_model(size=4, length=1), tmp_path)
    cut = {
        "onnx": [onnx_bytes.add_model()[:-20]],
        "tflite": [tflite_bytes.add_model()[:100]],
        "openvino": [description, weights[:20]],
    }
    for model_format, files in cut.items():
        with pytest.raises(ModelRefused, match="openvino doesn't take the model"):
            load_engine(replace(REQUEST, format=model_format), files=files)


def test_unknown_requests_are_refused() -> None:
    with pytest.raises(EngineMissing, match=r"lists CPU.* here; found 'TPU'"):
        load_engine(replace(REQUEST, device="TPU"), files=[onnx_bytes.add_model()])
    with pytest.raises(ModelRefused, match=r"openvino has 2 file\(s\) here, found 1"):
        load_engine(replace(REQUEST, format="openvino"), files=[b""])


def test_inputs_that_do_not_fit_are_refused() -> None:
    engine = load_engine(REQUEST, files=[onnx_bytes.add_model()])
    with pytest.raises(BadTensor, match="found float64"):
        engine.prepare({"left": LEFT.astype(np.float64), "right": LEFT})
    with pytest.raises(EngineFailed, match="openvino failed"):
        engine.prepare({"left": np.ones((2, 3), np.float32), "right": np.ones((5, 3), np.float32)}).run()


def test_a_run_that_was_cancelled_before_its_start_ends_at_once() -> None:
    engine = load_engine(REQUEST, files=[onnx_bytes.add_model()])
    inference = engine.prepare({"left": LEFT, "right": LEFT})
    inference.cancel()
    with pytest.raises(RunCancelled):
        inference.run()
    assert engine.prepare({"left": LEFT, "right": LEFT}).run()["sum"].tolist() == [[2.0, 4.0, 6.0]]


@pytest.mark.timeout(60)
def test_a_run_can_be_cancelled_from_another_thread() -> None:
    model = onnx_bytes.matmul_chain_model(size=1024, length=500)  # many seconds if nobody stopped it
    engine = load_engine(REQUEST, files=[model])
    for _ in range(2):
        inference = engine.prepare({"x": np.zeros((1024, 1024), np.float32)})
        timer = threading.Timer(0.1, inference.cancel)
        timer.start()
        with pytest.raises(RunCancelled):
            inference.run()
        timer.join()
