"""How are plans kept on a board's disk without giving the model away?

A plan is sealed (`shoal_wire.sealed_file`) under a key that comes from the content key of the model's file, which a
front is given for as long as the device may load the model: there is no key to keep, and without the grant no plan can
be opened. A content key belongs to one plaintext, and no two builds give the same plan, so each file begins with a salt
of its own:

    salt, 32 random bytes · sealed file under HKDF-SHA256(content key, salt, "shoal/plan/v1" + name of the plan)

Which plans nobody needs any more is the updater's to say (`shoal_agent.updater.collect`).
"""

import io
import secrets
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from shoal_wire import sealed_file
from shoal_wire.errors import WireError

from shoal_agent.files import Files

SALT_BYTES = 32
LABEL = b"shoal/plan/v1"


class SealedPlans:
    """The plans of one model in a folder that holds those of others too; a `PlanStore`."""

    def __init__(self, folder: Path, *, files: Files, content_key: bytes) -> None:
        """`content_key` is that of the model's sealed file."""
        self._folder = folder
        self._files = files
        self._content_key = content_key

    def read(self, name: str) -> bytes | None:
        """See `PlanStore`. One that was damaged, or sealed under another key, is removed."""
        try:
            raw = self._files.read(self._folder / name)
        except FileNotFoundError:
            return None
        parts = sealed_file.read_parts(io.BytesIO(raw[SALT_BYTES:]).read)
        try:
            return b"".join(sealed_file.unseal(parts, self._derive(raw[:SALT_BYTES], name)))
        except WireError:
            self.remove(name)
            return None

    def write(self, name: str, plan: bytes) -> None:
        """See `PlanStore`. On disk when this returns."""
        salt = secrets.token_bytes(SALT_BYTES)
        sealed = b"".join(sealed_file.seal(plan, self._derive(salt, name)))
        self._files.write(self._folder / name, salt + sealed)
        same = name.rpartition("-")[0] + "-"
        for other in self._files.names(self._folder):
            # A dot begins the name of a file that a power cut left unfinished.
            if other != name and other.lstrip(".").startswith(same):
                self._files.remove(self._folder / other)

    def remove(self, name: str) -> None:
        """See `PlanStore`."""
        self._files.remove(self._folder / name)

    def _derive(self, salt: bytes, name: str) -> bytes:
        info = LABEL + name.encode()
        hkdf = HKDF(algorithm=hashes.SHA256(), length=sealed_file.KEY_BYTES, salt=salt, info=info)
        return hkdf.derive(self._content_key)
