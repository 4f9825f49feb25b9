"""What does the doctor say of a whole board?"""

from dataclasses import replace
from pathlib import Path

from shoal_agent.doctor.board import Board
from shoal_agent.doctor.examination import CHECKS, examine, is_sound, write_report
from shoal_agent.doctor.findings import Checked, Finding, Health, worst
from shoal_agent.state import Device

from tests.shipped_profiles import BOARDS_DOCUMENT
from tests.unit.agent.doctor.sound_board import make_board


def test_nothing_is_wrong_with_a_sound_board(board: Board) -> None:
    results = examine(board)
    assert [result for result in results if result.health not in (Health.GOOD, Health.UNKNOWN)] == [
        result for result in results if result.check in ("clock", "worker sandbox") and result.health is Health.WARNING
    ]  # these two look at the machine that the test runs on
    assert [result.check for result in results] == list(CHECKS)
    assert is_sound(results)


def test_board_that_is_not_enrolled_is_unknown_and_not_at_fault(board: Board, tmp_path: Path) -> None:
    bare = replace(board, state=tmp_path / "nowhere", device=None)
    by_name = {result.check: result.health for result in examine(bare)}
    assert {by_name[name] for name in ("state folder", "keys", "certificate")} == {Health.UNKNOWN}
    assert is_sound(examine(bare))


def test_check_that_may_not_look_says_so(board: Board) -> None:
    class Forbidden(dict[str, str]):
        def get(self, *_arguments: object) -> str:
            raise PermissionError(13, "Permission denied", "/etc/unit")

    found = next(
        result for result in examine(replace(board, unit=Forbidden(LoadState="loaded"))) if result.check == "unit"
    )
    assert (found.health, "/etc/unit" in found.words, "as root" in found.advice) == (Health.UNKNOWN, True, True)


def test_report_says_what_to_do(board: Board) -> None:
    board.state.chmod(0o755)
    lines = write_report(examine(board)).splitlines()
    place = next(index for index, line in enumerate(lines) if line.startswith("bad"))
    assert lines[place + 1].strip().startswith("→ chmod 0700")
    assert not is_sound(examine(board))


def test_warnings_alone_are_no_failure() -> None:
    results = [Checked(check="a", health=health, words="", advice="") for health in Health if health is not Health.BAD]
    assert is_sound(results)


def test_the_worst_of_several_findings_is_told() -> None:
    findings = [
        Finding(Health.GOOD, "fine"),
        Finding(Health.WARNING, "hot", "cool it"),
        Finding(Health.WARNING, "full", "empty it"),
        Finding(Health.UNKNOWN, "dark"),
    ]
    assert worst(findings) == Finding(Health.WARNING, "hot; full", "cool it; empty it")


def test_nothing_secret_is_said(board: Board) -> None:
    secret = Device(
        **{name: getattr(board.device, name) for name in Device.__struct_fields__} | {"token_sha256": "ab" * 32}
    )
    report = write_report(examine(replace(board, device=secret)))
    assert "private" not in report
    assert "ab" * 32 not in report


def test_a_board_is_looked_at_twice_with_the_same_result(tmp_path: Path) -> None:
    board = make_board(tmp_path)
    assert examine(board) == examine(board)


def test_every_check_has_a_line_in_the_documents() -> None:
    text = BOARDS_DOCUMENT.read_text()
    assert [name for name in CHECKS if f"| {name} |" not in text] == []
