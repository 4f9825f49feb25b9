"""Do the checking front and tuning refuse a network whose outputs moved, and run one by its bindings?"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from shoal_agent import front_messages as messages
from shoal_wire.encoding import encode
from shoal_wire.manifest import Binding, ReferenceOutputs, Variant, parse_draft

from tests.onnx_bytes import gain_model, int8_model
from tests.system.agent.front_board import Board, send
from tests.system.agent.tiny_release import MODEL, OUTPUTS, RIGHT, SAMPLES, SHAPE, WRONG, build_tiny_release

IN_FILE = (1, 1, SAMPLES)
BOUND = tuple(
    Binding(tensor, f"serving_{tensor}" if tensor in OUTPUTS else tensor, "int8", IN_FILE, (0, 2, 1), 1 / 127)
    for tensor in ("x", *OUTPUTS)
)
"""Of a network that has time as its last axis, and everything in int8."""
INT8_DIFFERENCE = 0.02
"""By arithmetic: half a step of 1 / 127 at most, of a root mean square of 0.28."""


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    board = Board(tmp_path)
    yield board
    board.close()


def build(out: Path, *, gain: float, with_int8: bool = False) -> Path:
    """A release whose first variant, of the name RIGHT, is this much too loud."""
    build_tiny_release(out)
    (out / "right.onnx").write_bytes(gain_model(gain, shape=SHAPE, outputs=OUTPUTS))
    draft = parse_draft((out / "release.json").read_bytes())
    (model,) = draft.models
    (case,) = model.golden
    if with_int8:
        (out / "wrong.onnx").write_bytes(int8_model(shape=IN_FILE, outputs=[f"serving_{name}" for name in OUTPUTS]))
        int8 = Variant("int8", "onnx", "int8", ("wrong.onnx",), bindings=BOUND)
        model = replace(model, variants=(model.variants[0], int8))
        reference = ReferenceOutputs(("int8",), "case.npz", INT8_DIFFERENCE, "the sound itself")
        model = replace(model, golden=(replace(case, outputs=(*case.outputs, reference)),))
    (out / "release.json").write_bytes(encode(replace(draft, models=(model,))))
    return out


def check(board: Board, release: Path, *, variant: str) -> messages.Verdict:
    held = replace(board.hold(release), variant=variant)
    channel, _ = board.start_front("--check")
    send(channel, messages.Check(held=held, store=str(board.store), content_keys=board.keys))
    verdict = board.follow(channel, until=lambda message: isinstance(message, messages.Verdict))
    assert isinstance(verdict, messages.Verdict)
    return verdict


@pytest.mark.parametrize(("gain", "passed"), [(1.0, True), (1.05, False)], ids=["right", "damaged"])
def test_answer_that_stays_does_not_hide_outputs_that_moved(
    board: Board, tmp_path: Path, gain: float, passed: bool
) -> None:
    verdict = check(board, build(tmp_path / "release", gain=gain), variant=RIGHT)
    (case,) = verdict.cases
    assert (verdict.passed, case.passed) == (passed, passed)
    assert "F1 1.00" in case.detail, "the answer is right either way"
    assert ("'frames' of call 0: differs by 0.05, allowed are 0.001" in case.detail) is not passed


def test_variant_without_recorded_outputs_is_judged_by_its_answer(board: Board, tmp_path: Path) -> None:
    verdict = check(board, build_tiny_release(tmp_path / "release"), variant=WRONG)
    assert not verdict.passed and "differs" not in verdict.reason


def test_recorded_outputs_that_cannot_be_opened_are_told(board: Board, tmp_path: Path) -> None:
    release = build(tmp_path / "release", gain=1.0)
    (release / "case.npz").write_bytes(b"other")
    verdict = check(board, release, variant=RIGHT)
    assert not verdict.passed and "reference outputs case.npz: not a NumPy .npz file" in verdict.reason


def test_network_in_int8_with_other_axes_is_run_by_its_bindings(board: Board, tmp_path: Path) -> None:
    verdict = check(board, build(tmp_path / "release", gain=1.0, with_int8=True), variant="int8")
    assert verdict.passed, verdict.reason


def test_tuning_measures_the_bound_variant_and_refuses_the_one_whose_outputs_moved(tmp_path: Path) -> None:
    release = build(tmp_path / "release", gain=1.3, with_int8=True)
    command = [str(Path(sys.executable).with_name("shoal-agent")), "tune", MODEL, "--state", str(tmp_path / "absent")]
    command += ["--release-folder", str(release), "--budget-s", "3", "--threads", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert {one["candidate"]["variant"] for one in verdict["measured"]} == {"int8"}
    refused = [one["reason"] for one in verdict["refused"] if one["candidate"]["variant"] == RIGHT]
    assert any("differs by 0.3, allowed are 0.001" in reason for reason in refused), refused
