"""Is a sealed file kept whole under its digest, or not at all?"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from shoal_fleet.errors import NotFound, Refused, TooLarge
from shoal_fleet.releases.sealed_store import SealedStore

CONTENT = b"ciphertext" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> SealedStore:
    store = SealedStore(tmp_path / "sealed")
    store.open()
    return store


async def parts_of(content: bytes, *, fail: bool = False) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 999):
        yield content[start : start + 999]
    if fail:
        raise ConnectionError("gone")


def receive(store: SealedStore, sha256: str, content: bytes = CONTENT, *, limit_bytes: int = 10**6) -> int:
    return asyncio.run(store.receive(sha256, parts_of(content), limit_bytes=limit_bytes))


def files_in(tmp_path: Path) -> list[Path]:
    return [path for path in tmp_path.rglob("*") if path.is_file()]


def test_keeps_a_file_under_its_digest(store: SealedStore) -> None:
    assert receive(store, SHA256) == len(CONTENT)
    assert store.find(SHA256).read_bytes() == CONTENT
    assert store.size_bytes(SHA256) == len(CONTENT)


def test_taking_it_again_changes_nothing(store: SealedStore, tmp_path: Path) -> None:
    receive(store, SHA256)
    receive(store, SHA256)
    assert len(files_in(tmp_path)) == 1


def test_refuses_other_bytes_and_keeps_nothing(store: SealedStore, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="with sha256"):
        receive(store, SHA256, CONTENT[:-1])
    assert files_in(tmp_path) == []
    assert store.size_bytes(SHA256) is None


def test_refuses_what_is_too_long_and_keeps_nothing(store: SealedStore, tmp_path: Path) -> None:
    with pytest.raises(TooLarge):
        receive(store, SHA256, limit_bytes=len(CONTENT) - 1)
    assert files_in(tmp_path) == []


def test_upload_that_was_cut_off_leaves_nothing(store: SealedStore, tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        asyncio.run(store.receive(SHA256, parts_of(CONTENT, fail=True), limit_bytes=10**6))
    assert files_in(tmp_path) == []


def test_opening_removes_what_a_crash_left(store: SealedStore, tmp_path: Path) -> None:
    receive(store, SHA256)
    (tmp_path / "sealed" / "incoming" / "half").write_bytes(b"half")
    store.open()
    assert [path.name for path in files_in(tmp_path)] == [SHA256]


@pytest.mark.parametrize("name", ["", "..", "../fleet.db", "incoming", SHA256.upper(), SHA256 + "\n", SHA256[:-1]])
def test_names_that_are_no_digest_are_not_found(store: SealedStore, name: str) -> None:
    receive(store, SHA256)
    with pytest.raises(NotFound):
        store.find(name)
    assert store.size_bytes(name) is None
    with pytest.raises(Refused, match="64 hex digits"):
        receive(store, name)
