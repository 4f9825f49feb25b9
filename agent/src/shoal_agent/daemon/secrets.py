"""Which text does a setting stand for that names secrets of this device?

`${secret:NAME}` in a setting of a source stands for a secret that an operator sealed to this device. The sealed form
came with the newest desired document; it is opened each time it is needed, by the daemon, and handed to the front over
its socket. In the open it is on no disk and in no log.
"""

import re
from collections.abc import Callable, Sequence

from cryptography.hazmat.primitives.asymmetric import x25519
from shoal_wire.secret import SealedSecret, open_secret

from shoal_agent.errors import AgentError

_PLACE = re.compile(r"\$\{secret:([A-Za-z0-9][A-Za-z0-9._-]{0,127})\}")


class SecretMissing(AgentError):
    """The device hasn't got a secret of that name."""


class Secrets:
    """The device's secrets."""

    def __init__(
        self, *, device: str, key: x25519.X25519PrivateKey, sealed: Callable[[], Sequence[SealedSecret]]
    ) -> None:
        """`sealed` gives those of the newest desired document."""
        self._device = device
        self._key = key
        self._sealed = sealed

    def fill(self, text: str) -> str:
        """The text with its secrets in their places.

        Raises:
            SecretMissing: it names one that the device hasn't got.
            Malformed, Untrusted: one wasn't sealed to this device.
        """
        return _PLACE.sub(lambda match: self._open(match[1]), text)

    def _open(self, name: str) -> str:
        for secret in self._sealed():
            if secret.name == name:
                return open_secret(secret, self._key, device=self._device)
        raise SecretMissing(
            f"secret {name}: this device hasn't got one of that name; `shoal secret set DEVICE {name}` gives it one"
        )
