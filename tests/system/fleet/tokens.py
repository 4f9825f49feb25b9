"""How does a test get a PKCS #11 token: one in software, and one in a TPM that is a program?"""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.system.fleet.broker_site import DEADLINE_S

LABEL, PIN, SO_PIN = "board", "135790", "24680"


def find_library(*patterns: str) -> str:
    """Path of a library; skips the test where the system has none."""
    found = next((path for pattern in patterns for path in Path("/usr/lib").glob(pattern)), None)
    if found is None:
        pytest.skip(f"no {patterns[0]} below /usr/lib")
    return str(found)


def find_program(name: str) -> str:
    """Path of a program; skips the test where the system has none."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} isn't installed")
    return found


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def softhsm(folder: Path, environment: pytest.MonkeyPatch) -> Iterator[str]:
    """A token of SoftHSM; gives the path of its library."""
    library = find_library("softhsm/libsofthsm2.so", "*/softhsm/libsofthsm2.so")
    program = find_program("softhsm2-util")
    (folder / "tokens").mkdir()
    configuration = folder / "softhsm2.conf"
    configuration.write_text(f"directories.tokendir = {folder / 'tokens'}\nobjectstore.backend = file\n")
    environment.setenv("SOFTHSM2_CONF", str(configuration))
    run(program, "--init-token", "--free", "--label", LABEL, "--pin", PIN, "--so-pin", SO_PIN)
    yield library


@contextmanager
def software_tpm(folder: Path, environment: pytest.MonkeyPatch) -> Iterator[str]:
    """A TPM 2.0 that is a program, through tpm2-pkcs11; gives the path of its library."""
    library = find_library("*/pkcs11/libtpm2_pkcs11.so", "*/libtpm2_pkcs11.so.1")
    tool, program = find_program("pkcs11-tool"), find_program("swtpm")
    for name in ("state", "store"):
        (folder / name).mkdir()
    port = free_pair_of_ports()
    command = [program, "socket", "--tpm2", "--tpmstate", f"dir={folder / 'state'}"]
    command += ["--server", f"type=tcp,port={port},bindaddr=127.0.0.1"]
    command += ["--ctrl", f"type=tcp,port={port + 1},bindaddr=127.0.0.1", "--flags", "not-need-init,startup-clear"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for_port(port + 1)
            environment.setenv("TPM2_PKCS11_STORE", str(folder / "store"))
            environment.setenv("TPM2_PKCS11_TCTI", f"swtpm:host=127.0.0.1,port={port}")
            environment.setenv("TPM2_PKCS11_LOG_LEVEL", "0")
            environment.setenv("TSS2_LOG", "all+NONE")
            run(tool, "--module", library, "--init-token", "--slot-index", "0", "--label", LABEL, "--so-pin", SO_PIN)
            login = ("--token-label", LABEL, "--login", "--login-type", "so", "--so-pin", SO_PIN)
            run(tool, "--module", library, *login, "--init-pin", "--pin", PIN)
            yield library
        finally:
            process.kill()


def free_pair_of_ports() -> int:
    """The first of two in a row: the library expects the control port after the other."""
    for _ in range(100):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise AssertionError("no two free ports in a row")


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline, f"nobody listens at port {port}"
            time.sleep(0.02)
        else:
            return
