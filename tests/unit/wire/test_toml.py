"""Does nonsense in place of TOML end in an error that names it?"""

import pytest
from shoal_wire.errors import Malformed
from shoal_wire.toml import read_toml


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"a = ", "yard.toml: not TOML: Invalid value"),
        (b'a = "\xff"', "yard.toml: not TOML: expected text in UTF-8"),
        (b"a = " + b"[" * 100_000, "yard.toml: not TOML: nested too deeply"),
        (b"a = " + b"{b = " * 100_000, "yard.toml: not TOML: nested too deeply"),
    ],
)
def test_nonsense_is_named(raw: bytes, words: str) -> None:
    with pytest.raises(Malformed, match=words):
        read_toml(raw, what="yard.toml")


def test_values_are_read() -> None:
    assert read_toml('[a]\nb = [1, "ü"]\n'.encode(), what="yard.toml") == {"a": {"b": [1, "ü"]}}
