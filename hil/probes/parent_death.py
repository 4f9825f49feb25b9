"""Does a child end with its parent, even if that is killed?

A daemon's children must not outlive it (prctl(2), PR_SET_PDEATHSIG). The child holds the write end of a pipe: the
end of the pipe is the end of the child.
"""

import json
import os
import select
import subprocess
import sys

TIMEOUT_MS = 10_000

CHILD = """
import ctypes, os, signal, sys, time
PR_SET_PDEATHSIG = 1
assert ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0
os.write(int(sys.argv[1]), b"ready")
time.sleep(3600)
"""

PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[2]], pass_fds=[int(sys.argv[2])])
"""


def read_in_time(fd: int) -> bytes | None:
    """Return what comes next, empty at the end of the pipe; None if nothing comes in time."""
    poll = select.poll()
    poll.register(fd, select.POLLIN | select.POLLHUP)
    return os.read(fd, 16) if poll.poll(TIMEOUT_MS) else None


reading, writing = os.pipe()
parent = subprocess.Popen([sys.executable, "-c", PARENT, CHILD, str(writing)], pass_fds=[writing])
os.close(writing)
try:
    child_started = read_in_time(reading) == b"ready"
finally:
    parent.kill()
    parent.wait()
print(json.dumps({"child_started": child_started, "child_ended": read_in_time(reading) == b""}))
