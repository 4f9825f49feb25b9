"""Which quantization of a model is good enough? Methods in the order of their cost, then layers left in float.

The tool and the measure of accuracy are the caller's: nothing here reads a file or starts a program.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from shoal_converters.errors import BadModel, PathFailed
from shoal_converters.evaluation import Unfit
from shoal_converters.forms import Form
from shoal_converters.paths.messages import QuantizedLayer
from shoal_converters.paths.quantizing import Options
from shoal_converters.quantization.methods import Method
from shoal_converters.quantization.sensitivity import Names, measure_layers
from shoal_converters.report.results import Attempt, Layer

METHODS_SHARE = 0.5
"""Of the time, for methods that quantize all layers."""
SENSITIVITY_SHARE = 0.5
"""Of the time that is left, for finding the sensitive layers; the rest is for trying without them."""
LEAST_S = 30.0
"""An attempt gets at least so long."""
MAX_FLOAT_SHARE = 0.5
"""Of the layers: with more in float, hardly anything is quantized."""
ROUNDING = 1e-9
"""0.99 - 0.98 is more than 0.01 in floating point."""
NAMED = 5
"""So many layers are named in a sentence."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """How good a form is: the task's metric, and how much lower that is than the original's."""

    value: float
    drop: float


@dataclass(frozen=True, kw_only=True)
class Quantized:
    """What a tool made."""

    form: Form
    layers: tuple[QuantizedLayer, ...]
    """Those that are quantized, in the order of the graph."""
    unquantizable: tuple[QuantizedLayer, ...] = ()
    notes: tuple[str, ...] = ()


class Tool(Protocol):
    """Quantizes one model into one variant."""

    @property
    def methods(self) -> Sequence[Method]:
        """What it can do, the cheapest first."""

    def quantize(self, options: Options, *, timeout_s: float) -> Quantized:
        """Make a form.

        Raises:
            BadModel, PathFailed: it can't, with these options, or it took too long.
        """

    def measure(self, groups: Sequence[Names], budget_s: float, *, options: Options) -> Sequence[float | None]:
        """How far the outputs move with each group of layers quantized alone; None where the time was up.

        Raises:
            BadModel, PathFailed: it can't.
        """


Evaluate = Callable[[Form], Score]
"""Raises Unfit where no engine here takes the form."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What came of a search."""

    form: Form | None
    """The first that keeps the budget; None if none did."""
    attempts: tuple[Attempt, ...]
    """One that didn't load, or couldn't be made, answers nothing: its value is 0, its drop the original's value."""
    layers: tuple[Layer, ...] = ()
    """The most sensitive first, where they had to be found."""
    reason: str = ""
    """What to know: why there is none, and which layers are to blame; or which are left in float."""
    nearest: Form | None = None
    """Where none keeps the budget: the one that comes nearest."""


@dataclass(frozen=True, kw_only=True)
class _Try:
    """An attempt that could be measured."""

    words: str
    options: Options
    quantized: Quantized
    score: Score

    @property
    def drop(self) -> float:
        return self.score.drop if math.isfinite(self.score.drop) else math.inf


@dataclass(kw_only=True)
class _Search:
    """The state of a search."""

    tool: Tool
    evaluate: Evaluate
    max_drop: float
    original_value: float
    end_s: float
    clock: Callable[[], float]
    on_attempt: Callable[[Attempt], None] | None
    attempts: list[Attempt] = field(default_factory=list)
    tries: list[_Try] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unquantizable: tuple[str, ...] = ()

    @property
    def left_s(self) -> float:
        return self.end_s - self.clock()

    def attempt(self, words: str, options: Options, *, timeout_s: float) -> _Try | None:
        """Quantize and measure once; None where that failed."""
        options = msgspec.structs.replace(
            options, float_layers=tuple(dict.fromkeys((*self.unquantizable, *options.float_layers)))
        )
        started_s = self.clock()
        quantized: Quantized | None = None
        try:
            quantized = self.tool.quantize(options, timeout_s=max(LEAST_S, timeout_s))
            score = self.evaluate(quantized.form)
        except (BadModel, PathFailed, Unfit) as error:
            self.failures.append(f"{error}")
            size = quantized.form.size_bytes if quantized else 0
            self._record(words, Score(value=0.0, drop=self.original_value), size, started_s, note=f"{error}")
            return None
        self.unquantizable = (*self.unquantizable, *(layer.name for layer in quantized.unquantizable))
        self.notes += [note for note in quantized.notes if note not in self.notes]
        self._record(words, score, quantized.form.size_bytes, started_s, note="; ".join(quantized.notes))
        self.tries.append(_Try(words=words, options=options, quantized=quantized, score=score))
        return self.tries[-1]

    def is_kept(self, one: _Try) -> bool:
        """Whether the budget is."""
        return one.drop <= self.max_drop + ROUNDING

    def _record(self, words: str, score: Score, size_bytes: int, started_s: float, *, note: str) -> None:
        made = Attempt(
            method=words,
            value=score.value,
            drop=score.drop,
            size_bytes=size_bytes,
            seconds=self.clock() - started_s,
            note=note,
        )
        self.attempts.append(made)
        if self.on_attempt is not None:
            self.on_attempt(made)


def search(
    variant: str,
    *,
    tool: Tool,
    evaluate: Evaluate,
    max_drop: float,
    original_value: float,
    budget_s: float,
    clock: Callable[[], float] = time.monotonic,
    on_attempt: Callable[[Attempt], None] | None = None,
) -> Found:
    """Try until a form drops by at most `max_drop`, or the time is up; one attempt is always made and gets all of it.

    What was made is measured, so the time may be exceeded by that.
    """
    state = _Search(
        tool=tool,
        evaluate=evaluate,
        max_drop=max_drop,
        original_value=original_value,
        end_s=clock() + budget_s,
        clock=clock,
        on_attempt=on_attempt,
    )
    for method in tool.methods:
        left_s = state.left_s - (1 - METHODS_SHARE) * budget_s if state.attempts else budget_s
        if left_s <= 0:
            break
        made = state.attempt(method.words, method.options, timeout_s=left_s)
        if made and state.is_kept(made):
            return _found(state, made, layers=(), words="")
    if not state.tries:
        return Found(
            form=None, attempts=tuple(state.attempts), reason="; ".join(dict.fromkeys(state.failures)) or "no method"
        )
    return _search_float_layers(variant, state)


def _search_float_layers(variant: str, state: _Search) -> Found:
    best = min(state.tries, key=lambda one: one.drop)
    layers, trouble = _find_sensitive(state, best)
    kept = _leave_out(state, best, layers)
    if kept is None:
        nearest = min(state.tries, key=lambda one: one.drop)
        return Found(
            form=None,
            attempts=tuple(state.attempts),
            layers=_mark(layers, nearest.options.float_layers),
            reason=_blame(variant, state, nearest, layers, trouble),
            nearest=nearest.quantized.form,
        )
    count = len(kept.options.float_layers) - len(best.options.float_layers)
    return _found(
        state,
        kept,
        layers=_mark(layers, kept.options.float_layers),
        words=f"{count} of {len(best.quantized.layers)} layers are left in float, the most sensitive by measurement: "
        f"{_name(layers[:count])}; with all of them quantized it drops by {best.drop:.4f}",
    )


def _find_sensitive(state: _Search, best: _Try) -> tuple[tuple[Layer, ...], str]:
    """The layers, and why they couldn't be measured if so."""
    if state.left_s <= 0:
        return (), "there was no time left to measure the sensitivity of layers"

    def measure(groups: Sequence[Names], budget_s: float) -> Sequence[float | None]:
        return state.tool.measure(groups, budget_s, options=best.options)

    try:
        layers = measure_layers(
            best.quantized.layers, measure, budget_s=state.left_s * SENSITIVITY_SHARE, clock=state.clock
        )
    except (BadModel, PathFailed) as error:
        return (), f"the sensitivity of layers could not be measured: {error}"
    return layers, ""


def _leave_out(state: _Search, best: _Try, layers: Sequence[Layer]) -> _Try | None:
    """Leave 1, 2, 4, … of the most sensitive layers in float; then see whether fewer would do."""
    most = int(len(best.quantized.layers) * MAX_FLOAT_SHARE)
    sensitive = [layer.name for layer in layers if layer.sensitivity > 0][: max(1, most)]
    kept: _Try | None = None
    failing, count = 0, 1
    while sensitive and kept is None and state.left_s > 0:
        count = min(count, len(sensitive))
        made = _try_without(state, best, sensitive[:count])
        if made and state.is_kept(made):
            kept = made
        elif count == len(sensitive):
            return None
        else:
            failing, count = count, count * 2
    while kept is not None and count - failing > 1 and state.left_s > 0:
        middle = (failing + count) // 2
        made = _try_without(state, best, sensitive[:middle])
        if made and state.is_kept(made):
            kept, count = made, middle
        else:
            failing = middle
    return kept


def _try_without(state: _Search, best: _Try, names: Sequence[str]) -> _Try | None:
    options = msgspec.structs.replace(best.options, float_layers=(*best.options.float_layers, *names))
    layers = "layer" if len(names) == 1 else f"{len(names)} layers"
    return state.attempt(f"{best.words}, the most sensitive {layers} in float", options, timeout_s=state.left_s)


def _mark(layers: Sequence[Layer], in_float: Sequence[str]) -> tuple[Layer, ...]:
    names = set(in_float)
    return tuple(msgspec.structs.replace(layer, is_kept_float=layer.name in names) for layer in layers)


def _found(state: _Search, made: _Try, *, layers: tuple[Layer, ...], words: str) -> Found:
    reason = "; ".join([*state.notes, *([words] if words else [])])
    return Found(form=made.quantized.form, attempts=tuple(state.attempts), layers=layers, reason=reason)


def _blame(variant: str, state: _Search, nearest: _Try, layers: Sequence[Layer], trouble: str) -> str:
    words = [
        f"{variant}: no quantization within a drop of {state.max_drop:g} in {len(state.attempts)} attempts; "
        f"the nearest drops by {nearest.drop:.4f}"
    ]
    if state.left_s <= 0:
        words.append("the time for the search was up")
    if layers:
        words.append(f"the layers to blame, by what quantizing them alone changes: {_name(layers)}")
    return "; ".join([*words, *([trouble] if trouble else []), *state.notes])


def _name(layers: Sequence[Layer]) -> str:
    named = ", ".join(f"{layer.name} ({layer.operator}, {layer.sensitivity:.2g})" for layer in layers[:NAMED])
    return f"{named}{', …' if len(layers) > NAMED else ''}"
