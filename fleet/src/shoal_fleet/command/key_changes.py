"""Which keys, releases and authorities no longer count? `shoal keys rotate | revoke | floor | authorities`"""

import argparse

import msgspec
from cryptography.hazmat.primitives import hashes
from shoal_wire import paths
from shoal_wire.certificate import parse_certificates
from shoal_wire.errors import Malformed
from shoal_wire.manifest import target_path
from shoal_wire.metadata import MOST_AUTHORITIES
from tuf.api.metadata import Targets

from shoal_fleet.command.changing import Changing, changing
from shoal_fleet.command.errors import CommandError, UsageError
from shoal_fleet.command.metadata import Signatories
from shoal_fleet.command.parsers import add_command
from shoal_fleet.command.pending import list_released
from shoal_fleet.command.publisher import Publisher, RoleKeys
from shoal_fleet.command.publishing import add_publisher_options, read_fleet_keys
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
        "stole the key may have made them. Releases of others who hold release keys are named by --keep.\n"
        "Boards then trust the fleet's own assignment key alone, and the authorities that were named from this folder.",
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
    authorities = add_command(
        actions,
        "authorities",
        summary="say which authorities of the fleet boards trust",
        description="Say which certificate authorities of the fleet boards trust, all of them, by fingerprints that\n"
        "were read on the server: `shoal-fleet authority rotate` and `retire` print them. From then on boards trust\n"
        "these and no others. Before the first list they trust whatever one that they trust has signed, for good.",
        example="shoal keys authorities 3f9c…64 digits… --publisher ~/publisher",
        run=_authorities,
    )
    authorities.add_argument("fingerprint", nargs="+", help="SHA-256 of an authority's certificate, in hex")
    for command in (rotate, revoke, floor, authorities):
        add_publisher_options(command)


def _add_key_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", action="append", default=[], metavar="URI", help="a key that counts from now on")
    parser.add_argument("--threshold", type=int, default=1, metavar="N", help="how many of them must sign")


def _rotate(arguments: argparse.Namespace) -> None:
    if arguments.role == "fleet":
        _rotate_fleet(arguments)
        return
    with changing(arguments) as work:
        number = work.present.root.signed.version + 1
        keys = _adopt(arguments, work.publisher, role=arguments.role, number=number)
        work.made.set_role(arguments.role, _signatories(keys))
        work.end(
            title=f"rotate-{arguments.role}",
            says=(f"replaces the keys of {arguments.role} by {_names(keys)}",),
            keys={arguments.role: keys},
        )


def _rotate_fleet(arguments: argparse.Namespace) -> None:
    if arguments.key:
        raise UsageError("--fleet: its keys are made on the server, by `shoal-fleet keys rotate`; leave out --key")
    with changing(arguments) as work:
        coming = parse(work.client.get("/api/v1/trust/next-keys"), NextKeys, what="next keys")
        if coming.snapshot is None or coming.timestamp is None or coming.assignment is None:
            raise UsageError("the fleet has no keys to follow its present ones: run `shoal-fleet keys rotate` there")
        fleet = msgspec.structs.replace(
            read_fleet_keys(work.client),
            snapshot=coming.snapshot,
            timestamp=coming.timestamp,
            assignment=coming.assignment,
        )
        fleet.check()
        work.made.set_online_keys({"snapshot": fleet.snapshot, "timestamp": fleet.timestamp})
        work.made.set_assignment_keys([fleet.assignment])
        work.end(title="rotate-fleet", says=("replaces the keys with which the fleet signs",), fleet_keys=fleet)


def _revoke(arguments: argparse.Namespace) -> None:
    with changing(arguments) as work:
        role = work.publisher.role_keys(Targets.type)
        stolen = [name for name in role.keys if name.keyid.startswith(arguments.keyid) and len(arguments.keyid) >= 8]
        if len(stolen) != 1:
            raise UsageError(f"{arguments.keyid}: expected the id of one of the release keys {_names(role)}")
        changed = _take_back_lists(work)
        left = tuple(name for name in role.keys if name != stolen[0])
        if arguments.key or len(left) < role.threshold:
            number = work.present.root.signed.version + 1
            new = _adopt(arguments, work.publisher, role=Targets.type, number=number)
            keys = RoleKeys(max(role.threshold, arguments.threshold), (*left, *new.keys))
        else:
            keys = RoleKeys(role.threshold, left)
        if keys.threshold > len(keys.keys):
            raise UsageError(
                f"release keys: {keys.threshold} must sign, {len(keys.keys)} are left; give more with --key"
            )
        work.made.set_role(Targets.type, _signatories(keys))
        kept = [*list_released(work.publisher), *(target_path_of(name) for name in arguments.keep)]
        gone = work.made.keep_only(kept)
        if gone:  # what is unlisted can't be installed; what is revoked can't be gone back to either
            digests = [found.hashes["sha256"] for path in gone if (found := work.present.find(path)) is not None]
            floors = work.made.floors
            work.made.set_floors(msgspec.structs.replace(floors, revoked=(*floors.revoked, *digests)))
        work.end(
            title="revoke-release-key",
            says=(
                f"takes the release key {stolen[0].keyid[:12]} back; {_names(keys)} count",
                *changed,
                *map("unlists {}".format, gone),
            ),
            gone=gone,
            keys={Targets.type: keys},
        )


def _take_back_lists(work: Changing) -> list[str]:
    """Have boards trust the fleet's own assignment key, and the authorities that were named here; what that changes.

    What is listed now may be the thief's. A list can't just be left out: boards would stay with the thief's.

    Raises:
        UsageError: authorities are listed, and none were named from this folder.
    """
    listed, named = work.present.authorities(), work.publisher.authorities()
    if listed and not named:
        raise UsageError(
            "the authorities that boards trust weren't named from this folder, and may be the thief's: run `shoal keys "
            "authorities` with those that `shoal-fleet authority status` shows on the server, then this again"
        )
    own, changed = read_fleet_keys(work.client).assignment, []
    if work.present.assignment_keys().keys != (own,):
        work.made.set_assignment_keys([own])
        changed.append("names the fleet's own assignment key alone")
    if listed != named:
        work.made.set_authorities(named)
        prints = ", ".join(one.fingerprint(hashes.SHA256()).hex()[:12] for one in named)
        changed.append(f"names the authorities {prints} alone, as they were named from this folder")
    return changed


def _floor(arguments: argparse.Namespace) -> None:
    name, version = arguments.model, arguments.version
    with changing(arguments) as work:
        before = work.made.floors
        if version <= before.floors.get(name, 0):
            raise UsageError(f"floor of {name}: is {before.floors[name]} already; it never sinks")
        releases = parse(work.client.get("/api/v1/releases"), list[Release], what="releases")
        below = [target_path(name=one.name, version=one.version) for one in releases if one.name == name]
        gone = work.made.unlist(path for path in below if int(path.split("/")[1]) < version)
        work.made.set_floors(msgspec.structs.replace(before, floors={**before.floors, name: version}))
        work.end(title=f"floor-{name}-{version}", says=(f"revokes all versions of {name} below {version}",), gone=gone)


def _authorities(arguments: argparse.Namespace) -> None:
    wanted = list(dict.fromkeys(digest.lower() for digest in arguments.fingerprint))
    with changing(arguments) as work:
        try:
            shown = parse_certificates(work.client.read(paths.AUTHORITY), what=work.client.login.url + paths.AUTHORITY)
        except Malformed as error:
            raise CommandError(str(error)) from None
        offered = {one.fingerprint(hashes.SHA256()).hex(): one for one in shown}
        strange = [digest for digest in wanted if digest not in offered]
        if strange or len(wanted) > MOST_AUTHORITIES:
            raise UsageError(
                f"{', '.join(strange or wanted)}: expected fingerprints (64 hex digits) of at most {MOST_AUTHORITIES} "
                f"authorities of the fleet; it has {', '.join(offered)}: compare with `shoal-fleet authority status`"
            )
        issuer = next(iter(offered))
        if issuer not in wanted:
            raise UsageError(f"the fleet's servers have certificates by {issuer}: boards that don't trust it are lost")
        work.made.set_authorities([offered[digest] for digest in wanted])
        work.end(title="authorities", says=("boards trust these authorities of the fleet, and no others", *wanted))


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
