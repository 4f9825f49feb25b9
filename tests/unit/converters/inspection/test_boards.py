"""Is said which boards can run a model, in which engine, and why not?"""

from pathlib import Path

import msgspec
import pytest
from shoal_converters.errors import BadRecipe
from shoal_converters.inspection.boards import INSTALLATION, OBSTACLES, judge_boards, load_profiles
from shoal_converters.inspection.facts import BoardVerdict, EngineRun, Facts
from shoal_wire.device_profile import Architecture, DeviceProfile, Engine

PROFILES = Path(__file__).resolve().parents[4] / "device_profiles"
BOARD = DeviceProfile(
    name="board",
    board="A board",
    architecture=Architecture.AARCH64,
    engines=(Engine.TENSORRT, Engine.ONNXRUNTIME),
    ciphers=("aes-256-gcm",),
    memory_bytes=(1 << 30, 8 << 30),
)
MEGABYTE = 1 << 20


def judge(
    facts: Facts, *, size_bytes: int = MEGABYTE, runs: tuple[EngineRun, ...] = (), board: DeviceProfile = BOARD
) -> BoardVerdict:
    (verdict,) = judge_boards(facts, [board], size_bytes=size_bytes, runs=runs)
    return verdict


def test_an_engine_that_answers_here_should_run_on_the_board() -> None:
    ran = EngineRun(engine="onnxruntime", version="1.32", loads=True, answers=True)
    verdict = judge(Facts(format="onnx"), runs=(ran,))
    assert verdict.fits
    assert [engine.fits for engine in verdict.engines] == [True, True]
    assert verdict.engines[1].reasons == ()
    assert "it wasn't tried in this engine here" in verdict.engines[0].reasons


def test_what_an_engine_here_refuses_is_refused_there() -> None:
    refused = EngineRun(engine="onnxruntime", version="1.32", reason="no such operator")
    engine = judge(Facts(format="onnx"), runs=(refused,)).engines[1]
    assert (engine.fits, engine.reasons) == (False, ("onnxruntime 1.32 refuses it here",))


def test_an_engine_that_is_not_installed_here_refused_nothing() -> None:
    absent = EngineRun(engine="tensorrt", reason="not installed here (module tensorrt)")
    assert judge(Facts(format="onnx"), runs=(absent,)).engines[0].fits


def test_a_trait_keeps_the_engines_out_that_it_names() -> None:
    verdict = judge(Facts(format="onnx", traits=("quantized-bias",)))
    assert [engine.fits for engine in verdict.engines] == [False, True]
    assert "make onnx-int8-tensorrt" in verdict.engines[0].reasons[0]
    assert verdict.fits


def test_a_format_that_no_engine_reads_names_the_conversion() -> None:
    verdict = judge(Facts(format="paddle"))
    assert not verdict.fits
    openvino = msgspec.structs.replace(BOARD, engines=(Engine.OPENVINO,))
    assert "convert it to openvino" in judge(Facts(format="paddle"), board=openvino).engines[0].reasons[0]


def test_core_ml_runs_elsewhere() -> None:
    assert "Apple" in judge(Facts(format="coreml")).engines[0].reasons[0]


def test_memory_says_which_sizes_are_enough() -> None:
    verdict = judge(Facts(format="onnx"), size_bytes=400 * MEGABYTE)
    assert verdict.fits
    assert verdict.memory.endswith("boards with 8 GiB")
    too_large = judge(Facts(format="onnx"), size_bytes=4000 * MEGABYTE)
    assert not too_large.fits
    assert "more than 75% of the 8 GiB" in too_large.memory


def test_the_tables_name_engines_that_exist() -> None:
    known = {engine.value for engine in Engine}
    assert {name for obstacles in OBSTACLES.values() for one in obstacles for name in one.engines} <= known
    assert {engine.value for engine, _ in INSTALLATION} <= known


def test_loads_all_profiles_and_refuses_a_folder_without(tmp_path: Path) -> None:
    assert {profile.name for profile in load_profiles(PROFILES)} == {path.stem for path in PROFILES.glob("*.toml")}
    with pytest.raises(BadRecipe, match="expected device profiles"):
        load_profiles(tmp_path)
    (tmp_path / "broken.toml").write_text("name = 3")
    with pytest.raises(BadRecipe, match="device profile"):
        load_profiles(tmp_path)
