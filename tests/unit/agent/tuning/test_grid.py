"""Which candidates come of engines, variants and processors?"""

import pytest
from shoal_agent.tuning.grid import UsableEngine, batch_sizes, list_candidates, thread_counts
from shoal_wire.manifest import GoldenCase, Model, Operation, Tensor, Variant


def model(*variants: Variant, first: int = -1) -> Model:
    tensor = Tensor("x", "float32", (first, 4))
    case = GoldenCase(name="c", file="f", expected={}, comparison=Operation("notes.f1"), source="")
    return Model(
        name="m", task="t", inputs=(tensor,), outputs=(tensor,), pre=(), post=(), variants=variants, golden=(case,)
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


def test_batches_need_a_free_first_dimension_and_as_many_calls() -> None:
    assert batch_sizes(model(ONNX), (1, 2, 4, 8), calls=5) == (1, 2, 4)
    assert batch_sizes(model(ONNX, first=1), (1, 2, 4), calls=5) == (1,)
