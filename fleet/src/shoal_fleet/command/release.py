"""How does a release folder get to the fleet? Sealed, signed offline, uploaded: `shoal release create`."""

import argparse
import base64
import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from shoal_wire.encoding import encode
from shoal_wire.grant import FLEET, Grant, GrantContext, make_grant
from shoal_wire.manifest import Manifest, ReleaseDraft, target_path

from shoal_fleet.command import agent_release
from shoal_fleet.command.changing import changing
from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import CommandError, UsageError
from shoal_fleet.command.metadata import Change, lists
from shoal_fleet.command.output import Columns, listing, print_result, print_table, printable, upload_progress, when
from shoal_fleet.command.parsers import add_command, add_group
from shoal_fleet.command.pending import Pending, ReleasePart, make_pending
from shoal_fleet.command.present import Present
from shoal_fleet.command.publisher import Publisher
from shoal_fleet.command.publishing import add_publisher_options, conclude, open_present, open_publisher
from shoal_fleet.command.sealing import make_manifest, read_draft, seal
from shoal_fleet.command.views import Release, parse

_COLUMNS: Columns[Release] = {
    "MODEL": lambda release: release.name,
    "RELEASE": lambda release: release.version,
    "CREATED (UTC)": lambda release: when(release.created_at),
    "MANIFEST": lambda release: release.manifest_sha256[:12],
}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal release`."""
    example = "shoal release create build/release-2 --publisher ~/publisher"
    actions = add_group(commands, "release", summary="signed model releases", example=example)
    create = add_command(
        actions,
        "create",
        summary="seal, sign and upload a release folder",
        description="Seal the files of a release folder, sign its manifest with the offline key, and upload both.\n"
        "It can be run again: what the fleet has already isn't sent twice.",
        example=example,
        run=_create,
    )
    create.add_argument("--project", help="where the releases of this name belong; needed where there are several")
    create.add_argument("folder", type=Path, help="release folder: release.json and the files that it names")
    add_publisher_options(create)
    revoke = add_command(
        actions,
        "revoke",
        summary="revoke one release",
        description="Revoke one release: no board installs it, or goes back to it, any more. A board that runs it\n"
        "keeps it until it is updated, and says so. For all versions below one: `shoal keys floor`.",
        example="shoal release revoke note-events 2 --publisher ~/publisher",
        run=_revoke,
    )
    revoke.add_argument("name", help="model")
    revoke.add_argument("version", type=int, help="release")
    revoke.add_argument("--retire", action="store_true", help="only list it no longer: boards may still go back to it")
    add_publisher_options(revoke)
    move = add_command(
        actions,
        "move",
        summary="have all releases of a model be of another project",
        description="Have all releases of a model, and with them its rollouts, be of another project. Devices that\n"
        "run one go on with it. Its rollouts must be over.",
        example="shoal release move note-events --project garden",
        run=_move,
    )
    move.add_argument("name", help="model")
    move.add_argument("--project", required=True, help="that they are to be in; you are admin of both")
    agent_release.add_parser(actions)
    add_command(
        actions,
        "list",
        summary="all releases",
        description="All releases, the newest of each model first.",
        example="shoal release list --json",
        run=_list,
    )
    show = add_command(
        actions,
        "show",
        summary="one release",
        description="One release; with --json its whole manifest.",
        example="shoal release show note-events 2",
        run=_show,
    )
    show.add_argument("name", help="model")
    show.add_argument("version", type=int, help="release")


def _create(arguments: argparse.Namespace) -> None:
    publisher = open_publisher(arguments)
    draft = read_draft(arguments.folder)
    with publisher.locked(), Client() as client:
        manifest = make_manifest(arguments.folder, draft, publisher)
        raw, path = encode(manifest), target_path(name=manifest.name, version=manifest.version)
        present, _ = open_present(client, publisher)
        uploaded, waits = None, None
        if not lists(present, path, raw):
            uploaded = _upload_files(client, publisher, arguments.folder, draft, manifest)
            pending = make_release_pending(client, present, manifest, raw, publisher, project=arguments.project)
            waits = conclude(pending, client=client, publisher=publisher)
        digest = hashlib.sha256(raw).hexdigest()
        result = {"waits": str(waits)} if waits else confirm_release(client, manifest, digest=digest)
    done = "was released before, nothing was sent" if uploaded is None else f"released, {uploaded} bytes uploaded"
    if waits is not None:
        done = f"waits for other signatures in {waits}, {uploaded} bytes uploaded"
    text = f"{draft.name} {draft.version}: {done}; manifest {digest[:12]}"
    result |= {"is_new": uploaded is not None, "uploaded_bytes": uploaded or 0}
    print_result(result, as_json=arguments.json, text=text)


def make_release_pending(
    client: Client, present: Present, manifest: Manifest, raw: bytes, publisher: Publisher, *, project: str | None
) -> Pending:
    """The metadata that lists a release, and what the fleet gets with it."""
    change = Change(present, now=datetime.now(UTC))
    change.list_release(target_path(name=manifest.name, version=manifest.version), raw)
    part = ReleasePart(base64.b64encode(raw).decode(), tuple(_grants_to_fleet(manifest, publisher)), project)
    return make_pending(
        change.finish(),
        trusted_root=present.root.to_bytes(),
        fleet=client.login.url,
        title=f"{manifest.name}-{manifest.version}",
        says=(f"releases {manifest.name} {manifest.version}, manifest {hashlib.sha256(raw).hexdigest()}",),
        release=part,
    )


def _revoke(arguments: argparse.Namespace) -> None:
    name, version = arguments.name, arguments.version
    path = target_path(name=name, version=version)
    word = "retire" if arguments.retire else "revoke"
    with changing(arguments) as work:
        listed = work.present.find(path)
        if listed is None:
            raise UsageError(f"{name} {version}: expected a release that is listed, found none: `shoal release list`")
        work.made.unlist([path])
        if not arguments.retire:
            floors = work.made.floors
            work.made.set_floors(msgspec.structs.replace(floors, revoked=(*floors.revoked, listed.hashes["sha256"])))
        says = f"{word}s {name} {version}, manifest {listed.hashes['sha256']}"
        waits = work.publish(title=f"{word}-{name}-{version}", says=(says,))
    done = f"{word}d" if waits is None else f"waits for other signatures in {waits}"
    result = {"name": name, "version": version, "waits": None if waits is None else str(waits)}
    print_result(result, as_json=arguments.json, text=f"{name} {version}: {done}")


def _upload_files(client: Client, publisher: Publisher, folder: Path, draft: ReleaseDraft, manifest: Manifest) -> int:
    """Upload what the fleet doesn't have; returns the bytes that went out."""
    uploaded = 0
    for file, sealed in zip(draft.files, manifest.files, strict=True):
        path = f"/api/v1/sealed/{sealed.ciphertext_sha256}"
        if client.exists(path):
            continue
        parts = seal(folder, file, publisher, expected=sealed)
        with upload_progress(file.name, total_bytes=sealed.ciphertext_bytes) as counted:
            client.put(path, counted.pass_on(parts), size_bytes=sealed.ciphertext_bytes)
        uploaded += sealed.ciphertext_bytes
    return uploaded


def _grants_to_fleet(manifest: Manifest, publisher: Publisher) -> list[Grant]:
    """One for each sealed file, of which two names may be the same."""
    fleet_key = publisher.fleet_keys().recipient_key()
    context = GrantContext(release=manifest.name, version=manifest.version, recipient=FLEET)
    plaintexts = {file.ciphertext_sha256: file.plaintext_sha256 for file in manifest.files}
    return [
        make_grant(
            publisher.content_keys.get(plaintext), fleet_key, context=context, ciphertext_sha256=ciphertext, counter=0
        )
        for ciphertext, plaintext in plaintexts.items()
    ]


def confirm_release(client: Client, manifest: Manifest, *, digest: str) -> dict[str, Any]:
    """What the fleet lists for the release, which must be what was signed here."""
    shown = client.get(_path(manifest.name, manifest.version))
    release = parse(shown, Release, what="release")
    if release.manifest_sha256 != digest:
        raise CommandError(
            f"{manifest.name} {manifest.version}: signed here with manifest {digest}, but the fleet lists "
            f"{release.manifest_sha256}"
        )
    return {key: value for key, value in shown.items() if key != "manifest"}


def _move(arguments: argparse.Namespace) -> None:
    with Client() as client:
        path = f"/api/v1/releases/{quote(arguments.name, safe='')}/move"
        shown = client.post(path, {"project": arguments.project})
    text = printable(f"releases of {arguments.name} are in {arguments.project}")
    print_result(shown, as_json=arguments.json, text=text)


def _list(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.get("/api/v1/releases")
    rows = parse(shown, list[Release], what="releases")
    empty = "no releases yet: `shoal release create FOLDER --publisher FOLDER`"
    print_table(shown, rows, _COLUMNS, as_json=arguments.json, empty=empty)


def _show(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.get(_path(arguments.name, arguments.version))
    release = parse(shown, Release, what="release")
    manifest = parse(shown["manifest"], Manifest, what="manifest")
    pairs = {
        "release": f"{release.name} {release.version}",
        "manifest": release.manifest_sha256,
        "created": when(release.created_at),
        "licence": manifest.licence,
        "provenance": manifest.provenance,
        **_describe_content(manifest),
        "files": f"{len(manifest.files)}, {sum(file.ciphertext_bytes for file in manifest.files)} bytes sealed",
    }
    print_result(shown, as_json=arguments.json, text=listing(pairs))


def _describe_content(manifest: Manifest) -> dict[str, str]:
    if manifest.agent is not None:
        trees = ", ".join(f"{tree.machine} with Python {tree.python}" for tree in manifest.agent.trees)
        return {"agent": f"{manifest.agent.version} for {trees}"}
    variants = [f"{one.name} ({one.format}, {one.precision})" for model in manifest.models for one in model.variants]
    return {"variants": ", ".join(variants)}


def _path(name: str, version: int) -> str:
    return f"/api/v1/releases/{quote(name, safe='')}/{version}"
