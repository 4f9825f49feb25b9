"""How do the bytes of a text become the tokens that a model takes?

The tokenizer is given as the text of a `tokenizer.json`, the format of the library `tokenizers`, which also runs it. It
lies in the manifest with the other parameters, so that it is signed with them, and counts against the manifest's limit
of 4 MiB: that of a BERT with 30,000 words has half a megabyte.
"""

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol

import msgspec
import numpy as np
from msgspec import Meta

from shoal_agent.front.operations.errors import BadInput
from shoal_agent.front.operations.outputs import Name, OptionalName
from shoal_agent.front.operations.values import Prepared, Tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MAX_TOKENIZER_CHARACTERS = 2 << 20
MAX_TOKENS = 8_192
MAX_TEXT_BYTES = 1 << 20
_KEPT_TOKENIZERS = 4
"""Read once: that of a BERT takes tens of milliseconds."""

TokenizerText = Annotated[str, Meta(max_length=MAX_TOKENIZER_CHARACTERS)]
TokenId = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
TokenCount = Annotated[int, Meta(ge=1, le=MAX_TOKENS)]
TextBytes = Annotated[int, Meta(ge=1, le=MAX_TEXT_BYTES)]


class WordPiece(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`text.wordpiece`: a text as the tokens of a BERT-like model, with the special ones that the tokenizer adds.

    Each input is an int64[1, n]. Of a text of more than `max_tokens`, the first are taken, special ones counted.
    """

    takes: ClassVar[type] = bytes
    gives: ClassVar[Any] = Prepared[Tokens]

    ids: Name
    """Input for the tokens."""
    mask: OptionalName = ""
    """Input that is 1 for each token of the text and 0 for what only fills up."""
    types: OptionalName = ""
    """Input that says of which of two texts a token is: all 0."""
    tokenizer: Annotated[TokenizerText, Meta(min_length=2)]
    """Text of a tokenizer.json. What it says of truncation and padding is not followed."""
    max_tokens: TokenCount
    is_padded: bool = False
    """n is always `max_tokens`, for models that take no other number; else it is the number of tokens."""
    pad_id: TokenId = 0
    max_bytes: TextBytes = 1 << 16

    def __post_init__(self) -> None:
        load_tokenizer(self.tokenizer, operation="text.wordpiece", max_tokens=self.max_tokens)

    def apply(self, raw: bytes) -> Prepared[Tokens]:
        """Cut a text into tokens; the model is called once.

        Raises:
            BadInput: longer than allowed, not UTF-8, or without a token.
        """
        text = read_text(raw, max_bytes=self.max_bytes)
        tokenizer = load_tokenizer(self.tokenizer, operation="text.wordpiece", max_tokens=self.max_tokens)
        found = tokenizer.encode(text).ids
        if not found:
            raise BadInput("text: has no token, expected 1 or more")
        length = self.max_tokens if self.is_padded else len(found)
        ids = np.full((1, length), self.pad_id, dtype=np.int64)
        mask = np.zeros((1, length), dtype=np.int64)
        ids[0, : len(found)], mask[0, : len(found)] = found, 1
        inputs = {self.ids: ids, self.mask: mask, self.types: np.zeros_like(ids)}
        fed = {name: values for name, values in inputs.items() if name}
        return Prepared(calls=[fed], context=Tokens(mask=mask, fed=fed))


class Codec(Protocol):
    """A way to cut a text into tokens, and to put them together again."""

    def encode(self, text: str) -> Sequence[int]:
        """Tokens of a text."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of tokens; special ones have none."""


class ByteCodec:
    """Every byte of UTF-8 is a token; further tokens are special."""

    def encode(self, text: str) -> Sequence[int]:
        """See Codec."""
        return list(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        """See Codec. What is not UTF-8 becomes U+FFFD."""
        return bytes(token for token in tokens if token < 256).decode(errors="replace")


class LibraryCodec:
    """The tokens of a tokenizer.json."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        """Use a tokenizer of `load_tokenizer`."""
        self._tokenizer = tokenizer

    def encode(self, text: str) -> Sequence[int]:
        """See Codec."""
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def decode(self, tokens: Sequence[int]) -> str:
        """See Codec."""
        return str(self._tokenizer.decode(list(tokens)))


def read_text(raw: bytes, *, max_bytes: int) -> str:
    """A text in UTF-8.

    Raises:
        BadInput: longer than allowed, or not UTF-8.
    """
    if len(raw) > max_bytes:
        raise BadInput(f"text: {len(raw)} bytes, expected at most {max_bytes}")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"text: byte {error.start} is not UTF-8") from None


def choose_codec(tokenizer: str, *, operation: str) -> Codec:
    """That of a tokenizer.json, or bytes where its text is empty.

    Raises:
        ValueError: see `load_tokenizer`.
    """
    return LibraryCodec(load_tokenizer(tokenizer, operation=operation)) if tokenizer else ByteCodec()


@lru_cache(maxsize=_KEPT_TOKENIZERS)
def load_tokenizer(text: str, *, operation: str, max_tokens: int = 0) -> "Tokenizer":
    """A tokenizer that gives at most `max_tokens` (0: all of them) and pads nothing. Threads may share it.

    Raises:
        ValueError: the library is not installed, the text is no tokenizer, or its special tokens leave no room.
    """
    if find_spec("tokenizers") is None:
        raise ValueError(f"{operation} needs tokenizers, which is not installed: pip install 'shoal-agent[text]'")
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(text)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        if max_tokens:
            tokenizer.enable_truncation(max_tokens)
    except Exception as error:  # the library raises bare Exception
        raise ValueError(f"{operation}: tokenizer: {str(error)[:200]}") from None
    special = tokenizer.num_special_tokens_to_add(False)
    if 0 < max_tokens <= special:
        raise ValueError(f"{operation}: max_tokens is {max_tokens}, expected more than the {special} special tokens")
    return tokenizer
