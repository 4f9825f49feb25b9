"""Which fleet does this user talk to, and with which token?

Kept by `shoal login` in one file of mode 0600: `$SHOAL_LOGIN`, or `$XDG_CONFIG_HOME/shoal/login.json`. The authority is
pinned; the system's certificates aren't used.
"""

import os
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from shoal_wire.encoding import decode_struct
from shoal_wire.errors import Malformed

from shoal_fleet.command.errors import UsageError


class Login(msgspec.Struct, frozen=True):
    """Content of the login file."""

    url: Annotated[str, Meta(pattern=r"^https://[^\s/]+\Z")]
    token: str
    authority: str
    """Certificate in PEM."""


def login_file() -> Path:
    """Where the login is kept."""
    if "SHOAL_LOGIN" in os.environ:
        return Path(os.environ["SHOAL_LOGIN"])
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "shoal" / "login.json"


def load_login() -> Login:
    """The login of this user.

    Raises:
        UsageError: there is none yet, or the file is damaged.
    """
    path = login_file()
    try:
        return decode_struct(path.read_bytes(), Login, what=str(path))
    except FileNotFoundError:
        raise UsageError(f"{path} is not there: run `shoal login URL` first") from None
    except Malformed as error:
        raise UsageError(f"{error}; run `shoal login URL` again") from None


def save_login(login: Login) -> Path:
    """Keep it for this user; returns the file."""
    path = login_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(login))
    temporary.replace(path)
    return path
