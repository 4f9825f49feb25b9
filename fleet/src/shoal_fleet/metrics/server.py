"""How is the server itself: does it reach its broker, does it keep up, has it room?"""

import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from shoal_fleet.messaging.inbox import Load


class ServerFacts(NamedTuple):
    """What the program knows of itself at one moment."""

    is_connected: bool
    """To the broker."""
    load: Load
    warnings: int
    """How many there are for an operator (`/api/v1/warnings`)."""


def describe_server(facts: ServerFacts, *, database: Path) -> Iterator[Metric]:
    """What Prometheus is told; `database` is the SQLite file in the state folder."""
    build = GaugeMetricFamily("shoal_build_info", "1, with the fleet's version.", labels=("version",))
    build.add_metric((version("shoal-fleet"),), 1)
    yield build
    for name, meaning, value in (
        ("shoal_broker_connected", "1 while the fleet is connected to its broker.", int(facts.is_connected)),
        (
            "shoal_warnings",
            "Warnings that somebody should look at: /api/v1/warnings has them in words.",
            facts.warnings,
        ),
        ("shoal_inbox_messages", "Messages of devices that wait for the server.", facts.load.messages),
        ("shoal_inbox_bytes", "Bytes of the batches among them.", facts.load.batch_bytes),
        ("shoal_inbox_lag_seconds", "How long the server has not been through with what waits.", facts.load.lag_s),
        ("shoal_database_bytes", "Size of the database.", _size_bytes(database)),
        (
            "shoal_state_free_bytes",
            "Room that is left where the state folder is.",
            shutil.disk_usage(database.parent).free,
        ),
    ):
        yield GaugeMetricFamily(name, meaning, value=value)
    yield CounterMetricFamily(
        "shoal_inbox_left_out_batches",
        "Batches that found no room and will come again.",
        value=facts.load.left_out,
    )


def _size_bytes(database: Path) -> int:
    """With what SQLite has yet to move into the main file."""
    files = (database, database.with_name(database.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
