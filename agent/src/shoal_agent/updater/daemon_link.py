"""What does the updater say to the daemon, and what does it hear?

The daemon answers in its own time and says things unasked: health about twice a second, and that a newer desired
document is there. The updater listens often, so that neither side waits for the other.
"""

import os
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec
from shoal_wire.messages import ReleaseReference
from shoal_wire.update import UpdateState
from shoal_worker.channel import BadMessage, ChannelTimeout

from shoal_agent import updater_messages as messages
from shoal_agent.front_messages import Notice
from shoal_agent.slots import HeldRelease
from shoal_agent.updater.errors import Refused, Superseded

BASELINE_TIMEOUT_S = 30.0
CHECK_TIMEOUT_S = 1800.0
SWITCH_TIMEOUT_S = 600.0


class DaemonChannel(Protocol):
    """The socket pair. Both methods raise ChannelClosed once the daemon has ended, which ends the updater."""

    def send(self, message: dict[str, object]) -> None:
        """Send one message."""

    def receive(self, timeout_s: float | None) -> tuple[dict[str, object], list[int]]:
        """The next message, with descriptors. Raises ChannelTimeout."""


ReplyT = TypeVar(
    "ReplyT", messages.Baseline, messages.Verdict, messages.SwitchReply, messages.Keys, messages.AgentHealth
)


class DaemonLink:
    """The daemon, as the updater sees it."""

    def __init__(self, channel: DaemonChannel, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`channel` has greeted."""
        self._channel = channel
        self._monotonic = monotonic
        self.may_be_superseded = False
        """Whether news of a newer document raises Superseded from whatever listens; otherwise it is dropped."""

    def progress(self) -> None:
        """Journal or slots were written."""
        self._say(messages.Progress())

    def event(self, name: str, detail: str) -> None:
        """Something that a person may want to know."""
        self._say(Notice(name, detail))

    def settled(self, release: str) -> None:
        """Only current and previous of this slot are needed from now on."""
        self._say(messages.Settled(release))

    def done(self, state: UpdateState) -> None:
        """The journal is terminal."""
        self._say(messages.Done(state))

    def ask_baseline(self, release: str) -> messages.Baseline:
        """Latency of the release that serves in this slot.

        Raises:
            Refused: no answer in time.
        """
        return self._ask(messages.BaselineQuestion(release), messages.Baseline, timeout_s=BASELINE_TIMEOUT_S)

    def ask_check(self, held: HeldRelease) -> messages.Verdict:
        """Run the golden cases of a release.

        Raises:
            Refused: no answer in time.
        """
        return self._ask(messages.CheckQuestion(held), messages.Verdict, timeout_s=CHECK_TIMEOUT_S)

    def ask_switch(self, release: str, *, expected: ReleaseReference) -> str | None:
        """Have the slot's current release served; None once it does, or why it can't be.

        Raises:
            Refused: no answer in time.
        """
        deadline = self._monotonic() + SWITCH_TIMEOUT_S
        reply = self._ask(messages.Switch(release), messages.SwitchReply, timeout_s=SWITCH_TIMEOUT_S)
        while isinstance(reply, messages.Serving) and reply.reference != expected:  # late, to an earlier switch
            reply = self._await(messages.SwitchReply, deadline=deadline, what="switch")
        return reply.reason if isinstance(reply, messages.ServeFailed) else None

    def ask_keys(self, held: HeldRelease) -> dict[str, str]:
        """Content keys of a release of the agent, in base64, by sealed file.

        Raises:
            Refused: its grants don't open, or no answer in time.
        """
        reply = self._ask(messages.KeysQuestion(held), messages.Keys, timeout_s=BASELINE_TIMEOUT_S)
        if reply.reason:
            raise Refused(reply.reason)
        return reply.content_keys

    def ask_agent(self) -> messages.AgentHealth:
        """What this start of the daemon has come to.

        Raises:
            Refused: no answer in time.
        """
        return self._ask(messages.AgentQuestion(), messages.AgentHealth, timeout_s=BASELINE_TIMEOUT_S)

    def restart(self) -> None:
        """The daemon ends, to be started anew."""
        self._say(messages.Restart())

    def next_health(self, reference: ReleaseReference, *, timeout_s: float) -> messages.Health | None:
        """The next counts of that release; None when none came in time."""
        deadline = self._monotonic() + timeout_s
        while (heard := self._receive(deadline)) is not None:
            if isinstance(heard, messages.Health) and heard.manifest_sha256 == reference.manifest_sha256:
                return heard
        return None

    def listen(self, timeout_s: float = 0.0) -> None:
        """Take what the daemon says for that long.

        Raises:
            Superseded: a newer desired document is there, and that counts now.
        """
        deadline = self._monotonic() + timeout_s
        while self._receive(deadline) is not None:
            pass

    def _say(self, message: messages.FromUpdater) -> None:
        self._channel.send(messages.as_frame(message))

    def _ask(self, question: messages.FromUpdater, kind: type[ReplyT], *, timeout_s: float) -> ReplyT:
        self._say(question)
        return self._await(kind, deadline=self._monotonic() + timeout_s, what=str(messages.as_frame(question)["type"]))

    def _await(self, kind: type[ReplyT], *, deadline: float, what: str) -> ReplyT:
        while (heard := self._receive(deadline)) is not None:
            if isinstance(heard, kind):
                return heard
        raise Refused(f"the daemon didn't answer in time when asked for {what}")

    def _receive(self, deadline: float) -> messages.FromDaemon | None:
        """The next thing said before `deadline`; None when there is none."""
        while True:
            try:
                message, descriptors = self._channel.receive(max(0.0, deadline - self._monotonic()))
            except ChannelTimeout:
                return None
            for descriptor in descriptors:
                os.close(descriptor)
            if message.get("type") not in messages.KNOWN_FROM_DAEMON:
                continue  # of a newer daemon
            try:
                heard = messages.parse_from_daemon(message)
            except msgspec.ValidationError as error:
                raise BadMessage(f"a {message['type']} message of the daemon: {error}") from None
            if isinstance(heard, messages.Superseded) and self.may_be_superseded:
                raise Superseded("a newer desired document came")
            return heard
