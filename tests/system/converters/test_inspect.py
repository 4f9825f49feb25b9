"""Do engines in processes of their own show what runs a model here?"""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from shoal_agent.front.probe_models import PROBE_MODELS
from shoal_converters.command_line import run
from shoal_converters.inspection.command import add_parser
from shoal_wire.encoding import encode
from shoal_wire.manifest import DraftFile, GoldenCase, Model, Operation, ReleaseDraft, Tensor, Variant

from tests.onnx_bytes import add_model, external_weight_model, matmul_chain_model

PROFILES = Path(__file__).resolve().parents[3] / "device_profiles"


def shoal_inspect(*arguments: str) -> int:
    parser = argparse.ArgumentParser(prog="shoal-convert")
    add_parser(parser.add_subparsers(required=True))
    return run(parser, ["inspect", *arguments])


def inspect_json(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    assert shoal_inspect(str(path), "--json", "--profiles", str(PROFILES), *more) == 0
    (line,) = capsys.readouterr().out.splitlines()
    document: dict[str, Any] = json.loads(line)
    return document


def save(folder: Path, content: bytes, *, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("model_format", "engines"),
    [("onnx", {"onnxruntime", "openvino"}), ("tflite", {"litert", "openvino"}), ("openvino", {"openvino"})],
)
def test_engines_that_are_installed_answer_zeros(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], model_format: str, engines: set[str]
) -> None:
    name = "model.xml" if model_format == "openvino" else "model"
    told = inspect_json(save(tmp_path, PROBE_MODELS[model_format][0], name=name), capsys)
    assert told["facts"]["format"] == model_format
    assert {run["engine"] for run in told["engines"] if run["answers"]} >= engines
    assert len(told["sha256"]) == 64


def test_boards_follow_what_the_engines_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = inspect_json(save(tmp_path, add_model(shape=("batch", 3))), capsys)
    boards = {board["board"]: board for board in told["boards"]}
    assert all(board["fits"] for board in boards.values())
    litert = next(one for one in boards["raspberry-pi-5"]["engines"] if one["engine"] == "litert")
    assert not litert["fits"]
    assert "convert it to tflite" in litert["reasons"][0]


def test_what_no_engine_loads_fits_no_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = inspect_json(save(tmp_path, external_weight_model(location="w.bin")), capsys)
    assert not any(run["answers"] for run in told["engines"])
    assert not any(board["fits"] for board in told["boards"])


def test_each_variant_of_a_release_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensors = tuple(Tensor(name, "float32", (1, 3)) for name in ("left", "right", "sum"))
    variants = [("onnx-fp32", "onnx", "a.onnx"), ("tflite-fp32", "tflite", "a.tflite")]
    for _, model_format, name in variants:
        save(tmp_path, PROBE_MODELS[model_format][0], name=name)
    save(tmp_path, b"", name="golden.bin")
    model = Model(
        name="sum",
        task="regression",
        inputs=tensors[:2],
        outputs=tensors[2:],
        pre=(),
        post=(),
        variants=tuple(Variant(name, form, name.partition("-")[2], (file,)) for name, form, file in variants),
        golden=(GoldenCase("one", "golden.bin", {}, Operation("values.near"), ""),),
    )
    files = tuple(DraftFile(name, "model", name) for name in ("a.onnx", "a.tflite", "golden.bin"))
    draft = ReleaseDraft(
        name="sum", version=3, created_at="2026-01-01", licence="MIT", provenance="", models=(model,), files=files
    )
    save(tmp_path, encode(draft), name="release.json")
    told = inspect_json(tmp_path, capsys, "--no-run")
    assert told["facts"]["versions"]["release"] == "sum 3"
    assert [part["name"] for part in told["parts"]] == ["sum/onnx-fp32", "sum/tflite-fp32"]
    assert [part["facts"]["format"] for part in told["parts"]] == ["onnx", "tflite"]
    (tmp_path / "a.tflite").unlink()
    assert shoal_inspect(str(tmp_path), "--no-run") == 1
    assert "'a.tflite', which is no file in the folder" in capsys.readouterr().err


def test_people_get_lines_and_broken_files_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = matmul_chain_model(size=4, length=1)
    assert shoal_inspect(str(save(tmp_path, raw)), "--no-run") == 0
    lines = capsys.readouterr().out
    assert "x float32 [4, 4]" in lines
    assert "MatMul x1" in lines
    assert shoal_inspect(str(save(tmp_path, raw[:-10])), "--no-run") == 1
    assert "cut short" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        shoal_inspect()
    assert ended.value.code == 2
