"""Sources that a recipe may name, and mistakes in naming them."""

import hashlib
from pathlib import Path

import pytest
from shoal_converters.errors import BadModel, BadRecipe
from shoal_converters.recipe import Source
from shoal_converters.source_model import open_source

from tests.onnx_bytes import external_weight_model


def test_a_file_is_known_by_the_digest_of_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(b"not looked at, since the format is given")
    opened = open_source(Source(path="model.tflite", format="tflite"), folder=tmp_path)
    assert opened.sha256 == hashlib.sha256(b"not looked at, since the format is given").hexdigest()
    assert Path(opened.path).is_absolute()


def test_the_weights_beside_a_model_count_for_its_digest(tmp_path: Path) -> None:
    (tmp_path / "model.xml").write_bytes(b"<net/>")
    (tmp_path / "model.bin").write_bytes(b"one")
    source = Source(path="model.xml", format="openvino")
    before = open_source(source, folder=tmp_path).sha256
    (tmp_path / "model.bin").write_bytes(b"two")
    assert open_source(source, folder=tmp_path).sha256 != before


def test_weights_that_an_onnx_file_names_count_too(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(external_weight_model(location="weights.bin"))
    (tmp_path / "weights.bin").write_bytes(b"one")
    before = open_source(Source(path="model.onnx"), folder=tmp_path).sha256
    (tmp_path / "weights.bin").write_bytes(b"two")
    assert open_source(Source(path="model.onnx"), folder=tmp_path).sha256 != before


def test_a_folder_counts_with_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "saved" / "variables").mkdir(parents=True)
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"graph")
    (tmp_path / "saved" / "variables" / "data").write_bytes(b"one")
    source = Source(path="saved", format="savedmodel")
    before = open_source(source, folder=tmp_path).sha256
    (tmp_path / "saved" / "variables" / "data").write_bytes(b"two")
    assert open_source(source, folder=tmp_path).sha256 != before


def test_code_is_found_beside_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "network.py").write_text("def make(): ...\n")
    opened = open_source(Source(path="network:make"), folder=tmp_path)
    assert opened.format == "torch-code"
    assert opened.path == "network:make"
    assert opened.code_folder == str(tmp_path)


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        (Source(path="gone.onnx"), BadModel, "no such file"),
        (Source(path="gone:make"), BadModel, r"gone\.py"),
        (Source(path="a.onnx", format="caffe"), BadRecipe, "unknown format 'caffe'"),
        (Source(path="a.py", format="torch-code"), BadRecipe, "module:function"),
    ],
)
def test_names_what_is_wrong(tmp_path: Path, source: Source, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        open_source(source, folder=tmp_path)
