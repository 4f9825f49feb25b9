"""How does a device get a camera's password, so that nobody between here and there can read it? `shoal secret …`

The value is sealed here, to the device's key. The fleet tells that key: a fleet that is taken over while a secret is
set could tell its own. What it kept before, it can't read.
"""

import argparse
import getpass
import sys
from pathlib import Path
from urllib.parse import quote

import msgspec
from shoal_wire.encoding import Seconds
from shoal_wire.errors import Malformed
from shoal_wire.grant import parse_hpke_public
from shoal_wire.secret import seal_secret

from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import CommandError, UsageError
from shoal_fleet.command.output import Columns, print_result, print_table, printable, when
from shoal_fleet.command.parsers import add_command, add_group
from shoal_fleet.command.views import parse


class Secret(msgspec.Struct, frozen=True):
    """A secret that a device has."""

    name: str
    changed_at: Seconds


class Sealing(msgspec.Struct, frozen=True):
    """To whom the next value is sealed."""

    device: str
    hpke_key: str
    counter: int


_COLUMNS: Columns[Secret] = {
    "NAME": lambda secret: secret.name,
    "CHANGED (UTC)": lambda secret: when(secret.changed_at),
}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal secret`."""
    actions = add_group(
        commands, "secret", summary="passwords that boards need", example="shoal secret set yard-3 camera-1"
    )
    put = add_command(
        actions,
        "set",
        summary="give a device a secret, or change it",
        description="Seal a secret to one device, which alone can open it. It is asked for, or read from a file.\n"
        "In the device's agent.toml, ${secret:NAME} stands for it. It can't be shown again.",
        example="shoal secret set yard-3 camera-1 --from-file password.txt",
        run=_set,
    )
    put.add_argument(
        "--from-file", type=Path, metavar="FILE", help="file with the secret on its only line; - is standard input"
    )
    listing = add_command(
        actions,
        "list",
        summary="which secrets a device has",
        description="The names of a device's secrets, and when each was changed. The values can't be shown.",
        example="shoal secret list yard-3",
        run=_list,
    )
    remove = add_command(
        actions,
        "remove",
        summary="take a secret from a device",
        description="Take a secret from a device. What needs it there stops.",
        example="shoal secret remove yard-3 camera-1",
        run=_remove,
    )
    for parser in (put, listing, remove):
        parser.add_argument("device", help="id or name")
    for parser in (put, remove):
        parser.add_argument("name", help="name of the secret")


def _set(arguments: argparse.Namespace) -> None:
    with Client() as client:
        path = _path(arguments.device, arguments.name)
        sealing = parse(client.get(f"{path}/sealing"), Sealing, what="sealing")
        try:
            key = parse_hpke_public(sealing.hpke_key, what=f"HPKE key of {arguments.device}")
            secret = seal_secret(
                _read_value(arguments.from_file),
                key,
                device=sealing.device,
                name=arguments.name,
                counter=sealing.counter,
            )
        except Malformed as error:
            raise CommandError(str(error)) from None
        shown = client.post(path, {"counter": secret.counter, "sealed": secret.sealed})
    text = printable(f"{arguments.device} gets the secret {arguments.name}; it can't be shown again")
    print_result(shown, as_json=arguments.json, text=text)


def _list(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.get(_path(arguments.device))
    rows = parse(shown, list[Secret], what="secrets")
    print_table(shown, rows, _COLUMNS, as_json=arguments.json, empty=f"{printable(arguments.device)} has no secrets")


def _remove(arguments: argparse.Namespace) -> None:
    with Client() as client:
        client.post(f"{_path(arguments.device, arguments.name)}/remove", {})
    result = {"device": arguments.device, "removed": arguments.name}
    text = printable(f"{arguments.device} has no secret {arguments.name} any more")
    print_result(result, as_json=arguments.json, text=text)


def _read_value(file: Path | None) -> str:
    """The secret, without the end of its line.

    Raises:
        UsageError: there is none.
    """
    try:
        if file is None:
            return getpass.getpass("secret: ")
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return raw.rstrip(b"\r\n").decode()
    except EOFError:
        raise UsageError("the secret was not given: type it, or name a file with --from-file") from None
    except OSError as error:
        raise UsageError(f"--from-file {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--from-file {file}: expected text in UTF-8") from None


def _path(device: str, name: str | None = None) -> str:
    path = f"/api/v1/devices/{quote(device, safe='')}/secrets"
    return path if name is None else f"{path}/{quote(name, safe='')}"
