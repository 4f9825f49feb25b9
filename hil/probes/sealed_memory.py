"""Does the kernel keep a sealed memory file from being written and resized?

Model bytes reach a worker in such a file.
"""

import fcntl
import json
import os


def is_refused(fd: int, *, write: bool) -> bool:
    try:
        if write:
            os.pwrite(fd, b"x", 0)
        else:
            os.ftruncate(fd, 1)
    except PermissionError:
        return True
    return False


fd = os.memfd_create("probe", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
os.write(fd, b"weights")
fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
print(
    json.dumps(
        {
            "write_refused": is_refused(fd, write=True),
            "resize_refused": is_refused(fd, write=False),
            "content": os.pread(fd, 16, 0).decode(),
        }
    )
)
