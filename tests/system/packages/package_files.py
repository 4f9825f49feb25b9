"""How are package files made for a test, and one of another version from one that is there?"""

import os
import platform
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_S = 600.0


def agent_version() -> str:
    """Version of the member that the agent's package is made of."""
    return str(tomllib.loads((ROOT / "agent" / "pyproject.toml").read_text())["project"]["version"])


def build(name: str, *, suite: str, out: Path, temporary: Path, source: Path = ROOT, compression: str = "none") -> Path:
    """Build one package for this machine from the workspace at `source`."""
    command = [sys.executable, str(source / "packaging" / "packages.py"), "--package", name, "--distribution", suite]
    command += ["--machine", platform.machine(), "--out", str(out), "--compression", compression]
    environment = dict(os.environ, TMPDIR=str(temporary))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def with_version(package: Path, version: str, *, folder: Path) -> Path:
    """The same package under another version."""
    unpacked = folder / "unpacked"
    subprocess.run(["dpkg-deb", "--raw-extract", package, unpacked], check=True, timeout=DEADLINE_S)
    control = unpacked / "DEBIAN" / "control"
    control.write_text(re.sub(r"^Version: .*$", f"Version: {version}", control.read_text(), flags=re.MULTILINE))
    made = folder / f"{package.name.partition('_')[0]}_{version}.deb"
    command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(unpacked), str(made)]
    subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE_S)
    return made
