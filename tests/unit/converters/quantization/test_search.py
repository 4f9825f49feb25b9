"""Does a search stop at the first form that is good enough, and otherwise name the layers to blame?"""

from collections.abc import Callable, Sequence

import pytest
from shoal_converters.errors import PathFailed, ToolMissing
from shoal_converters.evaluation import Unfit
from shoal_converters.forms import Form
from shoal_converters.paths.messages import QuantizedLayer
from shoal_converters.paths.quantizing import Options
from shoal_converters.quantization.methods import PER_CHANNEL, PER_TENSOR, PERCENTILE
from shoal_converters.quantization.search import Found, Quantized, Score, search

LAYERS = tuple(QuantizedLayer(f"l{place}", "Conv") for place in range(8))


class FakeTool:
    """A model of layers, of which some cost accuracy when they are quantized. Every call takes a second."""

    methods = (PER_TENSOR, PER_CHANNEL, PERCENTILE)

    def __init__(self, costs: dict[str, float], *, better: dict[str, float] | None = None) -> None:
        self._costs = costs
        self._better = better or {}
        self.asked: list[Options] = []
        self.timeouts_s: list[float] = []
        self.time_s = 0.0

    def quantize(self, options: Options, *, timeout_s: float) -> Quantized:
        self.time_s += 1
        self.asked.append(options)
        self.timeouts_s.append(timeout_s)
        layers = tuple(layer for layer in LAYERS if layer.name not in options.float_layers)
        share = self._better.get(f"{options.method}-{options.per_channel}", 1.0)
        drop = share * sum(self._costs.get(layer.name, 0.0) for layer in layers)
        return Quantized(form=_form(f"{drop}".encode()), layers=layers)

    def measure(
        self, groups: Sequence[tuple[str, ...]], budget_s: float, *, options: Options
    ) -> Sequence[float | None]:
        self.time_s += 1
        return [sum(self._costs.get(name, 0.0) for name in group) for group in groups]

    def clock(self) -> float:
        return self.time_s


def _form(content: bytes) -> Form:
    return Form(name="onnx-int8", format="onnx", precision="int8", files={"m.onnx": content})


def _score(form: Form) -> Score:
    drop = float(form.files["m.onnx"])
    return Score(value=0.9 - drop, drop=drop)


def _search(tool: FakeTool, *, evaluate: Callable[[Form], Score] = _score, budget_s: float = 1000) -> Found:
    return search(
        "onnx-int8",
        tool=tool,
        evaluate=evaluate,
        max_drop=0.01,
        original_value=0.9,
        budget_s=budget_s,
        clock=tool.clock,
    )


def test_the_cheapest_method_that_keeps_the_budget_ends_the_search() -> None:
    tool = FakeTool({"l1": 0.1}, better={"minmax-True": 0.1})
    found = _search(tool)
    assert found.form is not None
    assert [one.method for one in found.attempts] == ["min-max, per tensor", "min-max, per channel"]
    assert [one.drop for one in found.attempts] == pytest.approx([0.1, 0.01])
    assert found.layers == ()


def test_the_layer_to_blame_is_left_in_float_and_named() -> None:
    tool = FakeTool({"l5": 0.2, "l2": 0.004})
    found = _search(tool)
    assert found.form is not None
    assert tool.asked[-1].float_layers == ("l5",)
    assert [layer.name for layer in found.layers if layer.is_kept_float] == ["l5"]
    assert "1 of 8 layers" in found.reason and "l5 (Conv, 0.2)" in found.reason


def test_no_more_layers_than_needed_stay_in_float() -> None:
    tool = FakeTool({"l1": 0.3, "l4": 0.2, "l6": 0.1})
    found = _search(tool)
    assert {layer.name for layer in found.layers if layer.is_kept_float} == {"l1", "l4", "l6"}


def test_says_that_it_cant_and_which_layers_are_to_blame() -> None:
    tool = FakeTool({layer.name: 0.1 for layer in LAYERS} | {"l7": 0.5})
    found = _search(tool)
    assert found.form is None
    assert found.nearest is not None
    assert "no quantization within a drop of 0.01" in found.reason
    assert "to blame" in found.reason and "l7 (Conv, 0.5)" in found.reason


def test_methods_are_tried_for_half_of_the_time_and_the_rest_is_for_single_layers() -> None:
    tool = FakeTool({"l1": 1.0})
    found = _search(tool, budget_s=200)
    assert found.form is not None
    assert tool.timeouts_s[:4] == [200, 99, 98, 196]


def test_what_is_left_when_the_time_is_up_is_not_tried() -> None:
    found = _search(FakeTool({"l1": 1.0}), budget_s=1)
    assert len(found.attempts) == 1
    assert found.form is None
    assert "the time for the search was up" in found.reason
    assert "no time left to measure" in found.reason


def test_a_form_that_no_engine_loads_counts_as_an_attempt_that_answers_nothing() -> None:
    refused = iter([True, False])

    def evaluate(form: Form) -> Score:
        if next(refused):
            raise Unfit("onnxruntime: doesn't take the model")
        return Score(value=0.9, drop=0.0)

    found = _search(FakeTool({}), evaluate=evaluate)
    assert found.form is not None
    first = found.attempts[0]
    assert (first.value, first.drop, first.note) == (0.0, 0.9, "onnxruntime: doesn't take the model")


def test_a_metric_that_is_not_a_number_keeps_no_budget() -> None:
    found = _search(FakeTool({}), evaluate=lambda form: Score(value=float("nan"), drop=float("nan")))
    assert found.form is None


def test_what_every_method_fails_at_is_said_once() -> None:
    class Refusing(FakeTool):
        def quantize(self, options: Options, *, timeout_s: float) -> Quantized:
            raise PathFailed("m.tflite: quantized already")

    found = _search(Refusing({}))
    assert (found.form, found.nearest, found.reason) == (None, None, "m.tflite: quantized already")


def test_a_missing_tool_is_the_callers_to_tell() -> None:
    class Absent(FakeTool):
        def quantize(self, options: Options, *, timeout_s: float) -> Quantized:
            raise ToolMissing("pip install 'shoal-converters[onnx]'")

    with pytest.raises(ToolMissing):
        _search(Absent({}))


def test_layers_that_an_engine_cant_load_quantized_are_not_tried_again() -> None:
    class Breaking(FakeTool):
        def quantize(self, options: Options, *, timeout_s: float) -> Quantized:
            made = super().quantize(options, timeout_s=timeout_s)
            if "l0" in options.float_layers:
                return made
            return Quantized(form=made.form, layers=made.layers[1:], unquantizable=LAYERS[:1], notes=("not l0",))

    tool = Breaking({"l1": 0.1})
    found = _search(tool)
    assert found.form is not None
    assert all("l0" in options.float_layers for options in tool.asked[1:])
    assert "not l0" in found.reason
