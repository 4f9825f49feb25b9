"""Which nonce did the fleet give out lately, and which of them is spent?

A nonce carries the time at which it was made and a code by a key that only this process has, so none must be kept until
it is spent: whoever asks for many of them fills nothing. After a restart a device asks for another.
"""

import base64
import hashlib
import hmac
import secrets
import struct
import threading

from shoal_fleet.errors import NotAllowed

LIFETIME_S = 300.0
"""How long a device may take to sign a nonce: a busy TPM takes seconds, a mobile network as many again."""

_MADE = struct.Struct(">d16s")
_CODE_BYTES = 16


class Challenges:
    """Nonces of one process. May be called from any thread."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._spent: dict[str, float] = {}
        """When each spent nonce ends, in the order in which they were spent."""

    def make(self, *, now: float) -> str:
        """A nonce that is good for one request within `LIFETIME_S`. `now` is in Unix seconds."""
        made = _MADE.pack(now, secrets.token_bytes(16))
        return base64.urlsafe_b64encode(made + self._code(made)).decode()

    def spend(self, nonce: str, *, now: float) -> None:
        """Make a nonce count no more.

        Raises:
            NotAllowed: not of this process, too old, or spent already: the device must ask for another.
        """
        try:
            raw = base64.urlsafe_b64decode(nonce)
        except ValueError:
            raw = b""
        made, code = raw[: _MADE.size], raw[_MADE.size :]
        if len(code) != _CODE_BYTES or not hmac.compare_digest(code, self._code(made)):
            raise NotAllowed("challenge: not one that this server gave out; ask for another")
        made_at, _ = _MADE.unpack(made)
        if not 0 <= now - made_at < LIFETIME_S:
            raise NotAllowed(f"challenge: expected one of the last {LIFETIME_S:.0f} s; ask for another")
        with self._lock:
            self._forget(now=now)
            if nonce in self._spent:
                raise NotAllowed("challenge: was answered already; ask for another")
            self._spent[nonce] = made_at + LIFETIME_S

    def _forget(self, *, now: float) -> None:
        for nonce in [nonce for nonce, ends_at in self._spent.items() if ends_at <= now]:
            del self._spent[nonce]

    def _code(self, made: bytes) -> bytes:
        return hmac.digest(self._key, made, hashlib.sha256)[:_CODE_BYTES]
