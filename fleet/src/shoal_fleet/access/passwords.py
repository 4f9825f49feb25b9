"""How is a password kept, and how is one checked at the same cost whether there is such a user or not?"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.profiles import RFC_9106_LOW_MEMORY

from shoal_fleet.errors import Refused, TooSoon

MIN_PASSWORD_CHARACTERS = 12
MAX_PASSWORD_CHARACTERS = 256
"""Length is all that is asked for, as NIST SP 800-63B, section 3.1.1.2 has it: no mixture of kinds of letters."""

_AT_ONCE = 2
"""Passwords that are hashed at a time: each takes 64 MiB."""
_PATIENCE_S = 5.0


def check_password(password: str) -> None:
    """Make sure that a new password is long enough. It is never repeated in a message.

    Raises:
        Refused: too short or too long.
    """
    if not MIN_PASSWORD_CHARACTERS <= len(password) <= MAX_PASSWORD_CHARACTERS:
        raise Refused(
            f"password: expected {MIN_PASSWORD_CHARACTERS} to {MAX_PASSWORD_CHARACTERS} characters, "
            f"found {len(password)}"
        )


class Passwords:
    """Hashes with Argon2id. Threads may share it; one that would have to wait long gets TooSoon instead.

    A hash of weaker parameters than those of `hasher` is made anew when its password is next given.
    """

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher.from_parameters(RFC_9106_LOW_MEMORY)
        self._turn = threading.BoundedSemaphore(_AT_ONCE)
        self._nobodys = self._hasher.hash("of no user")

    def hash(self, password: str) -> str:
        """A hash with its parameters and a fresh salt."""
        with self._own_turn():
            return self._hasher.hash(password)

    def matches(self, password_hash: str | None, password: str) -> bool:
        """Whether a password is the one that was hashed. Without a hash it isn't, which takes as long to find out."""
        is_there = password_hash is not None
        with self._own_turn():
            try:
                return self._hasher.verify(password_hash or self._nobodys, password) and is_there
            except (VerificationError, InvalidHashError):
                return False

    @contextmanager
    def _own_turn(self) -> Iterator[None]:
        """A flood of logins may not take all threads of the server."""
        if not self._turn.acquire(timeout=_PATIENCE_S):
            raise TooSoon("login: too many at once; try again in a few seconds", wait_s=_PATIENCE_S)
        try:
            yield
        finally:
            self._turn.release()

    def is_outdated(self, password_hash: str) -> bool:
        """Whether it was made with other parameters."""
        return self._hasher.check_needs_rehash(password_hash)
