"""How does a person read, keep and check the fleet's audit log? `shoal audit …`"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import msgspec
from shoal_wire.audit import MAX_ENTRY_BYTES, AuditEntry

from shoal_fleet.command.account import load_login, login_file
from shoal_fleet.command.audit_log import Known, Reading, load_known, read_file, save_known
from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import UsageError
from shoal_fleet.command.output import Columns, print_result, print_table, when
from shoal_fleet.command.parsers import add_command, add_group
from shoal_fleet.command.private_files import replacing
from shoal_fleet.command.views import parse

_EXPORT = "/api/v1/audit/export"
_COLUMNS: Columns[AuditEntry] = {
    "ENTRY": lambda entry: entry.sequence,
    "AT (UTC)": lambda entry: when(entry.at),
    "BY": lambda entry: entry.actor,
    "ACTION": lambda entry: entry.action,
    "SUBJECT": lambda entry: entry.subject,
    "DETAIL": lambda entry: ", ".join(f"{name}: {_say(value)}" for name, value in entry.detail.items()),
}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal audit`."""
    example = "shoal audit export audit.ndjson"
    actions = add_group(commands, "audit", summary="who did what on the fleet", example=example)
    shown = add_command(
        actions,
        "list",
        summary="the newest entries",
        description="The newest entries of the audit log, newest first.",
        example="shoal audit list --action rollout --limit 20",
        run=_list,
    )
    shown.add_argument("--actor", default="", metavar="WHO", help="only of this actor: user:anna, token:ci, device:ID")
    shown.add_argument("--action", default="", help="only this action, or all that begin with this word")
    shown.add_argument("--subject", default="", help="only what was done to this")
    shown.add_argument("--before", type=int, metavar="ENTRY", help="only entries below this number")
    shown.add_argument("--limit", type=int, default=100, metavar="N", help="at most so many (100)")
    export = add_command(
        actions,
        "export",
        summary="copy the log into a file, checked",
        description="Copy the audit log into a file, one entry a line, then a checkpoint that the fleet signed. A file "
        "that is there is gone on with. Every entry is checked, also against what this user saw the last time: a log "
        "that was changed or cut off is refused, and the file stays as it was. Do this regularly, to where the fleet "
        "can't reach.",
        example=example,
        run=_export,
    )
    export.add_argument("file", type=Path, help="where to")
    verify = add_command(
        actions,
        "verify",
        summary="check the log, or an exported file",
        description="Check that nothing was changed, left out or put in. Without a file the fleet's own log is "
        "checked, also against what this user saw the last time. The exit code is 0 only if all is well; the first "
        "broken entry is named.",
        example="shoal audit verify audit.ndjson",
        run=_verify,
    )
    verify.add_argument("file", type=Path, nargs="?", help="exported file; no connection to a fleet is needed")
    verify.add_argument(
        "--key", metavar="BASE64", help="key that must have signed the checkpoints; else the one known of this fleet"
    )


def _list(arguments: argparse.Namespace) -> None:
    wanted = {name: getattr(arguments, name) for name in ("actor", "action", "subject", "before")}
    query = {name: value for name, value in wanted.items() if value}
    with Client() as client:
        shown = client.get("/api/v1/audit", limit=arguments.limit, **query)
    rows = parse(shown, list[AuditEntry], what="audit log")
    print_table(shown, rows, _COLUMNS, as_json=arguments.json, empty="no such entries")


def _export(arguments: argparse.Namespace) -> None:
    path: Path = arguments.file
    with Client() as client, replacing(path) as file:
        reading = _Live(client)
        if path.exists():
            for line in read_file(path):
                reading.take(line)
                file.write(line)
        before = reading.head.sequence
        for line in reading.fetch():
            file.write(line)
        reading.keep()
    result = {"file": str(path), "entries": reading.head.sequence, "new": reading.head.sequence - before}
    text = f"{path}: {result['new']} new entries, {result['entries']} in all, unbroken"
    print_result(result, as_json=arguments.json, text=text)


def _verify(arguments: argparse.Namespace) -> None:
    if arguments.file is None:
        with Client() as client:
            live = _Live(client)
            for _ in live.fetch():
                pass
            live.keep()
        reading: Reading = live
    else:
        reading = _verify_file(arguments.file, key=arguments.key)
    result = {
        "entries": reading.head.sequence,
        "digest": reading.head.digest,
        "signed_entries": reading.signed_entries,
    }
    signature = "signed by the fleet" if reading.signed_entries else "signatures not checked: name their key with --key"
    text = f"{reading.head.sequence} entries, unbroken; {signature}"
    print_result(result, as_json=arguments.json, text=text)


def _verify_file(path: Path, *, key: str | None) -> Reading:
    reading = Reading(_known_of_file(key), what=str(path))
    try:
        for line in read_file(path):
            reading.take(line)
    except FileNotFoundError:
        raise UsageError(f"{path}: is not there; make it with: shoal audit export {path}") from None
    reading.finish(is_whole=False)
    return reading


def _known_of_file(key: str | None) -> Known:
    """A file may be of another fleet than the login, or be checked where there is no login."""
    if key is not None:
        return Known(key=key)
    return load_known(load_login()) if login_file().exists() else Known()


class _Live(Reading):
    """The fleet's own log, compared with what this user saw of it before."""

    def __init__(self, client: Client) -> None:
        self._client = client
        known = load_known(client.login)
        if known.key is None:
            shown = client.get("/api/v1/audit/checkpoint")
            known = Known(key=parse(shown, _Checkpoint, what="audit checkpoint").key)
        super().__init__(known, what="audit log of the fleet")
        self._trusted_key = known.key

    def fetch(self) -> Iterator[bytes]:
        """Lines of what follows the present head, checked."""
        for line in self._client.read_lines(_EXPORT, limit_bytes=MAX_ENTRY_BYTES, after=self.head.sequence):
            self.take(line)
            yield line
        self.finish(is_whole=True)

    def keep(self) -> None:
        """Remember how far this was seen."""
        save_known(self._client.login, Known(self.head, self._trusted_key))


class _Checkpoint(msgspec.Struct, frozen=True):
    key: str


def _say(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
