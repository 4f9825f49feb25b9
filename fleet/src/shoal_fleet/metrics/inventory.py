"""What is there at this moment: how many devices, certificates, rollouts and documents, in which states?"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from sqlalchemy import ColumnElement, case, func, select
from sqlalchemy.orm import Session

from shoal_fleet.devices import service as devices
from shoal_fleet.devices.models import Device
from shoal_fleet.messaging.models import RefusedMessages
from shoal_fleet.metrics.tallies import OTHER, Labels
from shoal_fleet.rollouts.machine import UNFINISHED, DeviceState, RolloutState
from shoal_fleet.rollouts.models import DesiredRow, Rollout, RolloutDevice
from shoal_fleet.trust.expiry import list_expiries

DEVICE_STATES = ("online", "offline", "silent", "held", "revoked")
"""`silent`: enrolled, but never reported. A device is in one of them: the last that applies."""

MOST_PROFILES = 32
MOST_VERSIONS = 16
"""Of agents. Both names are the devices' own word, so those that fewer devices have become one."""

_DAY_S = 86_400.0
REMAINING: Mapping[str, float] = {"expired": 0.0, "1d": _DAY_S, "3d": 3 * _DAY_S, "7d": 7 * _DAY_S}
"""Classes of certificates by what is left of them, with the bound that each stays below; above the last is `longer`."""


def read_inventory(session: Session, *, now: float) -> Iterator[Metric]:
    """Look at the whole fleet."""
    yield _count_devices(session)
    yield _count_agents(session)
    yield _count_certificates(session, now=now)
    yield _read_metadata(session)
    yield from _count_rollouts(session)
    yield _count_unpublished(session)
    yield _count_refused(session)


def keep_most_frequent(counts: Mapping[Labels, int], *, label: int, most: int) -> dict[Labels, int]:
    """Counts in which the label at that place has at most that many values of its own, and `OTHER` for the rest."""
    by_value: Counter[str] = Counter()
    for labels, count in counts.items():
        by_value[labels[label]] += count
    kept = {value for value, _ in sorted(by_value.items(), key=lambda item: (-item[1], item[0]))[:most]}
    merged: Counter[Labels] = Counter()
    for labels, count in counts.items():
        value = labels[label] if labels[label] in kept else OTHER
        merged[(*labels[:label], value, *labels[label + 1 :])] += count
    return dict(merged)


def classify_remaining(left_s: float) -> str:
    """Class of a certificate that ends so many seconds from now."""
    return next((name for name, bound in REMAINING.items() if left_s < bound), "longer")


def _count_devices(session: Session) -> Metric:
    state: ColumnElement[str] = case(
        (Device.revoked_at.is_not(None), "revoked"),
        (Device.held_at.is_not(None), "held"),
        (Device.reported_counter == 0, "silent"),
        (Device.is_online, "online"),
        else_="offline",
    )
    rows = session.execute(
        select(Device.project, Device.profile, state, func.count()).group_by(Device.project, Device.profile, state)
    )
    counts = keep_most_frequent(_to_counts(rows.all()), label=1, most=MOST_PROFILES)
    for project, profile, _ in list(counts):  # a state that nobody is in is 0, or a graph would show the last value
        for name in DEVICE_STATES:
            counts.setdefault((project, profile, name), 0)
    return _gauge("shoal_devices", "Devices by state.", ("project", "profile", "state"), counts)


def _count_agents(session: Session) -> Metric:
    rows = session.execute(
        select(Device.agent_version, func.count()).where(Device.revoked_at.is_(None)).group_by(Device.agent_version)
    )
    counts = keep_most_frequent(_to_counts(rows.all()), label=0, most=MOST_VERSIONS)
    return _gauge("shoal_agents", "Devices in use by the version of their agent.", ("version",), counts)


def _count_certificates(session: Session, *, now: float) -> Metric:
    counts: dict[Labels, int] = dict.fromkeys(((name,) for name in (*REMAINING, "longer")), 0)
    for ends_at in devices.certificate_ends(session).values():
        counts[(classify_remaining(ends_at - now),)] += 1
    meaning = (
        "Devices by what is left of their last certificate that isn't revoked: below the bound, above the one before."
    )
    return _gauge("shoal_device_certificates", meaning, ("remaining",), counts)


def _read_metadata(session: Session) -> Metric:
    family = GaugeMetricFamily(
        "shoal_metadata_expiry_timestamp_seconds",
        "When the publisher's signatures end, after which devices install nothing new.",
        labels=("role",),
    )
    for role, (_version, expires_at) in list_expiries(session).items():
        family.add_metric((role,), expires_at)
    return family


def _count_rollouts(session: Session) -> Iterator[Metric]:
    found = _to_counts(session.execute(select(Rollout.state, func.count()).group_by(Rollout.state)).all())
    counts = _at_zero(RolloutState) | found
    yield _gauge("shoal_rollouts", "Rollouts by state, all that there ever were.", ("state",), counts)
    rows = session.execute(
        select(RolloutDevice.state, func.count())
        .join(Rollout, Rollout.id == RolloutDevice.rollout_id)
        .where(Rollout.state.in_(UNFINISHED))
        .group_by(RolloutDevice.state)
    )
    counts = _at_zero(DeviceState) | _to_counts(rows.all())
    yield _gauge("shoal_rollout_devices", "Devices of the rollouts that aren't over.", ("state",), counts)


def _count_unpublished(session: Session) -> Metric:
    waiting = (
        select(func.count())
        .select_from(DesiredRow)
        .join(Device, Device.id == DesiredRow.device_id)
        .where(DesiredRow.published_at.is_(None), Device.revoked_at.is_(None), Device.held_at.is_(None))
    )
    count = session.scalars(waiting).one()
    return GaugeMetricFamily(
        "shoal_desired_unpublished", "Desired documents that the broker hasn't confirmed.", value=count
    )


def _count_refused(session: Session) -> Metric:
    family = CounterMetricFamily(
        "shoal_refused_messages", "Messages of devices that were refused.", labels=("channel",)
    )
    total = select(RefusedMessages.channel, func.sum(RefusedMessages.count)).group_by(RefusedMessages.channel)
    for channel, count in session.execute(total):
        family.add_metric((channel,), count)
    return family


def _to_counts(rows: Iterable[Sequence[Any]]) -> dict[Labels, int]:
    """Of rows that hold values and, last, their number."""
    counts: dict[Labels, int] = {}
    for *values, count in rows:
        labels = tuple(value.value if isinstance(value, DeviceState | RolloutState) else str(value) for value in values)
        counts[labels] = count
    return counts


def _at_zero(states: Iterable[DeviceState | RolloutState]) -> dict[Labels, int]:
    return {(state.value,): 0 for state in states}


def _gauge(name: str, meaning: str, labels: Sequence[str], counts: Mapping[Labels, int]) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=labels)
    for values, count in sorted(counts.items()):
        family.add_metric(values, count)
    return family
