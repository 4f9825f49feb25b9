"""Which packages does the virtual board have, and how are they installed without a board?

mmdebstrap unpacks them and runs what they do when they are installed: programs for the board's architecture, which the
kernel hands to an emulator. That is what takes minutes, so each package that isn't needed is time saved.
"""

import subprocess
from pathlib import Path

from hil.image.apt import BOARD_ARCHITECTURE

PACKAGES = (
    # A board starts, has a network and is reached.
    "iproute2",
    "kmod",
    "openssh-server",
    "systemd",
    "systemd-sysv",
    "udev",
    # What the agent's package needs.
    "libstdc++6",
    "python3",
    "zlib1g",
    # What tests do to a board.
    "dmsetup",
    "e2fsprogs",
    "procps",
)
"""Besides Debian's essential ones and apt."""


def bootstrap(sources: str, out: Path) -> None:
    """Write Debian with these packages as an archive.

    `sources`: lines of sources.list, which the board doesn't keep: it has no way to them.
    """
    suites = [line.split()[3] for line in sources.splitlines()]
    command = [
        "mmdebstrap",
        f"--architectures={BOARD_ARCHITECTURE}",
        "--variant=apt",
        f"--include={','.join(PACKAGES)}",
        '--aptopt=Acquire::Languages "none"',
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("man", "locale", "doc", "info")),
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        '--customize-hook=rm -f "$1/etc/apt/sources.list"',
        min(suites, key=len),
        str(out),
        "-",
    ]
    subprocess.run(command, input=sources, text=True, check=True)
