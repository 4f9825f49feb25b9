"""Does a request that comes with a cookie come from a page of this fleet?

A browser sends the cookie along whoever made it ask. So a request that changes something must come from a page of the
same origin, by what the browser itself says, and must carry a word that only such a page can have read. Rules only;
after the OWASP Cross-Site Request Forgery Prevention Cheat Sheet.
"""

import base64
import hashlib
import hmac
from typing import NamedTuple

from shoal_fleet.errors import CrossSite

FIELD = "csrf"
"""Field of a form that holds the word."""
HEADER = "X-CSRF-Token"
"""Header that holds it where a script asks."""


class Provenance(NamedTuple):
    """What a request says of where it comes from; None where it says nothing."""

    fetch_site: str | None
    """Sec-Fetch-Site."""
    origin: str | None
    host: str | None
    word: str | None


def csrf_word(secret: str) -> str:
    """The word that belongs to the secret of a cookie. It doesn't give the secret away."""
    digest = hmac.digest(secret.encode(), b"shoal/csrf/v1", hashlib.sha256)
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def check_provenance(found: Provenance, *, secret: str) -> None:
    """Both checks, for a request with a cookie.

    Raises:
        CrossSite: one of them fails.
    """
    check_origin(found)
    if found.word is None or not hmac.compare_digest(found.word.encode(), csrf_word(secret).encode()):
        raise CrossSite(f"request with a cookie: expected the word of its page in {HEADER} or in the field {FIELD}")


def check_origin(found: Provenance) -> None:
    """What the browser says: the same origin by Sec-Fetch-Site, and by Origin where there is one.

    Raises:
        CrossSite: another origin, or nothing is said.
    """
    if found.fetch_site is None and found.origin is None:
        raise CrossSite("request with a cookie: expected Sec-Fetch-Site or Origin, found neither")
    if found.fetch_site not in (None, "same-origin"):
        raise CrossSite(f"request with a cookie: expected one of this site, found Sec-Fetch-Site {found.fetch_site!r}")
    if found.origin is not None and found.origin != f"https://{found.host}":
        raise CrossSite(
            f"request with a cookie: expected the origin https://{found.host}, found {found.origin[:200]!r}"
        )
