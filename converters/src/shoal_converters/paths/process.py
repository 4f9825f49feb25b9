"""How does a conversion run so that it can cost nothing but its own variants? In a process that is always ended.

It gets a session of its own, so that Ctrl-C reaches the workbench only, which then kills it with all its children.
"""

import contextlib
import importlib.util
import os
import select
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import IO

import msgspec

from shoal_converters.errors import PathFailed, ToolMissing
from shoal_converters.paths import Path
from shoal_converters.paths.messages import MAX_REPLY_BYTES, MAX_REQUEST_BYTES, Reply, Request
from shoal_converters.paths.program import choose_environment
from shoal_converters.scratch import scratch_folder

OWN_PACKAGES = ("shoal_converters", "shoal_wire")
"""Which another interpreter is shown through links; it has NumPy and msgspec of its own, or we fail to find them."""
ALWAYS_NEEDED = ("msgspec", "numpy")
PROBE_TIMEOUT_S = 60.0
PIPES_TIMEOUT_S = 10.0
LAST_LINES = 3
MAX_LINE_BYTES = 2000

# find_spec loads no framework: it only looks for its folder.
PROBE = """
import importlib.util, json, sys
print(json.dumps([name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]))
"""
VERSIONS = """
import importlib.metadata, json, platform, sys
versions = {"python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        versions[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(versions))
"""

OnLine = Callable[[str], None]


def run_path(
    path: Path,
    request: Request,
    *,
    interpreters: Mapping[str, str],
    timeout_s: float,
    on_line: OnLine | None = None,
) -> Reply:
    """Run a conversion. `interpreters` has Python programs by extra, for those that aren't installed in this one.

    `on_line` gets each line that it prints, from another thread. Nothing of it is left afterwards, however it ends,
    except what lies in the request's folder.

    Raises:
        ToolMissing: a module that it needs isn't installed in its interpreter.
        PathFailed: it crashed, ended with an error, took longer than `timeout_s`, or gave no proper reply.
    """
    missing = find_missing(path, interpreters=interpreters)
    if missing:
        raise ToolMissing(missing)
    return run_module(
        f"shoal_converters.paths.{path.module}",
        request,
        interpreter=interpreters.get(path.extra, sys.executable),
        timeout_s=timeout_s,
        on_line=on_line,
    )


def find_missing(path: Path, *, interpreters: Mapping[str, str]) -> str:
    """Why a path can't run here, as a sentence; empty where it can.

    Only looks whether its modules are installed: loading them takes seconds.
    """
    other = interpreters.get(path.extra)
    if other is None:
        missing = [name for name in path.needs if importlib.util.find_spec(name) is None]
        where = "here"
    else:
        try:
            missing = msgspec.json.decode(_ask(other, PROBE, [*ALWAYS_NEEDED, *path.needs]), type=list[str])
        except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as error:
            words = f"exit code {error.returncode}" if isinstance(error, subprocess.CalledProcessError) else f"{error}"
            return f"{path.module}: the interpreter {other} named for {path.extra!r} doesn't work: {words}"
        where = f"in {other}"
    if not missing:
        return ""
    names = " and ".join(missing)
    also = f" {' '.join(name for name in missing if name in ALWAYS_NEEDED)}".rstrip()
    return f"{path.module} needs {names}, not installed {where}: pip install 'shoal-converters[{path.extra}]'{also}"


def find_versions(interpreter: str, distributions: Sequence[str]) -> dict[str, str]:
    """Versions of Python and of those that are installed there; nothing where the interpreter doesn't work."""
    try:
        return msgspec.json.decode(_ask(interpreter, VERSIONS, distributions), type=dict[str, str])
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError):
        return {}


def run_module(
    module: str, request: Request, *, interpreter: str, timeout_s: float, on_line: OnLine | None = None
) -> Reply:
    """Run the module of that full name as `program.py` says, with an interpreter. Raises as `run_path` does."""
    question = msgspec.json.encode(request)
    if len(question) > MAX_REQUEST_BYTES:
        raise PathFailed(f"{module}: a request of {len(question)} bytes, expected at most {MAX_REQUEST_BYTES}")
    with _scratch_folder(interpreter) as scratch:
        try:
            process = _start(module, interpreter=interpreter, scratch=scratch)
        except OSError as error:
            raise PathFailed(f"{module}: {interpreter} can't be started: {error.strerror}") from None
        with _ended(process):
            talk = _Talk(process, question=question, on_line=on_line)
            is_in_time = _wait(process, timeout_s=timeout_s)
        talk.finish()
    if not is_in_time:
        raise PathFailed(f"{module}: no end after {timeout_s:g} s{talk.quote()}")
    return _judge(module, process.returncode, talk)


def _ask(interpreter: str, program: str, arguments: Sequence[str]) -> bytes:
    """What a short program prints, without any of our packages."""
    return subprocess.run(
        [interpreter, "-I", "-c", program, *arguments],
        capture_output=True,
        timeout=PROBE_TIMEOUT_S,
        check=True,
        stdin=subprocess.DEVNULL,
    ).stdout


@dataclass(frozen=True, kw_only=True)
class _Scratch:
    """A folder for temporary files, and one to be put on the module path."""

    files: FilePath
    modules: FilePath


@contextlib.contextmanager
def _scratch_folder(interpreter: str) -> Iterator[_Scratch]:
    with scratch_folder() as folder:
        scratch = _Scratch(files=folder / "files", modules=folder / "modules")
        scratch.files.mkdir()
        scratch.modules.mkdir()
        if interpreter != sys.executable:
            # Not the folder that they lie in: that may hold all packages of this interpreter, for another one.
            for name in OWN_PACKAGES:
                spec = importlib.util.find_spec(name)
                assert spec is not None and spec.submodule_search_locations, name
                (scratch.modules / name).symlink_to(FilePath(spec.submodule_search_locations[0]).resolve())
        yield scratch


def _start(module: str, *, interpreter: str, scratch: _Scratch) -> subprocess.Popen[bytes]:
    threads = len(os.sched_getaffinity(0))
    environment = {**os.environ, **choose_environment(threads), "TMPDIR": f"{scratch.files}"}
    environment.pop("PYTHONHOME", None)
    if interpreter != sys.executable:
        environment["PYTHONPATH"] = f"{scratch.modules}"
    return subprocess.Popen(
        [interpreter, "-m", "shoal_converters.paths.program", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd=scratch.files,
        env=environment,
    )


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill the process and its children when the block is left, also those that it left behind when it ended.

    Its number stands for its group until it is reaped, so that comes last.
    """
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process: subprocess.Popen[bytes], *, timeout_s: float) -> bool:
    """Whether the process ended in time. It isn't reaped yet."""
    fd = os.pidfd_open(process.pid)
    try:
        readable, _, _ = select.select([fd], [], [], timeout_s)
    finally:
        os.close(fd)
    return bool(readable)


class _Talk:
    """Threads that carry question, reply and printed lines, each up to its limit."""

    def __init__(self, process: subprocess.Popen[bytes], *, question: bytes, on_line: OnLine | None) -> None:
        assert process.stdin and process.stdout and process.stderr
        self.reply = b""
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._threads = [
            threading.Thread(target=run, args=arguments, daemon=True)
            for run, arguments in (
                (_write, (process.stdin, question)),
                (self._read_reply, (process.stdout,)),
                (self._read_lines, (process.stderr, on_line)),
            )
        ]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Wait for what the ended process left in its pipes.

        A child of it in yet another session may hold them open for ever; that isn't waited for.
        """
        for thread in self._threads:
            thread.join(PIPES_TIMEOUT_S)

    def quote(self) -> str:
        """The last lines, as the end of a sentence."""
        lines = list(self._lines)
        return f"; it said last: {' / '.join(lines)}" if lines else "; it said nothing"

    def _read_reply(self, stream: IO[bytes]) -> None:
        with stream:
            self.reply = stream.read(MAX_REPLY_BYTES + 1)
            while stream.read(1 << 16):
                pass  # so that it ends, and is then refused for the length

    def _read_lines(self, stream: IO[bytes], on_line: OnLine | None) -> None:
        with stream:
            while raw := stream.readline(MAX_LINE_BYTES):
                line = raw.decode(errors="replace").strip()
                if line.strip("^~ "):
                    self._lines.append(line)
                    if on_line is not None:
                        on_line(line)


def _write(stream: IO[bytes], content: bytes) -> None:
    # It may end before it reads; what it says then is what counts.
    with contextlib.suppress(BrokenPipeError), stream:
        stream.write(content)


def _judge(module: str, code: int, talk: _Talk) -> Reply:
    if code < 0:
        raise PathFailed(f"{module}: killed by {signal.Signals(-code).name}{talk.quote()}")
    if code > 0:
        raise PathFailed(f"{module}: exit code {code}{talk.quote()}")
    if len(talk.reply) > MAX_REPLY_BYTES:
        raise PathFailed(f"{module}: a reply of more than {MAX_REPLY_BYTES} bytes")
    try:
        return msgspec.json.decode(talk.reply, type=Reply)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise PathFailed(f"{module}: not a reply: {error}{talk.quote()}") from None
