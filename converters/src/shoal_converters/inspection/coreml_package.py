"""What does a Core ML model hold? An .mlpackage folder, one in a zip file, or an .mlmodel, without coremltools.

The messages: Model.proto and MIL.proto (apple.github.io/coremltools, "Core ML format reference").
"""

import zipfile
from collections import Counter
from pathlib import Path

from shoal_converters.errors import BadModel
from shoal_converters.inspection.archives import open_archive, read_member
from shoal_converters.inspection.facts import Facts, TensorFacts, count_operators
from shoal_converters.inspection.protobuf import MAX_DEPTH, Message, map_file

MAX_SPECIFICATION_BYTES = 256 << 20
MODEL = "com.apple.CoreML/model.mlmodel"
ELSEWHERE = "Core ML runs on Apple's systems only; Linux can't try it"
ARRAY_TYPES = {65568: "float32", 65600: "float64", 65552: "float16", 131104: "int32", 131080: "int8"}
"""ArrayFeatureType.ArrayDataType."""
MIL_FLOAT16, MIL_FLOAT32 = 10, 11
PALETTES = ("constexpr_lut_to_dense",)
INT8_WEIGHTS = ("constexpr_affine_dequantize", "constexpr_blockwise_shift_scale")
KINDS = {500: "neural network", 502: "ML program", 300: "generalized linear regressor", 400: "tree ensemble classifier"}
_PROGRAM, _NETWORK = 502, 500


def is_coreml(model: Message) -> bool:
    """Whether a message has a version, a description, and one of the kinds of model."""
    fits = model.kinds.get(1) == {0} and model.kinds.get(2) == {2}
    return fits and any(field >= 200 for field in model.kinds)


def read_coreml(path: Path) -> Facts:
    """Read the specification inside.

    Raises:
        BadModel: there is none, or it is broken.
    """
    if path.is_dir():
        specification = next(iter(sorted(path.glob(f"Data/{MODEL}"))), None) or next(
            iter(sorted(path.rglob("*.mlmodel"))), None
        )
        if specification is None:
            raise BadModel(f"{path}: not an .mlpackage: it has no Data/{MODEL}")
        weights = sum(file.stat().st_size for file in path.rglob("weights/*.bin"))
        return _read(Message(map_file(specification), what=str(specification)), weight_bytes=weights)
    if not zipfile.is_zipfile(path):
        return _read(Message(map_file(path), what=str(path)), weight_bytes=0)
    with open_archive(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".mlmodel")]
        if not names:
            raise BadModel(f"{path}: a zip file without an .mlmodel")
        raw = read_member(archive, names[0], limit_bytes=MAX_SPECIFICATION_BYTES, what=str(path))
        weights = sum(info.file_size for info in archive.infolist() if info.filename.endswith(".bin"))
    return _read(Message(memoryview(raw), what=f"{path}: {names[0]}"), weight_bytes=weights)


def _read(model: Message, *, weight_bytes: int) -> Facts:
    description = model.message(2)
    operators, types = Counter[tuple[str, str, str]](), Counter[int]()
    for _, function in model.message(_PROGRAM).entries(2):
        for _, block in function.entries(3):
            _look_into(block, operators, types, depth=0)
    for layer in model.message(_NETWORK).messages(1):
        operators[(f"layer {next((field for field in layer.kinds if field >= 100), 0)}", "", "")] += 1
    precision, how = _judge_precision(operators, types)
    metadata = description.message(100)
    kind = next((KINDS.get(field, f"kind {field}") for field in model.kinds if field >= 200), "")
    versions = {"specification": str(model.number(1)), "kind": kind}
    if metadata.text(4):
        versions["licence"] = metadata.text(4)
    return Facts(
        format="coreml",
        inputs=tuple(_feature(feature) for feature in description.messages(1)),
        outputs=tuple(_feature(feature) for feature in description.messages(10)),
        operators=count_operators(operators),
        versions=versions,
        parameter_bytes=weight_bytes or None,
        precision=precision,
        how_quantized=how,
        notes=(ELSEWHERE,),
    )


def _look_into(block: Message, operators: Counter[tuple[str, str, str]], types: Counter[int], *, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise BadModel(f"{block.what}: blocks inside blocks, more than {MAX_DEPTH} deep")
    for operation in block.messages(3):
        operators[(operation.text(1), "", "")] += 1
        for output in operation.messages(3):
            types[output.message(2).message(1).number(1)] += 1
        for inner in operation.messages(4):
            _look_into(inner, operators, types, depth=depth + 1)


def _feature(feature: Message) -> TensorFacts:
    kind = feature.message(3)
    name = feature.text(1)
    if kind.has(5):
        array = kind.message(5)
        number = array.number(2)
        return TensorFacts(name=name, dtype=ARRAY_TYPES.get(number, f"type {number}"), shape=tuple(array.numbers(1)))
    if kind.has(4):
        image = kind.message(4)
        return TensorFacts(name=name, dtype="image", shape=(image.number(2), image.number(1)))
    words = {1: "int64", 2: "float64", 3: "string", 6: "dictionary", 7: "sequence"}
    return TensorFacts(name=name, dtype=next((word for field, word in words.items() if kind.has(field)), "unknown"))


def _judge_precision(operators: Counter[tuple[str, str, str]], types: Counter[int]) -> tuple[str, str]:
    names = Counter[str]()
    for (name, _, _), count in operators.items():
        names[name] += count
    palettes, affine = sum(names[name] for name in PALETTES), sum(names[name] for name in INT8_WEIGHTS)
    if palettes:
        return "int4-weights", f"weights from palettes in {palettes} places (of 4 bits as this workbench makes them)"
    if affine:
        return "int8-weights", f"weights of 8 bits or fewer in {affine} places"
    if not types:
        return "", ""
    return ("fp16" if types[MIL_FLOAT16] > types[MIL_FLOAT32] else "fp32"), ""
