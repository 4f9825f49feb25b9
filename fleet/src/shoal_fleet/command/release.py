"""How does a release folder get to the fleet? Sealed, signed offline, uploaded: `shoal release create`."""

import argparse
import base64
import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from securesystemslib.signer import CryptoSigner
from shoal_wire.encoding import encode
from shoal_wire.grant import FLEET, Grant, GrantContext, make_grant, parse_hpke_public
from shoal_wire.manifest import Manifest, ReleaseDraft, target_path
from tuf.api.metadata import Metadata, Targets

from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import CommandError, UsageError
from shoal_fleet.command.keys import add_publisher_options, open_publisher, read_metadata
from shoal_fleet.command.metadata import add_release, lists, verify_current
from shoal_fleet.command.output import Columns, listing, print_result, print_table, upload_progress, when
from shoal_fleet.command.parsers import add_command, add_group
from shoal_fleet.command.publisher import Publisher
from shoal_fleet.command.sealing import make_manifest, read_draft, seal
from shoal_fleet.command.views import Release, Trust, parse

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
    create.add_argument("folder", type=Path, help="release folder: release.json and the files that it names")
    add_publisher_options(create)
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
    signer = publisher.signer("targets")
    draft = read_draft(arguments.folder)
    with publisher.locked(), Client() as client:
        manifest = make_manifest(arguments.folder, draft, publisher)
        raw, path = encode(manifest), target_path(name=manifest.name, version=manifest.version)
        current = _fetch_current(client, publisher, signer)
        uploaded = None
        if not lists(current, path, raw):
            uploaded = _upload_files(client, publisher, arguments.folder, draft, manifest)
            targets, version = add_release(current, signer, path=path, manifest=raw, now=datetime.now(UTC))
            client.post("/api/v1/releases", _make_body(targets, raw, _grants_to_fleet(manifest, publisher)))
            publisher.record_signed(targets, version=version)
        digest = hashlib.sha256(raw).hexdigest()
        result = _confirm(client, manifest, digest=digest)
    done = "was released before, nothing was sent" if uploaded is None else f"released, {uploaded} bytes uploaded"
    text = f"{draft.name} {draft.version}: {done}; manifest {digest[:12]}"
    result |= {"is_new": uploaded is not None, "uploaded_bytes": uploaded or 0}
    print_result(result, as_json=arguments.json, text=text)


def _fetch_current(client: Client, publisher: Publisher, signer: CryptoSigner) -> "Metadata[Targets]":
    """The targets metadata to build upon."""
    offered = parse(client.get("/api/v1/trust"), Trust, what="trust").targets
    if offered is None:
        raise UsageError("the fleet knows no publisher yet: run `shoal keys init` first")
    return verify_current(read_metadata(offered, what="targets metadata"), publisher.last_signed(), signer)


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


def _make_body(targets: bytes, manifest: bytes, grants: list[Grant]) -> dict[str, object]:
    return {
        "targets": base64.b64encode(targets).decode(),
        "manifest": base64.b64encode(manifest).decode(),
        "grants": grants,
    }


def _grants_to_fleet(manifest: Manifest, publisher: Publisher) -> list[Grant]:
    """One for each sealed file, of which two names may be the same."""
    fleet_key = parse_hpke_public(publisher.fleet_keys().hpke, what="the fleet's HPKE key")
    context = GrantContext(release=manifest.name, version=manifest.version, recipient=FLEET)
    plaintexts = {file.ciphertext_sha256: file.plaintext_sha256 for file in manifest.files}
    return [
        make_grant(
            publisher.content_key(plaintext), fleet_key, context=context, ciphertext_sha256=ciphertext, counter=0
        )
        for ciphertext, plaintext in plaintexts.items()
    ]


def _confirm(client: Client, manifest: Manifest, *, digest: str) -> dict[str, Any]:
    """What the fleet lists for the release, which must be what was signed here."""
    shown = client.get(_path(manifest.name, manifest.version))
    release = parse(shown, Release, what="release")
    if release.manifest_sha256 != digest:
        raise CommandError(
            f"{manifest.name} {manifest.version}: signed here with manifest {digest}, but the fleet lists "
            f"{release.manifest_sha256}"
        )
    return {key: value for key, value in shown.items() if key != "manifest"}


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
    variants = [f"{one.name} ({one.format}, {one.precision})" for model in manifest.models for one in model.variants]
    pairs = {
        "release": f"{release.name} {release.version}",
        "manifest": release.manifest_sha256,
        "created": when(release.created_at),
        "licence": manifest.licence,
        "provenance": manifest.provenance,
        "variants": ", ".join(variants),
        "files": f"{len(manifest.files)}, {sum(file.ciphertext_bytes for file in manifest.files)} bytes sealed",
    }
    print_result(shown, as_json=arguments.json, text=listing(pairs))


def _path(name: str, version: int) -> str:
    return f"/api/v1/releases/{quote(name, safe='')}/{version}"
