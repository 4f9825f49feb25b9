"""Does `shoal-convert new` write a recipe for each task that can be read and run, and do both commands refuse well?"""

import json
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_converters.cli import main
from shoal_converters.recipe import load_recipe
from shoal_converters.tasks import TASKS, make_task

Shape = Sequence[int | str]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64

SIGNATURES: dict[str, tuple[list[tuple[str, int, Shape]], list[tuple[str, int, Shape]], str]] = {
    "classification": ([("image", FLOAT, (1, 3, 8, 8))], [("logits", FLOAT, (1, 2))], "cat,dog"),
    "detection": ([("image", FLOAT, (1, 3, 32, 32))], [("boxes", FLOAT, (1, 6, 20))], "cat,dog"),
    "segmentation": ([("image", FLOAT, (1, 3, 8, 8))], [("mask", FLOAT, (1, 2, 8, 8))], "road,sky"),
    "events": ([("samples", FLOAT, (1, 512))], [("scores", FLOAT, (1, 2))], "bark,meow"),
    "embedding": ([("image", FLOAT, (1, 3, 8, 8))], [("vector", FLOAT, (1, 16))], ""),
    "regression": ([("row", FLOAT, (1, 4))], [("y", FLOAT, (1, 2))], "width,height"),
    "anomaly": ([("row", FLOAT, (1, 4))], [("score", FLOAT, (1, 1))], ""),
    "text": ([("ids", INT64, (1, 16))], [("logits", FLOAT, (1, 16, 256))], ""),
}
BY_HAND = {"faces", "notes"}
"""Tasks whose operations a signature doesn't tell."""


def save(path: Path, task: str) -> None:
    """A model that has a signature and computes nothing."""
    inputs, outputs, _ = SIGNATURES[task]
    graph = helper.make_graph(
        [helper.make_node("Identity", [inputs[0][0]], [outputs[0][0]])],
        task,
        [helper.make_tensor_value_info(*one) for one in inputs],
        [helper.make_tensor_value_info(*one) for one in outputs],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_every_task_has_a_signature_here_or_is_written_by_hand() -> None:
    assert set(SIGNATURES) | BY_HAND == set(TASKS)


@pytest.mark.parametrize("task", SIGNATURES)
def test_a_first_recipe_can_be_read_and_its_pipeline_be_built(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "My Model.onnx", task)
    labels = SIGNATURES[task][2]
    out = tmp_path / "recipe.toml"
    assert main(["new", str(tmp_path / "My Model.onnx"), "--task", task, "--labels", labels, "--out", str(out)]) == 0
    assert "left to do:" in capsys.readouterr().out
    recipe = load_recipe(out)
    assert (recipe.name, recipe.source.path, recipe.source.format) == ("my-model", "My Model.onnx", "onnx")
    assert recipe.labels == tuple(filter(None, labels.split(",")))
    Pipeline(pre=recipe.pre, post=recipe.post)
    assert make_task(recipe.task, recipe.task_options).name == task


def test_json_names_the_recipe_and_what_is_left_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "m.onnx", "regression")
    out = tmp_path / "recipe.toml"
    assert main(["new", str(tmp_path / "m.onnx"), "--task", "regression", "--out", str(out), "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert told["recipe"] == str(out)
    assert any(words.startswith("evaluation: ") for words in told["left"])


def test_a_recipe_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "m.onnx", "regression")
    out = tmp_path / "recipe.toml"
    out.write_text("mine")
    assert main(["new", str(tmp_path / "m.onnx"), "--task", "regression", "--out", str(out)]) == 1
    assert "exists already; name another file with --out" in capsys.readouterr().err
    assert out.read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["new", "gone.onnx", "--task", "regression", "--out", "{folder}/r.toml"], 1, "gone.onnx"),
        (["new", "m.onnx", "--task", "divination"], 2, "invalid choice: 'divination'"),
        (["build", "{folder}/gone.toml", "--out", "{folder}/out"], 1, "gone.toml: No such file"),
        (["build", "{folder}/gone.toml"], 2, "--out"),
        (["build", "r.toml", "--out", "o", "--python", "torch=/gone/python"], 2, "/gone/python: not a program"),
        (["build", "r.toml", "--out", "o", "--python", "cobol=/bin/sh"], 2, "an extra out of coreml, "),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    arguments: list[str], code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        found = main([one.format(folder=tmp_path) for one in arguments])
    except SystemExit as ended:  # argparse
        found = int(str(ended.code))
    captured = capsys.readouterr()
    assert found == code
    assert words in captured.err.splitlines()[-1]
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []
