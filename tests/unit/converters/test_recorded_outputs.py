"""Which outputs does a release record, and how far may others lie off?"""

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.operations.values import Tensors, Verdict
from shoal_agent.front.reference_outputs import read_reference
from shoal_converters.errors import BuildFailed
from shoal_converters.recorded_outputs import (
    GREATEST_DIFFERENCE,
    LEAST_DIFFERENCE,
    LEAST_QUANTIZED_DIFFERENCE,
    MAX_RECORDED_BYTES,
    add_reference_outputs,
    record_outputs,
    write_npz,
)
from shoal_converters.spread import Judged
from shoal_wire.manifest import GoldenCase, Model, Operation, Tensor, Variant
from shoal_wire.tuning import Candidate

ONES = np.ones((1, 4), np.float32)


def model(*outputs: str) -> Model:
    variants = tuple(Variant(name, "onnx", name, (name,)) for name in ("fp32", "fp16", "int8"))
    cases = tuple(GoldenCase(name, name, {}, Operation("equal"), "by hand") for name in ("easy", "hard"))
    tensors = tuple(Tensor(name, "float32", (1, 4)) for name in outputs or ("y",))
    return Model(name="m", task="t", inputs=(), outputs=tensors, pre=(), post=(), variants=variants, golden=cases)


def run(variant: str, outputs: Tensors, *, precision: Any = "exact", passed: bool = True) -> Judged:
    """With the same outputs in both cases."""
    return Judged(
        candidate=Candidate(variant=variant, engine="engine", precision=precision, threads=1),
        version="1.2",
        verdicts=(Verdict(passed=passed, score=1.0, words=""),) * 2,
        outputs=((outputs,),) * 2,
    )


def record(*judged: Judged, variants: tuple[str, ...] = ("fp32", "fp16"), of: Model | None = None) -> Any:
    return record_outputs(of or model(), judged, case=0, variants=variants, file="r.npz")


def test_first_exact_run_is_recorded_and_the_farthest_of_the_others_counts_three_times() -> None:
    found = record(
        run("fp32", {"y": ONES * 7}, precision="fast", passed=False),
        run("fp32", {"y": ONES * 1.02}, precision="fast"),
        run("fp16", {"y": ONES}),
        run("fp32", {"y": ONES * 0.98}),
        run("int8", {"y": ONES * 5}),
    )
    assert found.outputs.maximum_difference == pytest.approx(0.06, rel=0.05)
    assert found.outputs.maximum_difference >= 0.06
    assert (found.outputs.variants, found.outputs.file) == (("fp32", "fp16"), "r.npz")
    assert {place: array.tolist() for place, array in read_reference([found.content], what="r").items()} == {
        (0, "y"): ONES.tolist()
    }
    assert found.outputs.source.startswith("Recorded of fp16 in engine 1.2 (exact). Allowed 0.06")
    assert "difference of 2 other runs by correct engines" in found.outputs.source
    assert "0.02 (fp32 in engine 1.2 (exact)), times 3" in found.outputs.source


def test_a_fast_run_widens_what_is_allowed_by_a_tenth_only() -> None:
    """It may be far off, and damage must not hide behind it."""
    found = record(
        run("fp32", {"y": ONES}), run("fp16", {"y": ONES * 1.01}), run("fp32", {"y": ONES * 1.16}, precision="fast")
    )
    assert found.outputs.maximum_difference == pytest.approx(0.176, rel=0.05)
    assert "0.16 (fp32 in engine 1.2 (fast)), times 1.1" in found.outputs.source


def test_quantized_outputs_may_be_a_step_off_on_another_processor() -> None:
    alike = [run("int8", {"y": ONES}), run("int8", {"y": ONES})]
    assert record(*alike, variants=("int8",)).outputs.maximum_difference == LEAST_QUANTIZED_DIFFERENCE


@given(st.floats(0, 0.49))
def test_what_is_allowed_is_never_too_little_nor_more_than_half(part: float) -> None:
    other = ONES.astype(np.float64) * (1 + part)
    allowed = record(run("fp32", {"y": ONES}), run("fp32", {"y": other})).outputs.maximum_difference
    assert allowed in (LEAST_DIFFERENCE, GREATEST_DIFFERENCE) or part * 2.999 <= allowed <= part * 3.301


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([run("int8", {"y": ONES})], "golden case easy: no exact run of .*'fp32'.* answers rightly"),
        ([run("fp32", {"y": ONES}, precision="fast")], "no exact run"),
        ([run("fp32", {"y": ONES}, passed=False)], "no exact run"),
        (
            [run("fp32", {"y": ONES}), run("fp16", {"y": ONES * 1.6})],
            r"outputs of fp16 in engine 1\.2 \(exact\) differ from those of fp32 .* by 0\.6 of their size, expected ",
        ),
        ([run("fp32", {"y": ONES}), run("fp16", {"y": ONES[0]})], r"'y' has the shape \[4\], elsewhere \[1, 4\]"),
        ([run("fp32", {"y": ONES}), run("fp16", {"y": ONES * np.nan})], "fp16 .* 'y' holds what isn't a finite number"),
        ([run("fp32", {"y": ONES * np.nan})], "fp32 .* 'y' holds what isn't a finite number"),
    ],
    ids=["other-variant", "fast-only", "wrong", "far-off", "shape", "not-finite", "recorded-not-finite"],
)
def test_runs_that_do_not_compute_the_same_are_refused(runs: list[Judged], words: str) -> None:
    with pytest.raises(BuildFailed, match=words):
        record(*runs)


def test_only_outputs_of_the_signature_that_every_run_gave_are_recorded() -> None:
    outputs = {"y": ONES, "aside": ONES, "z": ONES}
    found = record(run("fp32", outputs), run("fp32", {"y": ONES, "aside": ONES}), of=model("y", "z"))
    assert {place.output for place in read_reference([found.content], what="r")} == {"y"}


def test_outputs_too_large_for_a_release_are_left_out() -> None:
    large = np.zeros((1, MAX_RECORDED_BYTES // 4), np.float32)
    found = record(run("fp32", {"a": ONES, "b": large}), of=model("a", "b"))
    assert {place.output for place in read_reference([found.content], what="r")} == {"a"}
    assert record(run("fp32", {"a": np.zeros((2, large.size))}), of=model("a")) is None


def test_each_case_gets_outputs_for_each_group_of_variants() -> None:
    runs = [run("fp32", {"y": ONES}), run("fp16", {"y": ONES}), run("int8", {"y": ONES * 2})]
    described, contents = add_reference_outputs(model(), runs, same=[("fp32", "fp16"), ("int8",)])
    named = [[(one.variants, one.file) for one in case.outputs] for case in described.golden]
    assert named == [
        [(("fp32", "fp16"), f"outputs-{number}-1.npz"), (("int8",), f"outputs-{number}-2.npz")] for number in (1, 2)
    ]
    assert set(contents) == set(described.golden_files) - {"easy", "hard"}


def test_equal_arrays_give_equal_bytes_that_numpy_reads() -> None:
    arrays = {(1, "y"): ONES * 2, (0, "z/w:0"): np.array([[1, 2]]).T}
    content = write_npz(arrays)
    assert content == write_npz(dict(reversed(arrays.items())))
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        assert {name: (found[name].dtype.name, found[name].tolist()) for name in found.files} == {
            "0/z/w:0": ("float32", [[1.0], [2.0]]),
            "1/y": ("float32", [[2.0] * 4]),
        }
