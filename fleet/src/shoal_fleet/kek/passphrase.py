"""How does a passphrase wrap a key?

Argon2id (RFC 9106) with the parameters of its second recommendation: 64 MiB, 3 passes, 4 lanes; a salt of its own each
time; then AES-256-GCM. The parameters travel with the wrapped key, so that they can grow later.

    wrapped = format u8 = 1 · memory KiB u32 · passes u32 · lanes u8 · salt 16 · nonce 12 · ciphertext · tag 16
"""

import secrets
import struct
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from shoal_fleet.errors import BadConfiguration
from shoal_fleet.kek.secret_source import read_secret

_HEAD = struct.Struct(">BIIB16s12s")
_FORMAT = 1
_MAX_MEMORY_KIB = 4 << 20
_MAX_PASSES = 1000


class Cost(NamedTuple):
    """What one guess costs."""

    memory_kib: int = 64 << 10
    passes: int = 3
    lanes: int = 4


RFC_9106 = Cost()


class Passphrase:
    """Wraps by what a person knows, or a service manager keeps."""

    def __init__(self, passphrase: bytes, *, cost: Cost = RFC_9106) -> None:
        self._passphrase = passphrase
        self._cost = cost

    def wrap(self, secret: bytes) -> bytes:
        """See `KeyEncryptionKey`."""
        salt, nonce = secrets.token_bytes(16), secrets.token_bytes(12)
        head = _HEAD.pack(_FORMAT, *self._cost, salt, nonce)
        return head + self._cipher(self._cost, salt).encrypt(nonce, secret, head)

    def unwrap(self, wrapped: bytes) -> bytes:
        """See `KeyEncryptionKey`."""
        head = wrapped[: _HEAD.size]
        try:
            number, memory_kib, passes, lanes, salt, nonce = _HEAD.unpack(head)
        except struct.error:
            raise BadConfiguration("kek passphrase: what is kept was not wrapped by a passphrase") from None
        if number != _FORMAT or memory_kib > _MAX_MEMORY_KIB or passes > _MAX_PASSES:
            raise BadConfiguration("kek passphrase: what is kept was not wrapped by a passphrase as this version does")
        try:
            cipher = self._cipher(Cost(memory_kib, passes, lanes), salt)
            return cipher.decrypt(nonce, wrapped[_HEAD.size :], head)
        except (InvalidTag, ValueError):
            raise BadConfiguration("kek passphrase: is another one than the fleet's secrets are under") from None

    def _cipher(self, cost: Cost, salt: bytes) -> AESGCM:
        derivation = Argon2id(
            salt=salt, length=32, iterations=cost.passes, lanes=cost.lanes, memory_cost=cost.memory_kib
        )
        return AESGCM(derivation.derive(self._passphrase))


def open_passphrase(uri: str, *, is_new: bool) -> Passphrase:
    """The key of `passphrase:SOURCE`. The source is read here, once; see `read_secret`.

    Raises:
        BadConfiguration: it can't be read.
    """
    return Passphrase(read_secret(uri.removeprefix("passphrase:"), what="kek passphrase", is_new=is_new))
