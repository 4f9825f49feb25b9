"""How does a release folder get to the fleet? Sealed, signed offline, uploaded: `shoal release create`."""

import argparse
import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shoal_wire.encoding import encode
from shoal_wire.grant import FLEET, Grant, GrantContext, make_grant, parse_hpke_public
from shoal_wire.manifest import DraftFile, Manifest, ReleaseDraft, SealedFile, target_path

from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.keys import add_publisher_options, open_publisher
from shoal_fleet.command.metadata import next_targets
from shoal_fleet.command.output import print_result, print_table, upload_progress, when
from shoal_fleet.command.publisher import Publisher
from shoal_fleet.command.sealing import make_manifest, read_draft, seal_parts

_COLUMNS = {"name": "MODEL", "version": "RELEASE", "created": "CREATED", "manifest": "MANIFEST"}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal release`."""
    release = commands.add_parser("release", help="signed model releases", description="Signed model releases.")
    actions = release.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser(
        "create",
        help="seal, sign and upload a release folder",
        description="Seal the files of a release folder, sign its manifest with the offline key, and upload both.",
        epilog="example: shoal release create build/release-2 --publisher ~/publisher",
    )
    create.add_argument("folder", type=Path, help="release folder: release.json and the files that it names")
    add_publisher_options(create)
    create.set_defaults(run=_create)
    listing = actions.add_parser("list", help="all releases", epilog="example: shoal release list --json")
    listing.set_defaults(run=_list)
    show = actions.add_parser("show", help="one release", epilog="example: shoal release show note-events 2")
    show.add_argument("name")
    show.add_argument("version", type=int)
    show.set_defaults(run=_show)
    for parser in (create, listing, show):
        parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _create(arguments: argparse.Namespace) -> None:
    publisher = open_publisher(arguments)
    draft = read_draft(arguments.folder)
    with Client() as client:
        files, uploaded = _upload_files(client, publisher, arguments.folder, draft)
        manifest = make_manifest(draft, files)
        result = _publish(client, publisher, manifest)
    result["uploaded_bytes"] = uploaded
    text = f"{draft.name} {draft.version}: {uploaded} bytes uploaded, manifest {result['manifest_sha256'][:12]}"
    print_result(result, as_json=arguments.json, text=text)


def _upload_files(
    client: Client, publisher: Publisher, folder: Path, draft: ReleaseDraft
) -> tuple[tuple[SealedFile, ...], int]:
    """Upload what the fleet doesn't have; returns the sealed files and the bytes that went out."""
    sealed, uploaded = [], 0
    for file in draft.files:
        described, size = _upload_file(client, publisher, folder, file)
        sealed.append(described)
        uploaded += size
    return tuple(sealed), uploaded


def _upload_file(client: Client, publisher: Publisher, folder: Path, file: DraftFile) -> tuple[SealedFile, int]:
    described, parts = seal_parts(folder, file, publisher)
    path = f"/api/v1/sealed/{described.ciphertext_sha256}"
    if client.exists(path):
        return described, 0
    with upload_progress(file.name, total_bytes=described.ciphertext_bytes) as counted:
        client.put(path, counted.pass_on(parts), size_bytes=described.ciphertext_bytes)
    return described, described.ciphertext_bytes


def _publish(client: Client, publisher: Publisher, manifest: Manifest) -> dict[str, Any]:
    trust = client.get("/api/v1/trust")
    if trust["targets"] is None:
        raise CommandError("the fleet knows no publisher yet: run `shoal keys init` first")
    raw = encode(manifest)
    targets, version = next_targets(
        base64.b64decode(trust["targets"]),
        publisher.last_signed(),
        publisher.signer("targets"),
        path=target_path(name=manifest.name, version=manifest.version),
        manifest=raw,
        now=datetime.now(UTC),
    )
    body = {
        "targets": base64.b64encode(targets).decode(),
        "manifest": base64.b64encode(raw).decode(),
        "grants": _grants_to_fleet(manifest, publisher),
    }
    result: dict[str, Any] = client.post("/api/v1/releases", body)
    publisher.record_signed(targets, version=version)
    return result


def _grants_to_fleet(manifest: Manifest, publisher: Publisher) -> list[Grant]:
    fleet_key = parse_hpke_public(publisher.fleet_keys().hpke, what="the fleet's HPKE key in publisher.json")
    context = GrantContext(release=manifest.name, version=manifest.version, recipient=FLEET)
    return [
        make_grant(
            publisher.content_key(file.plaintext_sha256),
            fleet_key,
            context=context,
            ciphertext_sha256=file.ciphertext_sha256,
            counter=0,
        )
        for file in manifest.files
    ]


def _list(arguments: argparse.Namespace) -> None:
    with Client() as client:
        rows = client.get("/api/v1/releases")
    if not arguments.json:
        for row in rows:
            row["manifest"] = row["manifest_sha256"][:12]
            row["created"] = when(row["created_at"])
    print_table(rows, _COLUMNS, as_json=arguments.json, empty="no releases yet: `shoal release create FOLDER`")


def _show(arguments: argparse.Namespace) -> None:
    with Client() as client:
        release = client.get(f"/api/v1/releases/{arguments.name}/{arguments.version}")
    lines = [f"{key}: {value}" for key, value in release.items()]
    print_result(release, as_json=arguments.json, text="\n".join(lines))
