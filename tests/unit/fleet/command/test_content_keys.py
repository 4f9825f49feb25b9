"""Does a plaintext keep its key, and get another only where it is asked for?"""

import json
from pathlib import Path

import pytest
from shoal_fleet.command.content_keys import ContentKeys
from shoal_fleet.command.errors import CommandError

SHA256 = "ab" * 32


@pytest.fixture
def keys(tmp_path: Path) -> ContentKeys:
    return ContentKeys(tmp_path / "content-keys")


def test_plaintext_keeps_its_key(keys: ContentKeys, tmp_path: Path) -> None:
    key = keys.get(SHA256)
    assert len(key) == 32
    assert ContentKeys(tmp_path / "content-keys").get(SHA256) == key
    assert keys.get("cd" * 32) != key
    assert (tmp_path / "content-keys" / f"{SHA256}.json").stat().st_mode & 0o777 == 0o600


def test_plaintext_that_was_never_sealed_has_no_key(keys: ContentKeys) -> None:
    assert keys.all(SHA256) == ()


def test_renewed_key_counts_and_earlier_ones_are_kept(keys: ContentKeys) -> None:
    first = keys.get(SHA256)
    second, third = keys.renew(SHA256), keys.renew(SHA256)
    assert keys.get(SHA256) == third
    assert keys.all(SHA256) == (third, second, first)


def test_file_of_an_earlier_version_is_read(keys: ContentKeys, tmp_path: Path) -> None:
    keys.get("cd" * 32)
    old = {"plaintext_sha256": SHA256, "key": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}
    (tmp_path / "content-keys" / f"{SHA256}.json").write_text(json.dumps(old))
    assert keys.all(SHA256) == (bytes(32),)


@pytest.mark.parametrize("text", ["", "{}", '{"plaintext_sha256": "' + SHA256 + '", "key": "AAAA"}'])
def test_damaged_file_is_named(keys: ContentKeys, tmp_path: Path, text: str) -> None:
    keys.get(SHA256)
    (tmp_path / "content-keys" / f"{SHA256}.json").write_text(text)
    with pytest.raises(CommandError, match=f"{SHA256}.json.*restore the publisher's folder"):
        keys.get(SHA256)
