"""How does an operator tell `shoal` which fleet to talk to?

The authority's certificate comes over a connection that isn't trusted yet; its fingerprint, which a person compares,
decides before the token is sent. What is kept is that one certificate, written anew: a text with a second one in it
would have the same fingerprint as the first.
"""

import argparse
import getpass
import sys
from pathlib import Path
from typing import TypeVar

import httpx
import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from shoal_wire import paths
from shoal_wire.certificate import parse_certificate
from shoal_wire.errors import Malformed

from shoal_fleet.command.account import Login, Token, Url, save_login
from shoal_fleet.command.client import Client, explain
from shoal_fleet.command.errors import CommandError, UsageError
from shoal_fleet.command.output import print_result
from shoal_fleet.command.parsers import add_command

_TIMEOUT_S = 10.0
_MAX_CERTIFICATE_BYTES = 64 << 10
_Kind = TypeVar("_Kind")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal login`."""
    parser = add_command(
        commands,
        "login",
        summary="remember a fleet's address, certificate authority and token",
        description="Remember a fleet's address, certificate authority and token.\n\n"
        "They are kept in $SHOAL_LOGIN, else ~/.config/shoal/login.json. Without options the fingerprint is shown\n"
        "for you to compare, and the token is asked for.",
        example="shoal login https://fleet.local:8443 --authority-sha256 3f9a… --token-file token.txt",
        run=_login,
    )
    parser.add_argument("url", help="address of the operators' listener")
    parser.add_argument("--token-file", type=Path, help="file with the API token; - reads it from standard input")
    parser.add_argument("--authority-sha256", metavar="HEX", help="fingerprint that `shoal-fleet init` printed")


def _login(arguments: argparse.Namespace) -> None:
    url = _check(arguments.url.rstrip("/"), Url, expected="an address such as https://fleet.local:8443")
    authority = _fetch_authority(url)
    _check_fingerprint(authority.fingerprint(hashes.SHA256()).hex(), arguments.authority_sha256)
    token = _check(_read_token(arguments.token_file), Token, expected="an API token, one word such as shoal_…")
    login = Login(url, token, authority.public_bytes(serialization.Encoding.PEM).decode())
    with Client(login) as client:
        client.get("/api/v1/devices")
    path = save_login(login)
    print_result({"url": url, "file": str(path)}, as_json=arguments.json, text=f"logged in to {url}; kept in {path}")


def _check(text: str, kind: type[_Kind], *, expected: str) -> _Kind:
    try:
        return msgspec.convert(text, kind)
    except msgspec.ValidationError:
        raise UsageError(f"expected {expected}") from None


def _fetch_authority(url: str) -> x509.Certificate:
    """The authority's certificate, from a connection that isn't trusted yet: the fingerprint decides."""
    http = httpx.Client(verify=False, trust_env=False, timeout=_TIMEOUT_S)  # noqa: S501
    raw = b""
    try:
        with http, http.stream("GET", url + paths.AUTHORITY, headers={"Accept-Encoding": "identity"}) as reply:
            if not reply.is_success:
                raise CommandError(
                    f"{url}{paths.AUTHORITY}: the server answered {reply.status_code}, expected a certificate: is it a "
                    "Shoal fleet's listener for operators?"
                )
            for part in reply.iter_raw():
                raw += part
                if len(raw) > _MAX_CERTIFICATE_BYTES:
                    break
    except httpx.RequestError as error:
        raise explain(error, url=url) from None
    except httpx.InvalidURL as error:
        raise UsageError(f"{url}: {error}") from None
    return read_authority(raw, what=url + paths.AUTHORITY)


def read_authority(raw: bytes, *, what: str) -> x509.Certificate:
    """The first certificate of a text in PEM.

    Raises:
        CommandError: there is none, or the text is too long.
    """
    try:
        if len(raw) > _MAX_CERTIFICATE_BYTES:
            raise ValueError
        return parse_certificate(raw, what=what)
    except (ValueError, Malformed):
        raise CommandError(f"{what}: expected a certificate in PEM, found something else") from None


def _check_fingerprint(found: str, expected: str | None) -> None:
    if expected is not None:
        if expected.lower().replace(":", "").strip() != found:
            raise CommandError(
                f"the authority's fingerprint is {found}, expected {expected}: this is another server, nothing was sent"
            )
        return
    if not sys.stdin.isatty():
        raise UsageError(
            f"the authority's fingerprint is {found}: compare it with what `shoal-fleet init` printed, then pass it as "
            "--authority-sha256"
        )
    print(f"The fleet's certificate authority has the fingerprint\n  {found}", file=sys.stderr)
    print("Is that what `shoal-fleet init` printed? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CommandError("not confirmed; nothing was sent")


def _read_token(path: Path | None) -> str:
    if path is None:
        if not sys.stdin.isatty():
            raise UsageError("no terminal to ask for the token: name a file with --token-file, or - for standard input")
        return getpass.getpass("API token: ").strip()
    try:
        return (sys.stdin.read() if str(path) == "-" else path.read_text()).strip()
    except OSError as error:
        raise UsageError(f"--token-file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--token-file {path}: expected text") from None
