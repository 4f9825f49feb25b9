"""A secret opens on its own device, under its own name and counter, and nowhere else."""

import base64

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from shoal_wire.errors import Malformed, Untrusted
from shoal_wire.secret import MAX_SECRET_BYTES, SealedSecret, open_secret, seal_secret

KEY = X25519PrivateKey.generate()
DEVICE = "d-camera"


def seal(value: str, *, name: str = "camera-1", counter: int = 3) -> SealedSecret:
    return seal_secret(value, KEY.public_key(), device=DEVICE, name=name, counter=counter)


@given(st.text(min_size=1, max_size=MAX_SECRET_BYTES // 4))
def test_device_reads_what_was_sealed_for_it(value: str) -> None:
    assert open_secret(seal(value), KEY, device=DEVICE) == value


@pytest.mark.parametrize("changed", [{"name": "camera-2"}, {"counter": 4}])
def test_secret_that_was_moved_does_not_open(changed: dict[str, object]) -> None:
    with pytest.raises(Untrusted, match="not sealed to d-camera"):
        open_secret(msgspec.structs.replace(seal("hunter2"), **changed), KEY, device=DEVICE)


def test_neither_another_device_nor_another_name_of_it_opens_a_secret() -> None:
    with pytest.raises(Untrusted):
        open_secret(seal("hunter2"), X25519PrivateKey.generate(), device=DEVICE)
    with pytest.raises(Untrusted):
        open_secret(seal("hunter2"), KEY, device="d-other")


def test_short_secrets_are_of_one_length_when_sealed() -> None:
    assert len({len(seal("x" * length).sealed) for length in (1, 8, 40, 126)}) == 1


@pytest.mark.parametrize("value", ["", "x" * (MAX_SECRET_BYTES + 1)])
def test_empty_or_endless_secret_is_refused(value: str) -> None:
    with pytest.raises(Malformed, match="expected 1 to 1024 bytes"):
        seal(value)


def test_longest_secret_fits_the_message() -> None:
    sealed = seal("x" * MAX_SECRET_BYTES)
    assert msgspec.json.decode(msgspec.json.encode(sealed), type=SealedSecret) == sealed


def test_changed_byte_is_noticed() -> None:
    sealed = seal("hunter2")
    raw = bytearray(base64.b64decode(sealed.sealed))
    raw[-1] ^= 1
    with pytest.raises(Untrusted):
        open_secret(msgspec.structs.replace(sealed, sealed=base64.b64encode(bytes(raw)).decode()), KEY, device=DEVICE)
