"""Does a build that is stopped, or that can't be done, leave nothing behind but one sentence?"""

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from shoal_converters.report.json import parse_json
from shoal_converters.scratch import remove_abandoned

from tests.system.converters import digits_material as digits

DEADLINE_S = 60.0
EARLIER = b"an earlier release"


def open_descendants(pid: int) -> list[int]:
    """A file descriptor for each process that a process started, itself or through others: pidfd_open(2)."""
    parents: dict[int, int] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
    found, fds = [pid], []
    for parent in found:
        children = [child for child, its in parents.items() if its == parent]
        found += children
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                fds.append(os.pidfd_open(child))
    return fds


def end_in_time(fds: list[int]) -> bool:
    """Whether all of these processes end."""
    ended = [bool(select.select([fd], [], [], DEADLINE_S)[0]) for fd in fds]
    for fd in fds:
        os.close(fd)
    return all(ended)


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("material")
    layers = digits.train()
    digits.write_sets(folder)
    digits.write_onnx(folder / "digits.onnx", layers)
    digits.write_onnx(folder / "no-number.onnx", layers, last="Sqrt")  # of scores below 0
    (folder / "cut.onnx").write_bytes((folder / "digits.onnx").read_bytes()[:50_000])
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A release folder with an earlier release."""
    folder = tmp_path / "release"
    folder.mkdir()
    (folder / "release.json").write_bytes(EARLIER)
    return folder


class Stopped(NamedTuple):
    """A build that got a signal."""

    code: int
    last: str
    is_alone: bool
    """All that it had started has ended."""
    scratch: list[Path]


def stop(recipe: Path, out: Path, *, at: str, by: signal.Signals) -> Stopped:
    """Start a build and send it a signal once it says that it is there; SIGINT to its group, as a terminal does."""
    scratch = out.with_name("scratch")
    scratch.mkdir()
    process = subprocess.Popen(
        digits.make_command(recipe, out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    assert process.stderr is not None
    with process, process.stderr as lines:
        assert any(at in line for line in lines)
        end = time.monotonic() + DEADLINE_S
        while not (fds := open_descendants(process.pid)):
            assert time.monotonic() < end
        (os.killpg if by == signal.SIGINT else os.kill)(process.pid, by)
        left = lines.read().splitlines()
        code = process.wait(DEADLINE_S)
    return Stopped(code, left[-1] if left else "", end_in_time(fds), list(scratch.iterdir()))


@pytest.mark.parametrize(
    ("at", "by"),
    [
        ("onnx-fp32: by onnx_fp32", signal.SIGINT),
        ("original: answering", signal.SIGTERM),
        ("onnx-int8: quantizing", signal.SIGINT),
        ("timing for about", signal.SIGINT),
    ],
)
def test_an_interrupted_build_leaves_nothing(material: Path, out: Path, at: str, by: signal.Signals) -> None:
    stopped = stop(digits.write_recipe(material, "onnx-fp32", "onnx-int8"), out, at=at, by=by)
    assert (stopped.code, stopped.last) == (130, "interrupted: nothing half-written is left")
    assert stopped.is_alone
    assert stopped.scratch == []
    assert [path.name for path in sorted(out.parent.iterdir())] == ["release", "scratch"]
    assert (out / "release.json").read_bytes() == EARLIER


@pytest.mark.parametrize("at", ["original: answering", "onnx-int8: quantizing"])
def test_what_a_killed_build_started_dies_with_it_and_the_next_removes_its_files(
    material: Path, out: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = stop(digits.write_recipe(material, "onnx-fp32", "onnx-int8"), out, at=at, by=signal.SIGKILL)
    assert stopped.code == -signal.SIGKILL
    assert stopped.is_alone
    assert (out / "release.json").read_bytes() == EARLIER
    assert stopped.scratch
    monkeypatch.setattr(tempfile, "tempdir", str(stopped.scratch[0].parent))
    remove_abandoned()
    assert not any(stopped.scratch[0].parent.iterdir())


def test_where_nothing_may_be_released_the_report_says_why(material: Path, out: Path) -> None:
    """By a budget that only a better model than the original keeps."""
    recipe = digits.write_recipe(material, "onnx-int8", max_drop=0.0, tuning_s=0.1, source="saturated.onnx")
    first, second = digits.train()
    first[:, 0] *= 1e4  # one feature takes the whole range of 8 bits
    digits.write_onnx(material / "saturated.onnx", (first, second))
    done = digits.build(recipe, out)
    page = out.with_name("release.report") / "report.html"
    *progress, last = done.stderr.splitlines()
    assert done.returncode == 1 and progress
    assert last.startswith("error: nothing is released: onnx-int8 loses ") and last.endswith(f": {page}")
    assert (out / "release.json").read_bytes() == EARLIER
    report = parse_json(page.with_name("report.json").read_bytes())
    assert not any(one.is_released for one in report.variants)
    (variant,) = (one for one in report.variants if one.name == "onnx-int8")
    assert variant.drop is not None and variant.drop > 0
    assert variant.attempts[0].method == "min-max, per tensor"
    assert "Nothing of digits version 1 is released" in page.read_text()


def _faults() -> Iterator[tuple[str, dict[str, object], str]]:
    yield "cut short", {"source": "cut.onnx"}, "cut.onnx: not a valid ONNX file"
    yield "wrong number of labels", {"labels": digits.LABELS[:9]}, "label"
    yield "no numbers", {"source": "no-number.onnx"}, "'y' (float32) holds values that are not finite numbers"


@pytest.mark.parametrize(
    ("options", "words"), [(one[1], one[2]) for one in _faults()], ids=[one[0] for one in _faults()]
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    material: Path, out: Path, options: dict[str, object], words: str
) -> None:
    recipe = digits.write_recipe(material, "onnx-fp32", **options)  # type: ignore[arg-type]
    done = digits.build(recipe, out, "--json")
    (sentence,) = (line for line in done.stderr.splitlines() if not line.startswith("["))
    assert done.returncode == 1
    assert done.stdout == ""
    assert sentence.startswith("error: ") and words in sentence
    assert [path.name for path in out.parent.iterdir()] == ["release"]
    assert (out / "release.json").read_bytes() == EARLIER
