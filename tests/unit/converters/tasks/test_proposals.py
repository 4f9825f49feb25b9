"""Does a proposed pipeline run: from an item's bytes to the model's inputs, from its outputs to an answer?"""

import io
import wave
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_converters.errors import BadRecipe
from shoal_converters.tasks import make_task
from shoal_wire.manifest import Tensor

Run = tuple[str, list[Tensor], list[Tensor], tuple[str, ...]]


def picture() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (40, 30), (255, 128, 0)).save(file, "PNG")
    return file.getvalue()


def sound() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as opened:
        opened.setnchannels(1)
        opened.setsampwidth(2)
        opened.setframerate(16_000)
        opened.writeframes(b"\0\1" * 1_600)
    return file.getvalue()


def tensor(name: str, *shape: int, dtype: str = "float32") -> Tensor:
    return Tensor(name, dtype, shape)


IMAGE = tensor("image", 1, 3, 16, 24)
LABELS = ("a", "b", "c")

PROPOSALS: list[tuple[str, Callable[[], bytes], list[Tensor], list[Tensor]]] = [
    ("classification", picture, [IMAGE], [tensor("logits", 1, 3)]),
    ("classification", picture, [tensor("image", -1, 16, 24, 1)], [tensor("probabilities", -1, 3)]),
    ("classification", picture, [tensor("image", 1, 16, 24, 3, dtype="uint8")], [tensor("logits", 1, 3)]),
    ("classification", sound, [tensor("wave", 1, 1600)], [tensor("logits", 1, 3)]),
    ("classification", lambda: b"a,b\n1,2\n", [tensor("row", 1, 2)], [tensor("logits", 1, 3)]),
    ("classification", lambda: b"a,b\n1,2\n3,4\n", [tensor("rows", 1, 2, 2)], [tensor("logits", 1, 3)]),
    ("detection", picture, [IMAGE], [tensor("boxes", 1, 7, 50)]),
    ("detection", picture, [IMAGE], [tensor("boxes", 1, 50, 8)]),
    ("detection", picture, [IMAGE], [tensor("places", 1, 50, 4), tensor("scores", 1, 50, 3)]),
    ("segmentation", picture, [IMAGE], [tensor("mask", 1, 3, 8, 12)]),
    ("segmentation", picture, [IMAGE], [tensor("mask", 1, 8, 12, 3)]),
    ("segmentation", picture, [IMAGE], [tensor("mask", 1, 8, 12, dtype="int64")]),
    ("events", sound, [tensor("wave", 1, 1600, 1)], [tensor("frames", 1, 10, 3)]),
    (
        "events",
        sound,
        [tensor("wave", 1, 400), tensor("state", 2, 1, 8), Tensor("rate", "int64", ())],
        [tensor("scores", 1, 3), tensor("next", 2, 1, 8)],
    ),
    ("embedding", picture, [IMAGE], [tensor("vector", 1, 32)]),
    ("embedding", picture, [IMAGE], [tensor("tokens", 1, 5, 32)]),
    ("regression", lambda: b"a,b\n1,2\n", [tensor("row", -1, 2)], [tensor("values", -1, 3)]),
    ("anomaly", lambda: b"a,b\n1,2\n", [tensor("row", 1, 2)], [tensor("error", 1, 1)]),
    ("anomaly", lambda: b"a,b\n1,2\n", [tensor("row", 1, 2)], [tensor("again", 1, 2)]),
    ("text", lambda: b"once", [tensor("ids", 1, -1, dtype="int64")], [tensor("logits", 1, -1, 300)]),
]


@pytest.mark.parametrize(("name", "item", "inputs", "outputs"), PROPOSALS)
def test_a_proposed_pipeline_runs(
    name: str, item: Callable[[], bytes], inputs: list[Tensor], outputs: list[Tensor]
) -> None:
    task = make_task(name, {})
    proposal = task.propose(inputs, outputs, labels=LABELS)
    pipeline = Pipeline(pre=proposal.pre, post=proposal.post)

    prepared = pipeline.prepare(item())
    calls = list(prepared.calls)
    given = [make_outputs(outputs)]
    while prepared.follow is not None and (call := prepared.follow(len(calls) - 1, given[-1])) is not None:
        calls.append(call)
        given.append(make_outputs(outputs))

    for call in calls:
        assert call.keys() == {one.name for one in inputs}
        for one in inputs:
            assert call[one.name].dtype == one.dtype
            assert all(want in (-1, have) for want, have in zip(one.shape, call[one.name].shape, strict=True))
    answer = pipeline.finish(given * (len(calls) // len(given)), prepared.context)
    assert task.describe(answer)


def make_outputs(outputs: list[Tensor]) -> dict[str, Any]:
    lot = np.random.default_rng(3)
    return {
        one.name: lot.uniform(0.1, 0.9, size=[1 if side == -1 else side for side in one.shape]).astype(one.dtype)
        for one in outputs
    }


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "said"),
    [
        ("classification", [], [tensor("y", 1, 3)], "no input"),
        ("classification", [tensor("x", 1, 3, -1, -1)], [tensor("y", 1, 3)], "a known height and width"),
        ("classification", [tensor("x", 1, 5, 16, 16)], [tensor("y", 1, 3)], "expected one picture"),
        ("classification", [IMAGE], [tensor("y", 1, 4)], "y float32.1, 4.: expected floats for 3 labels"),
        ("detection", [IMAGE], [tensor("y", 1, 3)], "expected boxes and 3 labels"),
        ("detection", [tensor("x", 1, 2)], [tensor("y", 1, 7, 50)], "expected one picture"),
        ("segmentation", [IMAGE], [tensor("y", 1, 3)], "expected a channel for each of 3 labels"),
        ("events", [tensor("x", 1, 40, 64)], [tensor("y", 1, 3)], "for a spectrogram write audio.log_mel"),
        ("anomaly", [IMAGE], [tensor("y", 1, 3)], "expected one value, or the shape"),
        ("text", [tensor("x", 1, 8)], [tensor("y", 1, 8, 9)], r"expected int64\[1, n\]"),
        ("faces", [IMAGE], [tensor("y", 1, 3)], "write image.decode and image.letterbox"),
        ("notes", [tensor("x", 1, 8)], [tensor("y", 1, 3)], "write audio.decode_wav"),
    ],
)
def test_refuses_a_signature_of_another_task(name: str, inputs: list[Tensor], outputs: list[Tensor], said: str) -> None:
    with pytest.raises(BadRecipe, match=said):
        make_task(name, {}).propose(inputs, outputs, labels=LABELS)
