"""Does a child of an agent's process end with its parent, and keep its memory to itself?"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from shoal_worker.process import start_child

pytestmark = pytest.mark.timeout(60)
WAIT_S = 30.0

# A parent that starts a child from a thread that ends at once; the child says when it is bound to its parent.
PARENT = """
    import os, sys, threading
    from shoal_worker.process import start_child

    child = '''
    import os, sys, signal
    from shoal_worker.process import die_with_parent
    die_with_parent(int(sys.argv[1]))
    os.write(int(sys.argv[2]), str(os.getpid()).encode())
    signal.pause()
    '''
    reading, writing = os.pipe()
    command = [sys.executable, "-c", child.replace("\\n    ", "\\n"), str(os.getpid()), str(writing)]
    starter = threading.Thread(target=start_child, args=(command,), kwargs=dict(fds=[writing], environment={}))
    starter.start()
    starter.join()
    pid = int(os.read(reading, 20))
    print(pid, os.path.exists(f"/proc/{pid}"), flush=True)
    sys.stdin.read()
"""


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return  # its new parent may not collect it
        except (FileNotFoundError, ProcessLookupError):
            return
        assert time.monotonic() < deadline, f"process {pid} outlived its parent"
        time.sleep(0.01)


def test_child_outlives_the_starting_thread_and_ends_with_the_process() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid, is_alive = parent.stdout.readline().split()
        assert is_alive == "True"
        parent.kill()
    wait_until_gone(int(pid))


def test_child_whose_parent_ended_before_it_was_bound_ends_at_once() -> None:
    program = "from shoal_worker.process import die_with_parent; die_with_parent(2**22 + 1); print('still here')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"parent process {2**22 + 1} has ended, found {os.getpid()}" in done.stderr


def test_process_without_core_dumps_says_so_to_the_kernel() -> None:
    program = textwrap.dedent("""
        import ctypes, resource
        from shoal_worker.process import disable_core_dumps
        disable_core_dumps()
        print(resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))  # PR_GET_DUMPABLE
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=WAIT_S)
    assert done.stdout == "(0, 0) 0\n"


def test_child_gets_the_given_descriptors_and_environment_only() -> None:
    reading, writing = os.pipe()
    kept = os.memfd_create("kept")
    program = f"""
import os
shown = sorted(os.environ.items()), [fd for fd in ({kept}, {writing}) if os.path.lexists(f"/proc/self/fd/{{fd}}")]
os.write({writing}, repr(shown).encode())
"""
    os.set_inheritable(kept, False)
    child = start_child([sys.executable, "-I", "-c", program], fds=[writing], environment={"LC_ALL": "C.UTF-8"})
    os.close(writing)
    assert child.wait(WAIT_S) == 0
    assert os.read(reading, 10_000).decode() == repr(([("LC_ALL", "C.UTF-8")], [writing]))
    os.close(reading)
    os.close(kept)


NOBODY = 65534
LOOK = """
import os, runpy, signal, sys
process = runpy.run_path(sys.argv[1])
reading, writing = os.pipe()
secret = bytearray(b"weights of a model")
pid = os.fork()
if pid == 0:
    if sys.argv[2] == "kept":
        process["disable_core_dumps"]()
    os.write(writing, b".")
    signal.pause()
os.read(reading, 1)
try:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        address = process["ctypes"].addressof(process["ctypes"].c_char.from_buffer(secret))
        memory.seek(address)
        print(memory.read(len(secret)).decode())
except PermissionError:
    print("refused")
finally:
    os.kill(pid, signal.SIGKILL)
"""


@pytest.mark.parametrize(("behaviour", "expected"), [("kept", "refused"), ("shown", "weights of a model")])
def test_memory_is_kept_from_other_processes_of_the_same_user(behaviour: str, expected: str) -> None:
    python, module = "/usr/bin/python3", inspect.getfile(start_child)
    if not Path(python).exists() or not all(os.stat(folder).st_mode & 0o005 for folder in Path(module).parents):
        pytest.skip("an unprivileged user can't run what is tested here")
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    if behaviour == "shown" and scope.exists() and int(scope.read_text()) > 1:
        pytest.skip("this kernel shows memory to nobody (ptrace_scope)")
    command = [python, "-I", "-c", LOOK, module, behaviour]
    user = NOBODY if os.geteuid() == 0 else None  # root may look anywhere
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, user=user, cwd="/")
    assert (done.stdout.strip(), done.stderr) == (expected, "")
