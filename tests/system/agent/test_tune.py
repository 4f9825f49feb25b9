"""With the real network in the engines that are installed: is the right one chosen, and the wrong one refused?"""

import base64
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from shoal_agent.engine_table import engines_for
from shoal_agent.files import DiskFiles
from shoal_agent.keys import make_missing_keys
from shoal_agent.slots import SLOTS, STORE, Slot, Slots
from shoal_agent.state import DEVICE, Device
from shoal_agent.tuned import load_choices
from shoal_wire.encoding import encode
from shoal_wire.grant import GrantContext, make_grant

from tests.system.agent.front_board import Board
from tests.tunable_release import DAMAGED, ONNX, TFLITE, build_tunable_release

BUDGET_S = 12
AMPLE = ("--batch", "1", "--budget-s", "60")
"""Time to load every variant in every engine at least once, also where the machine is busy."""
DEVICE_ID = "d-board"


def tune(state: Path, *arguments: str, expected: int = 0) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("shoal-agent")), "tune", "note-events", "--state", str(state)]
    command += ["--budget-s", str(BUDGET_S), "--threads", "1", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=os.environ)
    assert done.returncode == expected, done.stderr
    return done


def verdict_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    verdict: dict[str, Any] = json.loads(done.stdout)
    return verdict


@pytest.fixture(scope="module")
def release(release_folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tunable") / "release"
    return build_tunable_release(release_folders / "release-2", out, with_damaged=True)


@pytest.mark.long
def test_chooses_one_that_answers_right_and_refuses_the_damaged_with_its_numbers(release: Path, tmp_path: Path) -> None:
    folder = ("--release-folder", str(release), *AMPLE)
    verdict = verdict_of(tune(tmp_path, *folder, "--json", "--plot", str(tmp_path / "plot.svg")))

    damaged = [one["reason"] for one in verdict["refused"] if one["candidate"]["variant"] == DAMAGED]
    assert len(damaged) == len([one for one in verdict["conditions"]["candidates"] if one["variant"] == DAMAGED])
    assert any("golden cases failed" in reason and "F1 0." in reason for reason in damaged)
    assert {one["candidate"]["variant"] for one in verdict["measured"]} <= {ONNX, TFLITE}
    assert verdict["choice"]["candidate"]["variant"] in (ONNX, TFLITE)
    assert (verdict["board"]["architecture"], bool(verdict["profile"])) == (platform.machine(), True)
    ElementTree.parse(tmp_path / "plot.svg")
    assert not load_choices(DiskFiles(), tmp_path).models, "what this board holds doesn't serve by a folder's verdict"

    again = tune(tmp_path, *folder, "--json")
    assert "an earlier verdict still holds" in again.stderr
    assert verdict_of(again) == verdict

    changed = tune(tmp_path, *folder, "--json", "--limit-p95-ms", "0.001", "--budget-s", "12", expected=1)
    assert verdict_of(changed)["choice"]["candidate"] is None
    assert "at most 0.001 ms allowed" in verdict_of(changed)["choice"]["why"]


def test_a_release_without_a_right_variant_is_an_error(release_folders: Path, tmp_path: Path) -> None:
    folder, state = ("--release-folder", str(release_folders / "release-4")), tmp_path / "absent"
    told = tune(state, *folder, expected=1).stderr
    assert "no candidate answers right" in told and "the verdict isn't kept" in told
    assert not state.exists()


def test_tunes_what_serves_with_the_keys_of_the_device(release: Path, tmp_path: Path) -> None:
    hold_release(tmp_path, release)
    verdict = verdict_of(tune(tmp_path, "--json"))
    assert {one["candidate"]["variant"] for one in verdict["measured"]} == {ONNX}
    assert {one["candidate"]["engine"] for one in verdict["measured"]} <= set(engines_for("onnx", interpreters={}))
    absent = [one["reason"] for one in verdict["refused"] if one["candidate"]["variant"] == TFLITE]
    assert absent and all(reason == "not on this board: nmp.tflite" for reason in absent)
    chosen = load_choices(DiskFiles(), tmp_path).models["note-events"].candidate
    assert (chosen.variant, chosen.engine) == (ONNX, verdict["choice"]["candidate"]["engine"])


def test_a_model_that_no_slot_holds_is_named(tmp_path: Path) -> None:
    hold_device(tmp_path)
    assert "no slot" in tune(tmp_path, expected=1).stderr


def hold_device(state: Path) -> None:
    """A board's own files, as enrolment leaves them."""
    device = Device(
        device=DEVICE_ID,
        name="yard",
        profile="test",
        broker_host="localhost",
        broker_port=1,
        devices_url="https://localhost:1",
        token_sha256="0" * 64,
    )
    DiskFiles().write(state / DEVICE, encode(device))
    make_missing_keys(DiskFiles(), state)


def hold_release(state: Path, release: Path) -> None:
    """A slot with the ONNX variant only, as an update leaves it: there are no grants for files of other variants."""
    hold_device(state)
    key = make_missing_keys(DiskFiles(), state).hpke.public_key()
    board = Board(state)
    held = board.hold(release)
    context = GrantContext(held.reference.release, held.reference.version, DEVICE_ID)
    manifest = json.loads((state / STORE / held.reference.manifest_sha256).read_bytes())
    digests = {file["ciphertext_sha256"]: file["name"] for file in manifest["files"]}
    grants = tuple(
        make_grant(base64.b64decode(board.keys[digest]), key, context=context, ciphertext_sha256=digest, counter=1)
        for digest, name in digests.items()
        if name not in ("nmp.tflite", "damaged.onnx")
    )
    slots = Slots(slots={"note-events": Slot(current=replace(held, grants=grants))})
    DiskFiles().write(state / SLOTS, encode(slots))
