"""Does a report say what the device runs, and is its counter always above the ones before?"""

import hashlib
from pathlib import Path

from shoal_agent.daemon.reporting import Origin, ReportState, Running, compose, load_report_state
from shoal_agent.files import DiskFiles
from shoal_agent.front_messages import Serving
from shoal_agent.slots import HeldRelease, Journal, Slot, Slots
from shoal_wire.encoding import encode
from shoal_wire.grant import Grant
from shoal_wire.messages import AgentReport, Assignment, ReleaseReference
from shoal_wire.tuning import BoardKind
from shoal_wire.update import UpdateState

ORIGIN = Origin("d-test", "generic", "0.1.0", "a" * 32)
AGENT = AgentReport(machine="aarch64", python="3.11", state_format=1, can_update=True)
KIND = BoardKind(architecture="aarch64", processor="aarch64 0xd0b", processors=4)


def make_reference(version: int) -> ReleaseReference:
    return ReleaseReference("notes", version, hashlib.sha256(b"%d" % version).hexdigest())


def make_held(version: int) -> HeldRelease:
    return HeldRelease(reference=make_reference(version), epoch=1, generation=version, variant="int8", grants=())


def test_reports_slots_update_and_what_really_serves() -> None:
    target = make_reference(2)
    journal = Journal(
        epoch=1,
        generation=4,
        assignment=Assignment(
            release="notes",
            version=2,
            manifest_sha256=target.manifest_sha256,
            grants=(Grant(target.manifest_sha256, 1, ""),),
        ),
        state=UpdateState.PROBATION,
        fetched_bytes=17,
    )
    slots = Slots(slots={"notes": Slot(current=make_held(2), previous=make_held(1), refused=((1, 3),))})
    serving = {"notes": Serving("notes", make_reference(1), "int8", "onnxruntime", "1.20", ("cpu",))}
    report = compose(
        Running(slots, journal, serving, KIND, own=Slot(), agent=AGENT, tree=""),
        origin=ORIGIN,
        state=ReportState(counter=9, epoch=1, generation=4),
        now=100.0,
    )
    (slot,) = report.slots
    assert report.kind == KIND
    assert (slot.current, slot.previous, slot.serving) == (target, make_reference(1), make_reference(1))
    assert (slot.engine, slot.placement, slot.refused) == ("onnxruntime", ("cpu",), (3,))
    assert report.update is not None
    assert (report.update.target, report.update.state, report.update.fetched_bytes) == (
        target,
        UpdateState.PROBATION,
        17,
    )
    assert (report.counter, report.epoch, report.generation, report.at) == (9, 1, 4, 100.0)


def test_a_front_that_loads_serves_nothing() -> None:
    slots = Slots(slots={"notes": Slot(current=make_held(1))})
    running = Running(slots, None, {}, KIND, own=Slot(), agent=AGENT, tree="")
    report = compose(running, origin=ORIGIN, state=ReportState(counter=1), now=0.0)
    assert report.slots[0].current == make_reference(1)
    assert report.slots[0].serving is None
    assert report.update is None


def test_the_agents_own_releases_are_reported_as_a_slot_in_which_what_runs_serves() -> None:
    current, previous = make_held(2), make_held(1)
    own = Slot(current=current, previous=previous, refused=((1, 3),))
    for tree, serving in (
        (f"2-{current.reference.manifest_sha256[:12]}", current.reference),
        (f"1-{previous.reference.manifest_sha256[:12]}", previous.reference),
        ("", None),
    ):
        running = Running(Slots(), None, {}, KIND, own=own, agent=AGENT, tree=tree)
        report = compose(running, origin=ORIGIN, state=ReportState(counter=1), now=0.0)
        assert report.agent == AGENT
        (slot,) = report.slots
        assert (slot.release, slot.current, slot.serving) == ("shoal-agent", current.reference, serving)
        assert slot.refused == (3,)


def test_the_counter_goes_on_from_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(encode(ReportState(counter=41, epoch=2, generation=3)))
    assert load_report_state(DiskFiles(), path, now=1e9) == ReportState(counter=41, epoch=2, generation=3)


def test_without_a_readable_file_the_counter_is_above_all_that_were_used(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert load_report_state(DiskFiles(), path, now=1_800_000_000.0).counter == 1_800_000_000
    path.write_bytes(b'{"counter":')
    assert load_report_state(DiskFiles(), path, now=1_800_000_000.0).counter == 1_800_000_000
