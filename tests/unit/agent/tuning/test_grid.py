"""Which candidates come of engines, variants and processors?"""

import pytest
from msgspec.structs import replace
from shoal_agent.tuning.grid import UsableEngine, batch_sizes, list_candidates, may_batch, spread, thread_counts
from shoal_wire.manifest import Binding, GoldenCase, Model, Operation, Tensor, Variant


def model(*variants: Variant, first: int = -1) -> Model:
    tensor, rate = Tensor("x", "float32", (first, 4)), Tensor("rate", "int64", ())
    case = GoldenCase(name="c", file="f", expected={}, comparison=Operation("notes.f1"), source="")
    return Model(
        name="m", task="t", inputs=(tensor, rate), outputs=(tensor,), pre=(), post=(), variants=variants, golden=(case,)
    )


ONNX = Variant(name="o", format="onnx", precision="fp32", files=("a",))
TFLITE = Variant(name="t", format="tflite", precision="int8", files=("b",))
ENGINES = (
    UsableEngine("onnxruntime", "onnx", "1"),
    UsableEngine("openvino", "onnx", "1"),
    UsableEngine("litert", "tflite", "1"),
)


@pytest.mark.parametrize(("budget", "expected"), [(1, (1,)), (2, (1, 2)), (3, (1, 2, 3)), (6, (1, 2, 4, 6))])
def test_threads_are_powers_of_two_and_the_whole_budget(budget: int, expected: tuple[int, ...]) -> None:
    assert thread_counts(budget) == expected


def test_engines_run_variants_of_their_own_format_only() -> None:
    found = list_candidates(model(ONNX, TFLITE), ENGINES, threads=(1, 2), batches=(1,), architecture="x86_64")
    assert {(one.variant, one.engine) for one in found} == {
        ("o", "onnxruntime"),
        ("o", "openvino"),
        ("t", "litert"),
    }
    assert len(found) == (1 + 2 + 1) * 2  # openvino in both precisions


def test_fast_is_tried_where_the_engine_has_shorter_types_on_this_architecture() -> None:
    found = list_candidates(model(ONNX), ENGINES[:1], threads=(1,), batches=(1,), architecture="aarch64")
    assert [one.precision for one in found] == ["exact", "fast"]


def test_batches_are_no_larger_than_any_golden_case() -> None:
    assert batch_sizes((1, 2, 4, 8), calls=5) == (1, 2, 4)
    assert batch_sizes((2, 4), calls=1) == (1,)


def bound(*shape: int, permutation: tuple[int, ...] = ()) -> Variant:
    """Its file has the tensor in this shape."""
    return replace(TFLITE, bindings=(Binding("x", "serving_x", "float32", shape, permutation),))


@pytest.mark.parametrize(
    ("variant", "first", "expected"),
    [
        (TFLITE, -1, True),
        (TFLITE, 1, False),
        (bound(1, 4), -1, False),
        (bound(-1, 4), -1, True),
        (bound(-1, 4), 1, False),
        (bound(4, -1, permutation=(1, 0)), -1, True),
        (bound(-1, 1, permutation=(1, 0)), -1, False),
    ],
    ids=["free", "fixed", "fixed-in-file", "free-in-file", "free-only-in-file", "free-elsewhere", "fixed-elsewhere"],
)
def test_batches_need_a_first_dimension_that_is_free_in_signature_and_file(
    variant: Variant, first: int, expected: bool
) -> None:
    assert may_batch(model(variant, first=first), variant) is expected


def test_model_of_single_numbers_alone_has_nothing_to_put_together() -> None:
    single = replace(model(TFLITE), inputs=(Tensor("rate", "int64", ()),))
    assert not may_batch(single, TFLITE)


def test_only_variants_that_take_several_calls_are_tried_with_batches() -> None:
    fixed = bound(1, 4)
    found = list_candidates(model(ONNX, fixed), ENGINES, threads=(1,), batches=(1, 4), architecture="riscv64")
    assert [(one.variant, one.engine, one.batch) for one in found] == [
        ("o", "onnxruntime", 1),
        ("o", "onnxruntime", 4),
        ("o", "openvino", 1),
        ("o", "openvino", 4),
        ("t", "litert", 1),
    ]


def test_other_devices_are_tried_in_all_types_with_the_fewest_threads() -> None:
    cuda = "CUDAExecutionProvider"
    engine = UsableEngine("onnxruntime", "onnx", "1", devices=(cuda,))
    found = list_candidates(model(ONNX), (engine,), threads=(1, 2), batches=(1,), architecture="x86_64")
    assert [(one.device, one.precision, one.threads) for one in found] == [
        ("", "exact", 1),
        ("", "exact", 2),
        (cuda, "exact", 1),
        (cuda, "fast", 1),
    ]
    assert [(one.device, one.threads) for one in spread(found)[:2]] == [("", 1), (cuda, 1)]


def test_larger_batches_come_after_every_other_setting() -> None:
    engine = UsableEngine("onnxruntime", "onnx", "1", devices=("GPU",))
    found = spread(list_candidates(model(ONNX), (engine,), threads=(1, 2, 4), batches=(1, 4), architecture="x86_64"))
    assert {one.threads for one in found[: len(found) // 2] if not one.device} == {1, 2, 4}
    processors = [one.batch for one in found if not one.device]
    assert processors == sorted(processors)


def test_engines_that_compute_a_variant_wrongly_are_left_out() -> None:
    right = replace(ONNX, runtimes=("openvino", "tensorrt"))
    found = list_candidates(model(right, TFLITE), ENGINES, threads=(1,), batches=(1,), architecture="riscv64")
    assert [(one.variant, one.engine) for one in found] == [("o", "openvino"), ("t", "litert")]
