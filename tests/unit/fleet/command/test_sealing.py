"""Does a release folder give the manifest that it should, and nothing from elsewhere?"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_fleet.command.errors import CommandError, UsageError
from shoal_fleet.command.publisher import Publisher
from shoal_fleet.command.sealing import make_manifest, read_draft, seal
from shoal_wire import sealed_file
from shoal_wire.encoding import encode
from shoal_wire.manifest import Manifest, parse_manifest

from tests.unit.fleet.command.material import make_draft, make_fleet_keys, write_release_folder

CONTENTS = {"model.onnx": b"weights" * 1000, "golden.wav": b"", "same.onnx": b"weights" * 1000}


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    made = Publisher(tmp_path / "publisher", passphrase=None)
    made.create(make_fleet_keys())
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_release_folder(tmp_path / "release", name="notes", version=3, contents=CONTENTS)


def manifest_of(folder: Path, publisher: Publisher) -> Manifest:
    return make_manifest(folder, read_draft(folder), publisher)


def test_manifest_describes_the_sealed_files(folder: Path, publisher: Publisher) -> None:
    manifest = parse_manifest(encode(manifest_of(folder, publisher)))
    assert (manifest.name, manifest.version) == ("notes", 3)
    for draft, sealed in zip(read_draft(folder).files, manifest.files, strict=True):
        plaintext = CONTENTS[draft.name]
        ciphertext = b"".join(seal(folder, draft, publisher, expected=sealed))
        assert sealed.plaintext_sha256 == hashlib.sha256(plaintext).hexdigest()
        assert sealed.ciphertext_sha256 == hashlib.sha256(ciphertext).hexdigest()
        assert (sealed.plaintext_bytes, sealed.ciphertext_bytes) == (len(plaintext), len(ciphertext))
        key = publisher.content_keys.get(sealed.plaintext_sha256)
        assert b"".join(sealed_file.unseal(_parts(ciphertext), key)) == plaintext
        assert plaintext == b"" or plaintext[:20] not in ciphertext


def test_same_folder_gives_the_same_manifest(folder: Path, publisher: Publisher) -> None:
    assert encode(manifest_of(folder, publisher)) == encode(manifest_of(folder, publisher))


def test_same_content_is_the_same_sealed_file_in_every_release(
    folder: Path, tmp_path: Path, publisher: Publisher
) -> None:
    later = write_release_folder(tmp_path / "later", name="notes", version=4, contents=CONTENTS)
    one, other = manifest_of(folder, publisher), manifest_of(later, publisher)
    assert one.files == other.files
    assert one.file("model.onnx").ciphertext_sha256 == one.file("same.onnx").ciphertext_sha256


def test_file_that_changed_meanwhile_is_not_sealed_under_its_old_key(folder: Path, publisher: Publisher) -> None:
    manifest, draft = manifest_of(folder, publisher), read_draft(folder)
    (folder / "model.onnx").write_bytes(b"Weights" * 1000)
    with pytest.raises(CommandError, match="was changed while it was being released"):
        list(seal(folder, draft.files[0], publisher, expected=manifest.files[0]))


@pytest.mark.parametrize("changed", [b"weights" * 999 + b"Weights", b"weights" * 999, b"weights" * 1001])
def test_not_a_part_of_a_changed_file_goes_out_that_was_not_described(
    folder: Path, publisher: Publisher, changed: bytes
) -> None:
    manifest, draft = manifest_of(folder, publisher), read_draft(folder)
    (folder / "model.onnx").write_bytes(changed)
    parts = seal(folder, draft.files[0], publisher, expected=manifest.files[0])
    with pytest.raises(CommandError):
        next(parts)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../secret", "lies outside the folder"),
        ("/etc/hostname", "lies outside the folder"),
        ("link", "lies outside the folder"),
        ("absent", "can't be read .*: No such file"),
        ("inner", "is no regular file"),
        ("a\0b", "path that no file can have"),
    ],
)
def test_file_that_is_none_of_the_folder_is_refused(
    tmp_path: Path, publisher: Publisher, path: str, reason: str
) -> None:
    folder = tmp_path / "release"
    (folder / "inner").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "release.json").write_text(json.dumps(make_draft("notes", 1, {"model": path})))
    with pytest.raises(UsageError, match=reason):
        manifest_of(folder, publisher)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "release.json"),
        ("{", "release.json"),
        ("[]", "release.json"),
        ("{}", "name"),
        (json.dumps({**make_draft("notes", 1, {"model": "model"}), "extra": 1}), "extra"),
        (json.dumps({**make_draft("Notes!", 1, {"model": "model"})}), "name"),
        (json.dumps({**make_draft("notes", 1, {"model": "model"}), "files": []}), "files"),
    ],
)
def test_draft_that_is_not_as_agreed_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "release.json").write_text(text)
    with pytest.raises(UsageError, match=reason):
        read_draft(tmp_path)


@pytest.mark.parametrize("make", [lambda path: None, Path.mkdir, Path.touch])
def test_folder_without_draft_is_refused(tmp_path: Path, make: object) -> None:
    folder = tmp_path / "release"
    assert callable(make)
    make(folder)
    with pytest.raises(UsageError, match=r"release\.json"):
        read_draft(folder)


def _parts(ciphertext: bytes) -> Iterator[bytes]:
    offset = 0

    def read(size: int) -> bytes:
        nonlocal offset
        part = ciphertext[offset : offset + size]
        offset += len(part)
        return part

    return sealed_file.read_parts(read)
