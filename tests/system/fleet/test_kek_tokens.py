"""Can the fleet's secrets be under a key in a token, and does a fleet that lost the token open nothing?

SoftHSM stands for an HSM, and a software TPM with tpm2-pkcs11 for the TPM of the server.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

PIN = "87654321"
PROBE = Path(__file__).parent / "kek_probe.py"
SOFTHSM = Path("/usr/lib/softhsm/libsofthsm2.so")
TPM2_PKCS11 = next(iter(Path("/usr/lib").glob("*/pkcs11/libtpm2_pkcs11.so")), Path("/nowhere"))


class Token(NamedTuple):
    """A token with one RSA key, and the environment in which it is found."""

    uri: str
    environment: Mapping[str, str]


def run(*command: str, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False
    )


def run_well(*command: str, environment: Mapping[str, str]) -> str:
    done = run(*command, environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make_pin_file(folder: Path) -> Path:
    pin = folder / "pin"
    pin.write_text(PIN + "\n")
    return pin


def make_uri(module: Path, pin: Path, *, name: str = "kek") -> str:
    return f"pkcs11:token=shoal;object={name}?module-path={module}&pin-source=file:{pin}"


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} isn't installed (Debian: softhsm2, swtpm, opensc)")
    pytest.importorskip("PyKCS11", reason="PyKCS11 isn't installed: shoal-fleet[pkcs11]")


def make_keys(module: Path, environment: Mapping[str, str], *labels: str) -> None:
    tool = ("pkcs11-tool", "--module", str(module))
    login = ("--token-label", "shoal", "--login")
    run_well(
        *tool, *("--slot-index", "0", "--init-token", "--label", "shoal", "--so-pin", PIN), environment=environment
    )
    run_well(
        *tool, *login, *("--login-type", "so", "--so-pin", PIN, "--init-pin", "--new-pin", PIN), environment=environment
    )
    for label in labels:
        make = ("--pin", PIN, "--keypairgen", "--key-type", "rsa:2048", "--label", label)
        run_well(*tool, *login, *make, environment=environment)


@pytest.fixture
def softhsm(tmp_path: Path) -> Token:
    need("softhsm2-util", "pkcs11-tool")
    (tmp_path / "tokens").mkdir()
    (tmp_path / "softhsm2.conf").write_text(f"directories.tokendir = {tmp_path / 'tokens'}\n")
    environment = {"SOFTHSM2_CONF": str(tmp_path / "softhsm2.conf")}
    make_keys(SOFTHSM, environment, "kek", "other")
    return Token(make_uri(SOFTHSM, make_pin_file(tmp_path)), environment)


@pytest.fixture
def tpm(tmp_path: Path) -> Iterator[Token]:
    need("swtpm", "pkcs11-tool")
    if not TPM2_PKCS11.exists():
        pytest.skip("libtpm2_pkcs11.so isn't installed (Debian: libtpm2-pkcs11-1)")
    for folder in ("tpm", "store"):
        (tmp_path / folder).mkdir()
    port = free_pair_of_ports()
    process = subprocess.Popen(
        [
            *("swtpm", "socket", "--tpm2", "--tpmstate", f"dir={tmp_path / 'tpm'}"),
            *("--server", f"type=tcp,port={port},disconnect", "--ctrl", f"type=tcp,port={port + 1}"),
            *("--flags", "not-need-init,startup-clear"),
        ]
    )
    try:
        wait_for_port(port)
        environment = {
            "TPM2_PKCS11_TCTI": f"swtpm:host=127.0.0.1,port={port}",
            "TPM2_PKCS11_STORE": str(tmp_path / "store"),
        }
        make_keys(TPM2_PKCS11, environment, "kek")
        yield Token(make_uri(TPM2_PKCS11, make_pin_file(tmp_path)), environment)
    finally:
        process.terminate()
        process.wait(60)


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
            return
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, "swtpm doesn't listen"
            time.sleep(0.02)


def free_pair_of_ports() -> int:
    """Two ports in a row, as swtpm and its users want them."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


@pytest.mark.parametrize("kind", ["softhsm", "tpm"])
def test_fleet_lives_under_a_key_in_a_token_and_can_leave_it(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    token: Token = request.getfixturevalue(kind)
    run_well(sys.executable, str(PROBE), "live", str(tmp_path / "state"), token.uri, environment=token.environment)


def test_wrong_pin_and_another_key_are_told_apart(softhsm: Token, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("11111111")
    expected = {
        softhsm.uri: "opened",
        softhsm.uri.replace("object=kek", "object=other"): "is it another key?",
        softhsm.uri.replace("object=kek", "object=none"): "expected one private RSA key 'none' in the token, found 0",
        softhsm.uri.replace("token=shoal", "token=cod"): "expected one token 'cod', found 0",
        make_uri(SOFTHSM, tmp_path / "wrong"): "the token refuses the PIN",
        make_uri(Path("/nowhere.so"), tmp_path / "pin"): "the token can't be reached",
    }
    said = run_well(sys.executable, str(PROBE), "open", *expected, environment=softhsm.environment)
    lines = [line for line in said.splitlines() if line.startswith(": ")]  # the module prints some of its own
    for line, words in zip(lines, expected.values(), strict=True):
        assert words in line
