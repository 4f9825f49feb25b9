"""Does a wrapped secret open in its place alone?"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shoal_fleet.errors import BrokenState
from shoal_fleet.kek.vault import Vault

VAULT = Vault(bytes(32))
CONTEXT = ("content key", 7, "ab")


@given(secret=st.binary(max_size=100))
@settings(max_examples=50, deadline=None)
def test_opens_to_what_was_wrapped(secret: bytes) -> None:
    assert VAULT.unwrap(VAULT.wrap(secret, context=CONTEXT), context=CONTEXT) == secret


@pytest.mark.parametrize("moved", [("content key", 8, "ab"), ("content key", 7, "ac"), ("fleet key", 7, "ab"), ()])
def test_moved_to_another_place_is_refused(moved: tuple[str | int, ...]) -> None:
    with pytest.raises(BrokenState, match="doesn't open under the fleet's wrapping key"):
        VAULT.unwrap(VAULT.wrap(b"secret", context=CONTEXT), context=moved)


def test_another_wrapping_key_does_not_open_it() -> None:
    with pytest.raises(BrokenState):
        Vault(b"\1" * 32).unwrap(VAULT.wrap(b"secret", context=CONTEXT), context=CONTEXT)


def test_changed_or_cut_anywhere_is_refused() -> None:
    wrapped = VAULT.wrap(b"secret", context=CONTEXT)
    for place in range(len(wrapped)):
        changed = bytearray(wrapped)
        changed[place] ^= 1
        for damaged in (bytes(changed), wrapped[:place]):
            with pytest.raises(BrokenState):
                VAULT.unwrap(damaged, context=CONTEXT)
