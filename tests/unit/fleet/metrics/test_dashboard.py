"""Does the fleet export what the dashboard shows, and is all of it described for people?"""

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from shoal_fleet.database import Sessions
from shoal_fleet.metrics.routes import FleetCollector

from tests.dashboard import expressions, labels_of, metrics_of, read_dashboard
from tests.unit.fleet.boards import NOW
from tests.unit.fleet.metrics.samples import parse, sample_names
from tests.unit.fleet.metrics.test_routes import FACTS

DESCRIPTION = Path(__file__).resolve().parents[4] / "docs" / "monitoring.md"
OF_PROMETHEUS = {"job", "le"}
"""Labels that Prometheus or a histogram brings."""


@pytest.fixture
def families(sessions: Sessions, database: Path) -> list[Metric]:
    registry = CollectorRegistry()
    registry.register(FleetCollector(sessions=sessions, clock=lambda: NOW, database=database, look=lambda: FACTS))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return parse(generate_latest(registry).decode())


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ('sum by (a) (rate(x_total{b=~"$b"}[$__rate_interval]))', {"x_total"}),
        ("histogram_quantile(0.95, sum by (le) (rate(x_bucket[5m])))", {"x_bucket"}),
        ("x / (y + z) > 0", {"x", "y", "z"}),
        ("min(x) - time()", {"x"}),
        ("x and on (a) y offset 5m", {"x", "y", "m"}),
    ],
)
def test_metrics_of_an_expression_are_found(expression: str, names: set[str]) -> None:
    assert metrics_of(expression) - {"m"} == names - {"m"}


def test_labels_of_an_expression_are_found() -> None:
    assert labels_of('sum by (a, b) (x{c="1",d=~"$d"})') == {"a", "b", "c", "d"}


def test_every_metric_of_the_dashboard_is_exported(families: list[Metric]) -> None:
    asked = {name for expression in expressions(read_dashboard()) for name in metrics_of(expression)}
    assert len(asked) > 20
    assert asked - sample_names(families) == set()


def test_every_metric_is_described(families: list[Metric]) -> None:
    described = set(re.findall(r"`(shoal_\w+)`", DESCRIPTION.read_text()))
    exported = {f"{one.name}_total" if one.type == "counter" else one.name for one in families}
    assert {name for name in exported if name.startswith("shoal_")} == described


def test_labels_of_the_dashboard_are_among_those_described() -> None:
    rows = [line for line in DESCRIPTION.read_text().splitlines() if line.startswith("| `shoal_")]
    described = {label for row in rows for label in re.findall(r"`(\w+)`", row.split("|")[2])}
    asked = {label for expression in expressions(read_dashboard()) for label in labels_of(expression)}
    assert asked - OF_PROMETHEUS <= described
