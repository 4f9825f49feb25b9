"""What can a publisher do with the keys that everything else hangs on? `shoal keys …`"""

import argparse
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH

from shoal_fleet.command import key_changes, reseal
from shoal_fleet.command.changing import changing
from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import CommandError, UsageError
from shoal_fleet.command.metadata import NextMetadata, Signatories, first_root, first_targets
from shoal_fleet.command.output import listing, print_result, when
from shoal_fleet.command.parsers import add_command, add_group
from shoal_fleet.command.pending import Pending, find_lacking, make_pending, read_pending, sign, write_pending
from shoal_fleet.command.publisher import ROLES, FleetKeys, Publisher, RoleKeys
from shoal_fleet.command.publishing import (
    add_publisher_options,
    check_own_root,
    conclude,
    open_present,
    open_publisher,
    publish,
    read_fleet_keys,
)
from shoal_fleet.command.views import Trust, parse

SOON = timedelta(days=45)
"""`shoal keys refresh` signs anew what ends before that."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal keys`."""
    example = "shoal keys init --publisher ~/publisher --passphrase-file passphrase.txt"
    actions = add_group(commands, "keys", summary="the publisher's offline keys", example=example)
    init = add_command(
        actions,
        "init",
        summary="make root and release keys, and register them with the fleet",
        description="Make root and release keys in a folder that the fleet never sees, and register their public\n"
        "parts with the fleet. It can be run again. Keep a copy of the folder: nobody can release without it.\n"
        "Keys may also be elsewhere: file:PATH (a public key in PEM is one whose owner signs elsewhere),\n"
        "hsm:ID?label=TOKEN (PKCS#11: HSM, card or TPM; PYKCS11LIB names the library), awskms:, gcpkms:,\n"
        "azurekms:, hv:.",
        example=example,
        run=_init,
    )
    for role, word in (("root", "root"), ("targets", "release")):
        keys, threshold = f"{role}_keys", f"{role}_threshold"
        of = f"a {word} key; may be repeated; without any, a file in the publisher's folder"
        init.add_argument(f"--{word}-key", action="append", default=[], dest=keys, metavar="URI", help=of)
        many = f"how many {word} keys must sign"
        init.add_argument(f"--{word}-threshold", type=int, default=1, dest=threshold, metavar="N", help=many)
    add_publisher_options(init)
    show = add_command(
        actions,
        "show",
        summary="which keys count, what was revoked, and what must be signed anew",
        description="Which keys count, what was revoked, and when signed metadata ends.",
        example="shoal keys show --publisher ~/publisher",
        run=_show,
    )
    add_publisher_options(show)
    refresh = add_command(
        actions,
        "refresh",
        summary="sign anew what would end soon",
        description=f"Sign anew what ends within {SOON.days} days: past its end, boards install nothing new.",
        example="shoal keys refresh --publisher ~/publisher",
        run=_refresh,
    )
    refresh.add_argument("--all", action="store_true", help="everything")
    add_publisher_options(refresh)
    key_changes.add_parsers(actions)
    reseal.add_parser(actions)
    _add_signing(actions)


def _add_signing(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """What several signers need."""
    signing = add_command(
        actions,
        "sign",
        summary="add signatures to what somebody else has begun",
        description="Say what a file would change, and add the signatures of the keys that can be reached here.",
        example="shoal keys sign notes-3.json --publisher ~/publisher",
        run=_sign,
    )
    publishing = add_command(
        actions,
        "publish",
        summary="upload what enough people have signed",
        description="Upload what was signed by enough of those who must.",
        example="shoal keys publish notes-3.json --publisher ~/publisher",
        run=_publish,
    )
    for command in (signing, publishing):
        command.add_argument("file", type=Path, help="file that a command wrote for others to sign")
        add_publisher_options(command)


def _init(arguments: argparse.Namespace) -> None:
    publisher = open_publisher(arguments)
    with Client() as client:
        fleet = read_fleet_keys(client)
        trust = parse(client.get("/api/v1/trust"), Trust, what="trust")
        if trust.root is not None and not publisher.exists():
            raise UsageError(
                f"{client.login.url} has a publisher already, and {publisher.folder} holds no keys; none were made"
            )
        if not publisher.exists():
            publisher.create(fleet, keys=_adopt_roles(arguments, publisher))
        publisher.create(fleet)
        if trust.root is None and publisher.last_signed() is not None:
            raise CommandError(
                f"{client.login.url} has forgotten the publisher that was registered: restore it from a copy; nothing "
                "was signed"
            )
        waits = None
        if trust.root is None:
            waits = conclude(_ceremony(client, publisher, fleet), client=client, publisher=publisher)
        elif publisher.last_signed("root") is None:
            check_own_root(client.read("/api/v1/trust/metadata/1.root.json"), publisher)
    if arguments.passphrase_file is None and _has_plain_files(publisher):
        print("the keys are not encrypted: whoever can read the folder can make releases", file=sys.stderr)
    result = {"publisher": str(publisher.folder), "fleet": client.login.url}
    if waits is not None:
        result["waits"] = str(waits)
    done = "keys are ready and registered" if waits is None else "keys are ready, and wait for other signatures"
    print_result(result, as_json=arguments.json, text=f"{publisher.folder}: {done}")


def _adopt_roles(arguments: argparse.Namespace, publisher: Publisher) -> dict[str, RoleKeys]:
    """Keys by role, as the options name them."""
    keys = {}
    for role in ROLES:
        uris: list[str] = getattr(arguments, f"{role}_keys")
        threshold: int = getattr(arguments, f"{role}_threshold")
        if threshold < 1 or threshold > max(1, len(uris)):
            raise UsageError(f"{role}: expected a threshold from 1 to its {max(1, len(uris))} keys, found {threshold}")
        if uris:
            keys[role] = RoleKeys(threshold, tuple(publisher.adopt(uri) for uri in uris))
    return keys


def _has_plain_files(publisher: Publisher) -> bool:
    return any(name.uri.startswith("file:") for role in ROLES for name in publisher.role_keys(role).keys)


def _ceremony(client: Client, publisher: Publisher, fleet: FleetKeys) -> Pending:
    now = datetime.now(UTC)
    signatories = {role: as_signatories(publisher.role_keys(role)) for role in ROLES}
    root = first_root(signatories, {"snapshot": fleet.snapshot, "timestamp": fleet.timestamp}, now=now)
    targets, assignment_keys = first_targets(fleet.assignment, now=now)
    following = NextMetadata(root, targets, {}, {ASSIGNMENT_KEYS_PATH: assignment_keys})
    return make_pending(
        following,
        trusted_root=root.to_bytes(),
        fleet=client.login.url,
        title="ceremony",
        says=("registers the publisher",),
    )


def as_signatories(keys: RoleKeys) -> Signatories:
    """Whose signatures TUF metadata is to name."""
    return Signatories(keys.threshold, [name.key for name in keys.keys])


def _show(arguments: argparse.Namespace) -> None:
    publisher = open_publisher(arguments)
    with Client() as client:
        present, trust = open_present(client, publisher)
        root, floors = present.root.signed, present.floors()
        authorities = [one.fingerprint(hashes.SHA256()).hex() for one in present.authorities()]
    roles = {}
    for role in (*ROLES, "snapshot", "timestamp"):
        threshold, keyids = root.roles[role].threshold, root.roles[role].keyids
        roles["release" if role == "targets" else role] = f"{threshold} of {', '.join(key[:12] for key in keyids)}"
    number = 0 if present.bins is None else present.bins.number_of_bins
    pairs = {
        **roles,
        "versions": f"root {root.version}, targets {present.targets.signed.version}, {number} bins",
        "ends": ", ".join(f"{role} {when(at)}" for role, at in sorted(trust.expires.items())),
        "floors": ", ".join(f"{name} {floor}" for name, floor in sorted(floors.floors.items())) or "none",
        "revoked": f"{len(floors.revoked)} single releases",
        "authorities": ", ".join(digest[:12] for digest in authorities) or "all that the fleet's own vouch for",
    }
    for one in trust.ending:
        state = "has ended" if one.is_expired else "ends soon"
        print(f"{one.role} metadata {state}: run `shoal keys refresh`", file=sys.stderr)
    result = {
        "roles": {role: {"threshold": found.threshold, "keys": found.keyids} for role, found in root.roles.items()},
        "versions": trust.versions,
        "expires": trust.expires,
        "ending": trust.ending,
        "floors": floors.floors,
        "revoked": floors.revoked,
        "authorities": authorities,
    }
    print_result(result, as_json=arguments.json, text=listing(pairs))


def _refresh(arguments: argparse.Namespace) -> None:
    before = None if arguments.all else datetime.now(UTC) + SOON
    with changing(arguments) as work:
        work.made.refresh(before=before)
        work.end(title="refresh", says=("signs anew what ends soon",))


def _sign(arguments: argparse.Namespace) -> None:
    publisher, pending = open_publisher(arguments), read_pending(arguments.file)
    for sentence in pending.says:
        print(sentence, file=sys.stderr)
    signed = sign(pending, publisher)
    write_pending(arguments.file, signed)
    lacking = find_lacking(signed)
    text = "; ".join(map(str, lacking[:4])) or "enough have signed: `shoal keys publish`"
    result = {"file": str(arguments.file), "lacking": [one._asdict() for one in lacking]}
    print_result(result, as_json=arguments.json, text=f"{arguments.file}: {text}")


def _publish(arguments: argparse.Namespace) -> None:
    publisher, pending = open_publisher(arguments), read_pending(arguments.file)
    with publisher.locked(), Client() as client:
        if not pending.is_ceremony:
            open_present(client, publisher)
        publish(pending, client=client, publisher=publisher)
    result = {"file": str(arguments.file), "title": pending.title}
    print_result(result, as_json=arguments.json, text=f"{pending.title}: published")
