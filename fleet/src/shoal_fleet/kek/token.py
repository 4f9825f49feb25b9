"""How does a key in a token, an HSM or a TPM wrap a key?

RSA-OAEP (RFC 8017): anyone with the public key wraps, only the token unwraps. It is what SoftHSM, tpm2-pkcs11 and the
HSMs that were looked at have in common; of AES, TPMs do no mode that detects changes. The key is named by a PKCS#11 URI
(RFC 7512):

    pkcs11:token=NAME;object=LABEL?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=credential:kek-pin

`pin-source` is a source of `secret_source`. A PIN inside the URI (`pin-value`) is refused.

    wrapped = format u8 = 1 · hash u8 (1 SHA-256, 2 SHA-1) · RSA ciphertext
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple
from urllib.parse import unquote

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from shoal_fleet.errors import BadConfiguration
from shoal_fleet.kek.secret_source import read_secret

MINIMUM_BITS = 2048
_FORMAT = 1
_PATH = frozenset({"token", "object", "id", "serial", "manufacturer", "model", "type"})
_QUERY = frozenset({"module-path", "pin-source"})
_LOOKS_LIKE_A_NAME = re.compile(r"[a-z-]+=.*", re.DOTALL)


class _Hash(NamedTuple):
    """Hash of OAEP and of its mask generation, in software and in PKCS#11's words."""

    make: Callable[[], hashes.HashAlgorithm]
    mechanism: str
    generator: str


_HASHES: Mapping[int, _Hash] = {
    1: _Hash(hashes.SHA256, "CKM_SHA256", "CKG_MGF1_SHA256"),
    # SoftHSM and older TPM stacks do OAEP with SHA-1 alone. OAEP doesn't rest on its resistance to collisions.
    2: _Hash(hashes.SHA1, "CKM_SHA_1", "CKG_MGF1_SHA1"),
}


class TokenUri(NamedTuple):
    """A PKCS#11 URI, taken apart."""

    attributes: Mapping[str, str]
    module_path: str
    pin_source: str

    def __str__(self) -> str:
        """As messages name the key: nothing of what follows the question mark, where somebody may have put a PIN."""
        return f"kek pkcs11:token={self.attributes['token'][:80]};object={self.attributes['object'][:80]}"


def parse_uri(uri: str) -> TokenUri:
    """Read a PKCS#11 URI.

    Raises:
        BadConfiguration: names what is missing or not known, and never a value: one of them may be a PIN.
    """
    if "pin-value" in uri.lower():
        raise BadConfiguration("kek pkcs11: a PIN doesn't belong into the URI; give pin-source=file:… instead")
    body, _, query = uri.removeprefix("pkcs11:").partition("?")
    path = _pairs(body, ";", known=_PATH)
    asked = _pairs(query, "&", known=_QUERY)
    missing = [name for name in ("token", "object") if name not in path]
    missing += [name for name in ("module-path", "pin-source") if name not in asked]
    if missing:
        raise BadConfiguration(f"kek pkcs11: expected the attribute {missing[0]}, found none")
    return TokenUri(path, asked["module-path"], asked["pin-source"])


class TokenKey:
    """Wraps by an RSA key whose private half stays in the token."""

    def __init__(self, uri: TokenUri, *, pkcs11: ModuleType, pin: str) -> None:
        self._uri = uri
        self._pkcs11 = pkcs11
        self._pin = pin

    def wrap(self, secret: bytes) -> bytes:
        """See `KeyEncryptionKey`. With the first hash that the token can unwrap, which is tried."""
        with self._opened() as (session, key):
            public = self._public_key(session, key)
            for number, how in _HASHES.items():
                oaep = padding.OAEP(padding.MGF1(how.make()), how.make(), label=None)
                wrapped = bytes([_FORMAT, number]) + public.encrypt(secret, oaep)
                try:
                    if self._decrypt(session, key, wrapped) == secret:
                        return wrapped
                except self._pkcs11.PyKCS11Error:
                    continue
        raise BadConfiguration(f"{self._uri}: the token can't decrypt by RSA-OAEP with SHA-256 or SHA-1")

    def unwrap(self, wrapped: bytes) -> bytes:
        """See `KeyEncryptionKey`."""
        if len(wrapped) < 2 or wrapped[0] != _FORMAT or wrapped[1] not in _HASHES:
            raise BadConfiguration(f"{self._uri}: what is kept was not wrapped by a key in a token")
        with self._opened() as (session, key):
            try:
                return self._decrypt(session, key, wrapped)
            except self._pkcs11.PyKCS11Error as error:
                raise BadConfiguration(
                    f"{self._uri}: the token can't unwrap the fleet's key ({error}): is it another key?"
                ) from None

    def _decrypt(self, session: Any, key: Any, wrapped: bytes) -> bytes:
        how = _HASHES[wrapped[1]]
        mechanism = self._pkcs11.RSAOAEPMechanism(
            getattr(self._pkcs11, how.mechanism), getattr(self._pkcs11, how.generator)
        )
        return bytes(session.decrypt(key, wrapped[2:], mechanism))

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, Any]]:
        """A session in which the PIN was given, and the private key in it."""
        library = self._pkcs11.PyKCS11Lib()
        try:
            library.load(self._uri.module_path)
            session = library.openSession(self._find_slot(library))
        except self._pkcs11.PyKCS11Error as error:
            raise BadConfiguration(f"{self._uri}: the token can't be reached: {error}") from None
        try:
            try:
                session.login(self._pin)
            except self._pkcs11.PyKCS11Error as error:
                raise BadConfiguration(f"{self._uri}: the token refuses the PIN: {error}") from None
            yield session, self._find_key(session)
        finally:
            session.closeSession()

    def _find_slot(self, library: Any) -> Any:
        wanted = self._uri.attributes["token"]
        slots = library.getSlotList(tokenPresent=True)
        labels = [str(library.getTokenInfo(slot).label).strip() for slot in slots]
        if labels.count(wanted) != 1:
            raise BadConfiguration(
                f"{self._uri}: expected one token {wanted!r}, found {labels.count(wanted)} among {labels[:8]}"
            )
        return slots[labels.index(wanted)]

    def _find_key(self, session: Any) -> Any:
        label = self._uri.attributes["object"]
        constants = self._pkcs11
        found = session.findObjects(
            [
                (constants.CKA_CLASS, constants.CKO_PRIVATE_KEY),
                (constants.CKA_KEY_TYPE, constants.CKK_RSA),
                (constants.CKA_LABEL, label),
            ]
        )
        if len(found) != 1:
            raise BadConfiguration(
                f"{self._uri}: expected one private RSA key {label!r} in the token, found {len(found)}"
            )
        return found[0]

    def _public_key(self, session: Any, key: Any) -> rsa.RSAPublicKey:
        constants = self._pkcs11
        modulus, exponent = (
            int.from_bytes(bytes(value), "big")
            for value in session.getAttributeValue(key, [constants.CKA_MODULUS, constants.CKA_PUBLIC_EXPONENT])
        )
        if modulus.bit_length() < MINIMUM_BITS:
            raise BadConfiguration(
                f"{self._uri}: an RSA key of {modulus.bit_length()} bits, expected at least {MINIMUM_BITS}"
            )
        return rsa.RSAPublicNumbers(exponent, modulus).public_key()


def open_token(uri: str) -> TokenKey:
    """The key of a PKCS#11 URI. The PIN is read here, once; the token is reached when it is used.

    Raises:
        BadConfiguration: the URI, the PIN or the package isn't there.
    """
    parsed = parse_uri(uri)
    try:
        import PyKCS11
    except ImportError:
        raise BadConfiguration(f"{parsed}: PyKCS11 isn't installed; install shoal-fleet[pkcs11]") from None
    pin = read_secret(parsed.pin_source, what=f"PIN of the {parsed}")
    return TokenKey(parsed, pkcs11=PyKCS11, pin=pin.decode())


def _pairs(text: str, separator: str, *, known: frozenset[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for part in filter(None, text.split(separator)):
        name, _, value = part.partition("=")
        if name not in known:
            named = repr(name[:20]) if _LOOKS_LIKE_A_NAME.fullmatch(part) else "without a name"
            raise BadConfiguration(
                f"kek pkcs11: attribute {named} isn't known; expected some of {', '.join(sorted(known))}"
            )
        found[name] = unquote(value)
    return found
