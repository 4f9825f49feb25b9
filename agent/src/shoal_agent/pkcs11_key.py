"""How does a key that never leaves a TPM, a smart card or an HSM sign for the device?

Needs the extra `shoal-agent[pkcs11]`. The token is opened at the first signature and stays open; one that was taken out
and put back is opened again.

A token's library may use the same OpenSSL as Python does, and leave errors in its queue, which Python's `ssl` then
takes for its own. Each thread has a queue (ERR_get_error(3)), so tokens are spoken to from a thread of their own.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TypeVar

import PyKCS11
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, KeySerializationEncryption, PrivateFormat
from PyKCS11 import LowLevel

from shoal_agent.errors import IdentityUnavailable
from shoal_agent.pkcs11_uri import KeyUri, read_pin

P256 = bytes.fromhex("06082a8648ce3d030107")
"""DER of the curve's object identifier, 1.2.840.10045.3.1.7 (RFC 5480)."""
_POINT_BYTES = 65
_KEY_ID = b"shoal-identity"
_Result = TypeVar("_Result")
_SPEAKER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="token")


class TokenKey(ec.EllipticCurvePrivateKey):
    """A P-256 key in a token. It signs and tells its public half; nothing else can be had of it."""

    def __init__(self, uri: KeyUri) -> None:
        self._uri = uri
        self._session: Any = None
        self._public: ec.EllipticCurvePublicKey | None = None

    def make_if_missing(self) -> None:
        """Make the key pair inside the token unless it is there.

        Raises:
            IdentityUnavailable: the token isn't there, or refuses.
        """
        self._with_session(self._make_if_missing)

    def sign(self, data: Any, signature_algorithm: ec.EllipticCurveSignatureAlgorithm) -> bytes:
        """ECDSA over SHA-256 in DER.

        Raises:
            IdentityUnavailable: the token isn't there, lacks the key, or refuses.
        """
        if not isinstance(signature_algorithm, ec.ECDSA) or not isinstance(
            signature_algorithm.algorithm, hashes.SHA256
        ):
            raise UnsupportedAlgorithm("a key in a token signs by ECDSA over SHA-256 only")
        digest = hashes.Hash(hashes.SHA256())
        digest.update(data)
        raw = self._with_session(lambda session: self._sign(session, digest.finalize()))
        half = len(raw) // 2
        return encode_dss_signature(int.from_bytes(raw[:half], "big"), int.from_bytes(raw[half:], "big"))

    def public_key(self) -> ec.EllipticCurvePublicKey:
        """The public half. Raises as `sign`."""
        if self._public is None:
            self._public = self._with_session(self._read_public)
        return self._public

    @property
    def curve(self) -> ec.EllipticCurve:
        """P-256."""
        return ec.SECP256R1()

    @property
    def key_size(self) -> int:
        """In bits."""
        return 256

    def exchange(self, algorithm: ec.ECDH, peer_public_key: ec.EllipticCurvePublicKey) -> bytes:
        """An identity key only signs."""
        _refuse()

    def private_numbers(self) -> ec.EllipticCurvePrivateNumbers:
        """The key stays in its token."""
        _refuse()

    def private_bytes(
        self, encoding: Encoding, format: PrivateFormat, encryption_algorithm: KeySerializationEncryption
    ) -> bytes:
        """The key stays in its token."""
        _refuse()

    def __copy__(self) -> "TokenKey":
        return self

    def __deepcopy__(self, memo: dict[Any, Any]) -> "TokenKey":
        return self

    def _with_session(self, act: Callable[[Any], _Result]) -> _Result:
        """Act on an open session; once more on a new one, where the token was away meanwhile."""
        return _SPEAKER.submit(self._act, act).result()

    def _act(self, act: Callable[[Any], _Result]) -> _Result:
        was_open = self._session is not None
        try:
            return act(self._opened())
        except PyKCS11.PyKCS11Error as error:
            self._session = None
            if not was_open:
                raise self._unavailable(str(error)) from None
        try:
            return act(self._opened())
        except PyKCS11.PyKCS11Error as error:
            self._session = None
            raise self._unavailable(str(error)) from None

    def _opened(self) -> Any:
        if self._session is None:
            library = PyKCS11.PyKCS11Lib()
            try:
                library.load(self._uri.module)
            except PyKCS11.PyKCS11Error as error:
                raise self._unavailable(f"the library {self._uri.module} can't be loaded: {error}") from None
            session = library.openSession(
                self._find_slot(library), LowLevel.CKF_SERIAL_SESSION | LowLevel.CKF_RW_SESSION
            )
            pin = read_pin(self._uri)
            if pin:
                _log_in(session, pin)
            self._session = session
        return self._session

    def _find_slot(self, library: Any) -> int:
        for slot in library.getSlotList(tokenPresent=True):
            info = library.getTokenInfo(slot)
            wanted = ((self._uri.token, info.label), (self._uri.serial, info.serialNumber))
            if all(value in ("", found.strip(" \0")) for value, found in wanted):
                return int(slot)
        raise self._unavailable("no such token; is it there, and was it initialised?")

    def _make_if_missing(self, session: Any) -> None:
        if session.findObjects(self._template(LowLevel.CKO_PRIVATE_KEY)):
            return
        shared = [
            (LowLevel.CKA_TOKEN, True),
            (LowLevel.CKA_LABEL, self._uri.object),
            (LowLevel.CKA_ID, self._uri.id or _KEY_ID),
        ]
        public = [(LowLevel.CKA_EC_PARAMS, P256), (LowLevel.CKA_VERIFY, True)]
        private = [
            (LowLevel.CKA_PRIVATE, True),
            (LowLevel.CKA_SENSITIVE, True),
            (LowLevel.CKA_EXTRACTABLE, False),
            (LowLevel.CKA_SIGN, True),
        ]
        session.generateKeyPair([*shared, *public], [*shared, *private], mecha=PyKCS11.MechanismECGENERATEKEYPAIR)

    def _sign(self, session: Any, digest: bytes) -> bytes:
        key = self._find(session, LowLevel.CKO_PRIVATE_KEY)
        return bytes(session.sign(key, digest, PyKCS11.Mechanism(LowLevel.CKM_ECDSA, None)))

    def _read_public(self, session: Any) -> ec.EllipticCurvePublicKey:
        key = self._find(session, LowLevel.CKO_PUBLIC_KEY)
        parameters, point = session.getAttributeValue(key, [LowLevel.CKA_EC_PARAMS, LowLevel.CKA_EC_POINT])
        if bytes(parameters) != P256:
            raise self._unavailable("expected a P-256 key, found one on another curve")
        # DER of an octet string (PKCS #11 2.40, 2.3.3); its content is the last 65 bytes.
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), bytes(point)[-_POINT_BYTES:])

    def _find(self, session: Any, kind: int) -> Any:
        found = session.findObjects(self._template(kind))
        if len(found) != 1:
            raise self._unavailable(f"expected one such key in the token, found {len(found)}")
        return found[0]

    def _template(self, kind: int) -> list[tuple[int, object]]:
        wanted: list[tuple[int, object]] = [(LowLevel.CKA_CLASS, kind), (LowLevel.CKA_KEY_TYPE, LowLevel.CKK_EC)]
        wanted += [(LowLevel.CKA_LABEL, self._uri.object)] * bool(self._uri.object)
        wanted += [(LowLevel.CKA_ID, self._uri.id)] * bool(self._uri.id)
        return wanted

    def _unavailable(self, reason: str) -> IdentityUnavailable:
        return IdentityUnavailable(f"identity key {self._uri.text.partition('?')[0]}: {reason}")


def _log_in(session: Any, pin: str) -> None:
    try:
        session.login(pin)
    except PyKCS11.PyKCS11Error as error:
        if error.value != LowLevel.CKR_USER_ALREADY_LOGGED_IN:
            raise


def _refuse() -> NoReturn:
    raise UnsupportedAlgorithm("a key in a token signs, and can't be read or used otherwise")
