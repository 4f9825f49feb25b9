"""What does the page say of a device or a rollout, whatever state it is in?"""

import pytest
from msgspec.structs import replace
from shoal_fleet.console.status import Findings, Tone, describe_device, describe_rollout
from shoal_fleet.devices.models import Device
from shoal_fleet.rollouts.machine import DeviceState, RolloutState, WaveState
from shoal_fleet.rollouts.models import Rollout, RolloutDevice, RolloutWave
from shoal_fleet.telemetry.models import AnswerRow
from shoal_fleet.tuning.models import TunedRow
from shoal_wire.encoding import encode
from shoal_wire.messages import Reported, SlotReport
from shoal_wire.tuning import Candidate
from shoal_wire.update import UpdateState

from tests.unit.fleet.boards import NOW, Board, progress, reference, slot

OLD, NEW, OTHER = reference("notes", 1), reference("notes", 2), reference("birds", 1)
BOARD = Board("yard")
SILENT = SlotReport(release="notes", current=OLD, previous=None, serving=None)
EMPTY = SlotReport(release="notes", current=None, previous=None, serving=None)


def row(*, is_online: bool = True, reported_counter: int = 1, revoked_at: float | None = None) -> Device:
    return Device(
        id="d-yard", name="yard", is_online=is_online, reported_counter=reported_counter, revoked_at=revoked_at
    )


def report(*slots: SlotReport, state: UpdateState | None = None) -> Reported:
    update = None if state is None else progress(NEW, state, order=(1, 1))
    return BOARD.reported(slots=slots, update=update)


@pytest.mark.parametrize(
    ("device", "reported", "tone", "state"),
    [
        (row(revoked_at=NOW), report(slot(OLD)), Tone.OFF, "revoked"),
        (row(reported_counter=0), None, Tone.OFF, "enrolled, has not reported yet"),
        (row(is_online=False), report(slot(OLD)), Tone.OFF, "offline"),
        (row(), report(slot(OLD)), Tone.GOOD, "serving"),
        (row(), report(slot(NEW), state=UpdateState.COMMITTED), Tone.GOOD, "serving"),
        (row(), report(slot(OLD), state=UpdateState.FETCHING), Tone.BUSY, "updating to 2: fetching"),
        (row(), report(state=UpdateState.FETCHING), Tone.BUSY, "updating to 2: fetching"),
        (row(), report(slot(OLD), state=UpdateState.FELL_BACK), Tone.BUSY, "serving; went back from 2"),
        (row(), report(slot(OLD), state=UpdateState.REFUSED), Tone.BUSY, "serving; refused 2"),
        (row(), report(slot(OTHER), state=UpdateState.REFUSED), Tone.GOOD, "serving"),
        (row(), report(SILENT), Tone.BAD, "does not serve"),
        (row(), report(EMPTY), Tone.OFF, "has no model"),
        (row(), report(), Tone.OFF, "has no model"),
    ],
)
def test_state_in_words(device: Device, reported: Reported | None, tone: Tone, state: str) -> None:
    (line,) = describe_device(device, reported, Findings())
    assert (line.tone, line.state) == (tone, state)


def test_each_model_has_a_line_with_its_own_last_answer() -> None:
    last = AnswerRow(release="birds", words="a blackbird", received_at=NOW)
    lines = describe_device(row(), report(slot(OLD), slot(OTHER)), Findings(last=last))
    assert [(line.model, line.release, line.words) for line in lines] == [
        ("notes", "1", ""),
        ("birds", "1", "a blackbird"),
    ]


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (None, "not tuned"),
        (Candidate(variant="int8", engine="litert", threads=1), "tuned here"),
        (Candidate(variant="int8", engine="onnxruntime", threads=1), "not as tuned"),
        (Candidate(variant="fp32", engine="litert", threads=1), "not as tuned"),
        (Candidate(variant="int8", engine="litert", threads=1, device="CPU"), "tuned here"),
        (Candidate(variant="int8", engine="litert", threads=1, device="GPU"), "not as tuned"),
    ],
)
@pytest.mark.parametrize("is_confirmed", [False, True])
def test_says_whether_the_engine_was_tuned(verdict: Candidate | None, is_confirmed: bool, words: str) -> None:
    verdicts = {}
    if verdict is not None:
        row_of_old = TunedRow(choice=encode(verdict).decode(), is_confirmed=is_confirmed)
        verdicts = {OLD.manifest_sha256: row_of_old}
    serving = replace(slot(OLD), engine="litert", variant="int8", placement=("CPU",))
    (line,) = describe_device(row(), report(serving), Findings(verdicts=verdicts))
    assert line.tuned == ("known choice" if is_confirmed and words == "tuned here" else words)


def test_nothing_is_said_of_tuning_where_nothing_serves() -> None:
    (line,) = describe_device(row(), report(SILENT), Findings())
    assert line.tuned == ""


@pytest.mark.parametrize("state", RolloutState)
@pytest.mark.parametrize("device_state", DeviceState)
def test_a_rollout_has_a_line_in_each_state(state: RolloutState, device_state: DeviceState) -> None:
    rollout = Rollout(
        id=7, release="notes", version=2, state=state, reason="", created_by="anna", created_at=NOW, approvals_needed=1
    )
    attempt = RolloutDevice(rollout_id=7, device_id="d-yard", state=device_state, reason="slow", wave=2)
    line = describe_rollout(rollout, [(attempt, row())])
    assert line.state.startswith(state.value)
    assert (line.attempts[0].state, line.reason) == (device_state.value, "")


def test_a_rollout_in_waves_says_what_its_gate_found() -> None:
    rollout = Rollout(
        id=7, release="notes", version=2, state=RolloutState.RUNNING, reason="", created_by="", created_at=NOW
    )
    waves = [
        RolloutWave(rollout_id=7, number=1, state=WaveState.PASSED, verdict="1 of 1", finished_at=NOW),
        RolloutWave(rollout_id=7, number=2, state=WaveState.RUNNING, verdict="3 to come", finished_at=None),
    ]
    attempt = RolloutDevice(rollout_id=7, device_id="d-yard", state=DeviceState.UPDATING, reason="", wave=2)
    line = describe_rollout(rollout, [(attempt, row())], waves=waves)
    assert (line.reason, line.attempts[0].state) == ("wave 2 of 2 is running: 3 to come", "updating (wave 2)")
    rollout.reason = "paused by anna"
    assert describe_rollout(rollout, [], waves=waves).reason == "paused by anna"
    rollout.reason, rollout.state = "", RolloutState.ABORTED
    assert describe_rollout(rollout, [], waves=waves).reason == ""
