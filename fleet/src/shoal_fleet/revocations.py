"""How does a revocation come to count, at the broker and at the devices' listener?"""

import threading
from collections.abc import Callable
from datetime import UTC, datetime

from shoal_fleet.broker.configuration import BrokerPaths
from shoal_fleet.broker.files import write_revocations
from shoal_fleet.database import Sessions
from shoal_fleet.devices import service as devices
from shoal_fleet.pki.authority import Authority, crl_is_due
from shoal_fleet.times import Clock


class Revocations:
    """Writes revocation list and access rules from the database.

    `apply` makes the broker and the listener read them, and may be called from any thread.
    """

    def __init__(
        self,
        *,
        sessions: Sessions,
        clock: Clock,
        authority: Authority,
        paths: BrokerPaths,
        apply: Callable[[], None],
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._authority = authority
        self._paths = paths
        self._apply = apply
        self._lock = threading.Lock()

    def write(self) -> None:
        """Write what the database holds now. The folder of the broker must be there."""
        with self._lock:
            now = self._clock()
            with self._sessions() as session:
                certificates = devices.revoked_certificates(session, now=now)
                revoked = devices.revoked_devices(session)
            crl = self._authority.crl(
                certificates, now=datetime.fromtimestamp(now, UTC), previous_pem=self._present_list()
            )
            write_revocations(self._paths, crl_pem=crl, revoked=revoked)

    def publish(self) -> None:
        """Write what the database holds now, and make it count."""
        self.write()
        self._apply()

    def renew(self) -> None:
        """Publish anew where the list is a day old: past its end, every client would be refused."""
        present = self._present_list()
        if present is None or crl_is_due(present, now=datetime.fromtimestamp(self._clock(), UTC)):
            self.publish()

    def _present_list(self) -> bytes | None:
        try:
            return self._paths.crl.read_bytes()
        except FileNotFoundError:
            return None
