"""Is a PKCS #11 URI read as RFC 7512 says, with the PIN from a file only?"""

from pathlib import Path

import pytest
from shoal_agent.errors import WrongConfiguration
from shoal_agent.pkcs11_uri import parse_key_uri, read_pin

LIBRARY = "/usr/lib/softhsm/libsofthsm2.so"


def test_takes_a_uri_apart() -> None:
    uri = parse_key_uri(f"pkcs11:token=The%20token;object=key;id=%01%a0?module-path={LIBRARY}&pin-source=file:/run/pin")
    assert (uri.token, uri.object, uri.id) == ("The token", "key", b"\x01\xa0")
    assert (uri.module, uri.pin_file) == (LIBRARY, "/run/pin")


def test_a_key_without_a_name_gets_ours() -> None:
    assert parse_key_uri(f"pkcs11:token=t?module-path={LIBRARY}").object == "shoal-identity"
    assert parse_key_uri(f"pkcs11:id=%01?module-path={LIBRARY}").object == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "starts with pkcs11:"),
        ("file:/etc/key.pem", "starts with pkcs11:"),
        ("pkcs11:token=t", "module-path"),
        (f"pkcs11:token=t?module-path={LIBRARY}&pin-value=1234", "holds a PIN"),
        (f"pkcs11:token=t?module-path={LIBRARY}&pin-source=|rm", "found a program"),
        (f"pkcs11:token=a;token=b?module-path={LIBRARY}", "once"),
        (f"pkcs11:tokn=a?module-path={LIBRARY}", "found 'tokn'"),
        (f"pkcs11:type=cert?module-path={LIBRARY}", "type=private"),
    ],
)
def test_refuses_what_is_no_key_of_a_token(text: str, message: str) -> None:
    with pytest.raises(WrongConfiguration, match=message) as refused:
        parse_key_uri(text)
    assert "1234" not in str(refused.value)


@pytest.mark.parametrize("spelling", ["{}", "file:{}", "file://{}"])
def test_the_pin_is_read_from_its_file(tmp_path: Path, spelling: str) -> None:
    pin = tmp_path / "pin"
    pin.write_text("1234\n")
    uri = parse_key_uri(f"pkcs11:token=t?module-path={LIBRARY}&pin-source={spelling.format(pin)}")
    assert read_pin(uri, environment={}) == "1234"
    pin.unlink()
    with pytest.raises(WrongConfiguration, match="can't be read"):
        read_pin(uri, environment={})


def test_without_a_file_the_credential_of_systemd_counts(tmp_path: Path) -> None:
    uri = parse_key_uri(f"pkcs11:token=t?module-path={LIBRARY}")
    assert read_pin(uri, environment={}) == ""
    assert read_pin(uri, environment={"CREDENTIALS_DIRECTORY": str(tmp_path)}) == ""
    (tmp_path / "shoal-identity-pin").write_text("9876")
    assert read_pin(uri, environment={"CREDENTIALS_DIRECTORY": str(tmp_path)}) == "9876"
