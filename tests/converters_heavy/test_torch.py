"""A small network that was trained on digits, out of each of PyTorch's forms, into each format that is released."""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from shoal_wire.manifest import Tensor
from sklearn.datasets import load_digits

from tests.converters_heavy.conversions import Converted, answer, convert, need, run

CODE = """
from pathlib import Path

import torch
from torch import nn


def build():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU6(),
        nn.MaxPool2d(2), nn.Conv2d(32, 32, 3, padding=1), nn.SiLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(128, 64), nn.GELU(), nn.Linear(64, 10), nn.Softmax(1),
    )


def make():
    network = build()
    network.load_state_dict(torch.load(Path(__file__).with_name("weights.pt"), weights_only=True))
    return network
"""
INPUT = Tensor("image:0", "float32", (-1, 1, 8, 8))  # a name that Core ML's programs can't have
OUTPUT = Tensor("scores", "float32", ())
TRAINED = 1347
STEPS = 250
BATCH = 64
FLOAT32 = 1e-5
"""Largest difference of a probability between engines that compute in float32: some hundred roundings of 6e-8."""
FLOAT16 = 0.02
"""The same where every result is rounded to 11 bits: about ten roundings of 5e-4, and logits of up to 15."""


@dataclass(frozen=True, kw_only=True)
class Digits:
    """The trained network, and what it says of pictures that it wasn't trained with."""

    folder: Path
    network: Any
    pictures: NDArray[np.float32]
    labels: NDArray[np.int64]
    scores: NDArray[np.float32]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Digits]:
    need("torch")
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("digits")
    (folder / "digits_network.py").write_text(CODE)
    names: dict[str, Any] = {"__file__": f"{folder / 'digits_network.py'}"}
    exec(CODE, names)
    images, labels = load_digits(return_X_y=True)
    pictures = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    network = names["build"]()
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    for _ in range(STEPS):
        chosen = torch.randint(TRAINED, (BATCH,))
        found = network(torch.from_numpy(pictures)[chosen])
        loss = torch.nn.functional.nll_loss(torch.log(found + 1e-6), torch.from_numpy(labels)[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    network.eval()
    torch.save(network.state_dict(), folder / "weights.pt")
    with torch.no_grad():
        scores = network(torch.from_numpy(pictures[TRAINED:])).numpy()
    yield Digits(folder=folder, network=network, pictures=pictures[TRAINED:], labels=labels[TRAINED:], scores=scores)
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def coreml(digits: Digits, tmp_path_factory: pytest.TempPathFactory) -> Converted:
    return convert_code(digits, "torch_coreml", tmp_path_factory.mktemp("coreml"))


SEQUENCES = """
import torch
from torch import nn


class Sentences(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, ids, mask):
        found = self.layer(self.table(ids)) * mask.unsqueeze(-1)
        return found.sum(1) / mask.sum(1, keepdim=True)


def make():
    torch.manual_seed(1)
    return Sentences()
"""
TOKENS = (Tensor("ids", "int64", (-1, -1)), Tensor("mask", "int64", (-1, -1)))


class Harmful:
    """What writes a file once it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"open({self.path!r}, 'w').close()",)


def convert_code(digits: Digits, module: str, folder: Path, **options: Any) -> Converted:
    return convert(
        module,
        "digits_network:make",
        "torch-code",
        folder=folder,
        inputs=[INPUT],
        outputs=[OUTPUT],
        code_folder=digits.folder,
        options=options,
    )


def all_at_once(digits: Digits) -> list[dict[str, Any]]:
    return [{"image:0": digits.pictures}]


def one_by_one(digits: Digits) -> list[dict[str, Any]]:
    return [{"image:0": picture[None]} for picture in digits.pictures]


def largest_difference(found: list[dict[str, Any]], digits: Digits) -> float:
    return float(np.abs(np.concatenate([one["scores"] for one in found]) - digits.scores).max())


def agreement(found: list[dict[str, Any]], digits: Digits) -> float:
    labels = np.concatenate([one["scores"] for one in found]).argmax(1)
    return float((labels == digits.scores.argmax(1)).mean())


def test_network_has_learnt_so_that_its_answers_mean_something(digits: Digits) -> None:
    assert (digits.scores.argmax(1) == digits.labels).mean() > 0.95


def test_exported_program_gives_an_onnx_file_with_a_free_batch(digits: Digits, tmp_path: Path) -> None:
    import torch

    batch = {0: torch.export.Dim("batch")}
    program = torch.export.export(digits.network, (torch.zeros(2, 1, 8, 8),), dynamic_shapes=(batch,))
    torch.export.save(program, tmp_path / "digits.pt2")

    made = convert("torch_onnx", tmp_path / "digits.pt2", "torch-export", folder=tmp_path, outputs=[OUTPUT])

    assert made.reply.outputs == (Tensor("scores", "float32", (-1, 10)),)
    (name,) = (one.name for one in made.reply.inputs)
    assert largest_difference(run(made, [{name: digits.pictures}]), digits) < FLOAT32
    assert f"{tmp_path}".encode() not in made.file.read_bytes()


def test_scripted_module_gives_an_onnx_file(digits: Digits, tmp_path: Path) -> None:
    import torch

    torch.jit.script(digits.network).save(tmp_path / "digits.pt")

    made = convert(
        "torch_onnx", tmp_path / "digits.pt", "torchscript", folder=tmp_path, inputs=[INPUT], outputs=[OUTPUT]
    )

    assert largest_difference(run(made, all_at_once(digits)), digits) < FLOAT32


def test_scripted_module_gives_a_tflite_file(digits: Digits, tmp_path: Path) -> None:
    import torch

    torch.jit.script(digits.network).save(tmp_path / "digits.pt")

    made = convert(
        "torch_tflite", tmp_path / "digits.pt", "torchscript", folder=tmp_path, inputs=[INPUT], outputs=[OUTPUT]
    )

    assert largest_difference(run(made, one_by_one(digits)), digits) < FLOAT32


def test_code_gives_the_same_onnx_file_twice(digits: Digits, tmp_path: Path) -> None:
    first, second = (convert_code(digits, "torch_onnx", tmp_path, opset=20) for _ in range(2))

    assert largest_difference(run(first, all_at_once(digits)), digits) < FLOAT32
    assert first.file.read_bytes() == second.file.read_bytes()


def test_code_gives_the_same_tflite_file_twice_for_a_batch_of_one(digits: Digits, tmp_path: Path) -> None:
    first, second = (convert_code(digits, "torch_tflite", tmp_path) for _ in range(2))

    assert [one.shape for one in first.made.bindings] == [(1, 1, 8, 8), (1, 10)]
    assert first.reply.inputs == (INPUT,)
    assert largest_difference(run(first, one_by_one(digits)), digits) < FLOAT32
    assert first.file.read_bytes() == second.file.read_bytes()


def test_channels_can_be_put_last_in_a_tflite_file(digits: Digits, tmp_path: Path) -> None:
    made = convert_code(digits, "torch_tflite", tmp_path, channels_last=True)

    assert made.made.bindings[0].shape == (1, 8, 8, 1)
    assert made.made.bindings[0].permutation == (0, 2, 3, 1)
    assert largest_difference(run(made, one_by_one(digits)), digits) < FLOAT32


def test_core_ml_program_agrees_as_far_as_float16_can(digits: Digits, coreml: Converted) -> None:
    found = run(coreml, one_by_one(digits))

    assert coreml.made.bindings[0].name == "image_0"
    assert largest_difference(found, digits) < FLOAT16
    assert agreement(found, digits) > 0.99


def test_core_ml_package_is_the_same_file_twice(digits: Digits, coreml: Converted, tmp_path: Path) -> None:
    assert convert_code(digits, "torch_coreml", tmp_path).file.read_bytes() == coreml.file.read_bytes()


def test_small_weights_make_a_core_ml_program_smaller_and_change_few_answers(
    digits: Digits, coreml: Converted, tmp_path: Path
) -> None:
    small = convert(
        "coreml_weights",
        coreml.file,
        "coreml",
        folder=tmp_path,
        inputs=coreml.reply.inputs,
        outputs=coreml.reply.outputs,
    )

    sizes = {one.name: (small.folder / one.files[0]).stat().st_size for one in small.reply.made}
    assert sizes["coreml-int4-weights"] < sizes["coreml-int8-weights"] < coreml.file.stat().st_size
    by_name = {one.name: run(small, one_by_one(digits), made=one) for one in small.reply.made}
    assert agreement(by_name["coreml-int8-weights"], digits) > 0.98
    assert agreement(by_name["coreml-int4-weights"], digits) > 0.9


def test_names_what_is_missing_if_nobody_says_the_inputs(digits: Digits, tmp_path: Path) -> None:
    made = convert("torch_onnx", "digits_network:make", "torch-code", folder=tmp_path, code_folder=digits.folder)

    assert "write name, dtype and shape of each into the recipe's source.inputs" in made.reply.refused["onnx-fp32"]


def test_refuses_a_file_of_weights_as_a_model(digits: Digits, tmp_path: Path) -> None:
    made = convert("torch_onnx", digits.folder / "weights.pt", "torchscript", folder=tmp_path, inputs=[INPUT])

    assert "a state dict is no model by itself" in made.reply.refused["onnx-fp32"]


def test_exported_program_can_not_bring_python_code(digits: Digits, tmp_path: Path) -> None:
    import torch

    program = torch.export.export(digits.network, (torch.zeros(2, 1, 8, 8),))
    torch.export.save(program, tmp_path / "good.pt2")
    torch.save({"inputs": Harmful(f"{tmp_path / 'written'}")}, tmp_path / "harmful.pt")
    with zipfile.ZipFile(tmp_path / "good.pt2") as good, zipfile.ZipFile(tmp_path / "bad.pt2", "w") as bad:
        for entry in good.infolist():
            is_replaced = entry.filename.endswith("sample_inputs/model.pt")
            bad.writestr(entry, (tmp_path / "harmful.pt").read_bytes() if is_replaced else good.read(entry))

    made = convert("torch_onnx", tmp_path / "bad.pt2", "torch-export", folder=tmp_path)

    assert "not an exported program" in made.reply.refused["onnx-fp32"]
    assert not (tmp_path / "written").exists()


def test_wants_a_length_for_an_axis_that_a_tflite_file_must_fix(digits: Digits, tmp_path: Path) -> None:
    free = Tensor("image:0", "float32", (-1, 1, 8, -1))
    made = convert(
        "torch_tflite", "digits_network:make", "torch-code", folder=tmp_path, inputs=[free], code_folder=digits.folder
    )

    assert "input image:0: axis 3 is free" in made.reply.refused["tflite-fp32"]


def test_calibration_set_tells_the_length_of_a_free_axis(digits: Digits, tmp_path: Path) -> None:
    free = Tensor("image:0", "float32", (-1, 1, 8, -1))
    calls = {"0/image:0": digits.pictures[:1], "1/image:0": digits.pictures[1:3]}
    np.savez(tmp_path / "calls.npz", allow_pickle=False, **calls)

    made = convert(
        "torch_tflite",
        "digits_network:make",
        "torch-code",
        folder=tmp_path,
        inputs=[free],
        outputs=[OUTPUT],
        calibration=tmp_path / "calls.npz",
        code_folder=digits.folder,
    )

    assert largest_difference(run(made, one_by_one(digits)), digits) < FLOAT32


def sentence(length: int) -> dict[str, NDArray[Any]]:
    ids = np.random.default_rng(length).integers(0, 50, (1, length))
    return {"ids": ids, "mask": (np.arange(length) < length - 2).astype(np.int64)[None]}


@pytest.mark.parametrize("module", ["torch_onnx", "torch_tflite"])
def test_axis_of_tokens_is_free_where_the_format_can_and_as_long_as_the_samples_else(
    module: str, tmp_path: Path
) -> None:
    (tmp_path / "sentences.py").write_text(SEQUENCES)
    same = {f"0/{name}": array for name, array in sentence(12).items()}
    np.savez(tmp_path / "samples.npz", allow_pickle=False, **same)
    calls = [sentence(12), *([sentence(7), sentence(16)] if module == "torch_onnx" else [])]
    source = {"folder": tmp_path, "inputs": TOKENS, "outputs": [OUTPUT], "code_folder": tmp_path}

    made = convert(
        module,
        "sentences:make",
        "torch-code",
        calibration=tmp_path / "samples.npz",
        **source,  # type: ignore[arg-type]
    )

    expected = answer("torch_run", "sentences:make", "torch-code", calls, **source)  # type: ignore[arg-type]
    for found, wanted in zip(run(made, calls), expected, strict=True):
        assert np.abs(found["scores"] - wanted["scores"]).max() < FLOAT32


def test_lengths_that_vary_are_told_where_the_format_needs_one(tmp_path: Path) -> None:
    (tmp_path / "sentences.py").write_text(SEQUENCES)
    arrays = {f"{n}/{name}": a for n, length in enumerate((7, 12)) for name, a in sentence(length).items()}
    np.savez(tmp_path / "samples.npz", allow_pickle=False, **arrays)

    made = convert(
        "torch_tflite",
        "sentences:make",
        "torch-code",
        folder=tmp_path,
        inputs=TOKENS,
        calibration=tmp_path / "samples.npz",
        code_folder=tmp_path,
    )

    assert "input ids: axis 1 is free" in made.reply.refused["tflite-fp32"]
    assert "pre-processing gives [7, 12]" in made.reply.refused["tflite-fp32"]


@pytest.mark.parametrize("model_format", ["torch-code", "torchscript", "torch-export"])
def test_source_answers_in_pytorch_by_the_signatures_names(digits: Digits, tmp_path: Path, model_format: str) -> None:
    import torch

    example = (torch.zeros(2, 1, 8, 8),)
    source: Path | str = "digits_network:make"
    if model_format == "torchscript":
        source = tmp_path / "model.ts"
        torch.jit.trace(digits.network, example).save(f"{source}")
    elif model_format == "torch-export":
        source = tmp_path / "model.pt2"
        shapes = ({0: torch.export.Dim("batch")},)
        torch.export.save(torch.export.export(digits.network, example, dynamic_shapes=shapes), source)

    found = answer(
        "torch_run",
        source,
        model_format,
        [{"image:0": digits.pictures[:1]}, {"image:0": digits.pictures[1:5]}],
        folder=tmp_path,
        inputs=[INPUT],
        outputs=[OUTPUT],
        code_folder=digits.folder,
    )

    scores = np.concatenate([call["scores"] for call in found])
    assert np.abs(scores - digits.scores[:5]).max() < FLOAT32
