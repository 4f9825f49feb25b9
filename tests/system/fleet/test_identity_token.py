"""Does a board whose identity key is in a token or a TPM enrol, renew and sign, with no key in any file?"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from shoal_agent.errors import IdentityUnavailable, StateDamaged
from shoal_agent.keys import HPKE, IDENTITY, IDENTITY_URI, keep_identity_in_token, load_keys
from shoal_wire import envelope
from shoal_wire.envelope import KeySigner

from tests.system.fleet.device_site import FILES, Enrolled, enrol_device
from tests.system.fleet.fleet_site import Fleet, run_fleet
from tests.system.fleet.tokens import LABEL, PIN, softhsm, software_tpm

pytest.importorskip("PyKCS11", reason="the extra shoal-agent[pkcs11] isn't installed")


class Token(NamedTuple):
    """An initialised token."""

    name: str
    library: str
    pin_file: Path

    def uri(self, key: str, *, label: str = LABEL, pin_file: Path | None = None) -> str:
        source = pin_file or self.pin_file
        return f"pkcs11:token={label};object={key}?module-path={self.library}&pin-source=file:{source}"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with run_fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.begin()
        yield fleet


@pytest.fixture(scope="module", params=[softhsm, software_tpm], ids=["softhsm", "tpm"])
def token(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Token]:
    folder = tmp_path_factory.mktemp("token")
    pin = folder / "pin"
    pin.write_text(PIN + "\n")
    with pytest.MonkeyPatch.context() as environment, request.param(folder, environment) as library:
        yield Token(request.param.__name__, library, pin)


@pytest.fixture
def device(fleet: Fleet, token: Token, tmp_path: Path) -> Enrolled:
    return enrol_device(fleet, tmp_path, tmp_path.name, identity_key=token.uri(tmp_path.name))


def test_it_enrols_and_renews_and_its_word_counts(device: Enrolled) -> None:
    assert device.is_let_in()
    first = device.certificate().serial_number
    device.renew()
    assert device.certificate().serial_number != first
    assert device.is_let_in()
    known = envelope.parse_public_key(str(device.shown()["identity_key"]), what="identity key")
    signed = envelope.seal(b"{}", envelope.REPORTED, KeySigner(load_keys(FILES, device.state).identity))
    assert envelope.verify(signed, envelope.REPORTED, [known], what="report") == b"{}"


def test_no_file_holds_the_key_and_none_comes_out_of_the_token(device: Enrolled) -> None:
    assert not (device.state / IDENTITY).exists()
    assert PIN not in (device.state / IDENTITY_URI).read_text()
    identity = load_keys(FILES, device.state).identity
    with pytest.raises(Exception, match="can't be read"):
        identity.private_numbers()


def test_the_same_key_is_found_again_and_never_made_twice(device: Enrolled, tmp_path: Path) -> None:
    uri = (device.state / IDENTITY_URI).read_text()
    before = load_keys(FILES, device.state).identity.public_key()
    keep_identity_in_token(FILES, device.state, uri)
    keep_identity_in_token(FILES, tmp_path / "another-folder", uri)
    assert load_keys(FILES, device.state).identity.public_key() == before


def test_a_device_that_has_an_identity_key_gets_no_other(device: Enrolled, token: Token, tmp_path: Path) -> None:
    with pytest.raises(StateDamaged, match="has another identity key already"):
        keep_identity_in_token(FILES, device.state, token.uri("another"))
    (tmp_path / "old" / "keys").mkdir(parents=True)
    (tmp_path / "old" / IDENTITY).write_bytes(b"a key in a file")
    with pytest.raises(StateDamaged, match="has another identity key already"):
        keep_identity_in_token(FILES, tmp_path / "old", token.uri("another"))


def test_a_token_that_is_not_there_and_a_pin_that_can_not_be_read_are_told(token: Token, tmp_path: Path) -> None:
    with pytest.raises(IdentityUnavailable, match="no such token"):
        keep_identity_in_token(FILES, tmp_path, token.uri("key", label="elsewhere"))
    assert not (tmp_path / IDENTITY_URI).exists()


def test_the_command_tells_of_a_wrong_pin_and_keeps_nothing(fleet: Fleet, token: Token, tmp_path: Path) -> None:
    """In a process of its own: to a token a whole process is logged in or not."""
    wrong, state = tmp_path / "wrong-pin", tmp_path / "state"
    wrong.write_text("999999")
    command = [str(Path(sys.executable).with_name("shoal-agent")), "enrol", fleet.make_token(tmp_path.name)]
    for pin_file, words in ((wrong, "PIN_INCORRECT"), (tmp_path / "none", "can't be read")):
        uri = token.uri("key", pin_file=pin_file)
        done = subprocess.run(
            [*command, "--state", str(state), "--identity-key", uri],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode in (1, 2)
        assert words in done.stderr and "999999" not in done.stderr
    assert not (state / IDENTITY_URI).exists()


def test_what_needs_no_identity_goes_on_without_the_token(device: Enrolled, token: Token) -> None:
    """Tuning only opens grants."""
    gone = token.uri("key", label="elsewhere")
    (device.state / IDENTITY_URI).write_text(gone)
    keys = load_keys(FILES, device.state)
    assert keys.hpke is not None and (device.state / HPKE).exists()
    with pytest.raises(IdentityUnavailable):
        KeySigner(keys.identity)
