"""How is a secret of the fleet wrapped, so that its row says nothing to who has the database alone?

AES-256-GCM under the wrapping key, with a random nonce of 96 bits (NIST SP 800-38D allows 2^32 of them a key; the fleet
wraps thousands). What the secret is for is the associated data: a row that is moved to another place doesn't open.

    wrapped = nonce 12 · ciphertext · tag 16
"""

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from shoal_wire.encoding import canonical

from shoal_fleet.errors import BrokenState

WRAPPING_KEY_BYTES = 32
_NONCE_BYTES = 12


class Vault:
    """The wrapping key, in memory. Safe for threads."""

    def __init__(self, wrapping_key: bytes) -> None:
        self._cipher = AESGCM(wrapping_key)

    def wrap(self, secret: bytes, *, context: tuple[str | int, ...]) -> bytes:
        """Wrap a secret for one purpose; `context` names it, and must be the same when it is unwrapped."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret, canonical(list(context)))

    def unwrap(self, wrapped: bytes, *, context: tuple[str | int, ...]) -> bytes:
        """The secret.

        Raises:
            BrokenState: damaged, moved here from another place, or wrapped under another wrapping key.
        """
        nonce, sealed = wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, sealed, canonical(list(context)))
        except (InvalidTag, ValueError):
            named = " ".join(str(part) for part in context)
            raise BrokenState(
                f"wrapped secret {named}: doesn't open under the fleet's wrapping key; restore the database whole"
            ) from None
