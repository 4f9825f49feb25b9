"""Which key in which token does a PKCS #11 URI name, and where is its PIN? (RFC 7512)

Rules only. A PIN never stands in the URI: it is read from the file that `pin-source` names, or is the credential
`shoal-identity-pin` that systemd hands over (systemd.exec(5), LoadCredential=).
"""

import os
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from shoal_agent.errors import WrongConfiguration

SCHEME = "pkcs11:"
CREDENTIAL = "shoal-identity-pin"
DEFAULT_OBJECT = "shoal-identity"
_PATH = frozenset({"token", "serial", "manufacturer", "model", "object", "id", "type"})
_QUERY = frozenset({"module-path", "pin-source"})


class KeyUri(NamedTuple):
    """A URI, taken apart. Empty where the URI doesn't say it."""

    text: str
    token: str
    serial: str
    object: str
    """Label of the key pair."""
    id: bytes
    module: str
    """Path of the library that speaks to the token."""
    pin_file: str


def parse_key_uri(text: str) -> KeyUri:
    """Take a URI apart.

    Raises:
        WrongConfiguration: no such URI, one without a library, or one that holds a PIN.
    """
    if not text.startswith(SCHEME):
        raise WrongConfiguration(f"identity key: expected a URI that starts with {SCHEME}, found {text[:40]!r}")
    path_text, _, query_text = text[len(SCHEME) :].partition("?")
    path = _attributes(path_text, separator=";", known=_PATH)
    query = _attributes(query_text, separator="&", known=_QUERY)
    if "module-path" not in query:
        raise WrongConfiguration("identity key: the URI lacks ?module-path=, the library that speaks to the token")
    if _text(path, "type") not in ("", "private"):
        raise WrongConfiguration(f"identity key: expected type=private, found {_text(path, 'type')!r}")
    pin_source = _text(query, "pin-source")
    if pin_source.startswith("|"):
        raise WrongConfiguration("identity key: expected a file as pin-source, found a program")
    return KeyUri(
        text=text,
        token=_text(path, "token"),
        serial=_text(path, "serial"),
        object=_text(path, "object") or ("" if "id" in path else DEFAULT_OBJECT),
        id=path.get("id", b""),
        module=_text(query, "module-path"),
        pin_file=_path_of(pin_source),
    )


def read_pin(uri: KeyUri, *, environment: Mapping[str, str] = os.environ) -> str:
    """The PIN; empty for a token that wants none.

    Raises:
        WrongConfiguration: the file that should hold it can't be read.
    """
    folder = environment.get("CREDENTIALS_DIRECTORY", "")
    path = Path(uri.pin_file) if uri.pin_file else Path(folder) / CREDENTIAL if folder else None
    if path is None or (not uri.pin_file and not path.exists()):
        return ""
    try:
        return path.read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongConfiguration(f"PIN of the identity key: {path} can't be read: {error}") from None


def _attributes(text: str, *, separator: str, known: frozenset[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for part in filter(None, text.split(separator)):
        name, equals, value = part.partition("=")
        if name == "pin-value":
            raise WrongConfiguration(
                "identity key: the URI holds a PIN; put it into a file and name that by pin-source"
            )
        if not equals or name not in known or name in found:
            raise WrongConfiguration(f"identity key: expected each of {', '.join(sorted(known))} once, found {name!r}")
        found[name] = urllib.parse.unquote_to_bytes(value)
    return found


def _path_of(pin_source: str) -> str:
    """`file:/x` and `file:///x` are the same file (RFC 8089, 3 and appendix B)."""
    path = pin_source.removeprefix("file:")
    return "/" + path.lstrip("/") if path.startswith("//") else path


def _text(attributes: Mapping[str, bytes], name: str) -> str:
    return attributes.get(name, b"").decode("utf-8", "replace")
