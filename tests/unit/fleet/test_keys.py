"""Do the online keys stay the same, and stay private?"""

import stat
from pathlib import Path

import pytest
from shoal_fleet.errors import BrokenState
from shoal_fleet.keys import OnlineKeys


def test_keys_are_made_once_and_read_again(tmp_path: Path) -> None:
    made = OnlineKeys.load_or_create(tmp_path / "keys")
    assert OnlineKeys.load_or_create(tmp_path / "keys").public == made.public
    assert len({made.public.snapshot, made.public.timestamp, made.public.assignment, made.public.hpke}) == 4


def test_only_the_owner_may_read_them(tmp_path: Path) -> None:
    OnlineKeys.load_or_create(tmp_path / "keys")
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "keys").iterdir()} == {0o600}


@pytest.mark.parametrize(("name", "other"), [("snapshot", "hpke"), ("hpke", "assignment")])
def test_refuses_a_key_of_another_kind(tmp_path: Path, name: str, other: str) -> None:
    OnlineKeys.load_or_create(tmp_path)
    (tmp_path / f"{name}.pem").write_bytes((tmp_path / f"{other}.pem").read_bytes())
    with pytest.raises(BrokenState, match=f"{name}.pem: expected an"):
        OnlineKeys.load_or_create(tmp_path)


def test_refuses_a_damaged_file_and_leaves_it(tmp_path: Path) -> None:
    OnlineKeys.load_or_create(tmp_path)
    (tmp_path / "assignment.pem").write_bytes(b"-----BEGIN")
    with pytest.raises(BrokenState, match=r"assignment\.pem"):
        OnlineKeys.load_or_create(tmp_path)
    assert (tmp_path / "assignment.pem").read_bytes() == b"-----BEGIN"
