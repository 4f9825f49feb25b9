"""How well does a detector tell crops of faces from crops of background?"""

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from shoal_agent.front.operations.pipeline import Pipeline

from shoal_converters.spread import RunningVariant

FACES = 100
"""The first crops are faces, the others are not."""

_Scores = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Told:
    """How well."""

    samples: int
    area_under_curve: float
    accuracy: float
    """With everything that scores at least the threshold taken for a face."""


def tell_apart(running: RunningVariant, crops: bytes, *, pipeline: Pipeline, threshold: float) -> Told:
    """Score each crop by its likeliest face. `pipeline` must keep faces of any score; `crops` is an .npy file."""
    pictures = np.load(io.BytesIO(crops), allow_pickle=False)
    scores = np.array([_score(running.answer(_encode(picture), pipeline=pipeline)) for picture in pictures])
    faces, others = scores[:FACES], scores[FACES:]
    right = int((faces >= threshold).sum() + (others < threshold).sum())
    return Told(samples=len(scores), area_under_curve=area_under_curve(faces, others), accuracy=right / len(scores))


def area_under_curve(positive: _Scores, negative: _Scores) -> float:
    """Probability that a positive scores higher than a negative, equal ones counted half (Mann and Whitney, 1947)."""
    higher = (positive[:, np.newaxis] > negative).mean()
    equal = (positive[:, np.newaxis] == negative).mean()
    return float(higher + equal / 2)


def _score(answer: dict[str, list[dict[str, float]]]) -> float:
    return max((face["score"] for face in answer["faces"]), default=0.0)


def _encode(crop: NDArray[np.float64]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.rint(crop * 255).astype(np.uint8)).save(file, "PNG")
    return file.getvalue()
