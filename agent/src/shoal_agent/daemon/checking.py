"""Does a release give its golden answers on this board, beside whatever serves?

A front of its own, at low priority, runs the cases and ends. That it couldn't run them is not the release's fault.
"""

import asyncio
import os
import time

from shoal_wire.errors import WireError
from shoal_wire.messages import Event

from shoal_agent import updater_messages
from shoal_agent.daemon.protocol import ProtocolBroken, parse_front_message
from shoal_agent.daemon.recording import Recorder
from shoal_agent.daemon.serving import MAX_REASON, FrontKeeper, Setting
from shoal_agent.daemon.supervision import ChildEnded, ChildHung, running
from shoal_agent.front_messages import Check, Notice, Verdict, as_frame
from shoal_agent.slots import HeldRelease

CHECK_TIMEOUT_S = 1500.0
"""For all golden cases of a release."""


async def check(
    held: HeldRelease, *, setting: Setting, recorder: Recorder, front: FrontKeeper
) -> updater_messages.Verdict:
    """What to tell the updater of a release. It is loaded as `front` would load it, which is told how it passed."""
    tuned = front.choices_to_check(held)
    try:
        opened = setting.open(held)
    except WireError as error:
        return _verdict(passed=False, reason=str(error))
    options = ("--check", "--parent", str(os.getpid()))
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            async with running(setting.program, name="checking front", options=options) as child:
                child.send(as_frame(setting.configure(sources=(), suspects={})))
                child.send(as_frame(Check(held, opened.store, opened.content_keys, tuned)))
                while isinstance(message := parse_front_message(await child.receive(timeout_s=None)), Notice):
                    recorder.note(Event(at=time.time(), name=message.name, detail=message.detail[:MAX_REASON]))
                if not isinstance(message, Verdict):
                    raise ProtocolBroken(f"checking front: expected a verdict, found {type(message).__name__}")
                if message.is_untuned and not message.is_short:
                    front.distrust(held, tuned)
                if message.passed:
                    front.note_checked(held, {} if message.is_untuned else tuned)
                is_short = message.is_short and not message.passed
                return _verdict(passed=message.passed, reason=message.reason, is_short=is_short)
    except (ChildEnded, ChildHung, ProtocolBroken) as error:
        return _verdict(passed=False, reason=str(error), unavailable=True)
    except TimeoutError:
        reason = f"the golden cases took longer than {CHECK_TIMEOUT_S:.0f} s"
        return _verdict(passed=False, reason=reason, unavailable=True)


def _verdict(
    *, passed: bool, reason: str, unavailable: bool = False, is_short: bool = False
) -> updater_messages.Verdict:
    return updater_messages.Verdict(
        passed=passed, reason=reason[:MAX_REASON], unavailable=unavailable or is_short, is_short=is_short
    )
