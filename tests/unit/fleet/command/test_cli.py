"""Does every command say how it is used, and end with the exit code that it should?"""

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_fleet.command.cli import main, make_parser


def all_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from all_parsers(inner)


PARSERS = {parser.prog: parser for parser in all_parsers(make_parser())}


def test_all_commands_are_there() -> None:
    assert set(PARSERS) >= {
        "shoal demo",
        "shoal login",
        "shoal keys init",
        *(f"shoal device {action}" for action in ("list", "show", "token", "revoke")),
        *(f"shoal release {action}" for action in ("create", "list", "show")),
        "shoal tuning list",
        *(f"shoal rollout {action}" for action in ("start", "list", "show", "watch", "abort")),
    }


@pytest.mark.parametrize("prog", PARSERS)
def test_help_has_an_example_that_can_be_parsed(prog: str) -> None:
    help_text = PARSERS[prog].format_help()
    _, _, example = help_text.partition("example:\n")
    words = shlex.split(example)
    assert words[0] == "shoal"
    make_parser().parse_args(words[1:])
    assert f"shoal {' '.join(words[1:])}".startswith(prog)


@pytest.mark.parametrize("prog", PARSERS)
def test_every_command_can_print_json_and_every_option_is_explained(prog: str) -> None:
    parser = PARSERS[prog]
    if parser.get_default("run") is not None:
        assert "--json" in parser.format_help()
    assert all(action.help for action in parser._actions if not isinstance(action, argparse._SubParsersAction))


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "nothing",
        "device",
        "device token",
        "release create folder",
        "release show notes one",
        "rollout start notes 1",
        "rollout start notes 1 --all --device yard",
        "rollout watch 1 --timeout 0",
        "rollout watch 1 --timeout nan",
        "rollout watch 1 --timeout soon",
    ],
)
def test_wrong_use_is_exit_code_2(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    assert ended.value.code == 2
    assert "usage: shoal" in capsys.readouterr().err


def test_missing_login_is_exit_code_2_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHOAL_LOGIN", str(tmp_path / "none"))
    assert main(["device", "list"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"shoal: {tmp_path}/none is not there: run `shoal login URL` first\n"


@pytest.mark.parametrize(("content", "reason"), [(b"", "empty"), (b"\n", "empty"), (None, "No such file")])
def test_passphrase_that_is_none_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, reason: str
) -> None:
    """An empty passphrase would leave the keys unencrypted without a word."""
    path = tmp_path / "passphrase"
    if content is not None:
        path.write_bytes(content)
    assert main(["keys", "init", "--publisher", str(tmp_path / "p"), "--passphrase-file", str(path)]) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "p").exists()
