"""Which models do benchmarks of the front serve, and as what releases?

The example's network, and chains of matrix products of whatever cost is asked for, which take sounds and answer notes
as the network does. So all of them go through the same front, from a file in a folder to an answer. No accuracy is
measured here: a release for a benchmark need not be right, only served.
"""

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_converters.note_events import recipes
from shoal_converters.note_events.evaluation import play
from shoal_converters.note_events.fetch import fetch_network
from shoal_converters.release_folder import write_release
from shoal_converters.wheels import default_cache
from shoal_wire.manifest import DraftFile, GoldenCase, Model, Operation, ReleaseDraft, Tensor, Variant

from tests.onnx_bytes import posterior_chain_model

FRAMES = 64
"""Samples that a chain takes, and frames that it gives."""
RATE_HZ = 8_000
WIDTHS = ((0.1, 64), (0.5, 128), (10.0, 256), (1e9, 512))
"""Milliseconds below which a chain is made of matrices that wide, so that its length is a few to a few hundred."""
SOUNDS = 8
CHAIN_PRE = (
    Operation("audio.decode_wav", {"sample_rate_hz": RATE_HZ}),
    Operation("audio.window", {"input": "x", "length": FRAMES, "frame_samples": 1, "overlap_frames": 0}),
)
CHAIN_POST = (
    Operation("notes.unwrap", {"onset_output": "onsets", "frame_output": "notes"}),
    Operation("notes.decode", {"onset_threshold": 0.6, "frame_threshold": 0.5, "min_note_ms": 1.0, "lowest_pitch": 21}),
)
_CALIBRATION_RUNS = 15
_LENGTHS = (1, 9)
_VARIANT = "onnx-fp32"


@dataclass(frozen=True, kw_only=True)
class SoundModel:
    """A network that takes sounds, with the operations around it."""

    name: str
    onnx: bytes
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    pre: tuple[Operation, ...]
    post: tuple[Operation, ...]
    sounds: tuple[bytes, ...]
    """Items for it; WAV."""

    @property
    def pipeline(self) -> Pipeline:
        """What the front does around the network."""
        return Pipeline(pre=self.pre, post=self.post)


def note_events() -> SoundModel:
    """The example's network."""
    recipe, shape = recipes.BETTER, (-1, recipes.FRAMES, recipes.PITCHES)
    return SoundModel(
        name="note-events",
        onnx=fetch_network(default_cache()).onnx,
        inputs=(Tensor(recipes.INPUT, "float32", (-1, recipes.WINDOW_SAMPLES, 1)),),
        outputs=tuple(Tensor(name, "float32", shape) for name in (recipes.ONSET_OUTPUT, recipes.FRAME_OUTPUT)),
        pre=recipe.pre,
        post=recipe.post,
        sounds=tuple(play(20_000 + seed).wav for seed in range(SOUNDS)),
    )


def chain(cost_ms: float, *, name: str = "") -> SoundModel:
    """A chain whose inference takes about that long here, with one thread."""
    return SoundModel(
        name=name or f"chain-{cost_ms:g}-ms".replace(".", "-"),
        onnx=_build_chain(cost_ms),
        inputs=(Tensor("x", "float32", (1, FRAMES, 1)),),
        outputs=tuple(Tensor(output, "float32", (1, FRAMES, 2)) for output in ("onsets", "notes")),
        pre=CHAIN_PRE,
        post=CHAIN_POST,
        sounds=tuple(make_sound(seed) for seed in range(SOUNDS)),
    )


def chain_pipeline() -> Pipeline:
    """What the front does around any chain."""
    return Pipeline(pre=CHAIN_PRE, post=CHAIN_POST)


def make_sound(seed: int) -> bytes:
    """An item for any chain: FRAMES samples of noise as WAV with PCM16."""
    samples = np.random.default_rng(seed).integers(-1000, 1000, FRAMES).astype("<i2").tobytes()
    wav_format = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, RATE_HZ, 2 * RATE_HZ, 2, 16)
    data = struct.pack("<4sI", b"data", len(samples)) + samples
    return struct.pack("<4sI4s", b"RIFF", 4 + len(wav_format) + len(data), b"WAVE") + wav_format + data


def build_release(model: SoundModel, folder: Path, *, version: int = 1) -> Path:
    """Write a release of the model that a front can load."""
    golden = GoldenCase(
        name="sound",
        file="sound.wav",
        expected={"notes": [{"pitch": 60, "start_s": 0.0}]},
        comparison=Operation("notes.f1", {"onset_tolerance_s": 0.05, "minimum_f1": 0.0}),
        source="none: a benchmark asks for speed only",
    )
    described = Model(
        name=model.name,
        task="note events",
        inputs=model.inputs,
        outputs=model.outputs,
        pre=model.pre,
        post=model.post,
        variants=(Variant(name=_VARIANT, format="onnx", precision="fp32", files=("model.onnx",)),),
        golden=(golden,),
    )
    roles = {"model.onnx": "model", "sound.wav": "golden"}
    draft = ReleaseDraft(
        name=model.name,
        version=version,
        created_at="2026-01-01T00:00:00+00:00",
        licence="of the network",
        provenance="a benchmark",
        models=(described,),
        files=tuple(DraftFile(name=name, role=role, path=name) for name, role in roles.items()),
    )
    write_release(draft, {"model.onnx": model.onnx, "sound.wav": model.sounds[0]}, folder=folder)
    return folder


def open_session(onnx: bytes, *, threads: int, is_spinning: bool = False) -> onnxruntime.InferenceSession:
    """The bare engine, as a worker opens it but for what is asked."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(is_spinning)))
    return onnxruntime.InferenceSession(onnx, options, providers=["CPUExecutionProvider"])


def _build_chain(cost_ms: float) -> bytes:
    width = next(width for limit_ms, width in WIDTHS if cost_ms < limit_ms)
    short, long = _LENGTHS
    short_ms, long_ms = (_time(posterior_chain_model(frames=FRAMES, width=width, length=each)) for each in _LENGTHS)
    one_ms = max(1e-4, (long_ms - short_ms) / (long - short))
    length = max(1, round(short + (cost_ms - short_ms) / one_ms))
    return posterior_chain_model(frames=FRAMES, width=width, length=length)


def _time(onnx: bytes) -> float:
    """Milliseconds of one inference, the quickest of some: others only make it longer."""
    session = open_session(onnx, threads=1)
    feeds = {"x": np.zeros((1, FRAMES, 1), np.float32)}
    times: Sequence[float] = [_time_once(session, feeds) for _ in range(_CALIBRATION_RUNS)]
    return min(times) * 1000


def _time_once(session: onnxruntime.InferenceSession, feeds: dict[str, np.ndarray]) -> float:
    started = time.perf_counter()
    session.run(None, feeds)
    return time.perf_counter() - started
