"""What is in an OCI image layout: which artifact, and the files of its layers?

Formats: OCI image specification 1.1, "Image Layout" and "Manifest"; the CNCF ModelPack specification; ORAS, whose
layers are files with a title.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from shoal_converters.errors import BadModel
from shoal_converters.importing.found import read_bounded
from shoal_converters.importing.unpacking import CHUNK_BYTES, place_inside, unpack_tar

MAX_MANIFEST_BYTES = 4 << 20  # as registries bound it
MAX_UNPACKED_BYTES = 32 << 30
MAX_NESTING = 4
"""Of indexes in indexes."""
DIGEST = re.compile(r"(sha256):([0-9a-f]{64})\Z|(sha512):([0-9a-f]{128})\Z")
TITLE, REFERENCE = "org.opencontainers.image.title", "org.opencontainers.image.ref.name"
FILE_PATH = "org.cncf.model.filepath"
UNPACK = "io.deis.oras.content.unpack"
LICENCES = "org.opencontainers.image.licenses"
INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")

Annotations = dict[str, str]
KindT = TypeVar("KindT")


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """Names a blob by its digest."""

    digest: str
    size: Annotated[int, Meta(ge=0, le=2**50)]
    media_type: str = ""
    annotations: Annotations = {}


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """An image manifest, or an index, which has manifests in place of layers."""

    config: Descriptor | None = None
    layers: Annotated[tuple[Descriptor, ...], Meta(max_length=10_000)] = ()
    manifests: Annotated[tuple[Descriptor, ...], Meta(max_length=10_000)] = ()
    annotations: Annotations = {}


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """What was unpacked."""

    reference: str
    digest: str
    """Of its manifest."""
    licence: str
    annotations: Annotations


def is_oci(folder: Path) -> bool:
    """Whether it is such a layout."""
    return (folder / "oci-layout").is_file()


def unpack_artifact(layout: Path, folder: Path, *, reference: str) -> Artifact:
    """Verify an artifact and put the files of its layers into a folder.

    `reference`: name or digest of the one that is wanted, where the layout holds several.

    Raises:
        BadModel: broken, a blob that isn't what its digest says, or layers that can't be unpacked safely.
    """
    about = _parse(read_bounded(layout / "oci-layout", limit_bytes=4096), dict[str, str], what="oci-layout")
    if not about.get("imageLayoutVersion", "").startswith("1."):
        raise BadModel(f"{layout}: oci-layout names version {about.get('imageLayoutVersion')!r}, expected 1.0.0")
    raw = read_bounded(layout / "index.json", limit_bytes=MAX_MANIFEST_BYTES)
    found = list(_list_manifests(layout, _parse(raw, Manifest, what="index.json"), depth=0))
    chosen = _choose(layout, found, reference=reference)
    manifest = _parse(_read_blob(layout, chosen), Manifest, what=f"manifest {chosen.digest[:19]}")
    if not manifest.layers:
        raise BadModel(f"{layout}: the artifact {chosen.digest[:19]} has no layers")
    left = MAX_UNPACKED_BYTES
    for layer in manifest.layers:
        left -= _unpack_layer(layout, layer, folder, limit_bytes=left)
    annotations = {**chosen.annotations, **manifest.annotations}
    return Artifact(
        reference=chosen.annotations.get(REFERENCE, ""),
        digest=chosen.digest,
        licence=annotations.get(LICENCES) or _licence_of_config(layout, manifest.config),
        annotations=annotations,
    )


def verify_blob(layout: Path, descriptor: Descriptor) -> Path:
    """The file of a blob, whose bytes are those of its digest.

    Raises:
        BadModel: a digest of no known form, no such file, another size or other bytes.
    """
    matched = DIGEST.match(descriptor.digest)
    if matched is None:
        raise BadModel(f"{layout}: the digest {descriptor.digest[:80]!r}: expected sha256 or sha512 and its hex digits")
    algorithm, expected = descriptor.digest.split(":")
    path = layout / "blobs" / algorithm / expected
    digest, size = hashlib.new(algorithm), 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise BadModel(f"{path}: {error.strerror or error}") from None
    if size != descriptor.size or digest.hexdigest() != expected:
        raise BadModel(
            f"{path}: found {size} bytes with the digest {algorithm}:{digest.hexdigest()}, expected {descriptor.size} "
            f"bytes with {descriptor.digest}: copy the layout again"
        )
    return path


def _list_manifests(layout: Path, index: Manifest, *, depth: int) -> Iterator[Descriptor]:
    if depth > MAX_NESTING:
        raise BadModel(f"{layout}: indexes inside indexes, more than {MAX_NESTING} deep")
    for descriptor in index.manifests:
        if descriptor.media_type in INDEXES:
            inner = _parse(_read_blob(layout, descriptor), Manifest, what=f"index {descriptor.digest[:19]}")
            yield from _list_manifests(layout, inner, depth=depth + 1)
        else:
            yield descriptor


def _choose(layout: Path, found: list[Descriptor], *, reference: str) -> Descriptor:
    names = [one.annotations.get(REFERENCE) or one.digest for one in found]
    if reference:
        chosen = [one for one in found if reference in (one.annotations.get(REFERENCE), one.digest)]
    else:
        chosen = list({one.digest: one for one in found}.values())
    if len(chosen) != 1:
        wanted = f"{len(chosen)} are {reference!r}" if reference else "name one with --reference"
        raise BadModel(f"{layout}: holds {', '.join(names[:10]) or 'no artifact'}; {wanted}")
    return chosen[0]


def _read_blob(layout: Path, descriptor: Descriptor) -> bytes:
    if descriptor.size > MAX_MANIFEST_BYTES:
        raise BadModel(f"{layout}: a manifest of {descriptor.size} bytes, expected at most {MAX_MANIFEST_BYTES}")
    return read_bounded(verify_blob(layout, descriptor), limit_bytes=MAX_MANIFEST_BYTES)


def _unpack_layer(layout: Path, layer: Descriptor, folder: Path, *, limit_bytes: int) -> int:
    """An archive is unpacked, anything else is a file; gives the bytes that were written."""
    if layer.size > limit_bytes:
        raise BadModel(f"{layout}: its layers have more than {MAX_UNPACKED_BYTES} bytes")
    blob = verify_blob(layout, layer)
    kind = layer.media_type
    if kind.endswith(("zstd", ".zst")):
        raise BadModel(f"{layout}: layer {layer.digest[:19]} is compressed by zstd, which isn't read: store it as gzip")
    if kind.endswith((".tar", ".tar+gzip", ".tar.gzip", "+tar")) or layer.annotations.get(UNPACK) == "true":
        return unpack_tar(blob, folder, limit_bytes=limit_bytes)
    name = layer.annotations.get(FILE_PATH) or layer.annotations.get(TITLE) or ""
    if not name:
        return 0  # neither an archive nor a file with a name: a signature, or data for somebody else
    target = place_inside(folder, name, what=str(layout))
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with blob.open("rb") as source, target.open("xb") as file:
            while chunk := source.read(CHUNK_BYTES):
                file.write(chunk)
    except OSError as error:
        raise BadModel(f"{layout}: {name[:200]!r}: {error.strerror or error}") from None
    return layer.size


def _licence_of_config(layout: Path, config: Descriptor | None) -> str:
    """ModelPack's configuration names licences in its descriptor."""
    if config is None or config.size > MAX_MANIFEST_BYTES or "json" not in config.media_type:
        return ""
    about = _parse(_read_blob(layout, config), dict[str, object], what="config")
    descriptor = about.get("descriptor")
    licences = descriptor.get("licenses") if isinstance(descriptor, dict) else None
    return ", ".join(map(str, licences)) if isinstance(licences, list) else ""


def _parse(raw: bytes, kind: type[KindT], *, what: str) -> KindT:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadModel(f"{what}: {error}") from None
