"""Trees of the agent for tests: its sources as they are here, with a version and with faults that a test wants.

What they need beside the sources is that of the interpreter that runs the tests, by a .pth file.
"""

import platform
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import shoal_agent
import shoal_wire
import shoal_worker
from shoal_agent.updater.unpacking import make_environment

PYTHON = "{}.{}".format(*sys.version_info[:2])
_SOURCES = [Path(str(package.__file__)).parent for package in (shoal_agent, shoal_worker, shoal_wire)]
_MODULE = f"_compiled.cpython-{PYTHON.replace('.', '')}-{platform.machine()}-linux-gnu.so"
_METADATA = "Metadata-Version: 2.1\nName: shoal-agent\nVersion: {version}\n"

CRASHES = "import os\nif 'SHOAL_AGENT_TREE' in os.environ:\n    raise SystemExit('crashes at import')\n"
HANGS = "import os, time\nif 'SHOAL_AGENT_TREE' in os.environ:\n    time.sleep(3600)\n"
IS_MUTE = """
def _say_nothing(self, channel, payload, *, is_retained=False):
    return False


Link.publish = _say_nothing
"""
FAULTS: Mapping[str, tuple[str, str]] = {
    "crashes": ("shoal_agent/cli.py", CRASHES),
    "hangs": ("shoal_agent/cli.py", HANGS),
    "is-mute": ("shoal_agent/daemon/link.py", IS_MUTE),
    "cannot-read-its-state": ("shoal_agent/self_test.py", "raise SystemExit('reads other states only')\n"),
}
"""Module that a fault is in, and the lines that it is. In the self-test no launcher has set the variable."""


def make_tree(folder: Path, *, version: str, fault: str = "") -> Path:
    """What packaging/tree.py would make."""
    packages = folder / "site-packages"
    for source in _SOURCES:
        shutil.copytree(source, packages / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    if fault:
        path, lines = FAULTS[fault]
        module = packages / path
        text = module.read_text()
        module.write_text(text + lines if fault == "is-mute" else _after_docstring(text, lines))
    information = packages / f"shoal_agent-{version}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(_METADATA.format(version=version))
    (packages / "needed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    (packages / _MODULE).write_bytes(b"")
    (folder / "licences").mkdir()
    (folder / "licences" / "packages.json").write_text("[]")
    return folder


def make_package(folder: Path, *, version: str) -> Path:
    """The same as the package installs it."""
    make_environment(make_tree(folder, version=version), python=PYTHON)
    return folder


def _after_docstring(text: str, lines: str) -> str:
    end = text.index('"""', 3) + 3
    return f"{text[:end]}\n\n{lines}{text[end:]}"
