"""Is a login kept for its owner alone, and refused where it is damaged?"""

from pathlib import Path

import pytest
from shoal_fleet.command.account import load_login, login_file, save_login
from shoal_fleet.command.errors import UsageError

from tests.unit.fleet.command.material import make_login


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the login of the test lies."""
    monkeypatch.setenv("SHOAL_LOGIN", str(tmp_path / "deep" / "login.json"))
    return tmp_path / "deep" / "login.json"


def test_login_comes_back_as_it_was_kept(path: Path) -> None:
    login = make_login()
    assert save_login(login) == path
    assert load_login() == login
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_file_that_others_could_read_is_replaced_by_one_that_they_cannot(path: Path) -> None:
    path.parent.mkdir()
    for name in (path.name, f".{path.name}.new"):
        (path.parent / name).write_text("old")
        (path.parent / name).chmod(0o644)
    watched = path.open()
    save_login(make_login())
    assert path.stat().st_mode & 0o777 == 0o600
    assert watched.read() == "old"  # who had it open sees nothing of the new one
    watched.close()


def test_link_in_its_place_is_replaced_and_not_followed(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch()
    path.symlink_to(elsewhere)
    save_login(make_login())
    assert elsewhere.read_bytes() == b""
    assert not path.is_symlink()


def test_place_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_LOGIN", "")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/somewhere")
    assert login_file() == Path("/somewhere/shoal/login.json")
    monkeypatch.setenv("XDG_CONFIG_HOME", "")
    monkeypatch.setenv("HOME", "/home/me")
    assert login_file() == Path("/home/me/.config/shoal/login.json")


def test_missing_login_names_the_next_step() -> None:
    with pytest.raises(UsageError, match="run `shoal login URL` first"):
        load_login()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"url": "http://fleet", "token": "t", "authority": ""}',
        '{"url": "https://me:secret@fleet", "token": "t", "authority": ""}',
        '{"url": "https://fleet/path", "token": "t", "authority": ""}',
        '{"url": "https://fleet", "token": "secret secret", "authority": ""}',
        '{"url": "https://fleet", "token": "secret\\n", "authority": ""}',
        '{"url": "https://fleet", "token": "", "authority": ""}',
    ],
)
def test_damaged_login_is_refused_without_its_secret(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(UsageError, match="run `shoal login URL` again") as caught:
        load_login()
    assert "secret" not in str(caught.value)


def test_login_that_cannot_be_read_is_named(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(UsageError, match="Is a directory"):
        load_login()
