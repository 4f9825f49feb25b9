"""What does an OpenVINO IR hold? Its XML, read layer by layer and without entities, and the size of the .bin beside it.

The format: docs.openvino.ai, "OpenVINO IR format" and "Available operation sets".
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from shoal_converters.errors import BadModel
from shoal_converters.inspection.facts import Facts, TensorFacts, count_operators, dominant_precision

MAX_XML_BYTES = 64 << 20
MAX_ELEMENTS = 2_000_000
MAX_DEPTH = 128
CHUNK_BYTES = 1 << 16
DTYPES: Mapping[str, str] = {
    "boolean": "bool",
    "bool": "bool",
    "nf4": "int4",
    **{f"{sign}{bits}": f"{word}{bits}" for sign, word in (("i", "int"), ("u", "uint")) for bits in (4, 8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "bf16": "bfloat16",
}
"""NumPy's names of element types."""
CONTROL_FLOW = ("If", "Loop", "TensorIterator")


@dataclass
class _Found:
    """What was met so far."""

    net: Mapping[str, str] = field(default_factory=dict)
    operators: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    bytes_by_dtype: Counter[str] = field(default_factory=Counter)
    parameters: int = 0
    end_bytes: int = 0
    """The .bin must have so many."""
    inputs: list[TensorFacts] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    """Numbers of the layers that are outputs."""
    ports: dict[tuple[str, str], TensorFacts] = field(default_factory=dict)
    """By layer and port."""
    edges: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Layer and port that a layer's input comes from."""
    writers: dict[str, str] = field(default_factory=dict)


class _Target:
    """What the parser tells; gives each layer and edge to `_Found` and forgets it."""

    def __init__(self, what: str, found: _Found) -> None:
        self._what = what
        self._found = found
        self._open: list[Element] = []
        self._elements = 0

    def doctype(self, *_: object) -> None:
        """A document type may define entities without end, and no IR has one."""
        raise BadModel(f"{self._what}: has a document type, which no OpenVINO IR has")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        self._elements += 1
        if not self._open and tag != "net":
            raise BadModel(f"{self._what}: not an OpenVINO IR: expected <net>, found <{tag[:60]}>")
        if self._elements > MAX_ELEMENTS or len(self._open) > MAX_DEPTH:
            raise BadModel(f"{self._what}: more than {MAX_ELEMENTS} elements, or nested more than {MAX_DEPTH} deep")
        element = Element(tag, attributes)
        if self._open:
            self._open[-1].append(element)
        else:
            self._found.net = attributes
        self._open.append(element)

    def data(self, text: str) -> None:
        """Text, of which the lengths of axes are the only one that is wanted."""
        if self._open and self._open[-1].tag == "dim":
            self._open[-1].text = ((self._open[-1].text or "") + text)[:64]

    def end(self, tag: str) -> None:
        """An element ends."""
        element = self._open.pop()
        if len(self._open) != 2:
            return
        if tag == "layer":
            _look_at_layer(element, self._found, what=self._what)
        elif tag == "edge":
            source = (element.get("from-layer", ""), element.get("from-port", ""))
            self._found.edges.setdefault(element.get("to-layer", ""), source)
        elif self._open[-1].tag == "rt_info" and tag.endswith("_version"):
            self._found.writers[tag] = element.get("value", "")[:100]
        self._open[-1].clear()

    def close(self) -> None:
        """The text has ended."""


def read_openvino(path: Path) -> Facts:
    """Read the XML file, and see whether the .bin beside it is whole.

    Raises:
        BadModel: not such a file, broken, with a document type, or too long.
    """
    found = _parse(path)
    problem = _look_at_weights(path, needed=found.end_bytes)
    names = {kind for kind, _, _ in found.operators}
    custom = sorted({kind for kind, domain, _ in found.operators if domain})
    traits = {
        "control-flow": bool(names & set(CONTROL_FLOW)),
        "incomplete": bool(problem),
        "custom-operators": bool(custom),
    }
    precision, how = _judge_precision(found)
    return Facts(
        format="openvino",
        inputs=tuple(found.inputs),
        outputs=tuple(_find_output(found, number, what=str(path)) for number in found.results),
        operators=count_operators(found.operators),
        versions={"IR": found.net.get("version", "")[:20]} | found.writers,
        parameters=found.parameters,
        parameter_bytes=sum(found.bytes_by_dtype.values()),
        precision=precision,
        how_quantized=how,
        custom_operators=tuple(custom),
        external_files=(path.with_suffix(".bin").name,) if found.end_bytes else (),
        traits=tuple(name for name, holds in traits.items() if holds),
        notes=(problem,) if problem else (),
    )


def _parse(path: Path) -> _Found:
    found = _Found()
    parser = ElementTree.XMLParser(target=_Target(str(path), found))  # noqa: S314 -- its target refuses entities
    try:
        size = path.stat().st_size
        if size > MAX_XML_BYTES:
            raise BadModel(f"{path}: {size} bytes, expected at most {MAX_XML_BYTES}")
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                parser.feed(chunk)
        parser.close()
    except OSError as error:
        raise BadModel(f"{path}: {error.strerror or error}") from None
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # the latter two: an encoding that isn't one
        raise BadModel(f"{path}: broken or cut XML: {error}") from None
    return found


def _look_at_layer(layer: Element, found: _Found, *, what: str) -> None:
    number, kind = layer.get("id", ""), layer.get("type", "")
    for inner in layer.iter("layer"):  # itself, and those of bodies inside
        operator_set = inner.get("version", "")
        domain = "" if operator_set.startswith("opset") else operator_set
        found.operators[(inner.get("type", "")[:100], domain[:100], operator_set[:100])] += 1
        data = inner.find("data")
        if inner.get("type") == "Const" and data is not None:
            _look_at_constant(data, found, what=what)
    for port in layer.findall("output/port"):
        found.ports[(number, port.get("id", ""))] = _tensor(port, layer)
    if kind == "Parameter":
        found.inputs += [_tensor(port, layer) for port in layer.findall("output/port")]
    elif kind == "Result":
        found.results.append(number)


def _look_at_constant(data: Element, found: _Found, *, what: str) -> None:
    try:
        offset, size = int(data.get("offset", "0")), int(data.get("size", "0"))
        lengths = [int(length) for length in data.get("shape", "").split(",") if length.strip()]
    except ValueError:
        raise BadModel(f"{what}: a constant whose place or shape is no number: {data.attrib}"[:300]) from None
    if min(offset, size, *lengths) < 0:
        raise BadModel(f"{what}: a constant with a negative place or length: {data.attrib}"[:300])
    found.end_bytes = max(found.end_bytes, offset + size)
    found.parameters += math.prod(lengths)
    found.bytes_by_dtype[_dtype(data.get("element_type", ""))] += size


def _tensor(port: Element, layer: Element) -> TensorFacts:
    """The engine takes the first of several names; the agent's worker does too."""
    names = [name.replace("\0", ",") for name in port.get("names", "").replace("\\,", "\0").split(",")]
    texts = [(dimension.text or "").strip() for dimension in port.findall("dim")]
    return TensorFacts(
        name=min(filter(None, names), default=layer.get("name", ""))[:200],
        dtype=_dtype(port.get("precision", "").lower().replace("fp", "f")),
        shape=tuple(int(text) if text.isascii() and text.isdigit() else -1 for text in texts),
    )


def _find_output(found: _Found, number: str, *, what: str) -> TensorFacts:
    source = found.edges.get(number, ("", ""))
    if source not in found.ports:
        raise BadModel(f"{what}: the output of layer {number[:40]!r} comes from nowhere: an edge is missing")
    return found.ports[source]


def _look_at_weights(path: Path, *, needed: int) -> str:
    weights = path.with_suffix(".bin")
    if not needed:
        return ""
    if not weights.is_file():
        return f"{weights.name} with {needed} bytes of weights must lie beside it, and doesn't"
    has = weights.stat().st_size
    return f"{weights.name} is cut short: it has {has} bytes, the model needs {needed}" if has < needed else ""


def _judge_precision(found: _Found) -> tuple[str, str]:
    fakes = sum(count for (kind, _, _), count in found.operators.items() if kind == "FakeQuantize")
    stored = dominant_precision(found.bytes_by_dtype)
    if fakes:
        return "int8", f"static INT8: {fakes} FakeQuantize layers"
    return stored, "weights only" if stored.endswith("-weights") else ""


def _dtype(name: str) -> str:
    return DTYPES.get(name, name[:40])
