"""An updater that speaks the real channel and writes the real files, but fetches and verifies nothing.

`--behaviour` makes it fail: `crash` ends it in the middle of each state, once; `silent` never says a word after hello.
With --refresh it takes `offered-trust.json` for what the fleet's metadata hold.
"""

import argparse
import sys
import time
from pathlib import Path

import msgspec
from shoal_agent.files import DiskFiles
from shoal_agent.slots import JOURNAL, SLOTS, HeldRelease, Journal, Slot, Slots
from shoal_agent.state import DESIRED, TRUST, load_journal, load_slots, load_trusted_keys
from shoal_wire import envelope
from shoal_wire.encoding import decode, encode
from shoal_wire.messages import Desired
from shoal_wire.update import TERMINAL, UpdateState
from shoal_worker.channel import Channel, ChannelClosed
from shoal_worker.process import die_with_parent

ENOUGH_ANSWERS = 5


class FakeUpdater:
    def __init__(self, state: Path, channel: Channel, *, behaviour: str) -> None:
        self.state = state
        self.channel = channel
        self.behaviour = behaviour
        self.files = DiskFiles()
        self.channel.greet(role="updater")

    def refresh(self) -> None:
        offered = self.state / "offered-trust.json"
        self.files.write(self.state / "refreshed", b"yes")
        if offered.exists():
            self.files.write(self.state / TRUST, offered.read_bytes())

    def run(self) -> None:
        journal = load_journal(self.files, self.state)
        if journal is None or journal.state in TERMINAL:
            journal = self.begin()
        while journal is not None and journal.state not in TERMINAL:
            journal = self.advance(journal)
        if journal is not None:
            self.channel.send({"type": "done", "state": journal.state.value})

    def begin(self) -> Journal | None:
        raw = (self.state / DESIRED).read_bytes()
        keys = load_trusted_keys(self.files, self.state)
        desired = decode(envelope.verify(raw, envelope.DESIRED, keys, what="desired"), Desired, what="desired")
        for assignment in desired.assignments:
            slot = load_slots(self.files, self.state).slots.get(assignment.release, Slot())
            current = slot.current.reference.manifest_sha256 if slot.current else None
            if current != assignment.manifest_sha256 and desired.order not in slot.refused:
                return self.save(
                    Journal(
                        epoch=desired.epoch,
                        generation=desired.generation,
                        assignment=assignment,
                        state=UpdateState.CHECKING,
                    )
                )
        return None

    def advance(self, journal: Journal) -> Journal:
        self.crash_once(journal.state.value)
        release = journal.assignment.release
        held = HeldRelease(
            reference=journal.target,
            epoch=journal.epoch,
            generation=journal.generation,
            variant="only",
            grants=journal.assignment.grants,
        )
        match journal.state:
            case UpdateState.CHECKING:
                baseline = self.ask({"type": "baseline", "release": release}, "baseline")
                verdict = self.ask({"type": "check", "release": msgspec.to_builtins(held)}, "verdict")
                self.channel.send({"type": "event", "name": "asked", "detail": f"{baseline} {verdict}"})
                if not verdict["passed"]:
                    return self.end(journal, UpdateState.REFUSED, reason=str(verdict["reason"]))
                return self.save(msgspec.structs.replace(journal, state=UpdateState.SWITCHING))
            case UpdateState.SWITCHING:
                slot = load_slots(self.files, self.state).slots.get(release, Slot())
                if slot.current is None or slot.current.reference != held.reference:
                    slot = msgspec.structs.replace(slot, current=held, previous=slot.current)
                self.save_slot(release, slot)
                reply = self.ask({"type": "switch", "slot": release}, "serving", "serve_failed")
                if reply["type"] == "serve_failed":
                    self.save_slot(release, msgspec.structs.replace(slot, current=slot.previous, previous=None))
                    return self.end(journal, UpdateState.FELL_BACK, reason=str(reply["reason"]))
                return self.save(msgspec.structs.replace(journal, state=UpdateState.PROBATION))
            case _:
                while int(str(self.ask(None, "health")["answers"])) < ENOUGH_ANSWERS:
                    pass
                self.channel.send({"type": "settled", "slot": release})
                return self.save(msgspec.structs.replace(journal, state=UpdateState.COMMITTED))

    def end(self, journal: Journal, state: UpdateState, *, reason: str) -> Journal:
        release = journal.assignment.release
        slot = load_slots(self.files, self.state).slots.get(release, Slot())
        refused = (*slot.refused, (journal.epoch, journal.generation))
        self.save_slot(release, msgspec.structs.replace(slot, refused=refused))
        return self.save(msgspec.structs.replace(journal, state=state, reason=reason))

    def ask(self, question: dict[str, object] | None, *answers: str) -> dict[str, object]:
        if question is not None:
            self.channel.send(question)
        while True:
            message, _ = self.channel.receive(60.0)
            if message["type"] in answers:
                return message

    def save(self, journal: Journal) -> Journal:
        self.files.write(self.state / JOURNAL, encode(journal))
        self.channel.send({"type": "progress"})
        return journal

    def save_slot(self, release: str, slot: Slot) -> None:
        slots = load_slots(self.files, self.state)
        self.files.write(self.state / SLOTS, encode(Slots(slots={**slots.slots, release: slot})))
        self.channel.send({"type": "progress"})

    def crash_once(self, where: str) -> None:
        mark = self.state / f"crashed-in-{where}"
        if self.behaviour == "crash" and not mark.exists():
            mark.touch()
            sys.exit(9)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--behaviour", default="good")
    parser.add_argument("--fd", type=int)
    parser.add_argument("--parent", type=int)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--refresh", action="store_true")
    parser.add_argument("--all-variants", action="store_true")
    parser.add_argument("--engines", nargs="*")
    options = parser.parse_args()
    die_with_parent(options.parent)
    try:
        updater = FakeUpdater(options.state, Channel.from_fd(options.fd), behaviour=options.behaviour)
        if options.behaviour == "silent":
            time.sleep(3600)
        if options.refresh:
            updater.refresh()
        else:
            updater.run()
    except ChannelClosed:
        sys.exit(1)


if __name__ == "__main__":
    main()
