"""Who does the work that messages bring, and in which order?

One thread with one database session at a time: SQLite has one writer, and a device's batches must keep their order.
"""

import asyncio
import logging
import ssl
import threading
import time
from types import TracebackType
from typing import Self

from shoal_wire.envelope import Signer
from shoal_wire.topics import Up
from sqlalchemy.exc import OperationalError

from shoal_fleet.database import Sessions
from shoal_fleet.kek.vault import Vault
from shoal_fleet.messaging.dispatch import Dispatcher
from shoal_fleet.messaging.forgetting import Forgetting
from shoal_fleet.messaging.inbox import Connected, Inbox, Load, Message, Woken, Work
from shoal_fleet.messaging.link import Link
from shoal_fleet.rollouts import service as rollouts
from shoal_fleet.rollouts.publication import Publication, Receipt
from shoal_fleet.times import Clock

UPKEEP_S = 5.0
"""How often it is looked for documents that still wait and for devices that were revoked under way."""

PAUSE_S = 1.0
"""After the database failed: it may be locked by a backup, or the disk full."""

_log = logging.getLogger(__name__)


class Messaging:
    """The fleet's connection with its worker. An async context manager."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        host: str,
        port: int,
        context: ssl.SSLContext,
        signer: Signer,
        vault: Vault,
        clock: Clock,
    ) -> None:
        """`context` trusts the fleet's authority and holds the fleet's client certificate; `signer` is that of
        assignments; `vault` opens content keys."""
        self._inbox = Inbox()
        self._link = Link(host=host, port=port, context=context, inbox=self._inbox)
        self._sessions = sessions
        self._clock = clock
        self._dispatcher = Dispatcher(sessions, publisher=self._link, signer=signer, vault=vault, clock=clock)
        self._publication = Publication(sessions, publisher=self._link, signer=signer, clock=clock)
        self._forgetting = Forgetting(sessions, publisher=self._link, clock=clock)
        self._upkeep_at = time.monotonic() + UPKEEP_S
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="messaging", daemon=True)

    async def __aenter__(self) -> Self:
        self._thread.start()
        self._link.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._stop)

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to the broker at this moment."""
        return self._link.is_connected

    @property
    def load(self) -> Load:
        """How much waits to be worked off."""
        return self._inbox.load

    def wake(self) -> None:
        """There may be documents to publish: call it after the commit. Safe from any thread, returns at once."""
        self._inbox.put(Woken())

    def _stop(self) -> None:
        self._stopping.set()
        self._inbox.close()
        self._thread.join()
        self._link.stop()

    def _run(self) -> None:
        while not self._stopping.is_set():
            work = self._inbox.take(timeout_s=UPKEEP_S)
            try:
                self._do(work)
            except OperationalError:
                _log.exception("database failed; trying again in %.0f s", PAUSE_S)
                if work is not None:
                    self._inbox.put_back(work)
                self._stopping.wait(PAUSE_S)
            except Exception:
                # A defect. The device sends its batch again and its report at the next change; the others go on.
                _log.exception("failed at %s", _name(work))

    def _do(self, work: Work | None) -> None:
        match work:
            case Message():
                self._dispatcher.dispatch(work)
                if work.topic.channel is Up.REPORTED:
                    self._publication.publish_pending()
            case Receipt():
                self._publication.confirm(work)
            case Connected():
                self._publication.publish_all()
                self._forgetting.begin_anew()
                self._forgetting.clear_topics()
            case Woken():
                self._publication.publish_pending()
                self._forgetting.clear_topics()
            case None:
                pass
        if time.monotonic() >= self._upkeep_at:
            self._upkeep_at = time.monotonic() + UPKEEP_S
            self._keep_up()

    def _keep_up(self) -> None:
        with self._sessions() as session:
            rollouts.drop_revoked(session, now=self._clock())
        self._publication.publish_pending()


def _name(work: Work | None) -> str:
    return f"{work.topic.channel.value} of device {work.topic.device}" if isinstance(work, Message) else str(work)
