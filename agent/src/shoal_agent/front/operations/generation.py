"""How does a language model go on with a text, and how long as expected?

Greedy decoding without a cache: every call takes all tokens so far, and the likeliest next one is taken. That is for
small models and short texts, on any engine; the same file gives the same text wherever no two logits are nearly equal.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from msgspec import Meta

from shoal_agent.front.operations.errors import BadInput, BadOutput, BadPipeline
from shoal_agent.front.operations.outputs import Fraction, Name, OptionalName, read_output
from shoal_agent.front.operations.text import TextBytes, TokenCount, TokenId, TokenizerText, choose_codec, read_text
from shoal_agent.front.operations.values import Answer, Outputs, Prepared, Prompt, Tensors, Verdict

MAX_NEW_TOKENS = 1_024
DESCRIBED_CHARACTERS = 120


class ReadPrompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`text.prompt`: a text in UTF-8 as the tokens that a causal language model goes on with, greedily.

    The inputs are int64[1, n], where n grows by 1 from call to call. The output holds logits: float[1, n, vocabulary],
    or [1, 1, vocabulary] or [1, vocabulary] of the last token alone. The outputs of all calls are kept until the last:
    with a large vocabulary only the last token's logits are small enough.
    """

    takes: ClassVar[type] = bytes
    gives: ClassVar[Any] = Prepared[Prompt]

    ids: Name
    """Input for the tokens."""
    mask: OptionalName = ""
    """Input that is 1 for each token and 0 for what only fills up."""
    output: Name
    tokenizer: TokenizerText = ""
    """Text of a tokenizer.json, see `text.wordpiece`; empty: every byte is a token."""
    stop: Annotated[tuple[TokenId, ...], Meta(max_length=64)] = ()
    """Tokens that end the text."""
    max_new_tokens: Annotated[int, Meta(ge=1, le=MAX_NEW_TOKENS)]
    max_tokens: TokenCount
    """That the model takes, those of the prompt and new ones together."""
    is_padded: bool = False
    """n is always `max_tokens`, filled up behind the text, for models that take no other number."""
    pad_id: TokenId = 0
    max_bytes: TextBytes = 1 << 16

    def __post_init__(self) -> None:
        choose_codec(self.tokenizer, operation="text.prompt")

    def apply(self, raw: bytes) -> Prepared[Prompt]:
        """Cut a text into tokens.

        Raises:
            BadInput: longer than allowed, not UTF-8, without a token, or of more than `max_tokens`.
        """
        codec = choose_codec(self.tokenizer, operation="text.prompt")
        prompt = list(codec.encode(read_text(raw, max_bytes=self.max_bytes)))
        if not 1 <= len(prompt) <= self.max_tokens:
            raise BadInput(f"text: {len(prompt)} tokens, expected 1 to {self.max_tokens}")
        new: list[int] = []

        def choose(number: int, outputs: Tensors) -> int:
            return self._choose(outputs, fed=len(prompt) + number)

        def follow(number: int, outputs: Tensors) -> Tensors | None:
            new[number:] = [choose(number, outputs)]
            is_full = len(prompt) + len(new) > self.max_tokens or len(new) >= self.max_new_tokens
            return None if is_full or new[-1] in self.stop else self._make_call([*prompt, *new])

        context = Prompt(choose=choose, decode=codec.decode, stop=frozenset(self.stop))
        return Prepared(calls=[self._make_call(prompt)], context=context, follow=follow)

    def _make_call(self, tokens: Sequence[int]) -> Tensors:
        length = self.max_tokens if self.is_padded else len(tokens)
        ids = np.full((1, length), self.pad_id, dtype=np.int64)
        mask = np.zeros((1, length), dtype=np.int64)
        ids[0, : len(tokens)], mask[0, : len(tokens)] = tokens, 1
        return {self.ids: ids} | ({self.mask: mask} if self.mask else {})

    def _choose(self, outputs: Tensors, *, fed: int) -> int:
        """The likeliest token after the last of `fed`; of equal ones the first."""
        if self.output not in outputs:
            raise BadOutput(f"output {self.output!r} is missing, found {sorted(outputs)}")
        logits = outputs[self.output]
        length = self.max_tokens if self.is_padded else fed
        rows = logits.size // logits.shape[-1] if logits.ndim > 1 and logits.size else 0
        if logits.shape[:1] != (1,) or logits.ndim > 3 or (rows != length and (rows != 1 or self.is_padded)):
            raise BadOutput(
                f"output {self.output!r} has the shape {list(logits.shape)}, expected [1, {length}, vocabulary]"
            )
        row = logits.reshape(rows, -1)[fed - 1 if rows > 1 else 0]
        return int(read_output({self.output: row}, name=self.output).argmax())


class ReadText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`text.read`: what the model has added to the text of `text.prompt`."""

    takes: ClassVar[Any] = Outputs[Prompt]
    gives: ClassVar[type] = dict

    def apply(self, outputs: Outputs[Prompt]) -> Answer:
        """Give `{"text": str, "tokens": [ids]}`, both without the prompt and without the token that ended it.

        Raises:
            BadOutput: an output is missing, of another shape, or not finite.
        """
        prompt = outputs.context
        chosen = (prompt.choose(number, call) for number, call in enumerate(outputs.calls))
        tokens = list(takewhile(lambda token: token not in prompt.stop, chosen))
        return {"text": prompt.decode(tokens), "tokens": tokens}


class KnownText(msgspec.Struct, frozen=True, kw_only=True):
    """What a golden case of `text.start` expects: `{"tokens": [ids]}`, or `{"text": str}` with at least one word."""

    tokens: Annotated[tuple[TokenId, ...], Meta(max_length=MAX_NEW_TOKENS)] = ()
    text: Annotated[str, Meta(max_length=1 << 16)] = ""

    def __post_init__(self) -> None:
        if not self.tokens and not self.text.split():
            raise ValueError("neither tokens nor words")


class WrittenText(msgspec.Struct, frozen=True, kw_only=True):
    """What `text.read` answers."""

    tokens: tuple[TokenId, ...]
    text: str


class TextStart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`text.start`: the share of the expected tokens that the answer begins with, in their order.

    Where only a text is expected, its words are compared, as white space parts them. What the answer says beyond the
    expected isn't judged.
    """

    minimum_share: Fraction

    def compare(self, answer: Answer, *, expected: object) -> Verdict:
        """Judge the answer of `text.read` by the text that was expected.

        Raises:
            BadPipeline: `expected` has neither tokens nor words.
        """
        try:
            known = msgspec.convert(expected, type=KnownText)
            found = msgspec.convert(answer, type=WrittenText)
        except msgspec.ValidationError as error:
            raise BadPipeline(f"text.start: {error}") from None
        pairs: tuple[Sequence[object], Sequence[object], str] = (
            (known.tokens, found.tokens, "tokens")
            if known.tokens
            else (known.text.split(), found.text.split(), "words")
        )
        wanted, written, unit = pairs
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(wanted, written, strict=False)))
        score = same / len(wanted)
        return Verdict(
            passed=score >= self.minimum_share,
            score=score,
            words=f"the first {same} of {len(wanted)} {unit} agree, a share of {self.minimum_share:g} wanted",
        )


def describe_text(answer: Answer) -> str:
    """Put the answer of `text.read` in words: its beginning, in one line."""
    text = " ".join(answer["text"].split())
    if len(text) > DESCRIBED_CHARACTERS:
        return text[: DESCRIBED_CHARACTERS - 2] + " …"
    return text or "no text"
