"""How does a test look for a secret in everything that lies in a folder?"""

import base64
from collections.abc import Iterator
from pathlib import Path

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


def find(folder: Path, *, short: dict[str, bytes], long: bytes) -> list[str]:
    """Which files hold one of the `short` secrets, or any WINDOW bytes of the `long` one."""
    blocks = frozenset(long[start : start + _BLOCK] for start in range(len(long) - _BLOCK + 1))
    found = []
    for path in files(folder):
        content = path.read_bytes()
        found += [
            f"{path}: {name}"
            for name, secret in short.items()
            if any(encoded in content for encoded in encodings(secret))
        ]
        if any(content[start : start + _BLOCK] in blocks for start in range(0, len(content), _BLOCK)):
            found.append(f"{path}: plaintext")
    return found


def files(folder: Path) -> Iterator[Path]:
    """Every regular file below a folder."""
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
