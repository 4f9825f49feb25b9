"""Which sealed files may a releaser see?

Those of releases in reach; and whether one is here that no release has yet, so that an upload that was cut off goes on.
For both a session that ends at the caller's reach is needed.
"""

from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.errors import NotFound
from shoal_fleet.releases.models import Release, ReleaseKey


def check_readable(session: Session, ciphertext_sha256: str) -> None:
    """Make sure that a sealed file is of a release in reach.

    Raises:
        NotFound: it isn't.
    """
    if not _is_in_reach(session, ciphertext_sha256):
        raise NotFound(f"sealed file {ciphertext_sha256[:64]!r}: not here")


def check_known(session: Session, ciphertext_sha256: str) -> None:
    """Make sure that a sealed file is of a release in reach, or of none.

    Raises:
        NotFound: it is of releases elsewhere alone.
    """
    is_of_any = session.scalar(
        select(ReleaseKey.release_id).where(ReleaseKey.ciphertext_sha256 == ciphertext_sha256).limit(1)
    )
    if is_of_any is not None:
        check_readable(session, ciphertext_sha256)


def _is_in_reach(session: Session, ciphertext_sha256: str) -> bool:
    having = select(ReleaseKey.release_id).where(ReleaseKey.ciphertext_sha256 == ciphertext_sha256)
    return session.scalar(select(Release.id).where(Release.id.in_(having)).limit(1)) is not None
