"""Is a conversion that computes something else than its source found out, and another made in its place?

The framework is a fake that computes the network of the digits with NumPy; forms run in real engines.
"""

from collections.abc import Callable, Mapping
from pathlib import Path as FilePath

import numpy as np
import pytest
from shoal_converters.building.job import Job, Order, open_job
from shoal_converters.building.samples import write_samples
from shoal_converters.building.source_check import check_source
from shoal_converters.building.workshop import Workshop
from shoal_converters.errors import BadModel, ToolMissing
from shoal_converters.paths import Path
from shoal_converters.paths.call_files import read_calls, write_calls
from shoal_converters.paths.messages import Made, Reply, Request
from shoal_converters.recipe import load_recipe
from shoal_converters.report.results import SourceComparison
from shoal_wire.manifest import Tensor

from tests.system.converters import digits_material as digits

INPUTS, OUTPUTS = (Tensor("x", "float32", (1, digits.PIXELS)),), (Tensor("y", "float32", (1, digits.CLASSES)),)
CODE = '''
"""Never run: the framework is a fake."""
'''
WRITERS: Mapping[str, tuple[str, Callable[[FilePath, tuple[digits.Array, digits.Array]], None]]] = {
    "torch_onnx": ("model.onnx", digits.write_onnx),
    "torch_tflite": ("model.tflite", digits.write_tflite),
    "onnx_tflite": ("model.tflite", digits.write_tflite),
}


class FakeFramework:
    """Converts by writing a network, the right one but for paths that are told to be wrong, and answers calls."""

    def __init__(self, layers: tuple[digits.Array, digits.Array], *, wrong: tuple[str, ...], missing: str) -> None:
        self.ran: list[str] = []
        self._layers = layers
        self._wrong = wrong
        self._missing = missing

    def find_missing(self, path: Path, *, interpreters: Mapping[str, str]) -> str:
        return "" if path.module in WRITERS else f"{path.module} isn't installed"

    def run_path(self, path: Path, request: Request, *, interpreters: Mapping[str, str], timeout_s: float) -> Reply:
        self.ran.append(path.module)
        if path.module == "torch_run":
            if self._missing:
                raise ToolMissing(self._missing)
            return self._answer(request)
        file, write = WRITERS[path.module]
        first, second = self._layers
        write(FilePath(request.folder, file), (first, second * 1.05 if path.module in self._wrong else second))
        (name,) = request.variants
        made = Made(name=name, format=name.partition("-")[0], precision="fp32", files=(file,), how=path.module)
        return Reply(made=(made,), inputs=INPUTS, outputs=OUTPUTS)

    def _answer(self, request: Request) -> Reply:
        first, second = (layer.astype(np.float64) for layer in self._layers)
        with np.load(request.calibration) as arrays:
            count = len(arrays.files)
        outputs = [
            {"y": np.tanh(call["x"] @ first) @ second}
            for call in read_calls(FilePath(request.calibration), count=count)
        ]
        write_calls(FilePath(request.folder, "outputs.npz"), outputs)
        made = Made(name="source", format="npz", precision="fp32", files=("outputs.npz",), how="NumPy 1")
        return Reply(made=(made,))


class Checked:
    """A workshop that was checked."""

    def __init__(self, folder: FilePath, *variants: str, wrong: tuple[str, ...] = (), missing: str = "") -> None:
        digits.write_sets(folder)
        (folder / "network.py").write_text(CODE)
        recipe = load_recipe(digits.write_recipe(folder, *variants, source="network:make"))
        order = Order(recipe=recipe, recipe_folder=folder, out=folder / "out", command="", interpreters={}, profiles=())
        self.job: Job = open_job(order)
        self.framework = FakeFramework(digits.train(), wrong=wrong, missing=missing)
        write_samples(self.job, folder / "samples.npz")
        self.workshop = Workshop(
            self.job.source,
            recipe.source,
            folder=folder / "made",
            samples=folder / "samples.npz",
            interpreters={},
            tell=lambda _: None,
            processes=self.framework,
        )
        self.workshop.make(variants)
        self.comparison: SourceComparison | None = check_source(self.job, self.workshop, tell=lambda _: None)

    @property
    def differences(self) -> list[tuple[str, float]]:
        assert self.comparison is not None
        return [(one.variant, one.difference) for one in self.comparison.differences]


def test_right_conversions_differ_by_rounding_only(tmp_path: FilePath) -> None:
    checked = Checked(tmp_path, "onnx-fp32", "tflite-fp32")
    assert [name for name, _ in checked.differences] == ["onnx-fp32", "tflite-fp32"]
    assert all(0 < difference < 1e-5 for _, difference in checked.differences)
    assert list(checked.workshop.forms) == ["onnx-fp32", "tflite-fp32"]
    assert checked.comparison is not None
    assert (checked.comparison.framework, checked.comparison.items) == ("NumPy 1", 16)


def test_a_wrong_conversion_is_made_in_another_way(tmp_path: FilePath) -> None:
    """Off by 5 %, which leaves most answers as they are."""
    checked = Checked(tmp_path, "onnx-fp32", "tflite-fp32", wrong=("torch_tflite",))
    assert checked.framework.ran == ["torch_onnx", "torch_tflite", "torch_run", "onnx_tflite"]
    assert checked.workshop.forms["tflite-fp32"].how == "onnx_tflite"
    _, (first, wrong), (second, right) = checked.differences
    assert (first, second) == ("tflite-fp32", "tflite-fp32")
    assert 0.049 < wrong < 0.2  # of all calls together 0.05; the worst of 16 at most four times that
    assert right < 1e-5


def test_where_there_is_no_other_way_the_variant_is_missing_with_all_that_is_made_of_it(tmp_path: FilePath) -> None:
    checked = Checked(tmp_path, "onnx-fp32", "tflite-fp32", wrong=("torch_onnx",))
    assert list(checked.workshop.forms) == ["tflite-fp32"]
    (sentence,) = checked.workshop.make(["onnx-fp32"]).values()
    assert sentence.startswith("onnx-fp32 (torch_onnx): its output 'y' differs from the source's in NumPy 1 by 0.0")
    assert "allowed 0.002: the conversion computes something else" in sentence


def test_where_all_conversions_are_wrong_nothing_is_released(tmp_path: FilePath) -> None:
    with pytest.raises(BadModel, match=r"no conversion of network:make worked: onnx-fp32 \(torch_onnx\): its output"):
        Checked(tmp_path, "onnx-fp32", wrong=tuple(WRITERS))


def test_where_the_framework_is_missing_a_note_says_so(tmp_path: FilePath) -> None:
    checked = Checked(tmp_path, "onnx-fp32", missing="torch_run needs torch")
    assert checked.comparison is None
    assert checked.workshop.notes == [
        "Conversions weren't compared with the source in its own framework: torch_run needs torch."
    ]
