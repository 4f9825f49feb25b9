"""Is the model of an MLflow folder found, with its signature, wherever the registry was moved?"""

import json
from pathlib import Path

import pytest
from shoal_converters.errors import BadModel
from shoal_converters.importing.mlflow_folder import read_mlflow
from shoal_wire.manifest import Tensor

TENSOR = {"name": "x", "type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 4]}}


def model_folder(folder: Path, *, flavors: str = "  onnx:\n    data: model.onnx\n", more: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"onnx")
    (folder / "requirements.txt").write_text("onnx")
    (folder / "MLmodel").write_text(f"flavors:\n{flavors}run_id: 4711\n{more}")
    return folder


def test_finds_model_signature_and_origin(tmp_path: Path) -> None:
    signature = (
        f"signature:\n  inputs: '{json.dumps([TENSOR])}'\n  outputs: '{json.dumps([TENSOR | {'name': None}])}'\n"
    )
    found = read_mlflow(model_folder(tmp_path / "net", more=signature))
    assert found.model == tmp_path / "net/model.onnx"
    assert found.known.inputs == (Tensor("x", "float32", (-1, 4)),)
    assert found.known.outputs == (Tensor("output-0", "float32", (-1, 4)),)
    assert found.origin == "MLflow model (flavors onnx; run 4711)"
    assert [path.name for path in found.files] == ["requirements.txt"]


@pytest.mark.parametrize(
    ("flavors", "path"),
    [
        ("  sklearn:\n    pickled_model: model.pkl\n", "model.pkl"),
        ("  tensorflow:\n    data: data\n    model_type: keras\n", "data/model.keras"),
        ("  tensorflow:\n    saved_model_dir: tf\n", "tf/saved_model.pb"),
        ("  pytorch:\n    model_data: data\n", "data/model.pth"),
        ("  python_function:\n    loader_module: x\n  onnx:\n    data: model.onnx\n", "model.onnx"),
    ],
)
def test_follows_each_flavor(tmp_path: Path, flavors: str, path: str) -> None:
    folder = model_folder(tmp_path / "net", flavors=flavors)
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_bytes(b"")
    expected = folder / path
    assert read_mlflow(folder).model == (expected.parent if expected.name == "saved_model.pb" else expected)


def test_columns_of_a_table_are_no_tensors(tmp_path: Path) -> None:
    column = json.dumps([{"type": "double", "name": "a"}])
    found = read_mlflow(model_folder(tmp_path / "net", more=f"signature:\n  inputs: '{column}'\n"))
    assert found.known.inputs == ()
    assert "are columns of a table" in found.notes[0]


def test_takes_the_newest_version_of_a_registered_model(tmp_path: Path) -> None:
    artifacts = model_folder(tmp_path / "moved/0/run/artifacts/model")
    for version in (2, 10):
        folder = tmp_path / f"moved/models/defects/version-{version}"
        folder.mkdir(parents=True)
        source = "file:///elsewhere/mlruns/0/run/artifacts/model"
        (folder / "meta.yaml").write_text(f"name: defects\nversion: {version}\nrun_id: 4711\nsource: {source}\n")
    found = read_mlflow(tmp_path / "moved/models/defects")
    assert (found.name, found.version, found.model) == ("defects", 10, artifacts / "model.onnx")
    assert found.origin.startswith("MLflow registry, defects version 10, run 4711")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("flavors: {}", "expected flavors"),
        ("a: &a [1]\nb: *a", "references"),
        ("!!python/object/apply:os.system [echo]", "not YAML that can be read"),
        ("[" * 100 + "]" * 100, "nested more than 64 deep"),
        ("[" * 300_000, "nest"),
        ("flavors: {onnx: {data: ../../secret.onnx}}", "outside of the folder"),
        ('flavors: {onnx: {data: model.onnx}}\nsignature: {inputs: \'[{"type": "tensor"}]\'}', "inputs can't be read"),
    ],
)
def test_refuses_broken_and_hostile_folders(tmp_path: Path, text: str, reason: str) -> None:
    folder = model_folder(tmp_path / "net")
    (folder / "MLmodel").write_text(text)
    with pytest.raises(BadModel, match=reason):
        read_mlflow(folder)


@pytest.mark.parametrize(
    ("source", "reason"), [("s3://bucket/model", "fetch them"), ("file:///nowhere/net", "no MLmodel at")]
)
def test_says_where_artifacts_should_be(tmp_path: Path, source: str, reason: str) -> None:
    (tmp_path / "meta.yaml").write_text(f"name: defects\nversion: 1\nsource: {source}\n")
    with pytest.raises(BadModel, match=reason):
        read_mlflow(tmp_path)
