"""How can outside bytes be wrong, and what should the reader do about it?

WireError
├── Malformed      not what was agreed: refuse this one, the next may be good
├── Unsupported    agreed by newer software than this: refuse until this side is updated
├── Untrusted      not signed, or not meant for this reader: refuse, and count it
└── Damaged        a sealed file or an audit log whose bytes aren't those that were written: fetch again
"""


class WireError(Exception):
    """Bytes from outside that were refused. The message names the thing, what was expected and what was found."""


class Malformed(WireError):
    """Not what was agreed."""


class Unsupported(WireError):
    """Understood to be from newer software, whose meaning this side would miss."""


class Untrusted(WireError):
    """Not signed by a key that counts, or bound to another device, release or file."""


class Damaged(WireError):
    """A sealed file or an audit log that was cut short, reordered, mixed or changed."""
