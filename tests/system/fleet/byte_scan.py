"""How does a test look for a secret in everything that lies in a folder?"""

import base64
from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_der_private_key

WINDOW = 32
"""How much of a long secret is found wherever it lies."""

_BLOCK = WINDOW // 2
"""A run of WINDOW bytes of the secret that lies anywhere in a file covers a whole block of that file."""


def encodings(secret: bytes) -> list[bytes]:
    """The secret as it may be found: raw, in hex, in base64 of both alphabets at each place within other bytes."""
    found = [secret, secret.hex().encode(), secret.hex().upper().encode()]
    for shift in range(3):
        whole = base64.b64encode(bytes(shift) + secret)
        inside = whole[4 if shift else 0 : -4]  # what comes before and after changes the letters at both ends
        found += [inside, inside.translate(bytes.maketrans(b"+/", b"-_"))]
    return found


def secret_bytes(name: str, kept: bytes) -> bytes:
    """Of a private key of the fleet, by the name and content of its row: what no form of it can be written without."""
    if not name.startswith("authority"):
        return kept
    key = load_der_private_key(kept, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key.private_numbers().private_value.to_bytes(32, "big")


def find(folder: Path, *, short: dict[str, bytes], long: bytes) -> list[str]:
    """Which files hold one of the `short` secrets, also across line breaks, or any WINDOW bytes of the `long` one."""
    blocks = frozenset(long[start : start + _BLOCK] for start in range(len(long) - _BLOCK + 1))
    found = []
    for path in files(folder):
        content = path.read_bytes()
        in_one_line = content.translate(None, b"\r\n")
        found += [
            f"{path}: {name}"
            for name, secret in short.items()
            if any(encoded in content or encoded in in_one_line for encoded in encodings(secret))
        ]
        if any(content[start : start + _BLOCK] in blocks for start in range(0, len(content), _BLOCK)):
            found.append(f"{path}: plaintext")
    return found


def files(folder: Path) -> Iterator[Path]:
    """Every regular file below a folder."""
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
