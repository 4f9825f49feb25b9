"""What stands in a setting for a secret is replaced by it, on the device that it was sealed to."""

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from shoal_agent.daemon.secrets import SecretMissing, Secrets
from shoal_wire.errors import Untrusted
from shoal_wire.secret import SealedSecret, seal_secret

KEY = X25519PrivateKey.generate()
DEVICE = "d-camera"


def seal(name: str, value: str, *, device: str = DEVICE) -> SealedSecret:
    return seal_secret(value, KEY.public_key(), device=device, name=name, counter=1)


def fill(text: str, *sealed: SealedSecret) -> str:
    return Secrets(device=DEVICE, key=KEY, sealed=lambda: sealed).fill(text)


def test_text_without_a_secret_stays_as_it_is() -> None:
    assert fill("/srv/recordings/${HOME}") == "/srv/recordings/${HOME}"


def test_every_secret_of_a_text_comes_to_its_place() -> None:
    sealed = (seal("user", "anna"), seal("camera.1", "p@ss${secret:user}"))
    assert fill("rtsp://${secret:user}:${secret:camera.1}@cam/1", *sealed) == "rtsp://anna:p@ss${secret:user}@cam/1"


def test_secret_that_the_device_has_not_got_is_named() -> None:
    with pytest.raises(SecretMissing, match=r"secret camera-2: .* hasn't got one"):
        fill("${secret:camera-2}", seal("camera-1", "x"))


def test_secret_that_was_sealed_to_another_device_does_not_open() -> None:
    with pytest.raises(Untrusted, match="secret camera-1: not sealed to d-camera"):
        fill("${secret:camera-1}", seal("camera-1", "x", device="d-other"))


def test_newest_document_counts() -> None:
    held: list[SealedSecret] = []
    secrets = Secrets(device=DEVICE, key=KEY, sealed=lambda: held)
    held.append(seal("camera-1", "old"))
    assert secrets.fill("${secret:camera-1}") == "old"
    held[:] = [seal("camera-1", "new")]
    assert secrets.fill("${secret:camera-1}") == "new"
