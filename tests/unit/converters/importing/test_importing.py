"""Is a model copied with a first recipe, all or nothing?"""

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from shoal_converters.errors import BadModel, BadRecipe
from shoal_converters.importing.drafting import make_name
from shoal_converters.importing.importing import Imported, import_source
from shoal_converters.recipe import load_recipe

DAY = "2026-01-31"


def save_model(path: Path, *, external: bool = False) -> Path:
    """A classifier of pictures of any size, with two classes."""
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["pixel_values"], ["mean"]),
            helper.make_node("Flatten", ["mean"], ["flat"]),
            helper.make_node("MatMul", ["flat", "w"], ["logits"]),
        ],
        "graph",
        [helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, ["n", 3, "h", "w"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 2])],
        [numpy_helper.from_array(np.ones((3, 2), np.float32), "w")],
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, path, save_as_external_data=external, location="w.bin" if external else None, size_threshold=0)
    return path


def take(source: Path, out: Path, *, task: str = "", name: str = "") -> Imported:
    return import_source(source, out=out, task=task, name=name, reference="", created_at=DAY)


def test_a_hugging_face_folder_becomes_a_recipe_that_loads(tmp_path: Path) -> None:
    source = tmp_path / "my-net"
    save_model(source / "onnx/model.onnx")
    config = {"architectures": ["XForImageClassification"], "id2label": {"0": "cat", "1": "dog"}}
    (source / "config.json").write_text(json.dumps(config))
    (source / "preprocessor_config.json").write_text('{"size": {"height": 32, "width": 32}}')
    (source / "LICENSE").write_text("MIT")
    imported = take(source, tmp_path / "out")
    recipe = load_recipe(tmp_path / "out/recipe.toml")
    digest = hashlib.sha256((source / "onnx/model.onnx").read_bytes()).hexdigest()
    assert (recipe.name, recipe.task, recipe.labels, recipe.created_at) == (
        "my-net",
        "classification",
        ("cat", "dog"),
        DAY,
    )
    assert recipe.source.path == "model.onnx"
    assert recipe.source.inputs[0].shape == (-1, 3, 32, 32)
    assert [one.name for one in recipe.pre] == ["image.decode", "image.fit", "image.feed"]
    assert recipe.post
    assert f"model.onnx sha256 {digest}" in recipe.provenance
    assert imported.files["model.onnx"] == digest
    assert (tmp_path / "out/LICENSE").read_text() == "MIT"
    assert any(words.startswith("licence: ") for words in imported.left)
    assert (tmp_path / "out/recipe.toml").read_text().startswith("# To do: ")


def test_pre_is_left_to_a_person_where_what_the_folder_says_cannot_be_followed(tmp_path: Path) -> None:
    source = tmp_path / "net"
    save_model(source / "model.onnx")
    (source / "config.json").write_text('{"architectures": ["XForImageClassification"], "id2label": {"0": "a"}}')
    (source / "preprocessor_config.json").write_text('{"size": 32, "resample": 9, "image_mean": [0.5]}')
    imported = take(source, tmp_path / "out")
    assert load_recipe(tmp_path / "out/recipe.toml").pre == ()
    assert any(words.startswith("pre: ") and "resample 9" in words for words in imported.left)


def test_an_mlflow_model_keeps_its_external_weights(tmp_path: Path) -> None:
    source = tmp_path / "net"
    save_model(source / "model.onnx", external=True)
    (source / "MLmodel").write_text("flavors: {onnx: {data: model.onnx}}\n")
    take(source, tmp_path / "out", task="classification", name="Defect Finder 2")
    assert (tmp_path / "out/w.bin").read_bytes() == (source / "w.bin").read_bytes()
    assert load_recipe(tmp_path / "out/recipe.toml").name == "defect-finder-2"


def test_a_plain_file_gets_a_recipe_with_all_that_is_left_to_say(tmp_path: Path) -> None:
    imported = take(save_model(tmp_path / "net.onnx"), tmp_path / "out")
    assert imported.left[0].startswith("task: nothing tells")
    assert {"evaluation", "calibration", "licence", "labels"} <= {words.partition(":")[0] for words in imported.left}


def test_weights_alone_ask_for_code(tmp_path: Path) -> None:
    source = tmp_path / "net"
    source.mkdir()
    (source / "config.json").write_text('{"architectures": ["XForImageClassification"]}')
    (source / "model.safetensors").write_bytes(b"")
    imported = take(source, tmp_path / "out")
    recipe = load_recipe(tmp_path / "out/recipe.toml")
    assert (recipe.source.path, recipe.source.format) == ("model:load", "torch-code")
    assert imported.left[0].startswith("source: write model.py")
    said = "pre and post: the file doesn't say what the model takes and gives: write source.inputs and source.outputs"
    assert any(words.startswith(said) for words in imported.left)


def test_nothing_is_left_of_a_source_that_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "broken.onnx"
    source.write_bytes(save_model(tmp_path / "net.onnx").read_bytes()[:-20])
    before = sorted(tmp_path.iterdir())
    with pytest.raises(BadModel, match="cut short"):
        take(source, tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before


def test_refuses_folders_in_use_and_sources_of_no_kind(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("")
    with pytest.raises(BadRecipe, match="isn't empty"):
        take(save_model(tmp_path / "net.onnx"), tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadModel, match="found none"):
        take(tmp_path / "empty", tmp_path / "new")
    with pytest.raises(BadModel, match="no such file"):
        take(tmp_path / "missing", tmp_path / "new")
    with pytest.raises(BadRecipe, match="--reference is for an OCI layout"):
        import_source(tmp_path, out=tmp_path / "new", task="", name="", reference="x", created_at=DAY)


@pytest.mark.parametrize(
    ("text", "name"), [("My Net_v2.onnx", "my-net-v2-onnx"), ("été", "t"), ("---", "model"), ("a" * 99, "a" * 63)]
)
def test_any_text_becomes_a_name(text: str, name: str) -> None:
    assert make_name(text) == name


def test_an_oci_artifact_is_unpacked_and_named_in_the_provenance(tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    (layout / "blobs/sha256").mkdir(parents=True)
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def put(content: bytes, **annotations: str) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        (layout / "blobs/sha256" / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content), "annotations": annotations}

    layer = put(save_model(tmp_path / "net.onnx").read_bytes(), **{"org.opencontainers.image.title": "net.onnx"})
    manifest = put(
        json.dumps({"layers": [layer], "annotations": {"org.opencontainers.image.licenses": "MIT"}}).encode(),
        **{"org.opencontainers.image.ref.name": "registry.example/models/finder:v3"},
    )
    (layout / "index.json").write_text(json.dumps({"manifests": [manifest]}))
    imported = take(layout, tmp_path / "out", task="classification")
    recipe = load_recipe(tmp_path / "out/recipe.toml")
    assert (recipe.name, recipe.licence, list(imported.files)) == ("finder", "MIT", ["net.onnx"])
    assert f"OCI artifact registry.example/models/finder:v3 ({manifest['digest']})" in recipe.provenance
