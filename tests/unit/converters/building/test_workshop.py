"""In what order forms come to be, and what becomes of conversions that fail, with processes that only write names."""

from collections.abc import Mapping
from pathlib import Path as FilePath

import pytest
from shoal_converters.building.workshop import Workshop
from shoal_converters.errors import BadModel, BadRecipe, PathFailed, ToolMissing
from shoal_converters.paths import VARIANTS, Path
from shoal_converters.paths.messages import Made, Reply, Request
from shoal_converters.recipe import Source
from shoal_converters.source_model import SourceModel
from shoal_wire.manifest import Tensor

INPUTS, OUTPUTS = (Tensor("x", "float32", (1, 8)),), (Tensor("y", "float32", (1, 4)),)


class FakeProcesses:
    """Every path gives what it is asked for, but those that are told not to."""

    def __init__(
        self,
        *,
        missing: Mapping[str, str] | None = None,
        fails: Mapping[str, str] | None = None,
        refuses: Mapping[str, str] | None = None,
        is_silent: bool = False,
    ) -> None:
        """`missing` and `fails` by module, `refuses` by variant; `is_silent`: nothing is said of inputs and outputs."""
        self.requests: dict[str, Request] = {}
        self._missing = missing or {}
        self._fails = fails or {}
        self._refuses = refuses or {}
        self._signature = ((), ()) if is_silent else (INPUTS, OUTPUTS)

    def find_missing(self, path: Path, *, interpreters: Mapping[str, str]) -> str:
        return self._missing.get(path.module, "")

    def run_path(self, path: Path, request: Request, *, interpreters: Mapping[str, str], timeout_s: float) -> Reply:
        self.requests[path.module] = request
        if path.module in self._fails:
            raise PathFailed(self._fails[path.module])
        made = []
        for name in request.variants:
            if name not in self._refuses:
                FilePath(request.folder, f"{name}.model").write_text(name)
                kind = VARIANTS[name]
                made.append(
                    Made(name=name, format=kind.format, precision=kind.precision, files=(f"{name}.model",), how="")
                )
        refused = {name: self._refuses[name] for name in request.variants if name in self._refuses}
        inputs, outputs = self._signature
        return Reply(made=tuple(made), refused=refused, inputs=inputs, outputs=outputs, notes=(path.module,))


def open_workshop(
    folder: FilePath, processes: FakeProcesses, *, model_format: str = "onnx", asked: Source | None = None
) -> Workshop:
    source = SourceModel(path=f"/models/m.{model_format}", format=model_format, code_folder="", sha256="0" * 64)
    return Workshop(
        source,
        asked or Source(path=source.path),
        folder=folder / "made",
        samples=folder / "samples.npz",
        interpreters={},
        tell=lambda _: None,
        processes=processes,
    )


def test_each_form_is_made_of_the_one_that_its_path_takes(tmp_path: FilePath) -> None:
    processes = FakeProcesses()
    workshop = open_workshop(tmp_path, processes)
    assert workshop.make(["openvino-fp16"]) == {}
    assert list(workshop.forms) == ["onnx-fp32", "openvino-fp32", "openvino-fp16"]
    assert processes.requests["onnx_fp32"].source == "/models/m.onnx"
    assert processes.requests["openvino_fp16"].source.endswith("openvino-fp32.model")
    assert workshop.forms["openvino-fp16"].files == {"openvino-fp16.model": b"openvino-fp16"}
    assert workshop.notes == ["onnx_fp32", "openvino_fp32", "openvino_fp16"]


def test_what_the_first_path_says_of_the_signature_is_told_to_the_others(tmp_path: FilePath) -> None:
    processes = FakeProcesses()
    asked = Source(path="m", inputs=(Tensor("renamed", "float32", (1, 8)),), outputs=("y",))
    workshop = open_workshop(tmp_path, processes, asked=asked)
    workshop.make(["onnx-fp16"])
    assert processes.requests["onnx_fp32"].inputs == asked.inputs
    assert [one.name for one in processes.requests["onnx_fp32"].outputs] == ["y"]
    assert (processes.requests["onnx_fp16"].inputs, processes.requests["onnx_fp16"].outputs) == (INPUTS, OUTPUTS)
    assert (workshop.signature.inputs, workshop.signature.outputs) == (INPUTS, OUTPUTS)


def test_what_is_searched_for_has_its_source_made_but_not_itself(tmp_path: FilePath) -> None:
    processes = FakeProcesses()
    workshop = open_workshop(tmp_path, processes)
    assert workshop.make(["onnx-int8"]) == {}
    assert list(workshop.forms) == ["onnx-fp32"]
    tool = workshop.tool("onnx-int8", calibration=None)
    assert (tool.path.module, tool.source_format, tool.source.name) == ("onnx_int8", "onnx", "onnx-fp32.model")


def test_every_path_gets_the_samples(tmp_path: FilePath) -> None:
    processes = FakeProcesses()
    open_workshop(tmp_path, processes).make(["openvino-fp16"])
    assert {one.calibration for one in processes.requests.values()} == {f"{tmp_path / 'samples.npz'}"}


def test_a_form_that_is_discarded_goes_with_all_that_was_made_of_it(tmp_path: FilePath) -> None:
    processes = FakeProcesses()
    workshop = open_workshop(tmp_path, processes, model_format="savedmodel")
    wanted = ["onnx-fp32", "tflite-fp32", "tflite-fp16"]
    assert workshop.make(wanted) == {}
    workshop.discard("tflite-fp32", "it computes something else")
    assert list(workshop.forms) == ["onnx-fp32"]
    assert workshop.make(wanted) == {}
    assert "onnx_tflite" in processes.requests
    workshop.discard("tflite-fp32", "so does this")
    assert workshop.make(wanted) == dict.fromkeys(["tflite-fp32", "tflite-fp16"], "it computes something else")


def test_a_path_that_fails_costs_what_only_it_gives(tmp_path: FilePath) -> None:
    workshop = open_workshop(tmp_path, FakeProcesses(fails={"onnx_fp16": "onnx_fp16: killed by SIGSEGV"}))
    assert workshop.make(["onnx-fp16", "openvino-fp32"]) == {"onnx-fp16": "onnx_fp16: killed by SIGSEGV"}
    assert list(workshop.forms) == ["onnx-fp32", "openvino-fp32"]


def test_where_a_path_fails_the_next_that_leads_there_is_tried(tmp_path: FilePath) -> None:
    processes = FakeProcesses(fails={"torch_tflite": "no such operator"})
    workshop = open_workshop(tmp_path, processes, model_format="torch-export")
    assert workshop.make(["tflite-fp32"]) == {}
    assert processes.requests["onnx_tflite"].source.endswith("onnx-fp32.model")


def test_a_variant_that_is_refused_leaves_the_others_of_its_path(tmp_path: FilePath) -> None:
    processes = FakeProcesses(refuses={"tflite-fp16": "it has custom operators"})
    workshop = open_workshop(tmp_path, processes, model_format="savedmodel")
    unreachable = workshop.make(["tflite-fp32", "tflite-fp16"])
    assert "tflite-fp32" in workshop.forms
    assert "tflite-fp16" not in workshop.forms
    assert "it has custom operators" in unreachable["tflite-fp16"] + "".join(workshop.notes)


def test_a_framework_that_is_missing_is_told_for_each_variant_that_needs_it(tmp_path: FilePath) -> None:
    install = "onnx_tflite needs litert_torch, not installed here: pip install 'shoal-converters[litert-torch]'"
    workshop = open_workshop(tmp_path, FakeProcesses(missing={"onnx_tflite": install}))
    assert workshop.make(["onnx-fp32", "tflite-fp32", "tflite-int8"]) == {
        "tflite-fp32": install,
        "tflite-int8": install,
    }


def test_a_broken_model_is_told_in_the_tools_words_and_not_as_a_missing_framework(tmp_path: FilePath) -> None:
    processes = FakeProcesses(
        missing={"onnx_tflite": "litert_torch isn't installed"}, refuses={"onnx-fp32": "m.onnx: not a valid ONNX file"}
    )
    with pytest.raises(BadModel) as caught:
        open_workshop(tmp_path, processes).make(list(VARIANTS))
    assert str(caught.value) == "no conversion of /models/m.onnx worked: m.onnx: not a valid ONNX file"


def test_where_nothing_can_be_made_the_extra_is_named(tmp_path: FilePath) -> None:
    with pytest.raises(ToolMissing, match=r"no variant can be made here: pip install 'shoal-converters\[onnx\]'"):
        open_workshop(tmp_path, FakeProcesses(missing={"onnx_fp32": "pip install 'shoal-converters[onnx]'"})).make(
            ["onnx-fp32", "onnx-int8"]
        )


def test_a_model_that_says_nothing_of_its_inputs_needs_a_recipe_that_does(tmp_path: FilePath) -> None:
    with pytest.raises(BadRecipe, match="name them in the recipe's source"):
        open_workshop(tmp_path, FakeProcesses(is_silent=True)).make(["onnx-fp32"])
