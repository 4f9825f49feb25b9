"""Where does a model place an item among others, and is that where it was placed before?"""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta

from shoal_agent.front.operations.errors import BadOutput, BadPipeline
from shoal_agent.front.operations.outputs import Finite, Name, Numbers, read_row, read_shaped, take_only_call
from shoal_agent.front.operations.values import Answer, Outputs, Tensors, Tokens, Verdict

MAX_VALUES = 1 << 16
DESCRIBED_VALUES = 4


class ReadEmbedding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`embedding.read`: one vector for an item.

    Without pooling, the output is float[d] with further dimensions of 1 only. Else it is float[1, tokens, d], of which
    the first token or the mean over all is taken; after `text.wordpiece` the mean is over those that its mask has as 1,
    as sentence transformers are trained (Reimers and Gurevych, "Sentence-BERT", EMNLP 2019).
    """

    takes: ClassVar[Any] = Outputs
    gives: ClassVar[type] = dict

    output: Name
    pool: Literal["none", "mean", "first"] = "none"
    normalise: Literal["none", "l2"] = "none"
    """`l2`: the vector is divided by its Euclidean length."""
    decimals: Annotated[int, Meta(ge=1, le=12)] = 6
    """To which the values are rounded, so that the answer is short. With `l2` and 6 decimals, the cosine of two vectors
    of 384 values changes by at most 0.00002."""

    def apply(self, outputs: Outputs[Any]) -> Answer:
        """Give `{"embedding": [...]}`.

        Raises:
            BadOutput: the output is missing, of another shape, not finite, or, with `l2`, has no direction.
        """
        vector = self._pool(take_only_call(outputs), context=outputs.context)
        if self.normalise == "l2":
            length = float(np.linalg.norm(vector))
            if not 0 < length < np.inf:
                raise BadOutput(f"output {self.output!r} has the length {length}, expected more than 0")
            vector = vector / length
        return {"embedding": vector.round(self.decimals).tolist()}

    def _pool(self, call: Tensors, *, context: object) -> Numbers:
        """The vector, float64[d]."""
        if self.pool == "none":
            return read_row(call, name=self.output, at_most=MAX_VALUES)
        tokens = context.mask.size if isinstance(context, Tokens) else -1
        values = read_shaped(call, name=self.output, shape=(1, tokens, -1), kinds="fiu").astype(np.float64)
        if not 0 < values.shape[2] <= MAX_VALUES or not values.size:
            raise BadOutput(
                f"output {self.output!r} has the shape {list(values.shape)}, expected 1 to {MAX_VALUES} values"
            )
        if self.pool == "first":
            return np.asarray(values[0, 0])
        counted = values[0][context.mask.reshape(-1) == 1] if isinstance(context, Tokens) else values[0]
        return np.asarray(counted.mean(axis=0))


class KnownEmbedding(msgspec.Struct, frozen=True, kw_only=True):
    """What a golden case of `embedding.cosine` expects: `{"embedding": [...]}`."""

    embedding: Annotated[tuple[Finite, ...], Meta(min_length=1, max_length=MAX_VALUES)]


class EmbeddingCosine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`embedding.cosine`: the cosine of the angle between two vectors, whatever their lengths.

    The score is the cosine, or 0 where that is below 0, where the vectors have different numbers of values, and where
    one of them is all zeros.
    """

    minimum_cosine: Annotated[float, Meta(ge=0, le=1)]

    def compare(self, answer: Answer, *, expected: object) -> Verdict:
        """Judge the answer of `embedding.read` by the vector that was expected.

        Raises:
            BadPipeline: `expected` isn't a vector.
        """
        known = np.array(_parse_embedding(expected, what="expected answer"))
        found = np.array(_parse_embedding(answer, what="answer"))
        if known.size != found.size:
            return Verdict(passed=False, score=0.0, words=f"{found.size} values, {known.size} expected")
        lengths = float(np.linalg.norm(known) * np.linalg.norm(found))
        cosine = float(known @ found) / lengths if 0 < lengths < np.inf else 0.0
        score = min(max(cosine, 0.0), 1.0)
        return Verdict(
            passed=score >= self.minimum_cosine,
            score=score,
            words=f"cosine {cosine:.4f}, at least {self.minimum_cosine:g} wanted",
        )


def describe_embedding(answer: Answer) -> str:
    """Put the answer of `embedding.read` in words: `384 values: 0.012 -0.044 0.031 0.007 …`."""
    values = answer["embedding"]
    shown = " ".join(f"{value:.3f}" for value in values[:DESCRIBED_VALUES])
    return f"{len(values)} values: {shown}" + (" …" if len(values) > DESCRIBED_VALUES else "")


def _parse_embedding(value: object, *, what: str) -> tuple[float, ...]:
    try:
        return msgspec.convert(value, type=KnownEmbedding).embedding
    except msgspec.ValidationError as error:
        raise BadPipeline(f"embedding.cosine: {what}: {error}") from None
