"""Is the format of a file told by what is in it, before its name?"""

import pickle
import zipfile
from pathlib import Path

import pytest
from shoal_agent.front.probe_models import PROBE_MODELS
from shoal_converters.errors import BadModel
from shoal_converters.inspection.formats import KINDS, detect_format, detect_kind
from shoal_converters.inspection.inspecting import READERS

TORCH_PICKLE = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."


def save(folder: Path, content: bytes, *, name: str = "model.dat") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def archive(folder: Path, *names: str) -> Path:
    path = folder / "model.zip"
    with zipfile.ZipFile(path, "w") as opened:
        for name in names:
            opened.writestr(name, b"{}")
    return path


@pytest.mark.parametrize("model_format", ["onnx", "tflite", "openvino"])
def test_tells_engines_formats_by_their_content(tmp_path: Path, model_format: str) -> None:
    assert detect_format(save(tmp_path, PROBE_MODELS[model_format][0])) == model_format


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\x89HDF\r\n\x1a\n0000", "keras"),
        (pickle.dumps({"a": 1}), "sklearn"),
        (bytes.fromhex("0a040800100022020800"), "paddle"),  # a block with idx and parent_idx, and a version
    ],
)
def test_tells_frameworks_files_by_their_content(tmp_path: Path, content: bytes, expected: str) -> None:
    assert detect_format(save(tmp_path, content)) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("net/models/model.json", "net/archive_format"), "torch-export"),
        (("serialized_exported_program.json", "version"), "torch-export"),
        (("net/code/__torch__.py", "net/constants.pkl"), "torchscript"),
        (("config.json", "metadata.json", "model.weights.h5"), "keras"),
    ],
)
def test_tells_archives_by_the_names_inside(tmp_path: Path, names: tuple[str, ...], expected: str) -> None:
    assert detect_format(archive(tmp_path, *names)) == expected


def test_tells_folders_by_the_files_inside(tmp_path: Path) -> None:
    save(tmp_path, b"", name="saved/saved_model.pb")
    save(tmp_path, b"{}", name="release/release.json")
    save(tmp_path, b"{}", name="net.mlpackage/Manifest.json")
    assert detect_format(tmp_path / "saved") == "savedmodel"
    assert detect_kind(tmp_path / "release") == "release"
    assert detect_kind(tmp_path / "net.mlpackage") == "coreml"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("net.onnx", "onnx"), ("net.pt2", "torch-export"), ("net.joblib", "sklearn"), ("net.pdmodel", "paddle")],
)
def test_goes_by_the_name_where_the_content_tells_nothing(tmp_path: Path, name: str, expected: str) -> None:
    assert detect_format(save(tmp_path, b"\xff\xff\xff\xff", name=name)) == expected


@pytest.mark.parametrize(
    ("content", "name", "reason"),
    [
        (b"", "a.onnx", "the file is empty"),
        (b"hello, world", "notes.txt", "of no known format"),
        (b"GGUF\x03", "llama.gguf", "GGUF"),
        (b"\x93NUMPY\x01", "a.npy", "a NumPy array"),
        (TORCH_PICKLE, "net.pt", "weights of an old PyTorch"),
        (b"\x02\x00\x00\x00\x00\x00\x00\x00{}", "model.safetensors", "weights without a program"),
        (b"\x08\x01\x12\x02\x08\x01", "saved_model.pb", "name its folder"),
    ],
)
def test_refuses_what_is_no_model_and_says_what_it_is(tmp_path: Path, content: bytes, name: str, reason: str) -> None:
    with pytest.raises(BadModel, match=reason):
        detect_format(save(tmp_path, content, name=name))


def test_refuses_other_archives_and_folders_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(BadModel, match=r"inside: a\.txt"):
        detect_format(archive(tmp_path, "a.txt"))
    save(tmp_path, b"", name="folder/net.onnx")
    with pytest.raises(BadModel, match=r"name one of the files inside: net\.onnx"):
        detect_format(tmp_path / "folder")


def test_code_must_be_named_in_the_recipe() -> None:
    with pytest.raises(BadModel, match="set format to torch-code or sklearn-code"):
        detect_format(Path("networks.small:make"))
    with pytest.raises(BadModel, match="no such file or folder"):
        detect_format(Path("missing/net.onnx"))


def test_nothing_is_converted_from_core_ml(tmp_path: Path) -> None:
    save(tmp_path, b"{}", name="net.mlpackage/Manifest.json")
    with pytest.raises(BadModel, match="from which nothing is converted"):
        detect_format(tmp_path / "net.mlpackage")


def test_every_format_that_a_file_can_have_has_a_reader() -> None:
    assert {kind for kind in KINDS if not kind.endswith("-code")} - {"release"} == set(READERS)
