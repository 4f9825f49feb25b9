"""What does the Grafana dashboard ask Prometheus for?"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).resolve().parents[1] / "packaging" / "grafana" / "shoal.json"

# PromQL without what isn't a metric: strings, selectors of labels, ranges, and the lists of `by` and `without`.
_NO_METRIC = re.compile(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)')
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*(?!\s*\(|[a-zA-Z0-9_:])")
_KEYWORDS = frozenset({"and", "or", "unless", "bool", "offset", "inf", "nan"})


def read_dashboard() -> dict[str, Any]:
    """The dashboard as Grafana gets it."""
    read = json.loads(DASHBOARD.read_text())
    assert isinstance(read, dict)
    return read


def expressions(dashboard: dict[str, Any]) -> Iterator[str]:
    """Every PromQL expression of panels, annotations and variables (`label_values(metric, label)` gives the metric)."""
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (one["expr"] for one in dashboard["annotations"]["list"])
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["definition"].removeprefix("label_values(").partition(",")[0]


def metrics_of(expression: str) -> set[str]:
    """Names of the metrics in a PromQL expression."""
    return set(_NAME.findall(_NO_METRIC.sub(" ", expression))) - _KEYWORDS


def labels_of(expression: str) -> set[str]:
    """Names of the labels that a PromQL expression selects or groups by."""
    grouped = re.findall(r"\b(?:by|without)\s*\(([^)]*)\)", expression)
    selected = re.findall(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)\s*\"", expression)
    return {name.strip() for names in grouped for name in names.split(",")} | set(selected)
