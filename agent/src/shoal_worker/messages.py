"""What do a front and its worker say to each other?

    front                                   worker
    hello                              <->  hello
    Load + memfds of the model's files  ->
                                       <-   Loaded (+ memfd of a plan), or Refused and the end
    Buffer + memfd (first, and to grow) ->
    Infer                               ->
                                       <-   Buffer + memfd (first, and to grow)
                                       <-   Answer or Failed

Up to LANES runs may be without a reply, so that the worker goes from one to the next at once; they are run one at a
time, in the order in which they came. Each has a lane of its own, which is memory on both sides that is used again
after the reply. End of stream ends the worker. `parse_message` checks every field, so that what passes inward is typed.

A message is a JSON object (`encode_message`), but for the two of a run whose tensors lie as the last ones did: they are
a few bytes, as they cost as much as a small model. The worker hears nothing while it runs, but for a pipe by which the
front cancels the oldest run (`CANCEL`).
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Callable, Mapping
from typing import TypeVar, Union

from .channel import BadMessage, decode_json, encode_json

LANES = 2  # one run that goes on, and one that waits for its turn
CANCEL = struct.Struct(">Q")  # the id of a run that is to stop, whether it goes on or waits; its reply comes as ever
_SAME_INFER = struct.Struct(">BBQ")  # 1, lane, id
_SAME_ANSWER = struct.Struct(">BdQ")  # 2, milliseconds, id
MODEL_FD = 500  # beyond what a worker has open when it loads
MAX_TENSORS = 256
MAX_RANK = 16
MAX_NAME = 256  # characters; all names of a model together must fit into one frame
MAX_TEXT = 4096
MAX_WHOLE = 1 << 53  # what JSON carries exactly

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """An input or output of a model. `dtype` is NumPy's name; None in `shape` is a length that may vary."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]


@dataclasses.dataclass(frozen=True)
class TensorRecord:
    """Where one tensor lies in the sender's shared memory, in row-major order. `offset` is in bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


@dataclasses.dataclass(frozen=True)
class Load:
    """Load the model whose files come along, each in a memfd, the model first.

    `precision` is "exact" (compute in the model's types) or "fast" (the engine may compute in shorter ones).
    `memory_arena` False gives memory back after each run: slower, smaller. `device` is one of those that the engine
    lists, in its own words; empty means what the engine takes first. Another one is never taken instead. `path`, where
    it isn't empty, leads to descriptor MODEL_FD, where the worker then has the model while it loads.
    """

    engine: str
    format: str
    threads: int
    precision: str
    memory_arena: bool
    device: str
    path: str = ""


@dataclasses.dataclass(frozen=True)
class Loaded:
    """The model is ready. `placement` is where the engine really runs it, in its own words and order.

    `devices` are what the engine could run it on. `sandbox` is what holds the worker, `sandbox_gaps` why something of
    it is missing (`shoal_worker.sandbox`). A memfd comes along where the engine built a plan of the model for
    this board, which can be loaded in its place next time.
    """

    engine: str
    engine_version: str
    placement: tuple[str, ...]
    devices: tuple[str, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    load_ms: float  # import of the engine and load of the model
    rss_bytes: int
    sandbox: tuple[str, ...] = ()
    sandbox_gaps: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Refused:
    """The model can't be served: `kind` is "model" or "installation"."""

    kind: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Buffer:
    """The memfd that comes along holds the sender's tensors of one lane from now on."""

    lane: int


@dataclasses.dataclass(frozen=True)
class Infer:
    """Run the model on these inputs; None where they lie as the last ones in the lane did.

    `id` grows from run to run; no other run in `lane` is without a reply.
    """

    id: int
    lane: int
    inputs: tuple[TensorRecord, ...] | None


@dataclasses.dataclass(frozen=True)
class Answer:
    """The outputs of run `id`, in its lane; None where they lie as the last ones there did.

    They stay as they are until the next Infer in that lane.
    """

    id: int
    outputs: tuple[TensorRecord, ...] | None
    run_ms: float  # in the engine


@dataclasses.dataclass(frozen=True)
class Failed:
    """Run `id` has no answer: `kind` is "bad_input", "engine" or "cancelled"."""

    id: int
    kind: str
    reason: str


Message = Union[Load, Loaded, Refused, Buffer, Infer, Answer, Failed]


def pack_message(message: Message) -> bytes:
    """The body of a frame with a message, for `Channel.send_frame`."""
    if isinstance(message, Infer) and message.inputs is None:
        return _SAME_INFER.pack(1, message.lane, message.id)
    if isinstance(message, Answer) and message.outputs is None:
        return _SAME_ANSWER.pack(2, message.run_ms, message.id)
    return encode_json(encode_message(message))


def unpack_message(body: bytes) -> Message:
    """Check and type the body of a received frame.

    Raises:
        BadMessage: see `parse_message`.
    """
    if len(body) == _SAME_INFER.size and body[0] == 1:
        _, lane, run_id = _SAME_INFER.unpack(body)
        if lane < LANES and run_id <= MAX_WHOLE:
            return Infer(id=run_id, lane=lane, inputs=None)
    elif len(body) == _SAME_ANSWER.size and body[0] == 2:
        _, run_ms, run_id = _SAME_ANSWER.unpack(body)
        if math.isfinite(run_ms) and run_ms >= 0 and run_id <= MAX_WHOLE:
            return Answer(id=run_id, outputs=None, run_ms=run_ms)
    return parse_message(decode_json(body))


def encode_message(message: Message) -> dict[str, object]:
    """The plain form of a message, for `Channel.send`; not for tensors that lie as the last ones did."""
    return {"type": _NAMES[type(message)], **{key: _plain(value) for key, value in vars(message).items()}}


def parse_message(message: Mapping[str, object]) -> Message:
    """Check and type a received message. Unknown fields are ignored.

    Raises:
        BadMessage: an unknown type, or a field that is missing, of another type or out of bounds.
    """
    name = message.get("type")
    parse = _PARSERS.get(name) if isinstance(name, str) else None
    if parse is None:
        raise BadMessage(f"expected a message of type {', '.join(_PARSERS)}; found another")
    return parse(message)


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, (TensorRecord, TensorSpec)):
        return {key: _plain(item) for key, item in vars(value).items()}
    return value


def _load(message: Mapping[str, object]) -> Load:
    return Load(
        engine=_text(message, "engine"),
        format=_text(message, "format"),
        threads=_whole(message, "threads"),
        precision=_text(message, "precision"),
        memory_arena=_field(message, "memory_arena", bool),
        device=_text(message, "device"),
        path=_text(message, "path") if "path" in message else "",
    )


def _loaded(message: Mapping[str, object]) -> Loaded:
    return Loaded(
        engine=_text(message, "engine"),
        engine_version=_text(message, "engine_version"),
        placement=_texts(message, "placement"),
        devices=_texts(message, "devices"),
        inputs=_tensors(message, "inputs", _spec),
        outputs=_tensors(message, "outputs", _spec),
        load_ms=_number(message, "load_ms"),
        rss_bytes=_whole(message, "rss_bytes"),
        sandbox=_texts(message, "sandbox") if "sandbox" in message else (),
        sandbox_gaps=_texts(message, "sandbox_gaps") if "sandbox_gaps" in message else (),
    )


def _refused(message: Mapping[str, object]) -> Refused:
    return Refused(kind=_text(message, "kind"), reason=_text(message, "reason"))


def _buffer(message: Mapping[str, object]) -> Buffer:
    return Buffer(lane=_lane(message))


def _infer(message: Mapping[str, object]) -> Infer:
    return Infer(id=_whole(message, "id"), lane=_lane(message), inputs=_tensors(message, "inputs", _record))


def _answer(message: Mapping[str, object]) -> Answer:
    return Answer(
        id=_whole(message, "id"),
        outputs=_tensors(message, "outputs", _record),
        run_ms=_number(message, "run_ms"),
    )


def _failed(message: Mapping[str, object]) -> Failed:
    return Failed(id=_whole(message, "id"), kind=_text(message, "kind"), reason=_text(message, "reason"))


_NAMES = {
    Load: "load",
    Loaded: "loaded",
    Refused: "refused",
    Buffer: "buffer",
    Infer: "infer",
    Answer: "answer",
    Failed: "failed",
}
_PARSERS: dict[str, Callable[[Mapping[str, object]], Message]] = {
    "load": _load,
    "loaded": _loaded,
    "refused": _refused,
    "buffer": _buffer,
    "infer": _infer,
    "answer": _answer,
    "failed": _failed,
}


def _record(item: Mapping[str, object]) -> TensorRecord:
    return TensorRecord(
        name=_text(item, "name", limit=MAX_NAME),
        dtype=_text(item, "dtype"),
        shape=tuple(_length(length) for length in _items(item, "shape", limit=MAX_RANK)),
        offset=_whole(item, "offset"),
    )


def _spec(item: Mapping[str, object]) -> TensorSpec:
    return TensorSpec(
        name=_text(item, "name", limit=MAX_NAME),
        dtype=_text(item, "dtype"),
        shape=tuple(None if length is None else _length(length) for length in _items(item, "shape", limit=MAX_RANK)),
    )


def _tensors(message: Mapping[str, object], key: str, parse: Callable[[Mapping[str, object]], T]) -> tuple[T, ...]:
    items = _items(message, key, limit=MAX_TENSORS)
    if not all(isinstance(item, dict) for item in items):
        raise BadMessage(f"{key} must be objects with name, dtype and shape")
    return tuple(parse(item) for item in items if isinstance(item, dict))


def _items(message: Mapping[str, object], key: str, *, limit: int) -> list[object]:
    items = _field(message, key, list)
    if len(items) > limit:
        raise BadMessage(f"{key} may have {limit} items, found {len(items)}")
    return items


def _text(message: Mapping[str, object], key: str, *, limit: int = MAX_TEXT) -> str:
    text = _field(message, key, str)
    if len(text) > limit:
        raise BadMessage(f"{key} may have {limit} characters, found {len(text)}")
    return text


def _texts(message: Mapping[str, object], key: str) -> tuple[str, ...]:
    items = _items(message, key, limit=MAX_TENSORS)
    if not all(isinstance(item, str) and len(item) <= MAX_TEXT for item in items):
        raise BadMessage(f"{key} must be texts of at most {MAX_TEXT} characters")
    return tuple(item for item in items if isinstance(item, str))


def _lane(message: Mapping[str, object]) -> int:
    lane = _whole(message, "lane")
    if lane >= LANES:
        raise BadMessage(f"lane must be below {LANES}, found {lane}")
    return lane


def _whole(message: Mapping[str, object], key: str) -> int:
    return _length(_field(message, key, int), name=key)


def _length(value: object, *, name: str = "shape") -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_WHOLE:
        raise BadMessage(f"{name} must be of whole numbers from 0 to {MAX_WHOLE}")
    return value


def _number(message: Mapping[str, object], key: str) -> float:
    value = message.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_WHOLE:
        raise BadMessage(f"{key} must be a number from 0 to {MAX_WHOLE}")
    return float(value)


def _field(message: Mapping[str, object], key: str, kind: type[T]) -> T:
    value = message.get(key)
    if not isinstance(value, kind):
        raise BadMessage(f"{key} must be of type {kind.__name__}, found {type(value).__name__}")
    return value
