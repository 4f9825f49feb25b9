"""How does a Core ML package, a folder, travel as one file that is the same for the same model?"""

import hashlib
import io
import json
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

from shoal_converters.errors import BadModel

FILE = "model.mlpackage.zip"
FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip file can say
MODE = 0o100644 << 16
MANIFEST = "Manifest.json"
MAX_PACKAGE_BYTES = 4 << 30
DATED = ("com.github.apple.coremltools.conversion_date",)


def pack(folder: Path) -> bytes:
    """A zip file of the package, neither compressed nor dated; the numbers drawn for its parts become digests.

    Core ML and Xcode want the folder: unzip it there.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_dir():
                # The manifest names the one for weights, which may be empty.
                archive.writestr(zipfile.ZipInfo(f"{name}/", FIRST_DAY), b"")
                continue
            content = path.read_bytes()
            if name == MANIFEST:
                content = _name_parts(content)
            elif path.suffix == ".mlmodel":
                content = _remove_date(content)
            entry = zipfile.ZipInfo(name, FIRST_DAY)
            entry.external_attr = MODE
            archive.writestr(entry, content)
    return out.getvalue()


def unpack(packed: Path, folder: Path) -> None:
    """Write the package's files below an empty folder.

    Raises:
        BadModel: not such a zip file, or one that would write elsewhere or fill the disk.
    """
    try:
        with zipfile.ZipFile(packed) as archive:
            entries = archive.infolist()
            size_bytes = sum(entry.file_size for entry in entries)
            if size_bytes > MAX_PACKAGE_BYTES:
                raise BadModel(f"{packed}: {size_bytes} bytes unpacked, expected at most {MAX_PACKAGE_BYTES}")
            for entry in entries:
                name = PurePosixPath(entry.filename)
                if name.is_absolute() or ".." in name.parts:
                    raise BadModel(f"{packed}: has an entry {entry.filename!r} outside of the package")
            archive.extractall(folder)
    except (OSError, zipfile.BadZipFile, RuntimeError) as error:
        raise BadModel(f"{packed}: not a zip file of a Core ML package: {error}") from error
    if not (folder / MANIFEST).is_file():
        raise BadModel(f"{packed}: expected {MANIFEST} in it, found {sorted(one.name for one in folder.iterdir())}")


def _name_parts(raw: bytes) -> bytes:
    manifest: dict[str, Any] = json.loads(raw)
    names = {old: _number(entry["path"]) for old, entry in manifest["itemInfoEntries"].items()}
    manifest["itemInfoEntries"] = {names[old]: entry for old, entry in manifest["itemInfoEntries"].items()}
    manifest["rootModelIdentifier"] = names[manifest["rootModelIdentifier"]]
    return json.dumps(manifest, indent=4, sort_keys=True).encode()


def _number(path: str) -> str:
    digits = hashlib.sha256(path.encode()).hexdigest()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def _remove_date(raw: bytes) -> bytes:
    from shoal_converters.paths.coremltools_alone import coremltools  # whoever only unpacks does without

    model = coremltools.proto.Model_pb2.Model.FromString(raw)
    for key in DATED:
        model.description.metadata.userDefined.pop(key, None)
    content: bytes = model.SerializeToString(deterministic=True)
    return content
