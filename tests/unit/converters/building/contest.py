"""What do a judge and those that it judges look like in a test? Classes of items that each have a file."""

from collections.abc import Mapping, Sequence
from typing import Any

from shoal_converters.building.judging import Judge
from shoal_converters.datasets.items import Item
from shoal_converters.evaluation import Answers, Unfit
from shoal_converters.forms import Form
from shoal_converters.paths import VARIANTS
from shoal_converters.tasks.classification import Classification

LABELS = ("cat", "dog")
RIGHT = ("cat", "dog", "cat", "dog")


def form(name: str, content: bytes | None = None) -> Form:
    """One file; without `content`, one that no other form has."""
    kind = VARIANTS.get(name, VARIANTS["onnx-fp32"])
    return Form(
        name=name,
        format=kind.format,
        precision=kind.precision,
        files={f"{name}.{kind.format}": content or name.encode()},
    )


def classes(first: str, *, score: float = 0.9) -> dict[str, Any]:
    """An answer with that label first."""
    other = next(label for label in LABELS if label != first)
    return {"classes": [{"label": first, "score": score}, {"label": other, "score": round(1 - score, 6)}]}


def items(labels: Sequence[str] = RIGHT) -> list[Item]:
    """As many as labels, which are right."""
    return [
        Item(name=f"{place}", raw=f"item {place}".encode(), expected={"label": label}, suffix=".txt")
        for place, label in enumerate(labels)
    ]


class FakeEngine:
    """Answers by the name of a form; one that it doesn't know is unfit."""

    def __init__(self, answers: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self.asked: list[str] = []
        self._answers = answers

    def __call__(self, asked: Form) -> Answers:
        self.asked.append(asked.name)
        if asked.name not in self._answers:
            raise Unfit("0: output 'y' is missing")
        return Answers(judged_in="fake 1.0", answers=tuple(dict(one) for one in self._answers[asked.name]))


def say(*labels: str, score: float = 0.9) -> list[dict[str, Any]]:
    """Answers with these labels first."""
    return [classes(label, score=score) for label in labels]


def make_judge(engine: FakeEngine) -> Judge:
    """By the form `original`."""
    return Judge(form("original"), items(), task=Classification(), answer=engine)
