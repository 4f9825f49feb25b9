"""How do these tests convert a model as the workbench does, and run what was made in an engine of its format?"""

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray
from shoal_agent.front.bindings import Bindings
from shoal_converters.paths import COREML_RUN, PATHS, SOURCE_RUNS, TENSORRT_CHECK
from shoal_converters.paths.call_files import read_calls, write_calls
from shoal_converters.paths.messages import Made, Reply, Request
from shoal_converters.paths.process import find_missing, run_path
from shoal_wire.manifest import Tensor

Array = NDArray[Any]

TIMEOUT_S = 600.0
KNOWN = {path.module: path for path in (*PATHS, COREML_RUN, TENSORRT_CHECK, *SOURCE_RUNS)}


@dataclass(frozen=True, kw_only=True)
class Converted:
    """A reply, and where its files lie."""

    reply: Reply
    folder: Path

    @property
    def made(self) -> Made:
        """The only form."""
        (made,) = self.reply.made
        return made

    @property
    def file(self) -> Path:
        """Its first file."""
        return self.folder / self.made.files[0]


def need(*modules: str) -> None:
    """Skip a test, with the reason, where a framework that it makes models with isn't installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed here: make test-converters")


def convert(
    module: str,
    source: Path | str,
    model_format: str,
    *,
    folder: Path,
    variants: Sequence[str] = (),
    inputs: Sequence[Tensor] = (),
    outputs: Sequence[Tensor] = (),
    calibration: Path | None = None,
    code_folder: Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> Converted:
    """Run a path in a process of its own; skip where its frameworks are missing."""
    path = KNOWN[module]
    missing = find_missing(path, interpreters={})
    if missing:
        pytest.skip(missing)
    out = folder / f"{module}-{len(list(folder.iterdir()))}"
    out.mkdir()
    request = Request(
        source=f"{source}",
        format=model_format,
        folder=f"{out}",
        variants=tuple(variants) or path.gives or ("checked",),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        calibration=f"{calibration or ''}",
        code_folder=f"{code_folder or ''}",
        options=dict(options or {}),
    )
    reply = run_path(
        path, request, interpreters={}, timeout_s=TIMEOUT_S, on_line=lambda line: print(line, file=sys.stderr)
    )
    return Converted(reply=reply, folder=out)


def run(
    converted: Converted, calls: Sequence[Mapping[str, Array]], *, made: Made | None = None
) -> list[dict[str, Array]]:
    """Outputs of each call by the signature's names; calls have arrays by the signature's names."""
    made = made or converted.made
    assert not converted.reply.refused
    bindings = Bindings(made.bindings, inputs=converted.reply.inputs, outputs=converted.reply.outputs)
    feeds = [bindings.to_file(call) for call in calls]
    outputs = RUNNERS[made.format](converted.folder, made, feeds)
    return [bindings.from_file(one) for one in outputs]


def answer(
    module: str,
    source: Path | str,
    model_format: str,
    calls: Sequence[Mapping[str, Array]],
    *,
    folder: Path,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    code_folder: Path | None = None,
) -> list[dict[str, Array]]:
    """What a source gives to calls in its own framework."""
    write_calls(folder / "asked.npz", calls)
    ran = convert(
        module,
        source,
        model_format,
        folder=folder,
        inputs=inputs,
        outputs=outputs,
        calibration=folder / "asked.npz",
        code_folder=code_folder,
    )
    assert not ran.reply.refused
    return read_calls(ran.file, count=len(calls))


def _run_onnx(folder: Path, made: Made, feeds: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
    import onnxruntime

    session = onnxruntime.InferenceSession(f"{folder / made.files[0]}", providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    return [dict(zip(names, session.run(None, dict(call)), strict=True)) for call in feeds]


def _run_tflite(folder: Path, made: Made, feeds: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=f"{folder / made.files[0]}", num_threads=1)
    found = []
    for call in feeds:
        inputs = {one["name"]: one["index"] for one in interpreter.get_input_details()}
        for name, array in call.items():
            interpreter.resize_tensor_input(inputs[name], array.shape)
        interpreter.allocate_tensors()
        for name, array in call.items():
            interpreter.set_tensor(inputs[name], array)
        interpreter.invoke()
        found.append({one["name"]: interpreter.get_tensor(one["index"]) for one in interpreter.get_output_details()})
    return found


def _run_openvino(folder: Path, made: Made, feeds: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    import openvino

    compiled = openvino.Core().compile_model(f"{folder / made.files[0]}", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return [{min(port.get_names()): array for port, array in compiled(dict(call)).items()} for call in feeds]


def _run_coreml(folder: Path, made: Made, feeds: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
    calls = folder / f"{made.name}-calls.npz"
    write_calls(calls, feeds)
    ran = convert("coreml_run", folder / made.files[0], "coreml", folder=folder, calibration=calls)
    assert not ran.reply.refused
    return read_calls(ran.file, count=len(feeds))


RUNNERS = {"onnx": _run_onnx, "tflite": _run_tflite, "openvino": _run_openvino, "coreml": _run_coreml}
