"""What does the doctor say of a board?"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from shoal_agent.doctor import CHECKS, Board, Checked, Health, examine, write_report

NOW = datetime(2027, 5, 1, tzinfo=UTC)
SWAPS = "Filename Type Size Used Priority\n/var/swap file 102396 0 -2\n"
UNIT = {"LoadState": "loaded", "MemorySwapMax": "0", "LimitMEMLOCK": "infinity", "LimitCORE": "0"}


def certificate(*, begins: timedelta, ends: timedelta) -> bytes:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW + begins, NOW + ends)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    """One with nothing wrong."""
    state, proc, system = tmp_path / "state", tmp_path / "proc", tmp_path / "sys"
    (state / "keys").mkdir(parents=True)
    state.chmod(0o700)
    for name in ("identity", "tls", "hpke"):
        (state / "keys" / f"{name}.pem").write_text("private")
        (state / "keys" / f"{name}.pem").chmod(0o600)
    (state / "tls.crt").write_bytes(certificate(begins=timedelta(days=-1), ends=timedelta(days=9)))
    (proc / "sys/kernel").mkdir(parents=True)
    (proc / "swaps").write_text("Filename Type Size Used Priority\n")
    (system / "fs/cgroup").mkdir(parents=True)
    (system / "fs/cgroup/cgroup.controllers").write_text("cpu memory pids\n")
    return Board(state=state, now=NOW.timestamp(), unit=UNIT, proc=proc, system=system)


def check(board: Board, name: str) -> Checked:
    (found,) = (result for result in examine(board) if result.check == name)
    return found


def test_nothing_is_wrong_with_a_sound_board(board: Board) -> None:
    assert [result for result in examine(board) if result.health is Health.BAD] == []
    assert [result.check for result in examine(board)] == list(CHECKS)


def test_board_that_is_not_enrolled_is_unknown_and_not_at_fault(board: Board, tmp_path: Path) -> None:
    bare = replace(board, state=tmp_path / "nowhere")
    for name in ("state folder", "keys", "certificate"):
        assert check(bare, name).health is Health.UNKNOWN


def test_state_folder_that_others_may_read_is_wrong(board: Board) -> None:
    board.state.chmod(0o750)
    found = check(board, "state folder")
    assert (found.health, "0750" in found.words, "chmod 0700" in found.advice) == (Health.BAD, True, True)


def test_state_folder_among_what_workers_read_is_wrong(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(board.state.parent))
    assert check(board, "state folder").health is Health.BAD


def test_key_that_others_may_read_is_named(board: Board) -> None:
    (board.state / "keys/hpke.pem").chmod(0o640)
    found = check(board, "keys")
    assert (found.health, "hpke.pem" in found.words, "tls.pem" in found.words) == (Health.BAD, True, False)


@pytest.mark.parametrize(
    ("begins", "ends", "expected"),
    [(-1, 9, Health.GOOD), (-9, 1, Health.WARNING), (-9, -1, Health.BAD), (1, 9, Health.BAD)],
    ids=["fresh", "not renewed", "ended", "not begun"],
)
def test_certificate_is_judged_by_its_dates(board: Board, begins: int, ends: int, expected: Health) -> None:
    raw = certificate(begins=timedelta(days=begins), ends=timedelta(days=ends))
    (board.state / "tls.crt").write_bytes(raw)
    assert check(board, "certificate").health is expected


def test_damaged_certificate_is_wrong(board: Board) -> None:
    (board.state / "tls.crt").write_text("no certificate")
    assert check(board, "certificate").health is Health.BAD


def test_clock_that_was_never_set_is_wrong(board: Board) -> None:
    assert check(replace(board, now=0.0), "clock").health is Health.BAD


@pytest.mark.parametrize(
    ("unit", "controllers", "expected"),
    [
        (UNIT, "cpu memory pids", Health.GOOD),
        (UNIT | {"LimitMEMLOCK": "8388608"}, "cpu memory pids", Health.GOOD),
        (UNIT, "cpu pids", Health.GOOD),
        (UNIT | {"LimitMEMLOCK": "8388608"}, "cpu pids", Health.BAD),
        (UNIT | {"MemorySwapMax": "infinity", "LimitMEMLOCK": "8388608"}, "cpu memory pids", Health.BAD),
        ({}, "cpu memory pids", Health.WARNING),
    ],
    ids=["both", "by the group", "by the lock", "without controller", "by neither", "without unit"],
)
def test_swap_to_a_disk_is_judged_by_what_forbids_it(
    board: Board, unit: dict[str, str], controllers: str, expected: Health
) -> None:
    (board.proc / "swaps").write_text(SWAPS)
    (board.system / "fs/cgroup/cgroup.controllers").write_text(controllers)
    found = check(replace(board, unit=unit), "swap")
    assert (found.health, "/var/swap" in found.words) == (expected, True)


def test_unit_that_allows_core_files_is_told(board: Board) -> None:
    assert check(replace(board, unit=UNIT | {"LimitCORE": "infinity"}), "core dumps").health is Health.WARNING


def test_report_says_what_to_do(board: Board) -> None:
    board.state.chmod(0o755)
    lines = write_report(examine(board)).splitlines()
    place = next(index for index, line in enumerate(lines) if line.startswith("bad"))
    assert lines[place + 1].strip().startswith("→ chmod 0700")
