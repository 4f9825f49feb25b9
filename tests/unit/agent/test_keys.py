"""Are a device's keys made once, kept from others, and refused when they aren't what they should be?"""

import stat
from pathlib import Path

import pytest
from shoal_agent.errors import StateDamaged
from shoal_agent.files import DiskFiles
from shoal_agent.keys import HPKE, HYBRID, IDENTITY, TLS, load_keys, make_missing_keys


def test_keys_are_made_once_and_only_for_their_owner(tmp_path: Path) -> None:
    first = make_missing_keys(DiskFiles(), tmp_path)
    again = make_missing_keys(DiskFiles(), tmp_path)
    assert [key.public_key() for key in (first.identity, first.tls)] == [
        again.identity.public_key(),
        again.tls.public_key(),
    ]
    assert first.hpke.public_key() == again.hpke.public_key()
    for path in (IDENTITY, TLS, HPKE):
        assert stat.S_IMODE((tmp_path / path).stat().st_mode) == 0o600
    assert first.identity.public_key() != first.tls.public_key()


def test_only_the_missing_key_is_made(tmp_path: Path) -> None:
    first = make_missing_keys(DiskFiles(), tmp_path)
    (tmp_path / HPKE).unlink()
    again = make_missing_keys(DiskFiles(), tmp_path)
    assert again.identity.public_key() == first.identity.public_key()
    assert again.hpke.public_key() != first.hpke.public_key()


def test_refuses_missing_damaged_and_swapped_keys(tmp_path: Path) -> None:
    with pytest.raises(StateDamaged, match="found no file"):
        load_keys(DiskFiles(), tmp_path)
    make_missing_keys(DiskFiles(), tmp_path)
    whole = (tmp_path / IDENTITY).read_bytes()
    (tmp_path / IDENTITY).write_bytes(whole[:60])
    with pytest.raises(StateDamaged, match="identity"):
        load_keys(DiskFiles(), tmp_path)
    (tmp_path / IDENTITY).write_bytes((tmp_path / HPKE).read_bytes())
    with pytest.raises(StateDamaged, match="expected a P-256 key"):
        load_keys(DiskFiles(), tmp_path)
    (tmp_path / IDENTITY).write_bytes(whole)
    (tmp_path / HPKE).write_bytes(whole)
    with pytest.raises(StateDamaged, match="expected an X25519 key"):
        load_keys(DiskFiles(), tmp_path)


def test_hybrid_key_is_made_where_it_is_wanted_and_read_ever_after(tmp_path: Path) -> None:
    assert make_missing_keys(DiskFiles(), tmp_path).recipient.hybrid is None
    made = make_missing_keys(DiskFiles(), tmp_path, with_hybrid=True).hybrid
    again = load_keys(DiskFiles(), tmp_path).recipient.hybrid
    assert made is not None and again is not None
    assert again.raw == made.raw
    assert stat.S_IMODE((tmp_path / HYBRID).stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"AAAA\n", b"\xff\xfe", b"-----BEGIN PRIVATE KEY-----"])
def test_refuses_a_damaged_hybrid_key(tmp_path: Path, content: bytes) -> None:
    make_missing_keys(DiskFiles(), tmp_path)
    (tmp_path / HYBRID).write_bytes(content)
    with pytest.raises(StateDamaged, match=r"hpke-hybrid\.key: not a hybrid key"):
        load_keys(DiskFiles(), tmp_path)
