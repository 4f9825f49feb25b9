"""Are files of frameworks described without the frameworks, and pickles without being opened?"""

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from shoal_converters.errors import BadModel
from shoal_converters.inspection.coreml_package import read_coreml
from shoal_converters.inspection.framework_files import read_keras, read_paddle, read_savedmodel, read_sklearn
from shoal_converters.inspection.torch_archive import read_torch_export, read_torchscript
from sklearn.linear_model import LogisticRegression

Field = tuple[int, "int | str | bytes | list[Field]"]


def encode(*fields: Field) -> bytes:
    """A message after the wire format of Protocol Buffers; a list is a message inside."""
    raw = b""
    for number, value in fields:
        if isinstance(value, int):
            raw += varint(number << 3) + varint(value)
        else:
            content = encode(*value) if isinstance(value, list) else value.encode() if isinstance(value, str) else value
            raw += varint(number << 3 | 2) + varint(len(content)) + content
    return raw


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    digits = []
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


def archive(folder: Path, members: dict[str, bytes]) -> Path:
    path = folder / "model.zip"
    with zipfile.ZipFile(path, "w") as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return path


class Evil:
    def __reduce__(self) -> Any:
        return eval, ("(_ for _ in ()).throw(SystemExit('opened'))",)


def test_a_pickle_is_looked_at_and_never_opened(tmp_path: Path) -> None:
    path = tmp_path / "evil.pkl"
    path.write_bytes(pickle.dumps(Evil()))
    facts = read_sklearn(path)
    assert [one.name for one in facts.operators] == ["builtins.eval"]
    assert "It wasn't opened here" in facts.notes[0]
    assert "it imports nothing of scikit-learn; it would import builtins.eval" in facts.notes[1]


def test_an_estimator_is_known_by_what_it_would_import(tmp_path: Path) -> None:
    path = tmp_path / "net.joblib"
    joblib.dump(LogisticRegression().fit(np.eye(2), [0, 1]), path)
    facts = read_sklearn(path)
    assert "sklearn.linear_model._logistic.LogisticRegression" in {one.name for one in facts.operators}
    assert len(facts.notes) == 1


def test_a_savedmodel_is_known_by_its_signature(tmp_path: Path) -> None:
    def tensor(name: str, dtype: int, *lengths: int) -> list[Field]:
        shape: list[Field] = [(2, [(1, length)]) for length in lengths]
        return [(1, f"{name}:0"), (2, dtype), (3, shape)]

    signature: list[Field] = [
        (1, [(1, "image"), (2, tensor("image", 1, -1, 8, 8, 3))]),
        (2, [(1, "scores"), (2, tensor("scores", 1, -1, 10))]),
    ]
    graph: list[Field] = [
        (1, [(4, "serve"), (5, "2.19.0")]),
        (2, [(1, [(1, "a"), (2, "Conv2D")]), (2, [(1, [(3, [(1, "b"), (2, "Relu")])])])]),
        (5, [(1, "serving_default"), (2, signature)]),
    ]
    (tmp_path / "saved_model.pb").write_bytes(encode((1, 1), (2, graph)))
    facts = read_savedmodel(tmp_path)
    assert [one.words for one in (*facts.inputs, *facts.outputs)] == [
        "image float32 [any, 8, 8, 3]",
        "scores float32 [any, 10]",
    ]
    assert {one.name for one in facts.operators} == {"Conv2D", "Relu"}
    assert facts.versions == {"tags": "serve", "written by": "TensorFlow 2.19.0"}


def test_a_paddle_program_is_known_by_what_it_feeds_and_fetches(tmp_path: Path) -> None:
    def variable(name: str, *lengths: int, kept: int = 0) -> Field:
        tensor: list[Field] = [(1, 5), *((2, length) for length in lengths)]
        return (3, [(1, name), (2, [(1, 7), (3, [(1, tensor)])]), (3, kept)])

    block: list[Field] = [
        *((1, 0), (2, 0), variable("x", -1, 4), variable("w", 4, 2, kept=1), variable("y", -1, 2)),
        (4, [(2, [(1, "Out"), (2, "x")]), (3, "feed")]),
        (4, [(3, "matmul_v2")]),
        (4, [(1, [(1, "X"), (2, "y")]), (3, "fetch")]),
    ]
    path = tmp_path / "net.pdmodel"
    path.write_bytes(encode((1, block), (4, [(1, 0)])))
    facts = read_paddle(path)
    assert [one.words for one in (*facts.inputs, *facts.outputs)] == ["x float32 [any, 4]", "y float32 [any, 2]"]
    assert (facts.parameters, facts.parameter_bytes, facts.precision) == (8, 32, "fp32")
    assert "net.pdiparams with its weights must lie beside it" in facts.notes[0]


def test_a_keras_file_is_known_by_its_configuration(tmp_path: Path) -> None:
    layers = [
        {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [None, 8], "dtype": "float32"}},
        {"class_name": "Dense", "config": {}},
    ]
    path = archive(
        tmp_path,
        {
            "config.json": json.dumps({"config": {"layers": layers}}).encode(),
            "metadata.json": b'{"keras_version": "3.4"}',
            "model.weights.h5": bytes(100),
        },
    )
    facts = read_keras(path)
    assert [one.words for one in facts.inputs] == ["x float32 [any, 8]"]
    assert (facts.parameter_bytes, facts.versions) == (100, {"written by": "Keras 3.4"})


def test_a_core_ml_package_is_known_by_its_specification(tmp_path: Path) -> None:
    def feature(name: str, *lengths: int) -> list[Field]:
        array: list[Field] = [*((1, length) for length in lengths), (2, 65568)]
        return [(1, name), (3, [(5, array)])]

    output: list[Field] = [(1, "y"), (2, [(1, [(1, 10)])])]
    block: list[Field] = [(3, [(1, "linear"), (3, output)])]
    program: list[Field] = [(1, 1), (2, [(1, "main"), (2, [(3, [(1, "CoreML7"), (2, block)])])])]
    description: list[Field] = [(1, feature("x", 1, 4)), (10, feature("y", 1, 2))]
    file = tmp_path / "net.mlpackage/Data/com.apple.CoreML/model.mlmodel"
    file.parent.mkdir(parents=True)
    file.write_bytes(encode((1, 8), (2, description), (502, program)))
    facts = read_coreml(tmp_path / "net.mlpackage")
    assert [one.words for one in (*facts.inputs, *facts.outputs)] == ["x float32 [1, 4]", "y float32 [1, 2]"]
    assert ([one.name for one in facts.operators], facts.precision) == (["linear"], "fp16")
    assert facts.versions == {"specification": "8", "kind": "ML program"}


def test_an_exported_program_is_known_by_its_graph(tmp_path: Path) -> None:
    def argument(kind: str, name: str) -> dict[str, Any]:
        return {kind: {"arg": {"as_tensor": {"name": name}}}}

    module = {
        "graph": {
            "nodes": [{"target": "torch.ops.aten.conv2d.default"}, {"target": "torch.ops.mine.gizmo.default"}],
            "tensor_values": {
                "x": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "s0"}}, {"as_int": 3}]},
                "y": {"dtype": 6, "sizes": []},
            },
        },
        "signature": {
            "input_specs": [{"parameter": {"arg": {"name": "p"}}}, argument("user_input", "x")],
            "output_specs": [argument("user_output", "y")],
        },
    }
    program = {"graph_module": module, "opset_version": {"aten": 10}, "torch_version": "2.6"}
    path = archive(tmp_path, {"net/models/model.json": json.dumps(program).encode(), "net/archive_version": b"0"})
    facts = read_torch_export(path)
    assert [one.words for one in (*facts.inputs, *facts.outputs)] == ["x float32 [any, 3]", "y float16 []"]
    assert facts.custom_operators == ("mine.gizmo.default",)
    assert "shoal-converters[torch]" in facts.notes[0]


def test_weights_without_a_program_are_no_torchscript(tmp_path: Path) -> None:
    with pytest.raises(BadModel, match="weights without a program"):
        read_torchscript(archive(tmp_path, {"net/data.pkl": b"", "net/data/0": bytes(8)}))


@pytest.mark.parametrize("content", [b"null", b"[]", b'{"graph_module": 1}', b'{"a": ' * 5000])
def test_refuses_a_graph_of_another_form(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(BadModel, match="can't be read"):
        read_torch_export(archive(tmp_path, {"models/model.json": content}))


def test_refuses_a_member_that_is_larger_than_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "bomb.keras"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened, opened.open("config.json", "w") as member:
        for _ in range(65):
            member.write(bytes(1 << 20))
    with pytest.raises(BadModel, match="more than 67108864 bytes"):
        read_keras(path)


def test_refuses_a_cut_archive(tmp_path: Path) -> None:
    path = archive(tmp_path, {"net/code/a.py": b"x" * 1000})
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(BadModel, match="a broken or cut zip file"):
        read_torchscript(path)
