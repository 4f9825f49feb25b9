"""How does a revocation come to count, at the broker and at the devices' listener?"""

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from shoal_fleet.broker.configuration import BrokerPaths
from shoal_fleet.broker.files import write_revocations
from shoal_fleet.database import Sessions
from shoal_fleet.devices import service as devices
from shoal_fleet.pki.authorities import Authorities
from shoal_fleet.pki.authority import crl_end, crl_is_due
from shoal_fleet.times import Clock

ALARM = timedelta(days=20)
"""A list that ends sooner wasn't renewed for a week and a half."""

_log = logging.getLogger(__name__)


class Revocations:
    """Writes revocation lists and access rules from the database.

    `apply` makes the broker and the listener read them, and may be called from any thread.
    """

    def __init__(
        self,
        *,
        sessions: Sessions,
        clock: Clock,
        authorities: Authorities,
        paths: BrokerPaths,
        apply: Callable[[], None],
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._authorities = authorities
        self._paths = paths
        self._apply = apply
        self._lock = threading.Lock()
        self._failure = ""

    def write(self) -> None:
        """Write what the database holds now. The folder of the broker must be there.

        Raises:
            OSError: it can't be written; `find_trouble` says so until it can.
        """
        with self._lock:
            now = self._clock()
            with self._sessions() as session:
                certificates = devices.revoked_certificates(session, now=now)
                revoked = devices.revoked_devices(session)
            crl = self._authorities.crl(
                certificates, now=datetime.fromtimestamp(now, UTC), previous_pem=self._present_lists()
            )
            try:
                write_revocations(self._paths, crl_pem=crl, revoked=revoked)
            except OSError as error:
                self._failure = f"can't be written: {error}"
                raise
            self._failure = ""

    def publish(self) -> None:
        """Write what the database holds now, and make it count. Raises as `write`."""
        self.write()
        self._apply()

    def renew(self) -> None:
        """Publish anew where a list is a day old: past its end, every client would be refused. Raises as `write`."""
        present = self._present_lists()
        if present is None or self._failure or self._is_due(present):
            self.publish()
        trouble = self.find_trouble()
        if trouble:
            _log.error("%s", trouble)

    def find_trouble(self) -> str:
        """What an operator must know of the revocation list; empty where all is well."""
        present, now = self._present_lists(), self._now()
        try:
            left = None if present is None else crl_end(present) - now
        except ValueError:
            left = None
        if self._failure:
            return f"revocation list: {self._failure}{_describe(left)}"
        if left is None:
            return "revocation list: there is none that can be read; without one every device is refused"
        return f"revocation list: wasn't renewed{_describe(left)}" if left < ALARM else ""

    def _is_due(self, present: bytes) -> bool:
        try:
            return crl_is_due(present, now=self._now())
        except ValueError:
            return True

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    def _present_lists(self) -> bytes | None:
        try:
            return self._paths.crl.read_bytes()
        except FileNotFoundError:
            return None


def _describe(left: timedelta | None) -> str:
    if left is None:
        return ""
    if left < timedelta(0):
        return "; it has ended, and every device is refused"
    return f"; every device is refused in {left / timedelta(days=1):.1f} days"
