"""Is everything that there is counted in the state that it is in?"""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices.models import Device, DeviceCertificate
from shoal_fleet.messaging.models import RefusedMessages
from shoal_fleet.metrics.inventory import MOST_PROFILES, classify_remaining, keep_most_frequent, read_inventory
from shoal_fleet.metrics.tallies import OTHER
from shoal_fleet.rollouts.machine import DeviceState, RolloutState
from shoal_fleet.rollouts.models import DesiredRow, Rollout, RolloutDevice

from tests.unit.fleet.boards import NOW, Board
from tests.unit.fleet.metrics.samples import samples, value

DAY_S = 86_400.0
_serial = itertools.count(1)


def add_device(sessions: Sessions, name: str, **values: object) -> str:
    """A device with some columns set; one that has reported unless they say otherwise."""
    board = Board(name)
    board.enrol(sessions)
    with sessions() as session, writing(session):
        device = session.get_one(Device, board.id)
        for column, content in {"reported_counter": 1, **values}.items():
            setattr(device, column, content)
    return board.id


def read(sessions: Sessions, name: str, **labels: str) -> float:
    with sessions() as session:
        return value(read_inventory(session, now=NOW), name, **labels)


@pytest.mark.parametrize(
    ("state", "values"),
    [
        ("online", {"is_online": True}),
        ("offline", {"is_online": False}),
        ("silent", {"reported_counter": 0, "is_online": True}),
        ("held", {"held_at": NOW, "is_online": True}),
        ("revoked", {"revoked_at": NOW, "held_at": NOW}),
    ],
)
def test_a_device_is_in_one_state(sessions: Sessions, state: str, values: dict[str, object]) -> None:
    add_device(sessions, "a", **values)
    found = {
        one: read(sessions, "shoal_devices", project="default", profile="generic", state=one)
        for one in ("online", "offline", "silent", "held", "revoked")
    }
    assert found == {one: int(one == state) for one in found}


def test_devices_that_call_themselves_ever_new_things_share_one_series(sessions: Sessions) -> None:
    for number in range(MOST_PROFILES + 5):
        add_device(sessions, f"b{number}", profile=f"invented-{number}", agent_version=f"0.0.{number}")
    add_device(sessions, "twice", profile="invented-0")
    with sessions() as session:
        found = samples(read_inventory(session, now=NOW))
    profiles = {dict(labels)["profile"] for name, labels in found if name == "shoal_devices"}
    assert len(profiles) == MOST_PROFILES + 1
    assert {OTHER, "invented-0"} <= profiles
    assert sum(count for (name, _), count in found.items() if name == "shoal_devices") == MOST_PROFILES + 6


@given(
    st.dictionaries(st.tuples(st.sampled_from("abcdef"), st.sampled_from("xy")), st.integers(1, 9)), st.integers(1, 7)
)
def test_no_count_is_lost_when_names_are(counts: dict[tuple[str, ...], int], most: int) -> None:
    kept = keep_most_frequent(counts, label=0, most=most)
    assert sum(kept.values()) == sum(counts.values())
    assert len({labels[0] for labels in kept} - {OTHER}) <= most


def test_revoked_devices_are_no_agents_in_use(sessions: Sessions) -> None:
    add_device(sessions, "a", agent_version="1.2.3")
    add_device(sessions, "b", agent_version="1.2.3", revoked_at=NOW)
    assert read(sessions, "shoal_agents", version="1.2.3") == 1


@pytest.mark.parametrize(
    ("left_s", "name"),
    [(-1.0, "expired"), (0.0, "1d"), (DAY_S, "3d"), (3 * DAY_S, "7d"), (7 * DAY_S, "longer"), (1e9, "longer")],
)
def test_classes_of_what_is_left_of_a_certificate(left_s: float, name: str) -> None:
    assert classify_remaining(left_s) == name


def test_a_devices_last_certificate_counts(sessions: Sessions) -> None:
    device = add_device(sessions, "a")
    with sessions() as session, writing(session):
        for ends_in_s, revoked_at in ((DAY_S / 2, None), (2 * DAY_S, None), (20 * DAY_S, NOW)):
            session.add(
                DeviceCertificate(
                    serial=f"{next(_serial):x}", device_id=device, not_after=NOW + ends_in_s, revoked_at=revoked_at
                )
            )
    assert read(sessions, "shoal_device_certificates", remaining="3d") == 1
    assert read(sessions, "shoal_device_certificates", remaining="1d") == 0


def test_rollouts_and_the_devices_of_those_that_are_not_over(sessions: Sessions) -> None:
    device = add_device(sessions, "a")
    with sessions() as session, writing(session):
        for number, state in enumerate((RolloutState.RUNNING, RolloutState.SUCCEEDED), start=1):
            session.add(
                Rollout(
                    id=number,
                    release="a",
                    version=number,
                    manifest_sha256="a" * 64,
                    probation="{}",
                    state=state,
                    created_at=NOW,
                )
            )
            session.flush()
            session.add(
                RolloutDevice(
                    rollout_id=number,
                    device_id=device,
                    state=DeviceState.UPDATING,
                    epoch=1,
                    generation=1,
                    assigned_at=NOW,
                    changed_at=NOW,
                )
            )
    assert [read(sessions, "shoal_rollouts", state=state) for state in ("running", "succeeded", "failed")] == [1, 1, 0]
    assert read(sessions, "shoal_rollout_devices", state="updating") == 1


def test_documents_that_the_broker_has_not_confirmed(sessions: Sessions) -> None:
    for name, published_at, revoked_at in (("a", None, None), ("b", NOW, None), ("c", None, NOW)):
        device = add_device(sessions, name, revoked_at=revoked_at)
        with sessions() as session, writing(session):
            session.add(DesiredRow(device_id=device, epoch=1, generation=1, document=b"{}", published_at=published_at))
    assert read(sessions, "shoal_desired_unpublished") == 1


def test_refused_messages_of_all_devices(sessions: Sessions) -> None:
    with sessions() as session, writing(session):
        for device, count in (("d-a", 2), ("d-b", 3)):
            session.add(
                RefusedMessages(device_id=device, channel="batch", count=count, last_reason="nonsense", last_at=NOW)
            )
    assert read(sessions, "shoal_refused_messages_total", channel="batch") == 5
