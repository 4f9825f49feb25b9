"""Does the program, started as the daemon starts it, do what its parts do?"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from shoal_agent.tuned import ServingChoice, ServingChoices
from shoal_wire.encoding import encode
from shoal_wire.tuning import Candidate
from shoal_wire.update import UpdateState
from shoal_worker.channel import Channel

from tests.faults.updater.board import BoardFolder, Site
from tests.faults.updater.publisher import MODEL
from tests.faults.updater.scripted_daemon import ScriptedDaemon

ENDS_WITHIN_S = 60.0


def run_program(board: BoardFolder, daemon: ScriptedDaemon, *options: str) -> subprocess.CompletedProcess[str]:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "shoal_agent.updater", "--fd", str(theirs.fileno()), "--state", str(board.state)]
    with subprocess.Popen(
        [*command, *options], pass_fds=(theirs.fileno(),), stderr=subprocess.PIPE, text=True, env={**os.environ}
    ) as program:
        theirs.close()
        daemon.serve(Channel(ours))
        _, error = program.communicate(timeout=ENDS_WITHIN_S)
    return subprocess.CompletedProcess(command, program.returncode, stderr=error)


def test_program_updates_the_board(board: BoardFolder) -> None:
    ended = run_program(board, ScriptedDaemon(board.state), "--engines", "onnx:onnxruntime")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert board.ended() == (UpdateState.COMMITTED, 2)


def test_program_takes_the_variant_that_was_chosen_on_this_board(
    make_site: Callable[[str], Site], make_board: Callable[[Path, Site], BoardFolder], tmp_path: Path
) -> None:
    site = make_site(tmp_path.name)
    release = site.publisher.release(3, weights=b"first weights" * 300, spare=b"other weights" * 300)
    site.publisher.publish()
    board = make_board(tmp_path / "state", site)
    board.desire(site.publisher.desire(site.publisher.assign(release), generation=1))
    choice = ServingChoice(
        candidate=Candidate(variant="its-old-name", engine="onnxruntime", threads=1),
        files=(release.manifest.file("spare").plaintext_sha256,),
        engine_version="1",
        key="0" * 64,
    )
    write_choices(board, encode(ServingChoices(models={MODEL: choice})))

    ended = run_program(board, ScriptedDaemon(board.state), "--all-variants", "--engines", "onnx:onnxruntime")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert (board.ended(), board.journal().variant) == ((UpdateState.COMMITTED, 1), "onnx-fp32")
    assert board.store() == release.store_names - {release.manifest.file("model").ciphertext_sha256}


def test_damaged_choices_of_tuning_are_told_and_cost_no_update(board: BoardFolder) -> None:
    write_choices(board, b'{"models": 1}')

    ended = run_program(board, ScriptedDaemon(board.state), "--engines", "onnx:onnxruntime")

    assert ended.returncode == 0 and "serving.json" in ended.stderr
    assert board.ended() == (UpdateState.COMMITTED, 2)


def test_choices_of_tuning_that_may_not_be_read_are_told_and_cost_no_update(board: BoardFolder) -> None:
    (board.state / "tuning" / "serving.json").mkdir(parents=True)

    ended = run_program(board, ScriptedDaemon(board.state), "--engines", "onnx:onnxruntime")

    assert ended.returncode == 0 and "serving.json" in ended.stderr
    assert board.ended() == (UpdateState.COMMITTED, 2)
    assert (board.state / "tuning" / "serving.json").is_dir()


def write_choices(board: BoardFolder, raw: bytes) -> None:
    (board.state / "tuning").mkdir()
    (board.state / "tuning" / "serving.json").write_bytes(raw)


def test_program_without_an_engine_refuses_the_release(board: BoardFolder) -> None:
    ended = run_program(board, ScriptedDaemon(board.state))

    assert ended.returncode == 0
    assert board.ended() == (UpdateState.REFUSED, 2)
    assert board.journal().reason.endswith("comes as onnx; engines of this board take none")


def test_refresh_writes_the_keys_and_starts_no_update(board: BoardFolder) -> None:
    keys = (board.state / "trust.json").read_bytes()
    (board.state / "trust.json").unlink()
    journal = board.journal()

    ended = run_program(board, ScriptedDaemon(board.state), "--refresh")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert (board.state / "trust.json").read_bytes() == keys
    assert board.journal() == journal


def test_program_says_later_when_the_fleet_is_away(board: BoardFolder) -> None:
    board.use_server("https://127.0.0.1:1")

    ended = run_program(board, ScriptedDaemon(board.state), "--engines", "onnx:onnxruntime")

    assert ended.returncode == 75
    assert "127.0.0.1:1" in ended.stderr


@pytest.mark.parametrize("name", ["device.json", "tuf/root.json", "keys/tls.pem"])
def test_program_names_what_the_board_lacks(name: str, board: BoardFolder) -> None:
    (board.state / name).unlink()

    ended = run_program(board, ScriptedDaemon(board.state), "--engines", "onnx:onnxruntime")

    assert ended.returncode == 1
    assert name in ended.stderr


def test_program_ends_with_its_daemon(board: BoardFolder) -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "shoal_agent.updater", "--fd", str(theirs.fileno()), "--state", str(board.state)]
    with subprocess.Popen([*command], pass_fds=(theirs.fileno(),), stderr=subprocess.PIPE) as program:
        theirs.close()
        ours.close()
        assert program.wait(ENDS_WITHIN_S) == 1
