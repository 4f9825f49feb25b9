"""Does the ONNX Runtime adapter load, run, cancel and refuse as a worker needs it?

On a GPU it is a fake that is asked: nothing here has run on one.
"""

from __future__ import annotations

import os
import threading
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
from shoal_worker.engines import load_engine
from shoal_worker.engines.onnxruntime_engine import load_by
from shoal_worker.errors import BadTensor, EngineFailed, EngineMissing, ModelRefused, RunCancelled
from shoal_worker.messages import Load, TensorSpec

from tests.fake_onnxruntime import CPU, CUDA, NO_FALLBACK, RECORDS, TENSORRT, FakeOnnxRuntime
from tests.onnx_bytes import add_model, external_weight_model, matmul_chain_model

REQUEST = Load(engine="onnxruntime", format="onnx", threads=1, precision="exact", memory_arena=True, device="")
TF32 = "NVIDIA_TF32_OVERRIDE"
ONES = np.ones((2, 3), np.float32)


@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("memory_arena", [True, False])
def test_adds(precision: str, memory_arena: bool) -> None:
    engine = load_engine(replace(REQUEST, precision=precision, memory_arena=memory_arena), files=[add_model()])
    outputs = engine.prepare({"left": ONES, "right": 2 * ONES}).run()
    assert list(outputs) == ["sum"]
    assert outputs["sum"].tolist() == [[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]


def test_tells_signature_and_placement() -> None:
    engine = load_engine(REQUEST, files=[add_model(shape=("batch", 3))])
    assert engine.placement == ("CPUExecutionProvider",)
    assert "CPUExecutionProvider" in engine.devices
    assert engine.inputs == (TensorSpec("left", "float32", (None, 3)), TensorSpec("right", "float32", (None, 3)))
    assert engine.outputs == (TensorSpec("sum", "float32", (None, 3)),)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"left": ONES}, r"inputs are \['left', 'right'\], found \['left'\]"),
        ({"left": ONES, "right": ONES, "more": ONES}, "found .*'more'"),
        ({"left": ONES, "right": ONES.astype(np.float64)}, r"'right' is float32 \[any, 3\], found float64 \[2, 3\]"),
        ({"left": ONES, "right": ONES.T}, r"'right' is float32 \[any, 3\], found float32 \[3, 2\]"),
        ({"left": ONES[0], "right": ONES}, r"'left' is float32 \[any, 3\], found float32 \[3\]"),
    ],
    ids=["missing", "unknown", "type", "shape", "rank"],
)
def test_inputs_that_do_not_fit_are_refused(feeds: dict[str, np.ndarray], message: str) -> None:
    engine = load_engine(REQUEST, files=[add_model()])
    with pytest.raises(BadTensor, match=message):
        engine.prepare(feeds)


def test_lengths_that_vary_but_do_not_fit_each_other_fail_in_the_engine() -> None:
    engine = load_engine(REQUEST, files=[add_model()])
    inference = engine.prepare({"left": ONES, "right": np.ones((5, 3), np.float32)})
    with pytest.raises(EngineFailed, match="onnxruntime failed"):
        inference.run()


@pytest.mark.parametrize(
    "model",
    [b"", b"not a model", add_model()[:-20], add_model()[:40], external_weight_model(location="etc/hostname")],
    ids=["empty", "text", "end-missing", "half", "weights-in-a-file"],
)
def test_bytes_that_are_no_whole_model_are_refused(model: bytes) -> None:
    with pytest.raises(ModelRefused, match=r"onnxruntime (doesn't take the model|would read weights from)"):
        load_engine(REQUEST, files=[model])


def test_signatures_that_do_not_fit_into_messages_are_refused() -> None:
    with pytest.raises(ModelRefused, match="16 dimensions, found 4 and 17"):
        load_engine(REQUEST, files=[add_model(shape=(1,) * 17)])


def test_unknown_requests_are_refused() -> None:
    with pytest.raises(EngineMissing, match=r"engine must be one of onnxruntime, .* or a plug-in .*; found 'abacus'"):
        load_engine(replace(REQUEST, engine="abacus"), files=[add_model()])
    with pytest.raises(ModelRefused, match="takes onnx; found a model in format 'tflite'"):
        load_engine(replace(REQUEST, format="tflite"), files=[add_model()])
    with pytest.raises(ModelRefused, match="precision must be one of exact, fast; found 'sloppy'"):
        load_engine(replace(REQUEST, precision="sloppy"), files=[add_model()])
    with pytest.raises(ModelRefused, match=r"onnx has 1 file\(s\) here, found 2"):
        load_engine(REQUEST, files=[add_model(), b""])


@pytest.mark.parametrize("device", ["CUDAExecutionProvider", "TensorrtExecutionProvider", "AbacusExecutionProvider"])
def test_a_provider_that_this_build_lacks_is_refused_and_not_replaced(device: str) -> None:
    if device in onnxruntime.get_available_providers():
        pytest.skip(f"this build of onnxruntime has {device}")
    with pytest.raises(EngineMissing, match=f"lists CPUExecutionProvider here; found '{device}'"):
        load_engine(replace(REQUEST, device=device), files=[add_model()])


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_onnxruntime_itself_only_warns_of_a_provider_that_it_lacks() -> None:
    session = onnxruntime.InferenceSession(add_model(), providers=["AbacusExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]


@pytest.fixture(autouse=True)
def keep_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is settled for a whole worker isn't for all tests."""
    monkeypatch.setenv(TF32, "as it was")


@pytest.mark.parametrize(
    ("operators", "placement"),
    [({CUDA: 5}, (CUDA,)), ({CPU: 2, CUDA: 5}, (CUDA, CPU)), ({CUDA: 1, CPU: 7}, (CPU, CUDA))],
)
def test_a_gpu_is_asked_for_and_who_got_most_is_told(operators: dict[str, int], placement: tuple[str, ...]) -> None:
    library = FakeOnnxRuntime(operators=operators)
    engine = load_by(library, replace(REQUEST, device=CUDA), model=add_model())
    assert (engine.placement, engine.devices, engine.version) == (placement, (TENSORRT, CUDA, CPU), "1.24.0")
    assert list(library.providers) == [CUDA, CPU]
    assert engine.prepare({"left": ONES, "right": 2 * ONES}).run()["sum"].tolist() == [[3.0] * 3] * 2


@pytest.mark.parametrize(
    ("library", "error", "message"),
    [
        (FakeOnnxRuntime(operators={CUDA: 1}, starts=False), EngineMissing, f"couldn't start {CUDA}, it would run on"),
        (FakeOnnxRuntime(operators={CPU: 3}), ModelRefused, f"{CUDA} runs no operator of the model, all .* on {CPU}"),
        (
            FakeOnnxRuntime(operators={CUDA: 9, CPU: 1}, tells=False),
            ModelRefused,
            f"take the model on {CUDA}: .*CPU EP",
        ),
    ],
    ids=["no-gpu", "nothing-for-the-gpu", "untold-rest-on-the-processor"],
)
def test_another_device_than_was_asked_for_is_never_taken(
    library: FakeOnnxRuntime, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        load_by(library, replace(REQUEST, device=CUDA), model=add_model())


def test_a_version_that_cannot_tell_gives_the_gpu_everything() -> None:
    library = FakeOnnxRuntime(operators={TENSORRT: 4}, tells=False)
    engine = load_by(library, replace(REQUEST, device=TENSORRT), model=add_model())
    assert (engine.placement, list(library.providers)) == ((TENSORRT,), [TENSORRT])


@pytest.mark.parametrize("device", [CUDA, TENSORRT])
def test_a_gpu_multiplies_exactly_only_where_that_was_asked_for(device: str) -> None:
    library = FakeOnnxRuntime(operators={device: 1})
    load_by(library, replace(REQUEST, device=device, precision="fast"), model=add_model())
    assert (library.providers[CUDA].get("use_tf32"), os.environ[TF32]) == (None, "as it was")
    assert library.providers.get(TENSORRT, {}).get("trt_fp16_enable") == ("1" if device == TENSORRT else None)
    load_by(library, replace(REQUEST, device=device), model=add_model())
    assert (library.providers[CUDA]["use_tf32"], os.environ[TF32]) == ("0", "0")
    assert "trt_fp16_enable" not in library.providers.get(TENSORRT, {})


@pytest.mark.parametrize("precision", ["exact", "fast"])
def test_tensorrt_is_told_to_write_no_plan_beside_the_program(precision: str) -> None:
    library = FakeOnnxRuntime(operators={TENSORRT: 1})
    load_by(library, replace(REQUEST, device=TENSORRT, precision=precision), model=add_model())
    caches = {name: value for name, value in library.providers[TENSORRT].items() if "cache" in name}
    assert caches == {"trt_engine_cache_enable": "0", "trt_timing_cache_enable": "0"}


def test_the_installed_onnxruntime_forbids_and_tells_as_the_fake_does() -> None:
    other = "AzureExecutionProvider"  # which takes no operator of any model
    if other not in onnxruntime.get_available_providers():
        pytest.skip(f"this build of onnxruntime has no {other}, which stands for a device that gets nothing")
    strict = options_with(NO_FALLBACK)
    for providers, message in (([other], "assigned to the default CPU EP"), ([other, CPU], "added the CPU EP")):
        with pytest.raises(Exception, match=message):
            onnxruntime.InferenceSession(add_model(), strict, providers=providers)
    session = onnxruntime.InferenceSession(add_model(), options_with(RECORDS), providers=[other, CPU])
    told = [(one.ep_name, len(one.get_nodes())) for one in session.get_provider_graph_assignment_info()]
    assert (told, session.get_providers()) == ([(CPU, 1)], [other, CPU])


def options_with(key: str) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry(key, "1")
    return options


def test_the_processor_may_be_asked_for_by_name() -> None:
    engine = load_engine(replace(REQUEST, device="CPUExecutionProvider"), files=[add_model()])
    assert engine.placement == ("CPUExecutionProvider",)


def test_a_run_that_was_cancelled_before_its_start_ends_at_once() -> None:
    engine = load_engine(REQUEST, files=[add_model()])
    inference = engine.prepare({"left": ONES, "right": ONES})
    inference.cancel()
    with pytest.raises(RunCancelled):
        inference.run()
    assert engine.prepare({"left": ONES, "right": ONES}).run()["sum"].shape == (2, 3)


@pytest.mark.timeout(60)
def test_a_run_can_be_cancelled_from_another_thread() -> None:
    engine = load_engine(
        REQUEST, files=[matmul_chain_model(size=1024, length=500)]
    )  # many seconds if nobody stopped it
    inference = engine.prepare({"x": np.zeros((1024, 1024), np.float32)})
    timer = threading.Timer(0.1, inference.cancel)
    timer.start()
    with pytest.raises(RunCancelled):
        inference.run()
    timer.join()
