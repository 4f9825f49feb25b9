"""May what was measured on a board become part of its profile?"""

import json
from pathlib import Path

import pytest

from hil.measured import Emulated, Measured, rows_for_profile


def test_rows_of_a_real_board_may_enter_a_profile(tmp_path: Path) -> None:
    file = tmp_path / "measured.jsonl"
    measured = Measured(file, is_emulated=False)
    measured.add("idle PSS", 31e6, unit="bytes")
    with measured.seconds("start to serving"):
        pass
    rows = rows_for_profile(file.read_text())
    assert [(row["what"], row["unit"]) for row in rows] == [("idle PSS", "bytes"), ("start to serving", "s")]
    assert rows[0]["value"] == 31e6


def test_one_row_of_an_emulated_board_keeps_all_out(tmp_path: Path) -> None:
    file = tmp_path / "measured.jsonl"
    Measured(file, is_emulated=False).add("a", 1, unit="s")
    Measured(file, is_emulated=True).add("b", 2, unit="s")
    assert [json.loads(line)["is_emulated"] for line in file.read_text().splitlines()] == [False, True]
    with pytest.raises(Emulated, match="b: measured on an emulated board"):
        rows_for_profile(file.read_text())


def test_nothing_is_noted_of_what_failed(tmp_path: Path) -> None:
    file = tmp_path / "measured.jsonl"
    measured = Measured(file, is_emulated=False)
    with pytest.raises(ZeroDivisionError), measured.seconds("boot"):
        raise ZeroDivisionError
    assert not file.exists()
