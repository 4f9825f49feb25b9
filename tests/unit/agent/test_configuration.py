"""Is a configuration read whole, or refused with every mistake that is in it?"""

from pathlib import Path

import pytest
from shoal_agent.configuration import Configuration, FolderSource, SlotSetting, load_configuration, parse_configuration
from shoal_agent.errors import WrongConfiguration

PATH = Path("/etc/shoal/agent.toml")


def test_reads_every_field() -> None:
    raw = b"""
threads = 2
outbox_bytes = 2_000_000
log_level = "debug"
[interpreters]
onnxruntime = "/usr/bin/python3"
[slots.note-events]
deadline_s = 5
threads = 1
swap = "resource-preserving"
[[sources]]
kind = "folder"
name = "microphone"
path = "recordings"
release = "note-events"
"""
    assert parse_configuration(raw, path=PATH, environment={}) == Configuration(
        sources=(FolderSource(kind="folder", name="microphone", path="/etc/shoal/recordings", release="note-events"),),
        threads=2,
        interpreters={"onnxruntime": "/usr/bin/python3"},
        slots={"note-events": SlotSetting(deadline_s=5.0, threads=1, swap="resource-preserving")},
        outbox_bytes=2_000_000,
        log_level="debug",
    )


def test_tells_all_mistakes_at_once() -> None:
    raw = b"""
thread = 2
outbox_bytes = 5
[[sources]]
kind = "camera"
name = "a/b"
release = 3
colour = "red"
[[sources]]
kind = "folder"
name = "twice"
path = "/a"
release = "one"
[[sources]]
kind = "folder"
name = "twice"
path = "/b"
release = "one"
"""
    with pytest.raises(WrongConfiguration) as caught:
        parse_configuration(raw, path=PATH, environment={"SHOAL_THREADS": "many"})
    lines = str(caught.value).splitlines()
    for part in ("'thread'", "outbox_bytes", "kind", "name", "path is missing", "release", "'colour'", "'twice'"):
        assert [line for line in lines if part in line and line.startswith(str(PATH))], part
    assert [line for line in lines if line.startswith("environment: threads")]


def test_environment_goes_before_the_file() -> None:
    environment = {"SHOAL_THREADS": "3", "SHOAL_OTHER": "ignored"}
    assert parse_configuration(b"threads = 1", path=PATH, environment=environment).threads == 3


@pytest.mark.parametrize(
    "line", ["deadline_s = 0", "deadline_s = 1e9", "threads = -1", 'swap = "never"', "deadline = 3"]
)
def test_tells_what_is_wrong_with_a_slot(line: str) -> None:
    with pytest.raises(WrongConfiguration, match="slots"):
        parse_configuration(f"[slots.note-events]\n{line}".encode(), path=PATH, environment={})


@pytest.mark.parametrize("raw", [b"threads = ", b"\xff", b"sources = 3", b"[[sources]]\nkind = 1", b"sources = [1]"])
def test_refuses_what_it_cannot_read(raw: bytes) -> None:
    with pytest.raises(WrongConfiguration, match=r"agent\.toml"):
        parse_configuration(raw, path=PATH, environment={})


def test_a_file_that_was_not_asked_for_need_not_be_there(tmp_path: Path) -> None:
    missing = tmp_path / "agent.toml"
    assert load_configuration(missing, environment={}, is_required=False) == Configuration()
    with pytest.raises(WrongConfiguration, match="no such file"):
        load_configuration(missing, environment={}, is_required=True)
