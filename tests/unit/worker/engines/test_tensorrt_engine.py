"""Does the TensorRT adapter build plans, keep to them, and tell what it can't do?

Against a fake of TensorRT: nothing here has run on a GPU.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from shoal_agent.front.plans import PlanKey, find_or_build
from shoal_worker.cuda_driver import CudaDriver
from shoal_worker.errors import BadTensor, EngineFailed, EngineMissing, ModelRefused, RunCancelled
from shoal_worker.messages import TensorSpec
from shoal_worker.tensorrt_plan import build_plan

from tests.fake_tensorrt import BuilderFlag, FakeCudaLibrary, FakeTensorRt
from tests.onnx_bytes import add_model
from tests.plan_store import PlanStoreInMemory

LEFT = np.array([[1, 2, 3]], np.float32)


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The adapter's module, imported where something is called tensorrt."""
    monkeypatch.setitem(sys.modules, "tensorrt", ModuleType("tensorrt"))
    monkeypatch.delitem(sys.modules, "shoal_worker.engines.tensorrt_engine", raising=False)
    return importlib.import_module("shoal_worker.engines.tensorrt_engine")


def engine_of(adapter: ModuleType, library: FakeTensorRt, *, plan: bytes | None = None) -> Any:
    built = plan or build_plan(add_model(), precision="exact", library=library)
    return adapter.TensorRtEngine(built, library=library, gpu=CudaDriver(library.cuda), is_new=plan is None)


def test_adds_in_the_memory_of_the_gpu(adapter: ModuleType) -> None:
    engine = engine_of(adapter, FakeTensorRt(FakeCudaLibrary()))
    for rows in (1, 4, 2):
        array = np.repeat(LEFT, rows, axis=0)
        outputs = engine.prepare({"left": array, "right": 2 * array}).run()
        assert outputs["sum"].tolist() == [[3.0, 6.0, 9.0]] * rows


def test_tells_signature_version_and_the_gpu(adapter: ModuleType) -> None:
    engine = engine_of(adapter, FakeTensorRt(FakeCudaLibrary(name="Orin (nvgpu)")))
    assert engine.inputs == (TensorSpec("left", "float32", (None, 3)), TensorSpec("right", "float32", (None, 3)))
    assert engine.outputs == (TensorSpec("sum", "float32", (None, 3)),)
    assert (engine.version, engine.placement) == ("10.3.0", ("Orin (nvgpu), sm_87",))


def test_memory_of_the_gpu_is_kept_and_grows(adapter: ModuleType) -> None:
    library = FakeTensorRt(FakeCudaLibrary())
    engine = engine_of(adapter, library)
    for rows in (4, 1, 8):
        array = np.repeat(LEFT, rows, axis=0)
        engine.prepare({"left": array, "right": array}).run()
        held = sorted(memory.size for memory in library.cuda.memory.values())
        assert held == [max(4, rows) * 3 * 4] * 3


def test_a_plan_that_was_built_here_is_given_back_and_one_that_was_loaded_is_not(adapter: ModuleType) -> None:
    library = FakeTensorRt(FakeCudaLibrary())
    built = engine_of(adapter, library)
    assert built.plan is not None
    assert engine_of(adapter, library, plan=built.plan).plan is None


@pytest.mark.parametrize(
    "other",
    [
        FakeTensorRt(FakeCudaLibrary(name="Xavier")),
        FakeTensorRt(FakeCudaLibrary(), version="10.7.0"),
    ],
    ids=["gpu", "version"],
)
def test_a_plan_of_another_board_is_refused(adapter: ModuleType, other: FakeTensorRt) -> None:
    plan = build_plan(add_model(), precision="exact", library=FakeTensorRt(FakeCudaLibrary()))
    with pytest.raises(ModelRefused, match="doesn't take the plan: built for another GPU"):
        engine_of(adapter, other, plan=plan)


def test_a_damaged_plan_is_built_anew_and_serves_then(adapter: ModuleType) -> None:
    library = FakeTensorRt(FakeCudaLibrary())
    described = CudaDriver(library.cuda).describe()
    key = PlanKey(
        model_sha256="ab" * 32,
        precision="exact",
        engine="tensorrt",
        engine_version=library.__version__,
        device=described,
        board_release="",
    )
    store = PlanStoreInMemory({key.name: b"damaged"})

    def build() -> bytes:
        return build_plan(add_model(), precision="exact", library=library)

    plan, _ = find_or_build(
        key, store=store, build=build, prove=lambda plan: engine_of(adapter, library, plan=plan).version
    )
    assert store.plans == {key.name: plan}
    outputs = engine_of(adapter, library, plan=plan).prepare({"left": LEFT, "right": LEFT}).run()
    assert outputs["sum"].tolist() == [[2.0, 4.0, 6.0]]


def test_damaged_plans_and_models_are_refused(adapter: ModuleType) -> None:
    library = FakeTensorRt(FakeCudaLibrary())
    with pytest.raises(ModelRefused, match="doesn't take the plan"):
        engine_of(adapter, library, plan=b"damaged")
    with pytest.raises(ModelRefused, match="doesn't take the model: Failed to parse"):
        build_plan(b"no model", precision="exact", library=library)


def test_exact_forbids_tf32_and_fast_allows_half_precision() -> None:
    exact, fast = FakeTensorRt(FakeCudaLibrary()), FakeTensorRt(FakeCudaLibrary())
    build_plan(add_model(), precision="exact", library=exact)
    build_plan(add_model(), precision="fast", library=fast)
    assert ("clear_flag", BuilderFlag.TF32) in exact.calls
    assert ("set_flag", BuilderFlag.FP16) not in exact.calls
    assert ("set_flag", BuilderFlag.FP16) in fast.calls


@pytest.mark.parametrize("quantized", [True, False])
def test_int8_is_allowed_where_the_model_is_quantized(quantized: bool) -> None:
    library = FakeTensorRt(FakeCudaLibrary(), quantized=quantized)
    build_plan(add_model(), precision="exact", library=library)
    assert (("set_flag", BuilderFlag.INT8) in library.calls) == quantized


def test_a_plan_is_good_for_batches_up_to_its_limit(adapter: ModuleType) -> None:
    library = FakeTensorRt(FakeCudaLibrary())
    engine = engine_of(adapter, library)
    assert ("set_shape", "left", (1, 3), (1, 3), (32, 3)) in library.calls
    array = np.ones((33, 3), np.float32)
    with pytest.raises(EngineFailed, match=r"wasn't built for input 'left' of shape \(33, 3\)"):
        engine.prepare({"left": array, "right": array}).run()


def test_lengths_behind_the_first_must_be_fixed() -> None:
    with pytest.raises(ModelRefused, match=r"fixed lengths but the first; input 'left' is \(1, -1\)"):
        build_plan(add_model(), precision="exact", library=FakeTensorRt(FakeCudaLibrary(), lengths=(1, -1)))


def test_requests_that_do_not_fit_are_refused(adapter: ModuleType) -> None:
    engine = engine_of(adapter, FakeTensorRt(FakeCudaLibrary()))
    with pytest.raises(BadTensor, match="found float64"):
        engine.prepare({"left": LEFT.astype(np.float64), "right": LEFT})
    inference = engine.prepare({"left": LEFT, "right": LEFT})
    inference.cancel()
    with pytest.raises(RunCancelled):
        inference.run()


def test_errors_of_the_driver_are_told(adapter: ModuleType) -> None:
    cuda = FakeCudaLibrary()
    engine = engine_of(adapter, FakeTensorRt(cuda))
    cuda.error = 700
    with pytest.raises(EngineFailed, match="failed with CUDA driver error 700"):
        engine.prepare({"left": LEFT, "right": LEFT}).run()
    with pytest.raises(EngineMissing, match="no GPU that works here: cuInit failed with CUDA driver error 100"):
        CudaDriver(FakeCudaLibrary(error=100))


@pytest.mark.long
def test_a_real_build_of_the_library_makes_plans_without_a_gpu() -> None:
    library = pytest.importorskip("tensorrt_rtx", reason="tensorrt-rtx isn't installed: pip install tensorrt-rtx")
    for precision in ("exact", "fast"):
        assert len(build_plan(add_model(), precision=precision, library=library)) > 1000
    with pytest.raises(ModelRefused, match="tensorrt doesn't take the model"):
        build_plan(b"no model", precision="exact", library=library)


@pytest.mark.long
def test_names_of_the_fake_exist_in_a_real_build() -> None:
    real = pytest.importorskip("tensorrt_rtx", reason="tensorrt-rtx isn't installed: pip install tensorrt-rtx")
    used = {
        real.Builder: (
            "create_network",
            "create_builder_config",
            "create_optimization_profile",
            "build_serialized_network",
        ),
        real.IBuilderConfig: ("set_flag", "clear_flag", "add_optimization_profile"),
        real.IOptimizationProfile: ("set_shape",),
        real.OnnxParser: ("parse", "num_errors", "get_error"),
        real.INetworkDefinition: ("num_inputs", "get_input", "num_layers", "get_layer"),
        real.Runtime: ("deserialize_cuda_engine",),
        real.ICudaEngine: (
            "num_io_tensors",
            "get_tensor_name",
            "get_tensor_mode",
            "get_tensor_dtype",
            "get_tensor_shape",
            "create_execution_context",
        ),
        real.IExecutionContext: ("set_input_shape", "get_tensor_shape", "set_tensor_address", "execute_async_v3"),
        real.TensorIOMode: ("INPUT", "OUTPUT"),
        real.LayerType: ("QUANTIZE",),
        real.BuilderFlag: ("TF32",),
        real.DataType: ("FLOAT", "HALF", "INT8", "UINT8", "INT32", "INT64", "BOOL"),
    }
    missing = [
        f"{owner.__name__}.{name}" for owner, names in used.items() for name in names if not hasattr(owner, name)
    ]
    assert missing == []
