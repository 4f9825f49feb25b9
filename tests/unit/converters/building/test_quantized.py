"""How a search is set up and what is kept of it, with a tool that quantizes nothing."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from shoal_converters.building.quantized import Quantizer
from shoal_converters.errors import PathFailed, ToolMissing
from shoal_converters.paths.messages import QuantizedLayer
from shoal_converters.paths.quantizing import Options
from shoal_converters.quantization.methods import METHODS, Method
from shoal_converters.quantization.search import Quantized
from shoal_converters.quantization.sensitivity import Names
from shoal_converters.recipe import Budget

from tests.unit.converters.building.contest import RIGHT, FakeEngine, form, make_judge, say

LAYERS = (QuantizedLayer("wide", "Gemm"), QuantizedLayer("head", "Gemm"))
WRONG = ("dog", "dog", "cat", "dog")


class FakeTool:
    """Every method gives the same files; or an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.methods: Sequence[Method] = METHODS["onnx-int8"][:2]
        self._error = error

    def quantize(self, options: Options, *, timeout_s: float) -> Quantized:
        if self._error is not None:
            raise self._error
        return Quantized(form=form("onnx-int8"), layers=LAYERS)

    def measure(self, groups: Sequence[Names], budget_s: float, *, options: Options) -> Sequence[float | None]:
        return [0.5 if "wide" in group else 0.1 for group in groups]


class FakeToolbox:
    """One tool for all variants."""

    def __init__(self, tool: FakeTool) -> None:
        self.calibrations: list[Path | None] = []
        self._tool = tool

    def tool(self, variant: str, *, calibration: Path | None) -> FakeTool:
        self.calibrations.append(calibration)
        return self._tool


def make_quantizer(
    tool: FakeTool,
    *,
    answered: Sequence[str] = RIGHT,
    collect: Callable[[], Path | None] = lambda: Path("calls.npz"),
    lines: list[str] | None = None,
) -> tuple[Quantizer, FakeEngine, FakeToolbox]:
    engine = FakeEngine({"original": say(*RIGHT), "onnx-int8": say(*answered)})
    tools = FakeToolbox(tool)
    tell = (lines if lines is not None else []).append
    return Quantizer(tools, make_judge(engine), Budget(), collect=collect, tell=tell), engine, tools


def test_a_form_within_the_budget_is_described_and_was_asked_once() -> None:
    quantizer, engine, tools = make_quantizer(FakeTool())
    contender = quantizer.quantize("onnx-int8")
    assert contender is not None and contender.judged is not None
    assert contender.result.drop == 0.0
    assert [one.method for one in contender.result.attempts] == ["min-max, per tensor"]
    assert engine.asked == ["original", "onnx-int8"]
    assert tools.calibrations == [Path("calls.npz")]


def test_where_none_keeps_the_budget_the_nearest_is_described_with_the_layers_to_blame() -> None:
    quantizer, _, _ = make_quantizer(FakeTool(), answered=WRONG)
    contender = quantizer.quantize("onnx-int8")
    assert contender is not None
    assert contender.result.drop == 0.25
    assert [layer.name for layer in contender.result.layers] == ["wide", "head"]
    assert "the layers to blame" in contender.result.reason and "wide (Gemm" in contender.result.reason


def test_what_takes_long_is_told_before_it_is_done() -> None:
    lines: list[str] = []
    quantizer, _, _ = make_quantizer(FakeTool(), answered=WRONG, lines=lines)
    quantizer.quantize("onnx-int8")
    assert lines[:2] == ["onnx-int8: quantizing", "onnx-int8: min-max, per tensor: 0.7500, -0.2500, 0 s"]
    assert any(line.startswith("onnx-int8: measuring how sensitive 2 groups of layers are") for line in lines)


@pytest.mark.parametrize("error", [ToolMissing("onnx isn't installed"), PathFailed("onnx_int8: killed by SIGKILL")])
def test_a_variant_that_no_attempt_gives_is_missing_with_the_tools_words(error: Exception) -> None:
    quantizer, _, _ = make_quantizer(FakeTool(error))
    assert quantizer.quantize("onnx-int8") is None
    assert str(error) in quantizer.missing["onnx-int8"]


def test_without_a_calibration_set_only_what_needs_none_is_made() -> None:
    quantizer, _, tools = make_quantizer(FakeTool(), collect=lambda: None)
    assert quantizer.quantize("onnx-int8") is None
    assert "needs a calibration set" in quantizer.missing["onnx-int8"]
    assert quantizer.quantize("tflite-int8-dynamic") is not None
    assert tools.calibrations == [None]
