"""How is a key named, and how does one sign with it?

    file:root.pem        a file in PEM, relative to the publisher's folder; it may hold the public half alone
    hsm:2?label=TOKEN    a PKCS#11 token: an HSM, a smart card, a TPM (PYKCS11LIB names the library of the token)
    awskms: gcpkms: azurekms: hv:    a key service, as securesystemslib names its keys

securesystemslib signs; only files with a passphrase are read here, which it doesn't know.
"""

from collections.abc import Callable, Mapping
from getpass import getpass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlparse

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from securesystemslib.exceptions import UnsupportedLibraryError
from securesystemslib.signer import (
    AWSSigner,
    AzureSigner,
    CryptoSigner,
    GCPSigner,
    HSMSigner,
    Key,
    Signer,
    SSlibKey,
    VaultSigner,
)

from shoal_fleet.command.errors import CommandError, UsageError
from shoal_fleet.command.private_files import write_private

_FILE = "file"

_Made = TypeVar("_Made")


class KeyName(msgspec.Struct, frozen=True):
    """A key of the publisher: where its private half is, and the public half that counts."""

    uri: str
    keyid: str
    public: dict[str, Any]
    """As TUF metadata has it."""

    @property
    def key(self) -> Key:
        """The public half."""
        return Key.from_dict(self.keyid, msgspec.json.decode(msgspec.json.encode(self.public)))


class NotReachable(UsageError):
    """The private half isn't here: others may sign with it."""


class Secrets(NamedTuple):
    """What opens keys."""

    passphrase: bytes | None = None
    pin: str | None = None

    def ask(self, what: str) -> str:
        """For securesystemslib: the PIN that was given, or one that a person types."""
        return self.pin if self.pin is not None else getpass(f"{what}: ")


class _Scheme(NamedTuple):
    """What there is to do with keys of one kind."""

    adopt: Callable[[str, Path, Secrets], tuple[str, Key]]
    """The public half of the key that a URI names, and the URI by which to sign with that very version of it."""
    open: Callable[[str, Key, Path, Secrets], Signer]
    needs: str = ""
    """The extra of securesystemslib that brings its library."""


def adopt_key(uri: str, *, folder: Path, secrets: Secrets) -> KeyName:
    """Take a key in by its URI; a file that isn't there is made.

    Raises:
        UsageError: no such scheme, or a file that can't be read.
        CommandError: the token or key service can't be reached, or its library is missing.
    """
    scheme = _find_scheme(uri)
    whole, key = _explain(uri, scheme, lambda: scheme.adopt(uri, folder, secrets))
    return KeyName(whole, key.keyid, key.to_dict())


def open_signer(name: KeyName, *, folder: Path, secrets: Secrets) -> Signer:
    """Sign with a key.

    Raises:
        NotReachable: its private half isn't here.
        UsageError, CommandError: as `adopt_key`; or another key lies there now.
    """
    scheme = _find_scheme(name.uri)
    return _explain(name.uri, scheme, lambda: scheme.open(name.uri, name.key, folder, secrets))


def _find_scheme(uri: str) -> _Scheme:
    word = uri.partition(":")[0]
    if word not in _SCHEMES:
        raise UsageError(f"key {uri!r}: expected a URI that begins with one of {', '.join(f'{s}:' for s in _SCHEMES)}")
    return _SCHEMES[word]


def _explain(uri: str, scheme: _Scheme, act: Callable[[], _Made]) -> _Made:
    try:
        return act()
    except CommandError:
        raise
    except UnsupportedLibraryError as error:
        raise CommandError(
            f"key {uri}: needs a library that isn't installed ({error}): pip install 'securesystemslib[{scheme.needs}]'"
        ) from None
    except Exception as error:  # securesystemslib: signers may raise whatever their library raises
        raise CommandError(f"key {uri}: {type(error).__name__}: {error}") from error


def _adopt_file(uri: str, folder: Path, secrets: Secrets) -> tuple[str, Key]:
    path = _path_of(uri, folder)
    if not path.exists():
        made = ed25519.Ed25519PrivateKey.generate()
        write_private(path, _write_pem(made, secrets.passphrase))
    return uri, SSlibKey.from_crypto(_read_public(path, secrets))


def _open_file(uri: str, key: Key, folder: Path, secrets: Secrets) -> Signer:
    path = _path_of(uri, folder)
    if not path.exists():
        raise NotReachable(f"{path} is missing: restore the publisher's folder from a copy, or have its owner sign")
    if _holds_public_half(path):
        raise NotReachable(f"{path} holds the public half alone: its owner signs, with `shoal keys sign`")
    private = _read_private(path, secrets)
    signer = CryptoSigner(private)
    if signer.public_key.to_dict() != key.to_dict():
        raise UsageError(f"{path}: holds another key than the one that was registered, {key.keyid[:12]}")
    return signer


def _path_of(uri: str, folder: Path) -> Path:
    name = uri.partition(":")[2]
    if not name:
        raise UsageError(f"key {uri!r}: expected a file, as in file:root.pem")
    return folder / Path(name).expanduser()


def _holds_public_half(path: Path) -> bool:
    return b"-----BEGIN PUBLIC KEY-----" in path.read_bytes()


def _read_public(path: Path, secrets: Secrets) -> Any:
    if not _holds_public_half(path):
        return _read_private(path, secrets).public_key()
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UsageError(f"{path}: expected a public key in PEM: {error}") from None
    return _check_kind(key, path)


def _read_private(path: Path, secrets: Secrets) -> Any:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), secrets.passphrase)
    except TypeError:  # one of the two, key and caller, has a passphrase
        why = "is encrypted: give" if secrets.passphrase is None else "isn't encrypted: leave out"
        raise UsageError(f"{path}: {why} --passphrase-file") from None
    except (ValueError, UnsupportedAlgorithm):
        raise UsageError(f"{path}: can't be read: the passphrase is another, or the file is damaged") from None
    _check_kind(key.public_key(), path)
    return key


def _check_kind(key: object, path: Path) -> object:
    is_curve = isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1)
    if not isinstance(key, ed25519.Ed25519PublicKey) and not is_curve:
        raise UsageError(f"{path}: expected an Ed25519, P-256 or P-384 key, found {type(key).__name__}")
    return key


def _write_pem(key: ed25519.Ed25519PrivateKey, passphrase: bytes | None) -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        encryption = serialization.BestAvailableEncryption(passphrase)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def _adopt_hsm(uri: str, _folder: Path, secrets: Secrets) -> tuple[str, Key]:
    parsed = urlparse(uri)
    label = dict(parse_qsl(parsed.query)).get("label")
    return HSMSigner.import_(int(parsed.path) if parsed.path else None, label, secrets.ask)


def _adopt_azure(uri: str, _folder: Path, _secrets: Secrets) -> tuple[str, Key]:
    """`azurekms://VAULT.vault.azure.net/keys/KEY`, of which the service names the newest version."""
    parsed = urlparse(uri)
    return AzureSigner.import_(parsed.netloc.partition(".")[0], parsed.path.split("/")[2])


def _open_elsewhere(uri: str, key: Key, _folder: Path, secrets: Secrets) -> Signer:
    return Signer.from_priv_key_uri(uri, key, secrets.ask)


_SCHEMES: Mapping[str, _Scheme] = {
    _FILE: _Scheme(_adopt_file, _open_file),
    HSMSigner.SCHEME: _Scheme(_adopt_hsm, _open_elsewhere, "hsm"),
    AWSSigner.SCHEME: _Scheme(lambda uri, *_: AWSSigner.import_(_name_in(uri)), _open_elsewhere, "awskms"),
    GCPSigner.SCHEME: _Scheme(lambda uri, *_: GCPSigner.import_(_name_in(uri)), _open_elsewhere, "gcpkms"),
    AzureSigner.SCHEME: _Scheme(_adopt_azure, _open_elsewhere, "azurekms"),
    VaultSigner.SCHEME: _Scheme(lambda uri, *_: VaultSigner.import_(_name_in(uri)), _open_elsewhere, "vault"),
}
"""By the word before the colon."""


def _name_in(uri: str) -> str:
    """The service's own name of a key; the version of one in Vault comes from the service."""
    scheme, _, name = uri.partition(":")
    return name.partition("/")[0] if scheme == VaultSigner.SCHEME else name
