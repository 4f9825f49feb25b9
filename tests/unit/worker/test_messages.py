"""Is every message checked where it enters?"""

from __future__ import annotations

import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_worker.channel import BadMessage
from shoal_worker.messages import (
    LANES,
    Answer,
    Buffer,
    Failed,
    Infer,
    Load,
    Loaded,
    Message,
    Refused,
    TensorRecord,
    TensorSpec,
    encode_message,
    pack_message,
    parse_message,
    unpack_message,
)

RECORD = TensorRecord(name="x", dtype="float32", shape=(2, 3), offset=64)
EXAMPLES: list[Message] = [
    Load(
        engine="onnxruntime",
        format="onnx",
        threads=2,
        precision="exact",
        memory_arena=True,
        device="CPU",
        path="/m.tflite",
    ),
    Loaded(
        engine="onnxruntime",
        engine_version="1.2.3",
        placement=("CPUExecutionProvider",),
        devices=("CPUExecutionProvider", "CUDAExecutionProvider"),
        inputs=(TensorSpec(name="x", dtype="float32", shape=(None, 3)),),
        outputs=(TensorSpec(name="y", dtype="int64", shape=()),),
        load_ms=12.5,
        rss_bytes=1 << 40,
        sandbox=("landlock 7",),
        sandbox_gaps=("seccomp: none here",),
    ),
    Refused(kind="model", reason="not ONNX"),
    Buffer(lane=1),
    Infer(id=7, lane=1, inputs=(RECORD,)),
    Answer(id=7, outputs=(RECORD, RECORD), run_ms=1),
    Failed(id=7, kind="engine", reason="out of memory"),
]


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_messages_survive_json(message: Message) -> None:
    assert parse_message(json.loads(json.dumps(encode_message(message)))) == message


SAME = [Infer(id=8, lane=1, inputs=None), Answer(id=8, outputs=None, run_ms=1.5)]


@pytest.mark.parametrize("message", EXAMPLES + SAME, ids=lambda message: type(message).__name__)
def test_messages_survive_a_frame(message: Message) -> None:
    assert unpack_message(pack_message(message)) == message


@pytest.mark.parametrize("message", SAME, ids=lambda message: type(message).__name__)
def test_tensors_that_lie_as_the_last_ones_did_take_few_bytes(message: Message) -> None:
    assert len(pack_message(message)) < 20


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\1",
        struct.pack(">BBQ", 1, LANES, 8),
        struct.pack(">BBQ", 1, 0, 1 << 60),
        struct.pack(">BBQ", 2, 0, 8),
        struct.pack(">BdQ", 2, math.nan, 8),
        struct.pack(">BdQ", 2, -1.0, 8),
        struct.pack(">BdQ", 1, 1.0, 8),
    ],
)
def test_frames_that_hold_no_message_are_refused(body: bytes) -> None:
    with pytest.raises(BadMessage):
        unpack_message(body)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_unknown_fields_are_ignored(message: Message) -> None:
    plain = json.loads(json.dumps(encode_message(message)))
    assert parse_message({**plain, "added later": [1]}) == message


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
@given(wrong=st.sampled_from([None, {}, b"", -1, "text" * 2000, [1], [{}], [[]] * 300, True]))
def test_a_wrong_type_or_bound_in_any_field_is_refused(message: Message, wrong: object) -> None:
    plain = json.loads(json.dumps(encode_message(message)))
    for field, right in plain.items():
        if wrong is True and right is True:
            continue
        with pytest.raises(BadMessage):
            parse_message({**plain, field: wrong})


@pytest.mark.parametrize(
    "tensor",
    [
        {"name": "x", "dtype": "int8", "shape": [1, -1], "offset": 0},
        {"name": "x", "dtype": "int8", "shape": [True], "offset": 0},
        {"name": "x", "dtype": "int8", "shape": [1.5], "offset": 0},
        {"name": "x", "dtype": "int8", "shape": [None], "offset": 0},
        {"name": "x", "dtype": "int8", "shape": [1] * 17, "offset": 0},
        {"name": "x", "dtype": "int8", "shape": [1], "offset": 1 << 60},
        {"name": "x" * 257, "dtype": "int8", "shape": [1], "offset": 0},
        {"dtype": "int8", "shape": [1], "offset": 0},
    ],
)
def test_impossible_tensors_are_refused(tensor: dict[str, object]) -> None:
    with pytest.raises(BadMessage):
        parse_message({"type": "infer", "id": 1, "lane": 0, "inputs": [tensor]})


@pytest.mark.parametrize("kind", ["", "hello", 5, None, ["load"]])
def test_unknown_messages_are_refused(kind: object) -> None:
    with pytest.raises(BadMessage, match="expected a message of type"):
        parse_message({"type": kind})
