"""What can be said of a PyTorch file without PyTorch?

Both are zip files. A program of `torch.export.save` (.pt2) has its graph as JSON (torch/_export/serde/schema.py); a
TorchScript file has source text and a pickle, which isn't opened here.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from shoal_converters.errors import BadModel
from shoal_converters.inspection.archives import find_member, open_archive, read_member
from shoal_converters.inspection.facts import Facts, TensorFacts, count_operators

MAX_GRAPH_BYTES = 64 << 20
GRAPHS = ("serialized_exported_program.json", "models/model.json", "serialized_model.json")
"""Names that the graph has had, from torch 2.1 on."""
SCALARS = {
    **{1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64"},
    **{12: "bool", 13: "bfloat16", 28: "uint16"},
}
"""ScalarType of the schema."""
NEEDS_TORCH = "running or converting it needs PyTorch: pip install 'shoal-converters[torch]'"


def read_torch_export(path: Path) -> Facts:
    """Read the graph of an exported program.

    Raises:
        BadModel: broken, cut short, or without a graph that can be read.
    """
    with open_archive(path) as archive:
        name = next(filter(None, (find_member(archive, graph) for graph in GRAPHS)), "")
        if not name:
            raise BadModel(f"{path}: a zip file without the graph of an exported program ({', '.join(GRAPHS)})")
        raw = read_member(archive, name, limit_bytes=MAX_GRAPH_BYTES, what=str(path))
        weights = sum(
            info.file_size
            for info in archive.infolist()
            if ("weights" in info.filename or "state_dict" in info.filename) and not info.filename.endswith(".json")
        )
        version = find_member(archive, "archive_version") or find_member(archive, "/version")
        written = (
            read_member(archive, version, limit_bytes=64, what=str(path)).decode(errors="replace") if version else ""
        )
    try:
        program = msgspec.json.decode(raw)
        return _read_program(program, weight_bytes=weights, archive_version=written.strip())
    except (msgspec.DecodeError, KeyError, TypeError, IndexError, AttributeError, ValueError, RecursionError) as error:
        raise BadModel(f"{path}: the graph in {name} can't be read ({type(error).__name__}: {error})"[:400]) from None


def read_torchscript(path: Path) -> Facts:
    """Count what a TorchScript file holds; what it computes isn't known without PyTorch.

    Raises:
        BadModel: broken, cut short, or weights without a program.
    """
    with open_archive(path) as archive:
        members = archive.infolist()
        sources = [info.filename for info in members if "/code/" in info.filename and info.filename.endswith(".py")]
        if not sources:
            raise BadModel(
                f"{path}: weights without a program (torch.save of a state_dict or of a module): give the code that "
                "makes the model as module:function, or save torch.export.export(...) with torch.export.save"
            )
        weights = [info for info in members if "/data/" in info.filename or "/constants/" in info.filename]
        version = find_member(archive, "/version")
        written = (
            read_member(archive, version, limit_bytes=64, what=str(path)).decode(errors="replace") if version else ""
        )
    return Facts(
        format="torchscript",
        versions={"archive": written.strip(), "source files": str(len(sources))},
        parameter_bytes=sum(info.file_size for info in weights),
        notes=(
            "inputs and outputs aren't in the file: the recipe names them (source.inputs, source.outputs)",
            NEEDS_TORCH,
        ),
    )


def _read_program(program: dict[str, Any], *, weight_bytes: int, archive_version: str) -> Facts:
    module = program["graph_module"]
    graph, signature = module["graph"], module["signature"]
    tensors = graph["tensor_values"]
    operators = Counter[tuple[str, str, str]]()
    for node in graph["nodes"]:
        domain, _, name = str(node["target"]).removeprefix("torch.ops.").partition(".")
        operators[(name or domain, "" if domain == "aten" else domain, "")] += 1
    versions = {"archive": archive_version, "written by": f"torch {program.get('torch_version', '')}".strip()}
    versions |= {f"opset {name}": str(number) for name, number in program.get("opset_version", {}).items()}
    custom = sorted({f"{domain}.{name}" for name, domain, _ in operators if domain not in ("", "_operator", "prims")})
    return Facts(
        format="torch-export",
        inputs=tuple(_tensors(signature["input_specs"], tensors, kind="user_input")),
        outputs=tuple(_tensors(signature["output_specs"], tensors, kind="user_output")),
        operators=count_operators(operators),
        versions=versions,
        parameter_bytes=weight_bytes,
        custom_operators=tuple(custom),
        notes=(NEEDS_TORCH,),
    )


def _tensors(specifications: list[dict[str, Any]], tensors: dict[str, Any], *, kind: str) -> list[TensorFacts]:
    found = []
    for specification in specifications:
        argument = specification.get(kind, {}).get("arg", {})
        name = argument.get("as_tensor", {}).get("name")
        if name is None:
            continue
        meta = tensors[name]
        shape = tuple(int(size.get("as_int", -1)) for size in meta["sizes"])
        found.append(TensorFacts(name=name, dtype=SCALARS.get(meta["dtype"], f"type {meta['dtype']}"), shape=shape))
    return found
