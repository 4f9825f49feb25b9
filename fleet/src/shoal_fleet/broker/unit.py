"""What does the fleet do about a broker that is a service of its own? It writes the files; systemd does the rest.

`packaging/systemd/shoal-broker.service` runs it, and `packaging/systemd/shoal-broker-reload.path` has it read changed
access rules, revocations and certificates.
"""

import asyncio
from types import TracebackType
from typing import Self


class BrokerUnit:
    """Stands where `process.Broker` stands when the fleet runs the broker itself."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    async def supervise(self) -> None:
        """Until cancelled: there is nothing to restart."""
        await asyncio.Event().wait()

    def reload(self) -> None:
        """The files that changed are the order."""
