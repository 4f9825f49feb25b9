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
from shoal_fleet.command.private_files import make_private_folder, write_private

Url = Annotated[str, Meta(pattern=r"^https://[^\s/@?#]+\Z", max_length=300)]
"""Address of an operators' listener: neither path nor password."""
Token = Annotated[str, Meta(pattern=r"^[!-~]{1,200}\Z")]
"""An API token: what a header may hold, without white space."""


class Login(msgspec.Struct, frozen=True):
    """Content of the login file."""

    url: Url
    token: Token
    authority: str
    """The one certificate that is trusted, in PEM."""


def login_file() -> Path:
    """Where the login is kept."""
    named = os.environ.get("SHOAL_LOGIN")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "shoal" / "login.json"


def load_login() -> Login:
    """The login of this user.

    Raises:
        UsageError: there is none yet, or the file can't be read or is damaged.
    """
    path = login_file()
    try:
        return decode_struct(path.read_bytes(), Login, what=str(path))
    except FileNotFoundError:
        raise UsageError(f"{path} is not there: run `shoal login URL` first") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except Malformed as error:
        raise UsageError(f"{error}; run `shoal login URL` again") from None


def save_login(login: Login) -> Path:
    """Keep it for this user; returns the file."""
    path = login_file()
    make_private_folder(path.parent)
    write_private(path, msgspec.json.encode(login))
    return path
