"""How does a test read metrics? With the parser of another reader of that format."""

from collections.abc import Iterable, Mapping

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]


def samples(families: Iterable[Metric]) -> dict[tuple[str, Labels], float]:
    """Value by name and labels; bounds of buckets are written as Python writes numbers."""
    return {(one.name, _labels(one.labels)): one.value for family in families for one in family.samples}


def value(families: Iterable[Metric], name: str, **labels: str) -> float:
    """The value of one sample."""
    return samples(families)[name, _labels(labels)]


def _labels(labels: Mapping[str, str]) -> Labels:
    return frozenset((name, str(float(text)) if name == "le" else text) for name, text in labels.items())


def parse(text: str) -> list[Metric]:
    """Families of an exposition in the text format."""
    return list(text_string_to_metric_families(text))


def sample_names(families: Iterable[Metric]) -> set[str]:
    """Names under which samples of these families can be asked for, whether there are any yet or not."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    return {family.name + suffix for family in families for suffix in suffixes.get(family.type, ("",))}
