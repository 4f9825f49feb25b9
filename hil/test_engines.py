"""Does the agent find out which engines compute right on this very processor?"""

import json
from pathlib import Path
from typing import Any

import pytest

from hil.bench import Bench
from hil.strategy import BoardStrategy, State

pytestmark = [pytest.mark.long, pytest.mark.lg_feature("install")]

PROFILE = Path(__file__).resolve().parents[1] / "device_profiles" / "generic-aarch64.toml"
FOLDER = "/var/tmp/release-int8"
BUDGET_S = 60


@pytest.fixture(scope="module")
def verdict(lab: BoardStrategy, bench: Bench) -> dict[str, Any]:
    """What tuning says of the INT8 release on a board that has OpenVINO as well."""
    lab.transition(State.SERVING)
    board = lab.board
    package = bench.package(board, name="shoal-agent-openvino")
    board.put(package, f"/var/tmp/{package.name}")
    board.run(f"apt-get install --yes --quiet /var/tmp/{package.name} </dev/null", timeout_s=3600)
    bench.put_release(board, 2, FOLDER)
    tune = f"shoal-agent tune {bench.model} --release-folder {FOLDER} --budget-s {BUDGET_S} --json"
    found: dict[str, Any] = json.loads(board.run(tune, timeout_s=3600).splitlines()[-1])
    return found


@pytest.mark.lg_feature("emulated")
def test_openvino_that_fails_in_int8_on_a_cortex_a72_is_refused(verdict: dict[str, Any]) -> None:
    refused = {one["candidate"]["engine"]: one["reason"] for one in verdict["refused"]}
    assert "openvino" in refused
    print(f"openvino: {refused['openvino']}")


def test_an_engine_that_computes_right_is_chosen(verdict: dict[str, Any]) -> None:
    assert verdict["choice"]["candidate"]["engine"] in ("onnxruntime", "litert")


@pytest.mark.lg_feature("emulated")
def test_timings_of_an_emulated_board_enter_no_profile(verdict: dict[str, Any], bench: Bench, tmp_path: Path) -> None:
    assert verdict["board"]["is_emulated"] is True
    (tmp_path / "verdict.json").write_text(json.dumps(verdict))
    with pytest.raises(AssertionError, match="made on an emulated board"):
        bench.fleet.command("shoal", "profile", "merge", str(PROFILE), str(tmp_path / "verdict.json"))
