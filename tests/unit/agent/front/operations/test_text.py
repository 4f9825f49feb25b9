"""Does a text become the tokens that a BERT-like model takes?"""

import json
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.operations.errors import BadInput, BadPipeline
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_agent.front.operations.text import ByteCodec, WordPiece, choose_codec
from shoal_agent.front.operations.values import Prepared, Tokens
from shoal_wire.manifest import Operation

pytest.importorskip("tokenizers", reason="tokenizers is an extra: shoal-agent[text]")

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "buoy", "##s", "drift", "##ed", "!")


@cache
def tokenizer_json() -> str:
    """As a BERT has it, with ten words, and with a truncation and padding that must not be followed."""
    special = {name: {"id": name, "ids": [WORDS.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    single = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    single.append({"SpecialToken": {"id": "[SEP]", "type_id": 0}})
    description = {
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0},
        "padding": {
            "strategy": {"Fixed": 32},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "added_tokens": [
            {
                "id": WORDS.index(name),
                "content": name,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for name in WORDS[:4]
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": special,
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: at for at, word in enumerate(WORDS)},
        },
    }
    return json.dumps(description)


def prepare(text: bytes, **changed: Any) -> Prepared[Tokens]:
    usual: dict[str, Any] = {"ids": "ids", "mask": "mask", "types": "types", "max_tokens": 16}
    return WordPiece(**({"tokenizer": tokenizer_json()} | usual | changed)).apply(text)


def test_words_are_cut_into_the_pieces_of_the_vocabulary() -> None:
    prepared = prepare(b"The BUOYS drifted! Adrift")
    (call,) = prepared.calls
    pieces = ["[CLS]", "the", "buoy", "##s", "drift", "##ed", "!", "[UNK]", "[SEP]"]
    assert call["ids"].tolist() == [[WORDS.index(piece) for piece in pieces]]
    assert call["mask"].tolist() == [[1] * 9]
    assert call["types"].tolist() == [[0] * 9]
    assert {values.dtype for values in call.values()} == {np.dtype(np.int64)}
    assert prepared.context.mask.tolist() == [[1] * 9]
    assert prepared.follow is None


def test_a_long_text_is_cut_and_keeps_its_special_tokens() -> None:
    (call,) = prepare(b"the the the the the", max_tokens=4).calls
    assert call["ids"].tolist() == [[2, 4, 4, 3]]


def test_a_short_text_is_filled_up_where_the_model_wants_it() -> None:
    prepared = prepare(b"the", max_tokens=5, is_padded=True, pad_id=9)
    (call,) = prepared.calls
    assert call["ids"].tolist() == [[2, 4, 3, 9, 9]]
    assert call["mask"].tolist() == [[1, 1, 1, 0, 0]]
    assert prepared.context.mask.tolist() == [[1, 1, 1, 0, 0]]


def test_inputs_that_a_model_does_not_have_are_left_out() -> None:
    (call,) = prepare(b"the", mask="", types="").calls
    assert list(call) == ["ids"]


@pytest.mark.parametrize(
    ("raw", "said"), [(b"\xff", "byte 0 is not UTF-8"), (b"a" * 11, "11 bytes, expected at most 10")]
)
def test_refuses_what_is_no_text(raw: bytes, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        prepare(raw, max_bytes=10)


def test_refuses_a_text_without_a_token() -> None:
    without_special = json.dumps(json.loads(tokenizer_json()) | {"post_processor": None})
    with pytest.raises(BadInput, match="has no token"):
        prepare(b" ", tokenizer=without_special)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"tokenizer": "{}"}, r"text\.wordpiece: tokenizer: "),
        ({"tokenizer": "no JSON"}, r"text\.wordpiece: tokenizer: "),
        ({"tokenizer": tokenizer_json(), "max_tokens": 2}, "more than the 2 special tokens"),
    ],
)
def test_refuses_a_tokenizer_that_gives_no_tokens(parameters: dict[str, Any], said: str) -> None:
    usual: dict[str, Any] = {"ids": "ids", "max_tokens": 8}
    with pytest.raises(ValueError, match=said):
        WordPiece(**(usual | parameters))


def test_a_pipeline_for_texts_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)  # as if it weren't installed
    wordpiece = Operation("text.wordpiece", {"ids": "ids", "tokenizer": tokenizer_json() + " ", "max_tokens": 8})
    with pytest.raises(BadPipeline, match=r"text\.wordpiece needs tokenizers.*shoal-agent\[text\]"):
        Pipeline(pre=[wordpiece], post=[Operation("embedding.read", {"output": "out"})])


@given(st.text(max_size=40))
def test_any_text_gives_tokens_between_the_special_ones(text: str) -> None:
    (call,) = prepare(text.encode(), max_tokens=8).calls
    ids = call["ids"][0].tolist()
    assert 2 <= len(ids) <= 8
    assert (ids[0], ids[-1]) == (2, 3)


@given(st.text(max_size=40))
def test_bytes_as_tokens_give_the_text_again(text: str) -> None:
    codec = choose_codec("", operation="text.prompt")
    assert isinstance(codec, ByteCodec)
    tokens = codec.encode(text)
    assert bytes(tokens) == text.encode()
    assert codec.decode([256, *tokens, 300]) == text


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    assert ByteCodec().decode([0x61, 0xFF, 0x62]) == "a\N{REPLACEMENT CHARACTER}b"


def test_a_tokenizer_puts_pieces_together_again() -> None:
    codec = choose_codec(tokenizer_json(), operation="text.prompt")
    assert codec.decode(codec.encode("the buoys drifted!")) == "the buoys drifted!"
