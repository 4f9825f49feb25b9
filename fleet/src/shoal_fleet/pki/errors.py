"""How can the certificate authority refuse?

PkiError
├── BadCsr             the request of a board can't be signed: refuse it, the board must make another
└── BrokenAuthority    the authority's own files are missing or don't belong together: restore them
"""


class PkiError(Exception):
    """The authority couldn't do what was asked. The message names the thing, what was expected and what was found."""


class BadCsr(PkiError):
    """A certificate signing request that isn't one, isn't signed by its own key, or has a key of another kind."""


class BrokenAuthority(PkiError):
    """The authority's folder lacks a file, or holds a key and a certificate that don't belong together."""
