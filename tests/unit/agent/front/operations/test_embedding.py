"""Does an output become one vector for an item, and are two vectors compared by their angle?"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from shoal_agent.front.operations.embedding import EmbeddingCosine, ReadEmbedding, describe_embedding
from shoal_agent.front.operations.errors import BadOutput, BadPipeline
from shoal_agent.front.operations.values import Outputs, Tokens

COSINE = EmbeddingCosine(minimum_cosine=0.9)
TOKENS = [[1.0, 2.0], [3.0, 6.0], [100.0, 100.0]]


def read(array: Any, *, mask: list[int] | None = None, **changed: Any) -> list[float]:
    context = None if mask is None else Tokens(mask=np.array([mask], dtype=np.int64), fed={})
    outputs = Outputs(calls=[{"out": np.asarray(array, dtype=np.float32)}], context=context)
    answer = ReadEmbedding(output="out", **changed).apply(outputs)
    embedding: list[float] = answer["embedding"]
    return embedding


@pytest.mark.parametrize("array", [[1.0, 2.0], [[1.0, 2.0]], [[[[1.0]], [[2.0]]]]])
def test_one_vector_is_taken_as_it_is(array: Any) -> None:
    assert read(array) == [1.0, 2.0]


def test_a_vector_is_divided_by_its_length() -> None:
    assert read([[3.0, 4.0]], normalise="l2") == [0.6, 0.8]


def test_tokens_are_pooled_by_their_mask() -> None:
    assert read([TOKENS], mask=[1, 1, 0], pool="mean") == [2.0, 4.0]
    assert read([TOKENS[:2]], pool="mean") == [2.0, 4.0]
    assert read([TOKENS], mask=[1, 1, 0], pool="first") == [1.0, 2.0]


def test_values_are_rounded() -> None:
    assert read([[1 / 3, 2 / 3]], decimals=3) == [0.333, 0.667]


@pytest.mark.parametrize(
    ("array", "changed", "said"),
    [
        (np.zeros((2, 3)), {}, r"shape \[2, 3\]"),
        (np.zeros((1, 0)), {}, r"shape \[1, 0\]"),
        (np.zeros((1, 3)), {"pool": "mean"}, r"shape \[1, 3\]"),
        (np.zeros((1, 0, 3)), {"pool": "mean"}, r"shape \[1, 0, 3\]"),
        (np.zeros((1, 3, 2)), {"pool": "mean", "mask": [1, 1]}, r"shape \[1, 3, 2\], expected \[1, 2, -1\]"),
        (np.zeros((1, 3)), {"normalise": "l2"}, "has the length 0.0"),
        ([[math.nan]], {}, "not finite"),
    ],
)
def test_refuses_outputs_that_are_no_vector(array: Any, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(BadOutput, match=said):
        read(array, **changed)


def test_refuses_the_outputs_of_several_calls() -> None:
    with pytest.raises(BadOutput, match="outputs of 2 inferences"):
        ReadEmbedding(output="out").apply(Outputs(calls=[{}, {}], context=None))


@pytest.mark.parametrize(
    ("known", "found", "cosine"),
    [
        ([1.0, 0.0], [5.0, 0.0], 1.0),
        ([1.0, 0.0], [1.0, 1.0], math.sqrt(0.5)),
        ([1.0, 0.0], [0.0, 2.0], 0.0),
        ([1.0, 0.0], [-1.0, 0.0], 0.0),
        ([1.0, 0.0], [0.0, 0.0], 0.0),
        ([1.0, 0.0], [1.0, 0.0, 0.0], 0.0),
    ],
)
def test_vectors_are_compared_by_their_angle(known: list[float], found: list[float], cosine: float) -> None:
    verdict = COSINE.compare({"embedding": found}, expected={"embedding": known})
    assert verdict.score == pytest.approx(cosine)
    assert verdict.passed is (cosine >= 0.9)


@given(arrays.arrays(np.float64, 384, elements=st.floats(-1, 1)).filter(lambda vector: np.linalg.norm(vector) > 0.1))
def test_rounding_changes_a_cosine_by_less_than_is_said(vector: np.ndarray) -> None:
    rounded = np.array(read([vector.tolist()], normalise="l2"))
    verdict = COSINE.compare({"embedding": rounded.tolist()}, expected={"embedding": vector.tolist()})
    assert verdict.score == pytest.approx(1.0, abs=2e-5)


def test_verdict_and_answer_are_put_in_words() -> None:
    verdict = COSINE.compare({"embedding": [1.0, 1.0]}, expected={"embedding": [1.0, 0.0]})
    assert verdict.words == "cosine 0.7071, at least 0.9 wanted"
    assert COSINE.compare({"embedding": [1.0]}, expected={"embedding": [1.0, 0.0]}).words == "1 values, 2 expected"
    assert describe_embedding({"embedding": [0.5, -0.25]}) == "2 values: 0.500 -0.250"
    assert describe_embedding({"embedding": [0.0] * 5}) == "5 values: 0.000 0.000 0.000 0.000 …"


@pytest.mark.parametrize("expected", [{}, {"embedding": []}, {"embedding": ["1"]}, {"embedding": [math.inf]}, None])
def test_refuses_an_expected_answer_without_a_vector(expected: object) -> None:
    with pytest.raises(BadPipeline, match=r"embedding\.cosine: expected answer"):
        COSINE.compare({"embedding": [1.0]}, expected=expected)
