"""Is what a device says shown as text, whatever it holds, and a table fit for a program that reads lines?"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from shoal_fleet.command.output import listing, print_result, print_table, printable, table, when

COLUMNS = {"WHAT": lambda row: row}


def drawn(*rows: object) -> str:
    console = Console(width=200, file=None, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(table(rows, COLUMNS))
    return capture.get()


@pytest.mark.parametrize("text", ["[bold]x[/bold]", "[/]", "[red", ":smile:", "[link=file:///etc]x[/link]"])
def test_markup_is_only_text(text: str) -> None:
    assert text in drawn(text)


@pytest.mark.parametrize("text", ["\x1b[2J", "\x1b]0;title\x07", "a\rb", "a\nb", "\x9b2J", "\u202egnp.exe", "\x00"])
def test_nothing_that_a_terminal_obeys_is_let_through(text: str) -> None:
    for shown in (printable(text), drawn(text), listing({"what": text})):
        assert not set("\x00\x07\x1b\r\x9b\u202e") & set(shown)


@given(st.text())
def test_printable_text_is_one_line_of_the_same_length(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert all(character.isprintable() for character in shown)
    assert printable(shown) == shown


def test_row_is_one_line_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 500
    print_table([long], [long], COLUMNS, as_json=False)
    assert capsys.readouterr().out.splitlines()[1].rstrip() == long


def test_json_is_what_the_server_said_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    said = [{"a": "\n", "newer": [1]}]
    print_table(said, said, COLUMNS, as_json=True)
    print_result(said, as_json=True, text="")
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [said, said]


def test_nothing_to_list_is_said_beside_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([], [], COLUMNS, as_json=False, empty="nothing yet")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "nothing yet\n")


def test_times_are_in_utc() -> None:
    assert when(1_000_000_000) == "2001-09-09 01:46:40"  # POSIX's own example of a billion seconds
    assert when(0) == "1970-01-01 00:00:00"
    assert when(None) == "never"
