"""Does a conversion in its own process cost nothing but itself: killed with its children, whatever it does?"""

import os
import platform
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from shoal_converters.errors import PathFailed, ToolMissing
from shoal_converters.paths import PATHS
from shoal_converters.paths import Path as ConversionPath
from shoal_converters.paths.messages import Reply, Request
from shoal_converters.paths.process import find_missing, find_versions, run_module, run_path

DEADLINE_S = 60.0
FAKE = """
import os, signal, subprocess, sys, time
from shoal_converters.errors import BadModel
from shoal_converters.paths.messages import Reply

def convert(request):
    print("to stdout", flush=True)
    subprocess.run(["echo", "from a child"])
    how = request.options["how"]
    if how == "refuse":
        raise BadModel("m.onnx: it has no nodes")
    if how == "raise":
        raise ValueError("a tool's own words")
    if how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "hang":
        child = subprocess.Popen(["sleep", "1000"])
        print("pids", os.getpid(), child.pid, flush=True)
        time.sleep(1000)
    if how == "leave":
        child = subprocess.Popen(["sleep", "1000"])
        print("pids", child.pid, flush=True)
    if how == "talk":
        return Reply(notes=("x" * 9_000_000,))
    try:
        import openvino_telemetry
    except ImportError:
        pass
    else:
        raise ValueError("telemetry")
    return Reply(notes=(os.getcwd(), os.environ["TMPDIR"], os.environ["OMP_NUM_THREADS"]))
"""


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "fake_path.py").write_text(FAKE)
    (tmp_path / "out").mkdir()
    return Request(
        source="/m",
        format="onnx",
        folder=f"{tmp_path}/out",
        variants=("onnx-fp32", "onnx-fp16"),
        code_folder=f"{tmp_path}/code",
    )


def _run(request: Request, how: str, *, lines: list[str] | None = None, timeout_s: float = DEADLINE_S) -> Reply:
    asked = Request(**{name: getattr(request, name) for name in request.__struct_fields__} | {"options": {"how": how}})
    on_line = None if lines is None else lines.append
    return run_module("fake_path", asked, interpreter=sys.executable, timeout_s=timeout_s, on_line=on_line)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _pids(lines: list[str]) -> list[int]:
    return [int(word) for line in lines if line.startswith("pids") for word in line.split()[1:]]


def test_what_it_prints_comes_as_lines_and_not_into_the_reply(request_: Request) -> None:
    lines: list[str] = []
    reply = _run(request_, "", lines=lines)
    assert lines == ["to stdout", "from a child"]
    cwd, temporary, threads = reply.notes
    assert cwd == temporary
    assert int(threads) <= (os.cpu_count() or 1)
    assert not Path(cwd).exists()


def test_a_refusal_is_that_of_each_variant(request_: Request) -> None:
    assert _run(request_, "refuse").refused == dict.fromkeys(("onnx-fp32", "onnx-fp16"), "m.onnx: it has no nodes")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raise", "exit code 1; it said last: .*ValueError: a tool's own words"),
        ("crash", "killed by SIGSEGV; it said last: to stdout / from a child"),
        ("talk", "a reply of more than"),
    ],
)
def test_failures_are_told_with_the_last_words(how: str, words: str, request_: Request) -> None:
    with pytest.raises(PathFailed, match=words):
        _run(request_, how)


def test_what_takes_too_long_is_killed_with_its_children(request_: Request) -> None:
    lines: list[str] = []
    with pytest.raises(PathFailed, match="no end after 5 s"):
        _run(request_, "hang", lines=lines, timeout_s=5)
    assert not any(map(_is_running, _pids(lines)))  # none was started yet where this machine is very busy


def test_children_that_it_leaves_behind_are_killed(request_: Request) -> None:
    lines: list[str] = []
    _run(request_, "leave", lines=lines)
    assert len(_pids(lines)) == 1
    assert not any(map(_is_running, _pids(lines)))


def test_ctrl_c_leaves_no_process_and_no_temporary_file(request_: Request, tmp_path: Path) -> None:
    script = textwrap.dedent(f"""
        import sys
        from shoal_converters.paths.messages import Request
        from shoal_converters.paths.process import run_module
        request = Request(source="/m", format="onnx", folder={request_.folder!r}, variants=("onnx-fp32",),
                          code_folder={request_.code_folder!r}, options={{"how": "hang"}})
        run_module("fake_path", request, interpreter=sys.executable, timeout_s=1000,
                   on_line=lambda line: print(line, flush=True))
    """)
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": f"{tmp_path}/tmp"}
    workbench = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    assert workbench.stdout is not None
    with workbench.stdout:
        lines = [next(iter(workbench.stdout.readline, "")).strip() for _ in range(3)]
        workbench.send_signal(signal.SIGINT)
        assert workbench.wait(DEADLINE_S) != 0
    assert len(_pids(lines)) == 2
    assert not any(map(_is_running, _pids(lines)))
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_missing_framework_is_named_with_the_extra_that_installs_it(request_: Request) -> None:
    path = ConversionPath("some_path", ("onnx",), ("onnx-fp32",), ("msgspec", "no_such_framework"), "tensorflow")
    with pytest.raises(ToolMissing) as caught:
        run_path(path, request_, interpreters={}, timeout_s=DEADLINE_S)
    assert f"{caught.value}" == (
        "some_path needs no_such_framework, not installed here: pip install 'shoal-converters[tensorflow]'"
    )


def test_another_interpreter_is_asked_what_it_has(tmp_path: Path) -> None:
    (onnx_path,) = (path for path in PATHS if path.module == "onnx_fp32")
    assert "doesn't work" in find_missing(onnx_path, interpreters={"onnx": f"{tmp_path}/python"})
    bare = os.path.realpath(sys.executable)
    if bare == sys.executable:
        pytest.skip("this interpreter belongs to no virtual environment")
    assert "needs " in find_missing(onnx_path, interpreters={"onnx": bare})


def test_versions_are_those_of_the_interpreter_that_is_asked(tmp_path: Path) -> None:
    found = find_versions(sys.executable, ["numpy", "no-such-distribution"])
    assert found == {"python": platform.python_version(), "numpy": np.__version__}
    assert find_versions(f"{tmp_path}/python", ["numpy"]) == {}


def test_another_interpreter_finds_the_workbench_but_none_of_its_packages(request_: Request, tmp_path: Path) -> None:
    """A virtual environment that has only what a path may rely on."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", f"{tmp_path}/venv"], check=True)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    for name in ("msgspec", "numpy", "numpy.libs"):
        installed = Path(np.__file__).parent.parent / name
        if installed.exists():
            (packages / name).symlink_to(installed)
    reply = run_module(
        "fake_path",
        Request(
            source="/m",
            format="onnx",
            folder=request_.folder,
            variants=("onnx-fp32",),
            code_folder=request_.code_folder,
            options={"how": ""},
        ),
        interpreter=f"{tmp_path}/venv/bin/python",
        timeout_s=DEADLINE_S,
    )
    assert len(reply.notes) == 3
