"""Does the daemon's keeper of the front have it follow what tuning chose, when it may?

The real keeper with a front that is a fake which speaks the real channel, and answers with the engine that was chosen.
"""

import asyncio
import contextlib
import hashlib
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric import x25519
from msgspec.structs import replace
from shoal_agent.configuration import Configuration
from shoal_agent.daemon.checking import check
from shoal_agent.daemon.outbox import open_outbox
from shoal_agent.daemon.proven import ProvenChoices
from shoal_agent.daemon.quarantine import Quarantine
from shoal_agent.daemon.recording import Recorder
from shoal_agent.daemon.secrets import Secrets
from shoal_agent.daemon.serving import FrontKeeper, Setting
from shoal_agent.files import DiskFiles
from shoal_agent.slots import HeldRelease, Slot, Slots
from shoal_agent.tuned import ServingChoice
from shoal_wire.grant import GrantContext, RecipientKeys, make_grant
from shoal_wire.messages import Event, ReleaseReference, Row
from shoal_wire.tuning import Candidate

HERE = Path(__file__).parent
DEVICE, MODEL = "d-board", "note-events"
DEADLINE_S = 60.0


class ListeningRecorder(Recorder):
    """Also remembers the names of events."""

    def __init__(self, folder: Path) -> None:
        super().__init__(open_outbox(folder / "outbox.db", stream="0" * 32, limit_bytes=1 << 20), on_rows=lambda: None)
        self.events: list[str] = []

    def note(self, row: Row) -> None:
        if isinstance(row, Event):
            self.events.append(row.name)


class Kept(NamedTuple):
    """A keeper whose front serves version 1, and what it takes to check a release."""

    front: FrontKeeper
    recorder: ListeningRecorder
    setting: Setting
    slots: Slots

    @property
    def held(self) -> HeldRelease:
        held = self.slots.slots[MODEL].current
        assert held is not None
        return held

    @property
    def engine(self) -> str:
        """Of what serves; empty where nothing does."""
        return self.front.serving[MODEL].engine if MODEL in self.front.serving else ""


def choose(engine: str) -> dict[str, ServingChoice]:
    candidate = Candidate(variant="only", engine=engine, threads=1)
    return {MODEL: ServingChoice(candidate=candidate, files=("1" * 64,), engine_version="1", key="0" * 64)}


def hold(key: x25519.X25519PrivateKey, version: int) -> HeldRelease:
    context, digest = GrantContext(MODEL, version, DEVICE), hashlib.sha256(b"sealed").hexdigest()
    grant = make_grant(bytes(32), key.public_key(), context=context, ciphertext_sha256=digest, counter=1)
    reference = ReleaseReference(MODEL, version, hashlib.sha256(b"manifest %d" % version).hexdigest())
    return HeldRelease(reference=reference, epoch=1, generation=version, variant="only", grants=(grant,))


@contextlib.asynccontextmanager
async def keeping(folder: Path, *, behaviour: str = "good") -> AsyncIterator[Kept]:
    key = x25519.X25519PrivateKey.generate()
    program = [sys.executable, str(HERE / "fake_front.py"), "--behaviour", behaviour, "--mark", str(folder / "mark")]
    recipient = RecipientKeys(key)
    secrets = Secrets(device=DEVICE, key=key, sealed=tuple)
    setting = Setting(program, folder, DEVICE, recipient, Configuration(), None, secrets)
    recorder = ListeningRecorder(folder)
    front = FrontKeeper(
        setting,
        recorder=recorder,
        quarantine=Quarantine(DiskFiles(), folder),
        proven=ProvenChoices(DiskFiles(), folder),
        on_change=lambda: None,
        on_end=lambda counted: None,
    )
    kept = Kept(front, recorder, setting, Slots(slots={MODEL: Slot(current=hold(key, 1))}))
    serving = asyncio.create_task(front.serve())
    try:
        front.want(kept.slots)
        await until(lambda: bool(kept.engine))
        yield kept
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


async def until(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not claim():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def test_what_serves_is_loaded_anew_by_another_choice(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with keeping(tmp_path) as kept:
            assert kept.engine == "fake"
            for engine in ("openvino", "litert"):
                kept.front.follow(choose(engine))
                await until(lambda engine=engine: kept.engine == engine)  # type: ignore[misc]
            kept.front.follow({})
            await until(lambda: kept.engine == "fake")

    asyncio.run(scenario())


def test_slot_in_an_update_waits_for_its_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with keeping(tmp_path) as kept:
            kept.front.want(kept.slots, in_update=MODEL)
            kept.front.follow(choose("openvino"))
            assert await kept.front.switch(MODEL) is None
            news = kept.front.health_news(MODEL)
            assert kept.engine == "fake" and news is not None and news.serving
            kept.front.want(kept.slots)
            await until(lambda: kept.engine == "openvino")

    asyncio.run(scenario())


def test_release_is_switched_to_as_it_was_checked_and_kept_so(tmp_path: Path) -> None:
    """What is chosen after its golden cases was never tried on them: nothing tells that tuning did."""

    async def scenario() -> None:
        async with keeping(tmp_path) as kept:
            kept.front.follow(choose("openvino"))
            await until(lambda: kept.engine == "openvino")
            kept.front.want(kept.slots, in_update=MODEL)
            second = hold(kept.setting.keys.x25519, 2)
            assert (await check(second, setting=kept.setting, recorder=kept.recorder, front=kept.front)).passed
            kept.front.follow(choose("litert"))
            slots = Slots(slots={MODEL: Slot(current=second, previous=kept.held)})
            kept.front.want(slots, in_update=MODEL)
            assert await kept.front.switch(MODEL) is None
            assert (kept.front.serving[MODEL].reference, kept.engine) == (second.reference, "openvino")
            kept.front.want(slots)
            assert kept.front.choices_for(second) == choose("openvino")
            kept.front.follow(choose("abacus"))
            await until(lambda: kept.engine == "abacus")

    asyncio.run(scenario())


def test_release_that_is_fallen_back_to_serves_as_before(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with keeping(tmp_path) as kept:
            kept.front.follow(choose("openvino"))
            await until(lambda: kept.engine == "openvino")
            kept.front.want(kept.slots, in_update=MODEL)
            second = hold(kept.setting.keys.x25519, 2)
            await check(second, setting=kept.setting, recorder=kept.recorder, front=kept.front)
            kept.front.want(Slots(slots={MODEL: Slot(current=second, previous=kept.held)}), in_update=MODEL)
            assert await kept.front.switch(MODEL) is None
            kept.front.follow(choose("litert"))
            kept.front.want(kept.slots, in_update=MODEL)
            assert await kept.front.switch(MODEL) is None
            assert (kept.front.serving[MODEL].reference, kept.engine) == (kept.held.reference, "openvino")

    asyncio.run(scenario())


def test_choice_that_fronts_die_of_is_left_before_the_release_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with keeping(tmp_path, behaviour="dies-of-choice") as kept:
            kept.front.want(kept.slots, in_update=MODEL)
            kept.front.follow(choose("openvino"))
            second = hold(kept.setting.keys.x25519, 2)
            kept.front.note_checked(second, choose("openvino"))
            kept.front.want(Slots(slots={MODEL: Slot(current=second, previous=kept.held)}), in_update=MODEL)
            assert await kept.front.switch(MODEL) is None
            assert kept.front.serving[MODEL].reference == second.reference
            news = kept.front.health_news(MODEL)
            assert news is not None and (news.serving, news.deaths) == (True, 0)
            assert "tuning-ignored" in kept.recorder.events and "load-failed" not in kept.recorder.events

    asyncio.run(scenario())


def test_choice_that_cannot_be_loaded_is_told_and_what_serves_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with keeping(tmp_path, behaviour="load-anew-fails") as kept:
            kept.front.follow(choose("openvino"))
            await until(lambda: kept.recorder.events == ["not-loaded-anew"])
            kept.front.want(kept.slots)
            assert await kept.front.switch(MODEL) is None
            assert kept.engine == "fake" and kept.recorder.events == ["not-loaded-anew"]

    asyncio.run(scenario())


@pytest.mark.parametrize(("behaviour", "is_followed"), [("good", True), ("untuned", False)])
def test_choice_that_fails_golden_cases_is_not_followed_until_it_changes(
    tmp_path: Path, behaviour: str, is_followed: bool
) -> None:
    async def scenario() -> None:
        async with keeping(tmp_path, behaviour=behaviour) as kept:
            kept.front.follow(choose("openvino"))
            await until(lambda: kept.engine == "openvino")
            second = hold(kept.setting.keys.x25519, 2)
            verdict = await check(second, setting=kept.setting, recorder=kept.recorder, front=kept.front)
            assert verdict.passed
            assert kept.front.choices_for(second) == (choose("openvino") if is_followed else {})
            assert kept.front.choices_for(kept.held) == choose("openvino")
            started_again = ProvenChoices(DiskFiles(), tmp_path)
            assert started_again.trusted(second, choose("openvino")) == (choose("openvino") if is_followed else {})
            newer = {name: replace(choice, key="1" * 64) for name, choice in choose("openvino").items()}
            kept.front.follow(newer)
            assert kept.front.choices_for(second) == newer

    asyncio.run(scenario())
