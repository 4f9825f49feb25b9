"""What is said of boards that nobody measured this build on?"""

import pytest
from shoal_converters.board_speeds import judge_board, list_measured, predict_board
from shoal_converters.report.results import Speed, VariantResult
from shoal_wire.device_profile import DeviceProfile, Engine, MeasuredSpeed, parse_profile

PROFILE = """
name = "tiny-board"
board = "Tiny board"
architecture = "aarch64"
engines = ["onnxruntime", "litert"]
ciphers = ["aes-256-gcm"]
memory_bytes = [1_000_000_000, 4_000_000_000]
"""
SPEEDS = """
[[measured_speeds]]
model = "faces"
variant = "tflite-int8"
engine = "litert"
engine_version = "2.3.0"
threads = 2
answers_per_second = 20.0

[[measured_speeds]]
model = "notes"
variant = "tflite-int8"
engine = "litert"
engine_version = "2.3.0"
threads = 2
answers_per_second = 5.0
"""


def profile(speeds: str = "") -> DeviceProfile:
    return parse_profile(PROFILE + speeds)


def variant(name: str = "tflite-int8", *, engine: str = "litert", threads: int = 2, **changes: object) -> VariantResult:
    speed = Speed(
        engine=engine,
        precision="exact",
        threads=threads,
        p50_ms=10.0,
        p95_ms=12.0,
        answers_per_s=100.0,
        memory_bytes=120_000_000,
    )
    values = {"name": name, "format": name.partition("-")[0], "precision": "int8", "how": "", "size_bytes": 5_000_000}
    return VariantResult(**(values | {"speeds": (speed,)} | changes))  # type: ignore[arg-type]


def here(model: str, rate: float) -> MeasuredSpeed:
    return MeasuredSpeed(model, "tflite-int8", Engine.LITERT, "2.3.0", 2, rate)


def test_without_a_measurement_there_is_no_prediction() -> None:
    assert predict_board(profile(), [variant()], model="faces", here=[here("faces", 80.0)]) == ()


def test_a_measurement_of_the_same_model_is_the_prediction() -> None:
    (told,) = predict_board(profile(SPEEDS), [variant()], model="faces")
    assert (told.board, told.variant, told.engine, told.threads) == ("tiny-board", "tflite-int8", "litert", 2)
    assert told.answers_per_s == 20.0
    assert "measured on this kind of board" in told.source


def test_another_model_that_both_machines_measured_scales_this_machines_speed() -> None:
    (told,) = predict_board(profile(SPEEDS), [variant()], model="plants", here=[here("faces", 80.0)])
    assert told.answers_per_s == pytest.approx(100.0 * 20 / 80)
    assert "faces (0.25 x)" in told.source
    assert told.source.startswith("estimated")


def test_several_models_scale_by_their_geometric_mean() -> None:
    known = [here("faces", 80.0), here("notes", 5.0)]
    (told,) = predict_board(profile(SPEEDS), [variant()], model="plants", here=known)
    assert told.answers_per_s == pytest.approx(100.0 * 0.5)  # of 0.25 and 1


@pytest.mark.parametrize(
    "other",
    [variant("tflite-fp32"), variant(threads=1), variant(engine="openvino")],
    ids=["another variant", "other threads", "another engine"],
)
def test_what_was_measured_of_another_kind_predicts_nothing(other: VariantResult) -> None:
    assert predict_board(profile(SPEEDS), [other], model="faces", here=[here("notes", 80.0)]) == ()


def test_what_this_machine_measured_can_be_listed_in_its_profile() -> None:
    (row,) = list_measured([variant()], model="faces", versions={"litert": "2.3.0"})
    assert row == here("faces", 100.0)


def test_a_board_runs_what_one_of_its_engines_reads() -> None:
    (told,) = judge_board(profile(), [variant()])
    assert told.engines == ("litert",)
    assert told.words == "needs 120 MB of memory"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (variant("openvino-int8"), "Tiny board has the engines onnxruntime, litert; openvino is read by openvino"),
        (variant("coreml-fp16"), "Apple"),
        (variant(runtimes=("openvino",)), "only openvino computes it right"),
        (variant(speeds=(), size_bytes=2_000_000_000), "needs 6101 MB of memory; Tiny board has 4000 MB at most"),
    ],
    ids=["no engine", "another system", "engine computes it wrong", "memory"],
)
def test_a_board_that_cannot_run_a_variant_says_why(wrong: VariantResult, words: str) -> None:
    (told,) = judge_board(profile(), [wrong])
    assert told.engines == ()
    assert words in told.words


def test_memory_that_only_larger_boards_have_is_named() -> None:
    (told,) = judge_board(profile(), [variant(speeds=(), size_bytes=500_000_000)])
    assert told.engines == ("litert",)
    assert told.words == "needs 1601 MB of memory: only boards with 4000 MB or more"
