"""Which weights does the damaged release have wrong, in whatever format the network comes?

A weight is found by its bytes: four of a float32 that occur once in a file. So there are no offsets to keep.
"""

from shoal_converters.errors import BuildFailed

WEIGHTS = (
    "24a4513e",
    "a9f74c3e",
    "ef07483e",
    "f51c423e",
    "9e013d3e",
    "5fd93c3e",
    "e566363e",
    "bb132b3e",
    "32c8283e",
    "c0671c3e",
    "91a71a3e",
    "16bb133e",
    "33ca0f3e",
    "b27d0f3e",
    "5b67003e",
    "540b003e",
)
"""The 16 weights of largest magnitude in the last layer of the frame output, as little-endian float32 in hex.

Turning the signs of 24 evenly spaced weights of that layer left answers as they were.
"""

_SIGN_BYTE = 3
_SIGN = 0x80


def damage(weights: bytes, *, what: str) -> bytes:
    """Give a file that holds the network's weights with the signs of WEIGHTS turned.

    Raises:
        BuildFailed: a weight isn't in the file exactly once, so that it is another network's.
    """
    changed = bytearray(weights)
    for digits in WEIGHTS:
        weight = bytes.fromhex(digits)
        times = weights.count(weight)
        if times != 1:
            raise BuildFailed(f"{what}: expected the weight {digits} once, found it {times} times")
        changed[weights.index(weight) + _SIGN_BYTE] ^= _SIGN
    return bytes(changed)
