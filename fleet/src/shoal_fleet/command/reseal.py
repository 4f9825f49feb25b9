"""How do the contents of exposed releases come under new keys? `shoal keys reseal`

A release never changes: the same contents become its next version, in which the exposed files are sealed under fresh
content keys. No board gets them that was shut out. What it holds already it can still open.
"""

import argparse
import hashlib
import sys
import tempfile
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from shoal_wire.encoding import encode
from shoal_wire.manifest import Manifest, SealedFile

from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import UsageError
from shoal_fleet.command.output import print_result, upload_progress
from shoal_fleet.command.parsers import add_command
from shoal_fleet.command.publisher import Publisher
from shoal_fleet.command.publishing import add_publisher_options, conclude, open_present, open_publisher
from shoal_fleet.command.release import confirm_release, make_release_pending
from shoal_fleet.command.resealing import Resealed
from shoal_fleet.command.views import Exposures, Release, parse


class _Wanted(NamedTuple):
    """A release to seal anew."""

    name: str
    version: int
    exposed: Collection[str] | None
    """Ciphertext digests of the files that need another key; None for all of them."""


def add_parser(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal keys reseal`."""
    example = "shoal keys reseal --publisher ~/publisher --exposed"
    reseal = add_command(
        actions,
        "reseal",
        summary="seal the contents of releases under new content keys",
        description="Publish the contents of a release as its model's next version, sealed under new content keys.\n"
        "With --exposed: for each model whose newest release holds a file that a revoked device has the key of.\n"
        "Rolling the new versions out, and revoking the old ones, stays yours to do. It can be run again.",
        example=example,
        run=_reseal,
    )
    reseal.add_argument("name", nargs="?", help="model; all files of the release get new keys")
    reseal.add_argument("version", nargs="?", type=int, help="release")
    reseal.add_argument("--exposed", action="store_true", help="what revoked devices hold the keys of")
    add_publisher_options(reseal)


def _reseal(arguments: argparse.Namespace) -> None:
    if arguments.exposed == (arguments.version is not None):
        raise UsageError("expected either a model and its release, or --exposed")
    publisher = open_publisher(arguments)
    with publisher.locked(), Client() as client:
        shown = parse(client.get("/api/v1/releases"), list[Release], what="releases")
        wanted = [_Wanted(arguments.name, arguments.version, None)]
        if arguments.exposed:
            wanted = _find_exposed(client, shown)
        made = [_reseal_release(one, _newest(shown, one.name), client=client, publisher=publisher) for one in wanted]
    lines = [f"{one['name']} {one['version']}: {one['says']}" for one in made]
    text = "\n".join(lines) or "no newest release holds a file that a revoked device has the key of"
    print_result({"releases": made}, as_json=arguments.json, text=text)


def _find_exposed(client: Client, releases: Iterable[Release]) -> list[_Wanted]:
    exposures = parse(client.get("/api/v1/exposed"), Exposures, what="exposed files")
    digests: dict[tuple[str, int], set[str]] = {}
    for file in exposures.files:
        digests.setdefault((file.release, file.version), set()).add(file.ciphertext_sha256)
    newest = {one.name: _newest(releases, one.name) for one in releases}
    for (name, version), _ in digests.items():
        live = sum(file.assigned_devices for file in exposures.files if (file.release, file.version) == (name, version))
        if version != newest[name] and live:
            print(f"{name} {version}: is exposed and still assigned; roll out a later release", file=sys.stderr)
    return [_Wanted(name, version, exposed) for (name, version), exposed in digests.items() if version == newest[name]]


def _newest(releases: Iterable[Release], name: str) -> int:
    versions = [one.version for one in releases if one.name == name]
    if not versions:
        raise UsageError(f"{name}: expected a model of this fleet, found none of that name: `shoal release list`")
    return max(versions)


def _reseal_release(wanted: _Wanted, newest: int, *, client: Client, publisher: Publisher) -> dict[str, Any]:
    """The release's contents as the version after the newest; what the fleet lists for it."""
    before = _read_manifest(client, wanted.name, wanted.version)
    files = [_reseal_file(file, wanted, client=client, publisher=publisher) for file in before.files]
    if _read_manifest(client, wanted.name, newest).files == tuple(files):
        return {"name": wanted.name, "version": newest, "says": "has those contents under these keys already"}
    manifest = msgspec.structs.replace(before, version=newest + 1, files=tuple(files))
    raw = encode(manifest)
    present, _ = open_present(client, publisher)
    pending = make_release_pending(client, present, manifest, raw, publisher, project=None)
    waits = conclude(pending, client=client, publisher=publisher)
    changed = sum(after != file for after, file in zip(files, before.files, strict=True))
    says = f"the contents of {wanted.version}, {changed} of {len(files)} files under new keys"
    if waits is not None:
        return {"name": manifest.name, "version": manifest.version, "says": f"{says}; waits in {waits}"}
    listed = confirm_release(client, manifest, digest=hashlib.sha256(raw).hexdigest())
    return listed | {"says": says, "resealed_files": changed, "contents_of": wanted.version}


def _read_manifest(client: Client, name: str, version: int) -> Manifest:
    shown = client.get(f"/api/v1/releases/{quote(name, safe='')}/{version}")
    return parse(shown["manifest"], Manifest, what="manifest")


def _reseal_file(file: SealedFile, wanted: _Wanted, *, client: Client, publisher: Publisher) -> SealedFile:
    """The file as the next version names it; the fleet has it when this returns.

    One that isn't exposed itself is sealed anew, too, where its plaintext has got another key with another release: a
    grant is made with the present key.
    """
    keys = publisher.content_keys
    is_exposed = wanted.exposed is None or file.ciphertext_sha256 in wanted.exposed
    if not is_exposed and len(keys.all(file.plaintext_sha256)) == 1:
        return file
    with tempfile.TemporaryFile(dir=publisher.folder) as fetched:
        client.fetch(f"/api/v1/sealed/{file.ciphertext_sha256}", fetched)
        resealed = Resealed(file, fetched, keys, renews=is_exposed)
        path = f"/api/v1/sealed/{resealed.file.ciphertext_sha256}"
        if resealed.is_changed and not client.exists(path):
            with upload_progress(file.name, total_bytes=resealed.file.ciphertext_bytes) as counted:
                client.put(path, counted.pass_on(resealed.parts()), size_bytes=resealed.file.ciphertext_bytes)
    return resealed.file
