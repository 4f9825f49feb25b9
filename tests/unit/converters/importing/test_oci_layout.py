"""Is an artifact taken only as its digests say?"""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from shoal_converters.errors import BadModel
from shoal_converters.importing.oci_layout import unpack_artifact

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
TITLE = "org.opencontainers.image.title"


class Layout:
    """Writes one, as the specification says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "blobs/sha256").mkdir(parents=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def put(self, content: bytes, *, kind: str, **annotations: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        (self.folder / "blobs/sha256" / digest).write_bytes(content)
        annotated = {key.replace("_", "."): value for key, value in annotations.items()}
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content), "annotations": annotated}

    def put_manifest(
        self, layers: list[dict[str, Any]], *, config: dict[str, Any] | None = None, **more: str
    ) -> dict[str, Any]:
        manifest = {"schemaVersion": 2, "config": config, "layers": layers}
        return self.put(json.dumps(manifest).encode(), kind=MANIFEST_TYPE, **more)

    def finish(self, *manifests: dict[str, Any]) -> Path:
        (self.folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": manifests}))
        return self.folder


def tar_of(name: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def titled(layout: Layout, content: bytes, title: str) -> dict[str, Any]:
    return layout.put(content, kind="application/octet-stream") | {"annotations": {TITLE: title}}


def test_takes_titled_files_and_archives(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    config = {"descriptor": {"licenses": ["MIT", "Apache-2.0"]}}
    folder = layout.finish(
        layout.put_manifest(
            [
                titled(layout, b"weights", "net/model.onnx"),
                layout.put(tar_of("labels.txt", b"cat"), kind="application/vnd.cncf.model.doc.v1.tar+gzip"),
                layout.put(b"signature", kind="application/vnd.example.signature"),
            ],
            config=layout.put(json.dumps(config).encode(), kind="application/vnd.cncf.model.config.v1+json"),
        )
    )
    artifact = unpack_artifact(folder, tmp_path / "out", reference="")
    found = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert found == {"net/model.onnx", "labels.txt"}
    assert (artifact.licence, artifact.digest[:7]) == ("MIT, Apache-2.0", "sha256:")


def test_one_of_several_is_chosen_by_name(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    manifests = []
    for name in ("one", "two"):
        manifest = layout.put_manifest([titled(layout, name.encode(), "a.txt")])
        manifests.append(manifest | {"annotations": {"org.opencontainers.image.ref.name": name}})
    folder = layout.finish(*manifests)
    with pytest.raises(BadModel, match="holds one, two; name one with --reference"):
        unpack_artifact(folder, tmp_path / "out", reference="")
    assert unpack_artifact(folder, tmp_path / "out", reference="two").reference == "two"
    assert (tmp_path / "out/a.txt").read_text() == "two"


def test_refuses_a_blob_of_other_bytes(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    layer = titled(layout, b"weights", "a.onnx")
    folder = layout.finish(layout.put_manifest([layer]))
    (folder / "blobs" / layer["digest"].replace(":", "/")).write_bytes(b"WEIGHTS")
    found, expected = (hashlib.sha256(content).hexdigest() for content in (b"WEIGHTS", b"weights"))
    with pytest.raises(BadModel, match=f"found 7 bytes .* sha256:{found}, expected 7 bytes with sha256:{expected}"):
        unpack_artifact(folder, tmp_path / "out", reference="")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"digest": "sha256:../../../etc/passwd"}, "expected sha256 or sha512"),
        ({"digest": "md5:" + "0" * 32}, "expected sha256 or sha512"),
        ({"digest": "sha256:" + "0" * 64}, "No such file"),
        ({"size": 2 << 30}, "expected 2147483648 bytes"),
        ({"size": 2**49}, "its layers have more than"),
        ({"annotations": {TITLE: "../a.onnx"}}, "leads out of the folder"),
        ({"mediaType": "application/vnd.oci.image.layer.v1.tar+zstd"}, "store it as gzip"),
        ({"mediaType": "application/vnd.oci.image.layer.v1.tar"}, "broken or cut archive"),
    ],
)
def test_refuses_hostile_layers(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    layout = Layout(tmp_path / "layout")
    folder = layout.finish(layout.put_manifest([titled(layout, b"weights" * 100, "a.onnx") | change]))
    with pytest.raises(BadModel, match=reason):
        unpack_artifact(folder, tmp_path / "out", reference="")


def test_refuses_an_index_that_holds_itself_too_deep(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    kind = "application/vnd.oci.image.index.v1+json"
    inner = layout.put_manifest([titled(layout, b"x", "a.onnx")])
    for _ in range(6):
        inner = layout.put(json.dumps({"manifests": [inner]}).encode(), kind=kind)
    with pytest.raises(BadModel, match="more than 4 deep"):
        unpack_artifact(layout.finish(inner), tmp_path / "out", reference="")


def test_refuses_another_version_and_broken_json(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    (layout.folder / "index.json").write_text('{"manifests": [{"digest": 3}]}')
    with pytest.raises(BadModel, match=r"index\.json: "):
        unpack_artifact(layout.folder, tmp_path / "out", reference="")
    (layout.folder / "oci-layout").write_text('{"imageLayoutVersion": "2.0.0"}')
    with pytest.raises(BadModel, match=r"expected 1\.0\.0"):
        unpack_artifact(layout.folder, tmp_path / "out", reference="")
