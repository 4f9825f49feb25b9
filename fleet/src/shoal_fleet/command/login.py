"""How does an operator tell `shoal` which fleet to talk to?

The authority's certificate comes over a connection that isn't trusted yet; its fingerprint, which a person compares,
decides before the token is sent.
"""

import argparse
import getpass
import hashlib
import ssl
import sys
from pathlib import Path

import httpx
import msgspec
from shoal_wire import paths

from shoal_fleet.command.account import Login, save_login
from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import CommandError, Unreachable, UsageError
from shoal_fleet.command.output import print_result


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal login`."""
    parser = commands.add_parser(
        "login",
        help="remember a fleet's address, certificate authority and token",
        description="Remember a fleet's address, certificate authority and token.",
        epilog="example: shoal login https://fleet.local:8443 --token-file token.txt --authority-sha256 3f9a…",
    )
    parser.add_argument("url", help="address of the operators' listener")
    parser.add_argument("--token-file", type=Path, help="file with the API token ('-' reads it from standard input)")
    parser.add_argument("--authority-sha256", help="fingerprint that `shoal-fleet init` printed; asked for otherwise")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=_login)


def _login(arguments: argparse.Namespace) -> None:
    url = arguments.url.rstrip("/")
    authority = _fetch_authority(url)
    fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(authority)).hexdigest()
    _check_fingerprint(fingerprint, arguments.authority_sha256)
    try:
        login = msgspec.convert({"url": url, "token": _read_token(arguments.token_file), "authority": authority}, Login)
    except msgspec.ValidationError as error:
        raise UsageError(f"expected an address such as https://fleet.local:8443: {error}") from None
    with Client(login) as client:
        client.get("/api/v1/devices")
    path = save_login(login)
    print_result({"url": url, "file": str(path)}, as_json=arguments.json, text=f"logged in to {url}")


def _fetch_authority(url: str) -> str:
    """The authority's certificate, from a connection that isn't trusted yet: the fingerprint decides."""
    try:
        reply = httpx.get(url + paths.AUTHORITY, verify=False, timeout=10)  # noqa: S501
        reply.raise_for_status()
        ssl.PEM_cert_to_DER_cert(reply.text)
        return reply.text
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unreachable(f"{url}: no Shoal fleet answers there ({error})") from None
    except ValueError:
        raise CommandError(f"{url}{paths.AUTHORITY}: expected a certificate in PEM, found something else") from None


def _check_fingerprint(found: str, expected: str | None) -> None:
    if expected is not None:
        if expected.lower().replace(":", "") != found:
            raise CommandError(
                f"the authority's fingerprint is {found}, expected {expected}: this is another server, nothing was sent"
            )
        return
    if not sys.stdin.isatty():
        raise UsageError(f"the authority's fingerprint is {found}: pass it as --authority-sha256 once you compared it")
    print(f"The fleet's certificate authority has the fingerprint\n  {found}", file=sys.stderr)
    if input("Is that what `shoal-fleet init` printed? [y/N] ").strip().lower() not in {"y", "yes"}:
        raise CommandError("not confirmed; nothing was sent")


def _read_token(path: Path | None) -> str:
    if path is None:
        return getpass.getpass("API token: ").strip()
    try:
        return (sys.stdin.read() if str(path) == "-" else path.read_text()).strip()
    except OSError as error:
        raise UsageError(f"--token-file {path}: {error.strerror}") from None
