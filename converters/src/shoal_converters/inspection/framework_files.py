"""What can be said of files of TensorFlow, Keras, Paddle and scikit-learn without these frameworks?

The messages: saved_model.proto and meta_graph.proto of TensorFlow, framework.proto of Paddle. Pickles are never opened:
the names in them are listed by the standard library's disassembler, which runs nothing.
"""

import io
import math
import pickletools
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from shoal_converters.errors import BadModel
from shoal_converters.inspection.archives import find_member, open_archive, read_member
from shoal_converters.inspection.facts import Facts, TensorFacts, count_operators, dominant_precision
from shoal_converters.inspection.protobuf import Message, map_file

MAX_CONFIGURATION_BYTES = 64 << 20
MAX_PICKLE_BYTES = 16 << 20
MAX_PICKLE_NAMES = 40
PICKLE_NOTE = (
    "a pickle: whoever opens it runs code that its maker chose. It wasn't opened here. Convert only your own: "
    "shoal-convert opens it in a process of its own, with your rights"
)
NEEDS_TENSORFLOW = "running or converting it needs TensorFlow: pip install 'shoal-converters[tensorflow]'"
TENSORFLOW_DTYPES = {
    **{1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string", 9: "int64"},
    **{10: "bool", 14: "bfloat16", 17: "uint16", 19: "float16", 22: "uint32", 23: "uint64"},
}
"""types.proto."""
PADDLE_DTYPES = {
    **{0: "bool", 1: "int16", 2: "int32", 3: "int64", 4: "float16", 5: "float32", 6: "float64"},
    **{20: "uint8", 21: "int8", 22: "bfloat16"},
}
"""VarType.Type."""
BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2}


def is_savedmodel(message: Message) -> bool:
    """Whether a message is a SavedModel: a schema version and graphs."""
    return message.kinds == {1: {0}, 2: {2}} and message.number(1) == 1


def is_paddle(message: Message) -> bool:
    """Whether a message is a Paddle program: blocks and versions."""
    if message.kinds.get(1) != {2} or not set(message.kinds) <= {1, 4, 5}:
        return False
    try:
        block = next(message.messages(1))
    except BadModel:
        return False
    return block.kinds.get(1) == {0} and block.kinds.get(2) == {0}


def read_savedmodel(path: Path) -> Facts:
    """Read the signatures of a SavedModel folder.

    Raises:
        BadModel: no graph inside, or a broken one.
    """
    file = path / "saved_model.pb"
    if not file.is_file():
        raise BadModel(f"{path}: expected saved_model.pb inside, which is missing (a .pbtxt isn't read)")
    operators = Counter[tuple[str, str, str]]()
    signatures: dict[str, Message] = {}
    tags: list[str] = []
    writer = ""
    for graph in Message(map_file(file), what=str(file)).messages(2):
        tags += graph.message(1).texts(4)
        writer = graph.message(1).text(5) or writer
        definition = graph.message(2)
        nodes = [*definition.messages(1)]
        nodes += [node for function in definition.message(2).messages(1) for node in function.messages(3)]
        operators.update((node.text(2), "", "") for node in nodes)
        signatures |= dict(graph.entries(5))
    main = signatures.get("serving_default") or next(
        (signature for name, signature in signatures.items() if name != "__saved_model_init_op"), None
    )
    return Facts(
        format="savedmodel",
        inputs=() if main is None else tuple(_tensorflow_tensor(name, info) for name, info in main.entries(1)),
        outputs=() if main is None else tuple(_tensorflow_tensor(name, info) for name, info in main.entries(2)),
        operators=count_operators(operators),
        versions={"tags": ", ".join(tags)} | ({"written by": f"TensorFlow {writer}"} if writer else {}),
        parameter_bytes=sum(part.stat().st_size for part in (path / "variables").glob("variables.data-*")),
        signatures=tuple(name for name in signatures if name != "__saved_model_init_op"),
        notes=(NEEDS_TENSORFLOW,),
    )


def read_keras(path: Path) -> Facts:
    """Read the configuration inside a .keras file; of an .h5 file nothing is known without h5py.

    Raises:
        BadModel: broken, cut short, or without a configuration.
    """
    with path.open("rb") as file:
        if file.read(4) == b"\x89HDF":
            return Facts(format="keras", versions={"container": "HDF5"}, notes=(NEEDS_TENSORFLOW,))
    with open_archive(path) as archive:
        raw = read_member(archive, "config.json", limit_bytes=MAX_CONFIGURATION_BYTES, what=str(path))
        metadata = read_member(archive, "metadata.json", limit_bytes=1 << 20, what=str(path))
        weights = find_member(archive, "model.weights.h5")
        size = archive.getinfo(weights).file_size if weights else 0
    try:
        model, about = msgspec.json.decode(raw), msgspec.json.decode(metadata)
        layers = model["config"].get("layers", [])
        operators = Counter((str(layer["class_name"]), "", "") for layer in layers)
        inputs = tuple(_keras_input(layer) for layer in layers if layer["class_name"] == "InputLayer")
        written = f"Keras {about.get('keras_version', '')}".strip()
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise BadModel(f"{path}: its config.json can't be read ({type(error).__name__}: {error})"[:400]) from None
    return Facts(
        format="keras",
        inputs=inputs,
        operators=count_operators(operators),
        versions={"written by": written},
        parameter_bytes=size,
        notes=(NEEDS_TENSORFLOW,),
    )


def read_paddle(path: Path) -> Facts:
    """Read a program, and see whether its .pdiparams lies beside it.

    Raises:
        BadModel: not a program, or a broken one.
    """
    program = Message(map_file(path), what=str(path))
    operators, sizes = Counter[tuple[str, str, str]](), Counter[str]()
    inputs: list[TensorFacts] = []
    outputs: list[TensorFacts] = []
    parameters = 0
    for block in program.messages(1):
        variables = {variable.text(1): variable for variable in block.messages(3)}
        for variable in variables.values():
            tensor = _paddle_tensor(variable)
            if variable.number(3) and tensor.shape and tensor.name not in ("feed", "fetch"):
                parameters += math.prod(tensor.shape)
                sizes[tensor.dtype] += math.prod(tensor.shape) * BYTES.get(tensor.dtype, 1)
        for operator in block.messages(4):
            kind = operator.text(3)
            operators[(kind, "", "")] += 1
            ends = {"feed": (2, inputs), "fetch": (1, outputs)}.get(kind)
            for name in [] if ends is None else [name for end in operator.messages(ends[0]) for name in end.texts(2)]:
                if ends is not None and name in variables:
                    ends[1].append(_paddle_tensor(variables[name]))
    beside = path.with_suffix(".pdiparams")
    notes = (
        []
        if beside.is_file() or not parameters
        else [f"{beside.name} with its weights must lie beside it, and doesn't"]
    )
    return Facts(
        format="paddle",
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        operators=count_operators(operators),
        versions={"program": str(program.message(4).number(1))},
        parameters=parameters,
        parameter_bytes=sum(sizes.values()),
        precision=dominant_precision(sizes),
        external_files=(beside.name,) if parameters else (),
        notes=(*notes, "boards run it as OpenVINO IR, which shoal-convert makes of it"),
    )


def read_sklearn(path: Path) -> Facts:
    """List what a pickle would import, without opening it.

    Raises:
        BadModel: the file can't be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(MAX_PICKLE_BYTES)
    except OSError as error:
        raise BadModel(f"{path}: {error.strerror or error}") from None
    names = _list_imports(head)
    notes = [PICKLE_NOTE]
    if not names:
        notes.append("what it holds can't be seen from outside: it is compressed, or not a pickle")
    elif not any(name.partition(".")[0] == "sklearn" for name in names):
        notes.append(f"it imports nothing of scikit-learn; it would import {', '.join(names[:10])}")
    return Facts(
        format="sklearn",
        operators=count_operators(Counter((name, "", "") for name in names)),
        notes=tuple(notes),
    )


def _list_imports(raw: bytes) -> list[str]:
    """Names that the pickle would import, as far as it can be followed: joblib puts arrays in between."""
    names: dict[str, None] = {}
    texts: list[str] = []
    try:
        for operation, argument, _ in pickletools.genops(io.BytesIO(raw)):
            if operation.name in ("SHORT_BINUNICODE", "BINUNICODE", "UNICODE"):
                texts = [*texts[-1:], str(argument)]
            elif operation.name == "GLOBAL":
                names[str(argument).replace(" ", ".", 1)[:200]] = None
            elif operation.name == "STACK_GLOBAL" and len(texts) == 2:
                names[".".join(texts)[:200]] = None
            if len(names) >= MAX_PICKLE_NAMES:
                break
    except Exception:  # noqa: S110 -- whatever it meets in bytes that are no pickle ends the list
        pass
    return list(names)


def _tensorflow_tensor(name: str, info: Message) -> TensorFacts:
    shape = info.message(3)
    lengths = tuple(max(-1, dimension.number(1)) for dimension in shape.messages(2))
    dtype = TENSORFLOW_DTYPES.get(info.number(2), f"type {info.number(2)}")
    return TensorFacts(name=name, dtype=dtype, shape=None if shape.number(3) else lengths)


def _keras_input(layer: dict[str, Any]) -> TensorFacts:
    configuration = layer["config"]
    shape = configuration.get("batch_shape", configuration.get("batch_input_shape")) or []
    dtype = configuration.get("dtype", "float32")
    return TensorFacts(
        name=str(configuration.get("name", "")),
        dtype=str(dtype if isinstance(dtype, str) else dtype["config"]["name"]),
        shape=tuple(-1 if length is None else int(length) for length in shape),
    )


def _paddle_tensor(variable: Message) -> TensorFacts:
    """VarDesc → VarType → DenseTensorDesc → TensorDesc."""
    tensor = variable.message(2).message(3).message(1)
    dtype = PADDLE_DTYPES.get(tensor.number(1), f"type {tensor.number(1)}")
    return TensorFacts(name=variable.text(1), dtype=dtype, shape=tuple(max(-1, length) for length in tensor.numbers(2)))
