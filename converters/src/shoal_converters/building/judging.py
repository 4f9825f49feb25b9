"""How good is each form on the evaluation set, compared with the original?"""

import hashlib
import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace
from shoal_agent.front.operations.values import Answer

from shoal_converters.datasets.items import Item
from shoal_converters.errors import BuildFailed, ToolMissing
from shoal_converters.evaluation import Answers, Unfit
from shoal_converters.forms import Form
from shoal_converters.quantization.search import Score
from shoal_converters.report.pictures import draw_item
from shoal_converters.report.results import Confusion, Example, VariantResult
from shoal_converters.statistics import find_difference, find_interval
from shoal_converters.tasks import ANSWERED
from shoal_converters.tasks.task import Scored, Task

WORST = 6
CONFUSIONS = 20
LEAST_LOSS = 0.01
"""Of an answer's rating, in [0, 1], that is worth a look: half precision alone moves ratings by thousandths."""

Answering = Callable[[Form], Answers]
"""Has a form answer the whole set. Raises Unfit, ToolMissing."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A form, its answers, and how they were scored."""

    form: Form
    answers: tuple[Answer, ...]
    judged_in: str
    scored: Scored


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A form that may become a variant, with what is known of it so far."""

    form: Form
    result: VariantResult
    judged: Judged | None = None
    """None where it couldn't answer here; the result's reason says why."""


class Judge:
    """The evaluation set, and what the original says of it."""

    def __init__(self, original: Form, items: Sequence[Item], *, task: Task, answer: Answering) -> None:
        """Have the original answer the whole set.

        Raises:
            Unfit: it can't.
            ToolMissing: no engine here runs it.
            BuildFailed: its answers are none of the task, or the metric isn't defined for them.
        """
        self.items = tuple(items)
        self.task = task
        self._expected = [item.expected for item in items]
        self._answer = answer
        self.original = self._score(original, self._ask(original))
        if math.isnan(self.original.scored.value):
            raise BuildFailed(
                f"{task.metric} is not defined for the evaluation set, by what the original answers to it"
            )

    def judge(self, form: Form) -> Judged:
        """Have a form answer the whole set; one that has the original's very files has its answers.

        Raises:
            Unfit: it can't.
            ToolMissing: no engine here runs it.
        """
        if _is_same(form, self.original.form):
            return self._score(form, Answers(judged_in=self.original.judged_in, answers=self.original.answers))
        return self._score(form, self._answer(form))

    def compare(self, judged: Judged) -> Score:
        """What a search asks of a form."""
        value = judged.scored.value
        return Score(value=value, drop=self.original.scored.value - value)

    def consider(self, form: Form) -> Contender:
        """A form as a contender, with a reason where it can't answer."""
        try:
            return self.describe(self.judge(form))
        except (Unfit, ToolMissing) as error:
            return Contender(form=form, result=replace(describe_files(form), reason=str(error)))

    def describe(self, judged: Judged) -> Contender:
        """A form with all that its answers tell."""
        difference = find_difference(self.original.scored, judged.scored)
        agreements = map(self.task.agree, self.original.answers, judged.answers)
        result = replace(
            describe_files(judged.form),
            judged_in=judged.judged_in,
            value=judged.scored.value,
            interval=find_interval(judged.scored),
            drop=difference.drop,
            drop_interval=difference.interval,
            agreement=sum(agreements) / len(self.items),
            confusions=self._list_confusions(judged),
            worst=self._list_worst(judged),
        )
        return Contender(form=judged.form, result=result, judged=judged)

    def _ask(self, original: Form) -> Answers:
        answers = self._answer(original)
        wanted, found = ANSWERED[self.task.name], answers.answers[0]
        if wanted not in found:
            raise BuildFailed(
                f"the recipe's post gives answers with {sorted(found)}, but {self.task.name} needs {wanted!r}: "
                "end post with another operation, or name another task"
            )
        return answers

    def _score(self, form: Form, answers: Answers) -> Judged:
        return Judged(
            form=form,
            answers=answers.answers,
            judged_in=answers.judged_in,
            scored=self.task.score(answers.answers, self._expected),
        )

    def _list_confusions(self, judged: Judged) -> tuple[Confusion, ...]:
        """Pairs of labels whose number changed, the largest changes first."""
        before = self.task.count_pairs(self.original.answers, self._expected)
        after = self.task.count_pairs(judged.answers, self._expected)
        changed = [
            Confusion(expected=pair[0], answered=pair[1], original=before.get(pair, 0), variant=after.get(pair, 0))
            for pair in sorted({*before, *after})
            if before.get(pair, 0) != after.get(pair, 0)
        ]
        return tuple(sorted(changed, key=lambda one: -abs(one.variant - one.original))[:CONFUSIONS])

    def _list_worst(self, judged: Judged) -> tuple[Example, ...]:
        """Items that lost most of how right their answer was, and noticeably."""
        rate = self.task.rate
        losses = [
            rate(original, expected) - rate(answer, expected)
            for original, answer, expected in zip(self.original.answers, judged.answers, self._expected, strict=True)
        ]
        places = heapq.nlargest(WORST, range(len(losses)), key=lambda place: losses[place])
        return tuple(self._show(place, judged) for place in places if losses[place] > LEAST_LOSS)

    def _show(self, place: int, judged: Judged) -> Example:
        item, say = self.items[place], self.task.describe
        return Example(
            item=item.name,
            expected=say(item.expected),
            original=say(self.original.answers[place]),
            variant=say(judged.answers[place]),
            score=self.task.rate(judged.answers[place], item.expected),
            picture=draw_item(item),
        )


def describe_files(form: Form) -> VariantResult:
    """What is known of a form without running it."""
    return VariantResult(
        name=form.name,
        format=form.format,
        precision=form.precision,
        how=form.how,
        size_bytes=form.size_bytes,
        sha256s={name: hashlib.sha256(content).hexdigest() for name, content in form.files.items()},
        runtimes=form.runtimes,
    )


def _is_same(form: Form, other: Form) -> bool:
    """Whether two forms are the same bytes, read and bound in the same way; names of files don't count."""
    return (form.format, form.bindings, form.runtimes, *form.files.values()) == (
        other.format,
        other.bindings,
        other.runtimes,
        *other.files.values(),
    )
