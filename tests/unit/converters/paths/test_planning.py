"""Do plans lead from a source to what is wanted, and say why not where they don't?"""

from hypothesis import given
from hypothesis import strategies as st
from shoal_converters.paths import PATHS, SOURCES, VARIANTS, Path
from shoal_converters.paths.planning import Plan, plan

TORCH = Path("torch_onnx", ("torch",), ("onnx",), ("torch",), "torch")
TWO = Path("two", ("onnx",), ("onnx-a", "onnx-b"), (), "onnx")
SHORT = Path("short", ("torch",), ("final",), (), "x")
LONG = Path("long", ("onnx-a",), ("final",), (), "y")


def _words(made: Plan) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(step.path.module, step.takes, step.gives) for step in made.steps]


def test_steps_that_lead_to_a_variant_come_before_it_and_nothing_else_is_made() -> None:
    made = plan("torch", ["onnx-a"], missing={}, paths=[TWO, TORCH])
    assert _words(made) == [("torch_onnx", "torch", ("onnx",)), ("two", "onnx", ("onnx-a",))]
    assert made.unreachable == {}


def test_one_run_gives_all_variants_that_a_path_gives_and_that_are_wanted() -> None:
    made = plan("onnx", ["onnx-a", "onnx-b"], missing={}, paths=[TWO])
    assert _words(made) == [("two", "onnx", ("onnx-a", "onnx-b"))]


def test_takes_the_longer_way_where_the_short_one_is_missing() -> None:
    paths = [TORCH, TWO, SHORT, LONG]
    assert _words(plan("torch", ["final"], missing={}, paths=paths)) == [("short", "torch", ("final",))]
    assert [step[0] for step in _words(plan("torch", ["final"], missing={"short": "no"}, paths=paths))] == [
        "torch_onnx",
        "two",
        "long",
    ]


def test_says_what_is_missing_on_every_way() -> None:
    missing = {"short": "short needs x", "torch_onnx": "torch_onnx needs torch"}
    made = plan("torch", ["final"], missing=missing, paths=[TORCH, TWO, SHORT, LONG])
    assert made.steps == ()
    assert made.unreachable["final"] == "short needs x; or torch_onnx needs torch"


def test_says_what_is_missing_at_the_source_alone_where_that_is_enough() -> None:
    behind = [Path("other", ("onnx",), ("final",), (), "z"), Path("another", ("onnx",), ("final",), (), "z")]
    missing = {"torch_onnx": "torch_onnx needs torch", "other": "other needs z", "another": "another needs z"}
    assert plan("torch", ["final"], missing=missing, paths=[TORCH, *behind, TWO, LONG]).unreachable == {
        "final": "torch_onnx needs torch"
    }
    del missing["torch_onnx"]
    assert plan("torch", ["final"], missing=missing, paths=[TORCH, *behind]).unreachable == {
        "final": "other needs z; or another needs z"
    }


def test_torch_is_named_once_for_what_leads_from_it_to_openvino() -> None:
    missing = dict.fromkeys(("torch_onnx", "torch_tflite", "torch_coreml"), "torch is missing")
    missing |= {"onnx_tflite": "litert_torch is missing"}
    assert plan("torch-export", ["openvino-int8"], missing=missing).unreachable == {"openvino-int8": "torch is missing"}


def test_says_that_there_is_no_way() -> None:
    made = plan("tflite", ["onnx-int8"], missing={})
    assert made.unreachable == {"onnx-int8": "no conversion leads from tflite to onnx-int8"}


def test_openvino_files_come_from_onnx_where_the_source_is_onnx_and_from_tflite_where_it_is_that() -> None:
    assert _words(plan("onnx", ["openvino-fp16"], missing={})) == [
        ("onnx_fp32", "onnx", ("onnx-fp32",)),
        ("openvino_fp32", "onnx-fp32", ("openvino-fp32",)),
        ("openvino_fp16", "openvino-fp32", ("openvino-fp16",)),
    ]
    assert [step[0] for step in _words(plan("tflite", ["openvino-fp32"], missing={}))] == [
        "tflite_fp32",
        "tflite_openvino",
    ]


@given(
    source=st.sampled_from(sorted(SOURCES)),
    wanted=st.lists(st.sampled_from(sorted(VARIANTS)), unique=True),
    missing=st.lists(st.sampled_from([path.module for path in PATHS]), unique=True),
)
def test_every_step_finds_what_it_takes_and_every_wanted_variant_is_made_or_explained(
    source: str, wanted: list[str], missing: list[str]
) -> None:
    made = plan(source, wanted, missing={module: f"{module} is missing" for module in missing})
    at_hand = {source}
    for step in made.steps:
        assert step.takes in at_hand
        assert step.path.module not in missing
        at_hand.update(step.gives)
    for variant in wanted:
        assert (variant in at_hand) != (variant in made.unreachable)
    assert all(made.unreachable.values())
