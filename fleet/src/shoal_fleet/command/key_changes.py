"""Which keys and releases no longer count? `shoal keys rotate | revoke | floor`"""

import argparse
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from shoal_wire.manifest import target_path
from tuf.api.metadata import Targets

from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import UsageError
from shoal_fleet.command.metadata import Change, Signatories
from shoal_fleet.command.output import print_result
from shoal_fleet.command.parsers import add_command
from shoal_fleet.command.pending import list_released, make_pending
from shoal_fleet.command.present import Present
from shoal_fleet.command.publisher import Publisher, RoleKeys
from shoal_fleet.command.publishing import (
    add_publisher_options,
    conclude,
    open_present,
    open_publisher,
    read_fleet_keys,
)
from shoal_fleet.command.views import NextKeys, Release, parse


def add_parsers(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add them to `shoal keys`."""
    rotate = add_command(
        actions,
        "rotate",
        summary="replace root keys, release keys, or those with which the fleet signs",
        description="Replace all keys of a role by those given; without any, by a new one in the publisher's folder.\n"
        "For --fleet run `shoal-fleet keys rotate` on the server first.",
        example="shoal keys rotate --release --publisher ~/publisher",
        run=_rotate,
    )
    which = rotate.add_mutually_exclusive_group(required=True)
    which.add_argument("--root", action="store_const", const="root", dest="role", help="keys that name all others")
    which.add_argument("--release", action="store_const", const="targets", dest="role", help="keys that sign releases")
    which.add_argument("--fleet", action="store_const", const="fleet", dest="role", help="the fleet's online keys")
    _add_key_options(rotate)
    revoke = add_command(
        actions,
        "revoke",
        summary="take a release key back that somebody may have stolen",
        description="Take a release key back, and with it the releases that weren't signed from this folder: whoever\n"
        "stole the key may have made them. Releases of others who hold release keys are named by --keep.",
        example="shoal keys revoke 3f9c1a77b2d0 --publisher ~/publisher",
        run=_revoke,
    )
    revoke.add_argument("keyid", help="the key's id, or its first 8 digits or more: `shoal keys show`")
    revoke.add_argument("--keep", action="append", default=[], metavar="MODEL/VERSION", help="may be repeated")
    _add_key_options(revoke)
    floor = add_command(
        actions,
        "floor",
        summary="revoke all versions of a model below one",
        description="Raise the lowest version of a model that boards may install, or go back to. It never sinks again.",
        example="shoal keys floor note-events 3 --publisher ~/publisher",
        run=_floor,
    )
    floor.add_argument("model", help="model")
    floor.add_argument("version", type=int, help="lowest version that is still allowed")
    for command in (rotate, revoke, floor):
        add_publisher_options(command)


def carry_out(
    arguments: argparse.Namespace,
    *,
    title: str,
    says: Sequence[str],
    change: Callable[[Change], object],
    **rest: Any,
) -> None:
    """Make a change to what is present, sign it, and publish it or write it down for others to sign."""
    publisher = open_publisher(arguments)
    with publisher.locked(), Client() as client:
        present, _ = open_present(client, publisher)
        made = Change(present, now=datetime.now(UTC))
        change(made)
        _conclude(
            made, present, client=client, publisher=publisher, arguments=arguments, title=title, says=says, **rest
        )


def _add_key_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", action="append", default=[], metavar="URI", help="a key that counts from now on")
    parser.add_argument("--threshold", type=int, default=1, metavar="N", help="how many of them must sign")


def _conclude(
    made: Change,
    present: Present,
    *,
    client: Client,
    publisher: Publisher,
    arguments: argparse.Namespace,
    title: str,
    says: Sequence[str],
    gone: Sequence[str] = (),
    **rest: Any,
) -> None:
    pending = make_pending(
        made.finish(),
        trusted_root=present.root.to_bytes(),
        fleet=client.login.url,
        title=title,
        says=tuple(says),
        **rest,
    )
    waits = conclude(pending, client=client, publisher=publisher)
    result: dict[str, object] = {"title": title, "unlisted": list(gone)}
    if waits is not None:
        result["waits"] = str(waits)
    done = "published" if waits is None else f"waits for other signatures in {waits}"
    text = "\n".join([f"{title}: {done}", *(f"no longer listed: {path}" for path in gone)])
    print_result(result, as_json=arguments.json, text=text)


def _rotate(arguments: argparse.Namespace) -> None:
    if arguments.role == "fleet":
        _rotate_fleet(arguments)
        return
    publisher = open_publisher(arguments)
    with publisher.locked(), Client() as client:
        present, _ = open_present(client, publisher)
        keys = _adopt(arguments, publisher, role=arguments.role, number=present.root.signed.version + 1)
        made = Change(present, now=datetime.now(UTC))
        made.set_role(arguments.role, _signatories(keys))
        _conclude(
            made,
            present,
            client=client,
            publisher=publisher,
            arguments=arguments,
            title=f"rotate-{arguments.role}",
            says=(f"replaces the keys of {arguments.role} by {_names(keys)}",),
            keys={arguments.role: keys},
        )


def _rotate_fleet(arguments: argparse.Namespace) -> None:
    if arguments.key:
        raise UsageError("--fleet: its keys are made on the server, by `shoal-fleet keys rotate`; leave out --key")
    publisher = open_publisher(arguments)
    with publisher.locked(), Client() as client:
        coming = parse(client.get("/api/v1/trust/next-keys"), NextKeys, what="next keys")
        if coming.snapshot is None or coming.timestamp is None or coming.assignment is None:
            raise UsageError("the fleet has no keys to follow its present ones: run `shoal-fleet keys rotate` there")
        fleet = msgspec.structs.replace(
            read_fleet_keys(client),
            snapshot=coming.snapshot,
            timestamp=coming.timestamp,
            assignment=coming.assignment,
        )
        fleet.check()
        present, _ = open_present(client, publisher)
        made = Change(present, now=datetime.now(UTC))
        made.set_online_keys({"snapshot": fleet.snapshot, "timestamp": fleet.timestamp})
        made.set_assignment_keys([fleet.assignment])
        _conclude(
            made,
            present,
            client=client,
            publisher=publisher,
            arguments=arguments,
            title="rotate-fleet",
            says=("replaces the keys with which the fleet signs",),
            fleet_keys=fleet,
        )


def _revoke(arguments: argparse.Namespace) -> None:
    publisher = open_publisher(arguments)
    with publisher.locked(), Client() as client:
        present, _ = open_present(client, publisher)
        role = publisher.role_keys(Targets.type)
        stolen = [name for name in role.keys if name.keyid.startswith(arguments.keyid) and len(arguments.keyid) >= 8]
        if len(stolen) != 1:
            raise UsageError(f"{arguments.keyid}: expected the id of one of the release keys {_names(role)}")
        left = tuple(name for name in role.keys if name != stolen[0])
        if arguments.key or len(left) < role.threshold:
            new = _adopt(arguments, publisher, role=Targets.type, number=present.root.signed.version + 1)
            keys = RoleKeys(max(role.threshold, arguments.threshold), (*left, *new.keys))
        else:
            keys = RoleKeys(role.threshold, left)
        if keys.threshold > len(keys.keys):
            raise UsageError(
                f"release keys: {keys.threshold} must sign, {len(keys.keys)} are left; give more with --key"
            )
        made = Change(present, now=datetime.now(UTC))
        made.set_role(Targets.type, _signatories(keys))
        kept = [*list_released(publisher), *(target_path_of(name) for name in arguments.keep)]
        gone = made.keep_only(kept)
        if gone:  # what is unlisted can't be installed; what is revoked can't be gone back to either
            digests = [found.hashes["sha256"] for path in gone if (found := present.find(path)) is not None]
            floors = made.floors
            made.set_floors(msgspec.structs.replace(floors, revoked=(*floors.revoked, *digests)))
        _conclude(
            made,
            present,
            client=client,
            publisher=publisher,
            arguments=arguments,
            title="revoke-release-key",
            says=(
                f"takes the release key {stolen[0].keyid[:12]} back; {_names(keys)} count",
                *map("unlists {}".format, gone),
            ),
            gone=gone,
            keys={Targets.type: keys},
        )


def _floor(arguments: argparse.Namespace) -> None:
    name, version = arguments.model, arguments.version
    publisher = open_publisher(arguments)
    with publisher.locked(), Client() as client:
        present, _ = open_present(client, publisher)
        made = Change(present, now=datetime.now(UTC))
        before = made.floors
        if version <= before.floors.get(name, 0):
            raise UsageError(f"floor of {name}: is {before.floors[name]} already; it never sinks")
        releases = parse(client.get("/api/v1/releases"), list[Release], what="releases")
        below = [target_path(name=one.name, version=one.version) for one in releases if one.name == name]
        gone = made.unlist(path for path in below if int(path.split("/")[1]) < version)
        made.set_floors(msgspec.structs.replace(before, floors={**before.floors, name: version}))
        _conclude(
            made,
            present,
            client=client,
            publisher=publisher,
            arguments=arguments,
            title=f"floor-{name}-{version}",
            says=(f"revokes all versions of {name} below {version}",),
            gone=gone,
        )


def target_path_of(text: str) -> str:
    """Path of a release that is written MODEL/VERSION.

    Raises:
        UsageError: it isn't.
    """
    name, _, version = text.partition("/")
    if not name or not version.isdecimal():
        raise UsageError(f"{text!r}: expected MODEL/VERSION")
    return target_path(name=name, version=int(version))


def _adopt(arguments: argparse.Namespace, publisher: Publisher, *, role: str, number: int) -> RoleKeys:
    uris = arguments.key or [f"file:{role}-{number}.pem"]
    if not 1 <= arguments.threshold <= len(uris):
        raise UsageError(f"--threshold {arguments.threshold}: expected 1 to {len(uris)}, the number of keys")
    return RoleKeys(arguments.threshold, tuple(publisher.adopt(uri) for uri in uris))


def _signatories(keys: RoleKeys) -> Signatories:
    return Signatories(keys.threshold, [name.key for name in keys.keys])


def _names(keys: RoleKeys) -> str:
    return f"{keys.threshold} of {', '.join(name.keyid[:12] for name in keys.keys)}"
