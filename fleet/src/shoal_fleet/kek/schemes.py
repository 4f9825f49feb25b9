"""Which kinds of key-encryption keys are there, and how is one opened by its URI?

    file:PATH              32 random bytes in a file; a relative path begins at the state folder
    passphrase:SOURCE      a passphrase (Argon2id); SOURCE as in `secret_source`
    pkcs11:ATTRIBUTES      an RSA key in a token, HSM or TPM (RFC 7512)
    SCHEME:…               a cloud's KMS, by the package that has the entry point SCHEME in the group `shoal.kek`

A key-encryption key wraps one thing: the fleet's wrapping key. So a token or a cloud is asked once at each start.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Protocol

from shoal_fleet.errors import BadConfiguration
from shoal_fleet.kek.key_file import open_key_file, resolve_key_file
from shoal_fleet.kek.passphrase import open_passphrase
from shoal_fleet.kek.secret_source import find_file
from shoal_fleet.kek.token import open_token

ENTRY_POINTS = "shoal.kek"
"""Group of entry points: each is named for a scheme and is a function from URI to `KeyEncryptionKey`."""

KMS_SCHEMES = ("awskms", "azurekms", "gcpkms", "hv")
"""Schemes that others' packages bring, named as securesystemslib names them for signing keys."""

KEY_FILE = "file:kek/kek.key"
"""Where a fleet keeps its key-encryption key that was told nothing else: beside its database, which is warned of."""


class KeyEncryptionKey(Protocol):
    """A key that never comes into the database."""

    def wrap(self, secret: bytes) -> bytes:
        """Wrap a secret of 32 bytes.

        Raises:
            BadConfiguration: the key can't be used.
        """

    def unwrap(self, wrapped: bytes) -> bytes:
        """The secret.

        Raises:
            BadConfiguration: the key can't be used, or isn't the one that wrapped this.
        """


def open_kek(uri: str, *, state: Path, may_make: bool = False) -> KeyEncryptionKey:
    """The key of that URI. Where it may be made, a key file that isn't there is, and a passphrase counts as new.

    Raises:
        BadConfiguration: no such scheme, a package is missing, or the key can't be reached.
    """
    scheme = uri.partition(":")[0]
    opener = _SCHEMES.get(scheme)
    if opener is not None:
        return opener(uri, state, may_make)
    found: list[EntryPoint] = list(entry_points(group=ENTRY_POINTS, name=scheme))
    if not found:
        raise BadConfiguration(_explain_missing(scheme, uri))
    try:
        made: KeyEncryptionKey = found[0].load()(uri)
    except ImportError as error:
        raise BadConfiguration(
            f"kek {uri[:200]}: {found[0].value} can't be imported: {error}; install what it needs"
        ) from None
    return made


def lies_beside(uri: str, *, state: Path) -> bool:
    """Whether who copies the state folder copies this key, or the passphrase that it is made of, with it."""
    scheme, _, rest = uri.partition(":")
    file = resolve_key_file(uri, state=state) if scheme == "file" else None
    if scheme == "passphrase":
        file = find_file(rest)
    return file is not None and file.is_relative_to(state.resolve())


def _explain_missing(scheme: str, uri: str) -> str:
    if scheme in KMS_SCHEMES:
        return (
            f"kek {uri[:200]}: no package is installed that brings {scheme}: keys; expected one with the entry point "
            f"{scheme!r} in the group {ENTRY_POINTS!r}"
        )
    known = ", ".join(f"{name}:" for name in (*_SCHEMES, *KMS_SCHEMES))
    return f"kek: expected a URI that begins with one of {known}, found {scheme[:20] + ':' if ':' in uri else 'none'}"


_SCHEMES: Mapping[str, Callable[[str, Path, bool], KeyEncryptionKey]] = {
    "file": lambda uri, state, may_make: open_key_file(uri, state=state, may_make=may_make),
    "passphrase": lambda uri, _state, may_make: open_passphrase(uri, is_new=may_make),
    "pkcs11": lambda uri, _state, _may_make: open_token(uri),
}
