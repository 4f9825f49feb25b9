"""What does the daemon do with a message from its broker?

The broker is trusted with nothing: a document counts by its signature. What is refused is said once.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from shoal_wire import envelope, topics
from shoal_wire.encoding import decode
from shoal_wire.envelope import key_id
from shoal_wire.errors import Untrusted, WireError
from shoal_wire.messages import Ack, Desired, Event
from shoal_wire.topics import Down

from shoal_agent.daemon.assignment import Verdict, judge
from shoal_agent.daemon.delivery import Delivery
from shoal_agent.daemon.holdings import Holdings
from shoal_agent.daemon.link import Incoming
from shoal_agent.daemon.recording import Recorder
from shoal_agent.daemon.reporting import Reporter
from shoal_agent.daemon.updating import UpdaterKeeper

_MAX_COMPLAINTS = 64
_LOG = logging.getLogger(__name__)


class Inbox:
    """Takes desired documents and acknowledgements."""

    def __init__(
        self,
        device: str,
        *,
        holdings: Holdings,
        reporter: Reporter,
        delivery: Delivery,
        updater: UpdaterKeeper,
        recorder: Recorder,
        taken: Callable[[], None],
        on_accepted: Callable[[], None],
    ) -> None:
        """`taken` tells the link that a message was dealt with; `on_accepted`: a new desired document counts."""
        self._device = device
        self._holdings = holdings
        self._reporter = reporter
        self._delivery = delivery
        self._updater = updater
        self._recorder = recorder
        self._taken = taken
        self._on_accepted = on_accepted
        self._messages: asyncio.Queue[Incoming | None] = asyncio.Queue()
        self._pending: bytes | None = None
        self._complaints: set[str] = set()

    def put(self, message: Incoming) -> None:
        """A message came; the link bounds how many wait."""
        self._messages.put_nowait(message)

    def keep(self, raw: bytes) -> None:
        """Look at a desired document once its key is known."""
        self._pending = raw
        self._updater.want_keys()

    def look_again(self) -> None:
        """Newer keys may be known."""
        if self._pending is not None:
            self._messages.put_nowait(None)

    async def serve(self) -> None:
        """Deal with one message after another, until cancelled."""
        while True:
            message = await self._messages.get()
            if message is None:
                if self._pending is not None:
                    await self._consider(self._pending)
                continue
            try:
                await self._handle(message)
            finally:
                self._taken()

    async def _handle(self, message: Incoming) -> None:
        try:
            channel = topics.parse(message.topic).channel
            if channel is Down.DESIRED:
                await self._consider(message.payload)
            elif channel is Down.ACK:
                await self._acknowledge(message.payload)
        except WireError as error:
            self._complain("message-refused", str(error))

    async def _consider(self, raw: bytes) -> None:
        judgement = judge(
            raw,
            device=self._device,
            keys=self._holdings.trusted,
            accepted=self._holdings.floor(self._reporter.accepted),
        )
        if judgement.verdict is Verdict.ASK_FOR_KEYS:
            self._complain_of_key("desired-waits", judgement.reason)
            self.keep(raw)
            return
        if raw == self._pending:
            self._pending = None
        self._updater.found_keys()
        if judgement.desired is not None:
            await self._accept(raw, judgement.desired)
        elif judgement.verdict is Verdict.REFUSE:
            self._complain("desired-refused", judgement.reason)
        else:
            _LOG.debug("%s", judgement.reason)

    async def _accept(self, raw: bytes, desired: Desired) -> None:
        self._pending = None
        await asyncio.to_thread(self._holdings.accept, raw, desired)
        self._reporter.accept(desired.order)
        self._recorder.note(Event(at=time.time(), name="desired-accepted", generation=desired.generation))
        self._updater.supersede()
        self._on_accepted()

    async def _acknowledge(self, raw: bytes) -> None:
        keys = self._holdings.trusted
        if not set(envelope.signing_key_ids(raw, what="ack")) & {key_id(key) for key in keys}:
            self._complain_of_key("ack-refused", "ack: signed by an unknown key")
            self._updater.want_keys()
            return
        ack = decode(envelope.verify(raw, envelope.ACK, keys, what="ack"), Ack, what="ack")
        if ack.device != self._device:
            raise Untrusted(f"ack: expected one for {self._device}, found one for {ack.device}")
        if self._pending is None:
            self._updater.want_no_keys()
        self._reporter.note_acknowledged(ack)
        await self._delivery.acknowledge(ack)

    def _complain_of_key(self, name: str, detail: str) -> None:
        """Before its first keys a device knows nobody's, which is nothing to tell."""
        if self._holdings.trusted:
            self._complain(name, detail)

    def _complain(self, name: str, detail: str) -> None:
        """Note an event, once for each text: a retained document comes again with every connection."""
        if detail in self._complaints or len(self._complaints) >= _MAX_COMPLAINTS:
            return
        self._complaints.add(detail)
        _LOG.warning("%s: %s", name, detail)
        self._recorder.note(Event(at=time.time(), name=name, detail=detail[:4000]))
