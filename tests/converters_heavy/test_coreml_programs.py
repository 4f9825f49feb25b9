"""What the interpreter says of a Core ML program against the PyTorch function that coremltools made it of."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shoal_converters.errors import BadModel, PathFailed

torch = pytest.importorskip("torch", reason="torch not installed here: make test-converters")
# With all that it loads, before what keeps it from that: other tests here need TensorFlow.
pytest.importorskip("coremltools", reason="coremltools not installed here: make test-converters")
from shoal_converters.paths.coreml_in_torch.program import Program  # noqa: E402
from shoal_converters.paths.coremltools_alone import coremltools  # noqa: E402
from shoal_converters.paths.mlpackage import pack, unpack  # noqa: E402

f = torch.nn.functional
P = (2, 4, 6, 5)
FLOAT32 = 2e-5
FLOAT16 = 0.02
"""A few roundings to 11 bits of numbers of up to about 8."""


def weight(*shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(3).standard_normal(shape).astype(np.float32))


NORM = torch.nn.BatchNorm2d(4).eval().requires_grad_(False)
LAYERS = torch.nn.LayerNorm(5).requires_grad_(False)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: (x + 1.5) * x / (x.abs() + 1) - x.square(),
    "comparisons": lambda x: torch.where(torch.logical_or(torch.logical_and(x > 0, x < 1), x.abs() >= 2), x, -x),
    "activations": lambda x: f.relu(x) + f.relu6(x) + torch.sigmoid(x) + torch.tanh(x) + f.silu(x),
    "more activations": lambda x: f.elu(x) + f.leaky_relu(x, 0.1) + f.hardsigmoid(x) + f.softplus(x) + f.hardswish(x),
    "gelu": lambda x: f.gelu(x) + f.gelu(x, approximate="tanh"),
    "prelu": lambda x: f.prelu(x, torch.tensor([0.1, 0.2, 0.3, 0.4])),
    "softmax": lambda x: torch.softmax(x, 1) + torch.log_softmax(x, -1).exp(),
    "roots": lambda x: (
        torch.sqrt(x.abs() + 1) + torch.rsqrt(x.abs() + 1) + torch.log(x.abs() + 1) + torch.exp(-x.abs())
    ),
    "roundings": lambda x: torch.floor(x) + torch.ceil(x) + torch.round(x) + torch.sign(x),
    "waves": lambda x: torch.sin(x) + torch.cos(x) + torch.erf(x),
    "clamp": lambda x: torch.clamp(x, -0.5, 0.75) + torch.clamp(x, min=0.1),
    "extremes": lambda x: torch.maximum(x, x.flip(1)) + torch.minimum(x, x.flip(2)),
    "convolution": lambda x: f.conv2d(x, weight(8, 2, 3, 3), weight(8), stride=2, padding=1, groups=2),
    "dilated convolution": lambda x: f.conv2d(x, weight(3, 4, 2, 3), dilation=(2, 1), padding=(0, 1)),
    "convolution in one dimension": lambda x: f.conv1d(x.flatten(2), weight(3, 4, 5), padding=2),
    "transposed convolution": lambda x: f.conv_transpose2d(
        x, weight(4, 3, 3, 3), stride=2, padding=1, output_padding=1
    ),
    "max pool": lambda x: f.max_pool2d(x, 3, 2, 1),
    "mean pool": lambda x: f.avg_pool2d(x, 3, 2, 1) + f.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "global pool": lambda x: f.adaptive_avg_pool2d(x, 1),
    "dense": lambda x: f.linear(x.flatten(1), weight(7, 120), weight(7)),
    "product": lambda x: x @ x.transpose(-1, -2),
    "batch norm": lambda x: NORM(x),
    "layer norm": lambda x: LAYERS(x),
    "instance norm": lambda x: f.instance_norm(x),
    "shapes": lambda x: torch.cat(
        [x.permute(0, 2, 3, 1).reshape(2, 5, -1), x.flatten(2).unsqueeze(1).squeeze(1).reshape(2, 5, -1)], 1
    ),
    "slices": lambda x: x[:, 1:3, ::2, -2:] + x.narrow(1, 0, 2)[:, :, :3, :2],
    "choices": lambda x: x.index_select(1, torch.tensor([3, 0, 0])) + x[:, 1:2],
    "splits": lambda x: torch.stack([part.sum(1) for part in torch.split(x, [1, 3], 1)], 1),
    "padding": lambda x: f.pad(x, (1, 2, 0, 1), value=0.5),
    "mirrored padding": lambda x: f.pad(x, (1, 2, 3, 1), mode="reflect") + f.pad(x, (1, 2, 3, 1), mode="replicate"),
    "tiles": lambda x: x.repeat(1, 2, 1, 1) + x.mean((2, 3), keepdim=True).expand(2, 4, 6, 5).repeat(1, 2, 1, 1),
    "reductions": lambda x: x.sum(1) + x.amax(1) + x.amin(1) + x.norm(dim=1) + x.abs().sum(1) + x.logsumexp(1),
    "positions": lambda x: x.argmax(1).float() + x.topk(2, 1).values.sum(1) + x.cumsum(2)[:, 0],
    "pixel shuffle": lambda x: f.pixel_shuffle(x, 2),
    "nearest": lambda x: f.interpolate(x, scale_factor=2.0, mode="nearest"),
    "bilinear": lambda x: f.interpolate(x, size=(12, 10), mode="bilinear", align_corners=False),
    "bilinear with corners": lambda x: f.interpolate(x, size=(11, 9), mode="bilinear", align_corners=True),
}


HALVED = ("convolution", "dense", "activations")
"""One of each kind: rounding is the same for all."""


class Function(torch.nn.Module):  # type: ignore[misc, name-defined]  # PyTorch is only where it converts
    """A function as what can be traced."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def make_package(function: Callable[[Any], Any], folder: Path, *, precision: str) -> Path:
    traced = torch.jit.trace(Function(function).eval(), torch.zeros(P), check_trace=False)
    model = coremltools.convert(
        traced,
        inputs=[coremltools.TensorType("x", P)],
        outputs=[coremltools.TensorType("y", dtype=np.float32)],
        convert_to="mlprogram",
        minimum_deployment_target=coremltools.target.iOS17,
        compute_precision=getattr(coremltools.precision, precision),
        skip_model_load=True,
    )
    model.save(f"{folder / 'model.mlpackage'}")
    return folder / "model.mlpackage"


CASES = [*((name, "FLOAT32", FLOAT32) for name in FUNCTIONS), *((name, "FLOAT16", FLOAT16) for name in HALVED)]


@pytest.mark.parametrize(("name", "precision", "limit"), CASES)
def test_program_computes_what_its_function_does(name: str, precision: str, limit: float, tmp_path: Path) -> None:
    x = np.random.default_rng(4).standard_normal(P).astype(np.float32)
    with torch.no_grad():
        expected = FUNCTIONS[name](torch.from_numpy(x)).numpy()

    found = Program(make_package(FUNCTIONS[name], tmp_path, precision=precision)).run({"x": x})["y"]

    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < limit


def test_results_are_rounded_to_float16(tmp_path: Path) -> None:
    package = make_package(lambda x: (x + 2048) - 2048, tmp_path, precision="FLOAT16")

    found = Program(package).run({"x": np.full(P, 0.6, np.float32)})["y"]

    assert np.unique(found).tolist() in ([0.0], [2.0])  # whole numbers only, above 2048 even ones


def test_names_operators_that_are_not_interpreted(tmp_path: Path) -> None:
    package = make_package(lambda x: torch.acos(x.clamp(-1, 1)), tmp_path, precision="FLOAT32")

    with pytest.raises(PathFailed, match="aren't interpreted here: acos"):
        Program(package)


def test_refuses_inputs_that_the_program_does_not_have(tmp_path: Path) -> None:
    program = Program(make_package(torch.nn.functional.relu, tmp_path, precision="FLOAT32"))

    with pytest.raises(BadModel, match=r"has inputs \['x'\], given were \['z'\]"):
        program.run({"z": np.zeros(P, np.float32)})


def test_packed_package_is_the_same_whenever_it_was_saved(tmp_path: Path) -> None:
    package = make_package(torch.nn.functional.relu, tmp_path, precision="FLOAT32")
    model = coremltools.models.MLModel(f"{package}", skip_model_load=True)
    model.save(f"{tmp_path / 'again.mlpackage'}")  # with new numbers for its parts

    assert pack(package) == pack(tmp_path / "again.mlpackage")
    (tmp_path / "packed.zip").write_bytes(pack(package))
    (tmp_path / "out").mkdir()
    unpack(tmp_path / "packed.zip", tmp_path / "out")
    assert Program(tmp_path / "out").operators == Program(package).operators
