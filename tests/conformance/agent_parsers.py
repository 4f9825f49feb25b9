"""Which bytes from outside does a board read: of fleet and broker, of sources, of releases, of its own children?"""

import base64
import hashlib
import io
import json
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec
import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from PIL import Image
from shoal_agent.daemon.assignment import judge
from shoal_agent.daemon.protocol import (
    ProtocolBroken,
    parse_front_message,
    parse_tuning_message,
    parse_updater_message,
)
from shoal_agent.enrolment import check_response
from shoal_agent.errors import EnrolmentRefused
from shoal_agent.front.operations.audio import DecodeWav
from shoal_agent.front.operations.errors import BadInput, BadPipeline
from shoal_agent.front.operations.images import DecodeImage
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_agent.front.operations.tables import DecodeCsv
from shoal_agent.front.operations.text import read_text
from shoal_agent.front.reference_outputs import read_reference
from shoal_wire import envelope
from shoal_wire.encoding import decode, decode_struct, encode
from shoal_wire.envelope import KeySigner
from shoal_wire.errors import Malformed, Unsupported
from shoal_wire.histogram import Histogram, Sketch
from shoal_wire.manifest import Operation
from shoal_wire.messages import EnrolmentResponse
from shoal_wire.metadata import FleetAuthorities, parse_authorities
from shoal_wire.token import EnrolmentToken
from shoal_worker import messages as worker_messages
from shoal_worker import onnx_file, tflite_file
from shoal_worker.channel import BadMessage, decode_json

from tests import onnx_bytes, tflite_bytes
from tests.conformance.parser_table import Parser
from tests.conformance.wire_parsers import DEVICE, ED25519, P256
from tests.vectors.examples import example, to_json

SHA256 = "a" * 64
REFERENCE = {"release": "notes", "version": 2, "manifest_sha256": SHA256}
HISTOGRAM = {"zeros": 1, "keys": [1, 5], "counts": [2, 3], "total": 9.5}
PICTURE = Image.fromarray(np.arange(8 * 9 * 3, dtype=np.uint8).reshape(8, 9, 3))
IMAGES = DecodeImage(max_pixels=1 << 14, max_bytes=1 << 16)
WAVES = DecodeWav(sample_rate_hz=16_000, max_s=1)
_CHAINS = (
    {
        "pre": [
            {"name": "audio.decode_wav", "parameters": {"sample_rate_hz": 8000}},
            {
                "name": "audio.window",
                "parameters": {"input": "in", "length": 400, "frame_samples": 80, "overlap_frames": 2},
            },
        ],
        "post": [
            {"name": "notes.unwrap", "parameters": {"onset_output": "on", "frame_output": "fr"}},
            {
                "name": "notes.decode",
                "parameters": {
                    "onset_threshold": 0.5,
                    "frame_threshold": 0.5,
                    "min_note_ms": 20.0,
                    "lowest_pitch": 60,
                },
            },
        ],
    },
    {
        "pre": [
            {"name": "table.decode_csv", "parameters": {}},
            {"name": "table.feed", "parameters": {"input": "x", "columns": 3}},
        ],
        "post": [
            {"name": "scores.read", "parameters": {"output": "y", "activation": "none"}},
            {"name": "classes.top", "parameters": {"labels": ["a", "b"]}},
        ],
    },
)
TABLES = DecodeCsv(max_rows=100, max_bytes=1 << 16)


class _Pipelines(msgspec.Struct):
    pre: tuple[Operation, ...]
    post: tuple[Operation, ...]


def _wav(*, kind: int = 1, bits: int = 16, rate_hz: int = 8_000, channels: int = 2, extensible: bool = False) -> bytes:
    frame = channels * bits // 8
    form = struct.pack("<HHIIHH", 0xFFFE if extensible else kind, channels, rate_hz, rate_hz * frame, frame, bits)
    if extensible:
        form += (
            struct.pack("<HHI", 22, bits, 3) + struct.pack("<H", kind) + bytes.fromhex("000000001000800000aa00389b71")
        )
    chunks = b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", 40 * frame) + bytes(40 * frame)
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def _picture(kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    PICTURE.save(file, kind, **options)
    return file.getvalue()


def _npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **{"0/y": np.ones((1, 4), np.float32), "1/y": np.ones(3, np.float32)})
    return file.getvalue()


def _judge(raw: bytes) -> object:
    """What a document says, signed by the fleet's own key: a signature is no promise that it makes sense."""
    document = envelope.seal(raw, envelope.DESIRED, KeySigner(ED25519))
    return judge(document, device=DEVICE, keys=[ED25519.public_key()], accepted=(1, 1))


def _judge_envelope(raw: bytes) -> object:
    return judge(raw, device=DEVICE, keys=[ED25519.public_key()], accepted=None)


def _check_response(raw: bytes) -> object:
    response = decode(raw, EnrolmentResponse, what="answer")
    return check_response(response, token=_TOKEN, authority=_AUTHORITY, tls_key=P256.public_key())


def _make_pipeline(raw: bytes) -> object:
    chains = decode_struct(raw, _Pipelines, what="pipelines")
    return Pipeline(pre=chains.pre, post=chains.post)


def _frame(parse: Callable[[dict[str, object]], object]) -> Callable[[bytes], object]:
    return lambda raw: parse(decode_json(raw))


def _make_authority() -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, DEVICE)])
    begin, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, P256.public_key(), 7, begin, end)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.sign(P256, hashes.SHA256())


def _answer_of_fleet(*, changed: tuple[bytes, bytes] = (b"", b"")) -> bytes:
    """With an authority's certificate, in which some bytes of its DER may be others of the same number."""
    der = _AUTHORITY.public_bytes(Encoding.DER).replace(*changed, 1)
    pem = f"-----BEGIN CERTIFICATE-----\n{base64.encodebytes(der).decode()}-----END CERTIFICATE-----\n"
    return to_json(example("enrolment_response") | {"certificate": pem, "authority": pem})


_AUTHORITY = _make_authority()
_TOKEN = EnrolmentToken(
    url="https://fleet",
    secret="s" * 32,
    ca_sha256=_AUTHORITY.fingerprint(hashes.SHA256()).hex(),
    root_sha256=hashlib.sha256(base64.b64decode(example("enrolment_response")["root"])).hexdigest(),
)

_NO_VERSION = bytes.fromhex("a003020102"), bytes.fromhex("a003020107")
_NO_KEY = bytes.fromhex("06072a8648ce3d0201"), bytes.fromhex("06072a8648ce3d0277")
"""Of an X.509 certificate (RFC 5280, 4.1): version 3, and the kind of its key (RFC 5480)."""

_CHILDREN = (ProtocolBroken, BadMessage)

_ROWS = {row["kind"]: row for row in example("batch")["rows"]}
_ANSWER = {"kind": "answer", **_ROWS["answer"]}

AGENT: Mapping[str, Parser] = {
    "agent desired document": Parser(_judge, [to_json(example("desired"))], ()),
    "agent desired envelope": Parser(
        _judge_envelope, [envelope.seal(to_json(example("desired")), envelope.DESIRED, KeySigner(ED25519))], ()
    ),
    "agent answer to enrolment": Parser(
        _check_response,
        [_answer_of_fleet()],
        (Malformed, Unsupported, EnrolmentRefused),
        [_answer_of_fleet(changed=_NO_VERSION), _answer_of_fleet(changed=_NO_KEY)],
    ),
    "agent authorities": Parser(
        parse_authorities,
        [encode(FleetAuthorities(certificates=(_AUTHORITY.public_bytes(Encoding.PEM).decode(),)))],
        (Malformed, Unsupported),
    ),
    "agent wav": Parser(
        WAVES.apply,
        [
            _wav(),
            _wav(kind=3, bits=32, rate_hz=16_000, channels=1),
            _wav(extensible=True),
        ],
        (BadInput,),
    ),
    "agent png": Parser(IMAGES.apply, [_picture("PNG"), _picture("PNG", interlace=1)], (BadInput,)),
    "agent jpeg": Parser(IMAGES.apply, [_picture("JPEG"), _picture("JPEG", progressive=True)], (BadInput,)),
    "agent csv": Parser(TABLES.apply, [b"1,2.5,-3e2\r\n4, 5 ,6\r\n", b'"1","2"\n'], (BadInput,)),
    "agent text": Parser(lambda raw: read_text(raw, max_bytes=1 << 12), ["Grüße, 世界".encode()], (BadInput,)),
    "agent reference outputs": Parser(lambda raw: read_reference([raw], what="r.npz"), [_npz()], (BadPipeline,)),
    "agent pipeline": Parser(
        _make_pipeline, [json.dumps(chains).encode() for chains in _CHAINS], (Malformed, BadPipeline)
    ),
    "agent onnx file": Parser(
        onnx_file.find_external_file,
        [
            onnx_bytes.add_model(),
            onnx_bytes.external_weight_model(location="w"),
            onnx_bytes.in_constant_of_branch(location="w"),
        ],
        (),
    ),
    "agent tflite file": Parser(
        tflite_file.find_per_channel_hybrid,
        [
            tflite_bytes.hybrid_model(np.ones((3, 4), np.float32), is_per_channel=is_per_channel)
            for is_per_channel in (True, False)
        ],
        (tflite_file.BrokenFile,),
    ),
    "agent message of a worker": Parser(
        worker_messages.unpack_message,
        [
            worker_messages.pack_message(message)
            for message in (
                worker_messages.Loaded(
                    engine="onnxruntime",
                    engine_version="1",
                    placement=("CPU",),
                    devices=("CPU",),
                    inputs=(worker_messages.TensorSpec("x", "float32", (None, 3)),),
                    outputs=(),
                    load_ms=1.5,
                    rss_bytes=7,
                ),
                worker_messages.Answer(
                    id=3, outputs=(worker_messages.TensorRecord("y", "float32", (1, 3), 0),), run_ms=2.0
                ),
                worker_messages.Answer(id=3, outputs=None, run_ms=2.0),
                worker_messages.Failed(id=4, kind="engine", reason="why"),
            )
        ],
        (BadMessage,),
    ),
    "agent message of a front": Parser(
        _frame(parse_front_message),
        [
            msgspec.json.encode(message)
            for message in (
                {"type": "serving", "slot": "notes", "reference": REFERENCE, "placement": ["CPU"]},
                {
                    "type": "worker_died",
                    "slot": "notes",
                    "reference": REFERENCE,
                    "engine": "e",
                    "engine_version": "1",
                    "reason": "why",
                    "exit_code": -11,
                    "peak_bytes": 5,
                    "item_sha256": SHA256,
                },
                {"type": "answers", "items": [_ANSWER]},
                {
                    "type": "health",
                    "slot": "notes",
                    "manifest_sha256": SHA256,
                    "answers": 5,
                    "errors": 0,
                    "deaths": 0,
                    "histogram": HISTOGRAM,
                },
            )
        ],
        _CHILDREN,
    ),
    "agent message of an updater": Parser(
        _frame(parse_updater_message),
        [b'{"type":"progress"}', b'{"type":"baseline","release":"notes"}', b'{"type":"done","state":"committed"}'],
        _CHILDREN,
    ),
    "agent message of a tuning": Parser(
        _frame(parse_tuning_message),
        [json.dumps({"type": "found", "row": _ROWS["tuned"]}).encode(), b'{"type":"done"}'],
        _CHILDREN,
    ),
    "agent histogram": Parser(
        lambda raw: Sketch.of(decode_struct(raw, Histogram, what="histogram")).quantile(0.95),
        [json.dumps(HISTOGRAM).encode()],
        (Malformed,),
    ),
}
