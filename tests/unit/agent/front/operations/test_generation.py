"""Does a language model go on with a text token by token, to its end or to the bound, and is its start judged?"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.batching import run_prepared
from shoal_agent.front.operations.errors import BadInput, BadOutput, BadPipeline
from shoal_agent.front.operations.generation import ReadPrompt, ReadText, TextStart, describe_text
from shoal_agent.front.operations.values import Answer, Outputs, Tensors

VOCABULARY = 260
STOP = 258
SHARE = TextStart(minimum_share=0.5)


def alphabet(call: Tensors) -> Tensors:
    """A model that goes on with the next letter, and stops after z; behind each token it looks up the next."""
    ids = call["ids"][0]
    logits = np.zeros((1, len(ids), VOCABULARY), np.float32)
    logits[0, np.arange(len(ids)), np.where(ids == ord("z"), STOP, np.minimum(ids + 1, STOP))] = 5.0
    return {"logits": logits}


def last_only(call: Tensors) -> Tensors:
    return {"logits": alphabet(call)["logits"][:, -1]}


def generate(
    raw: bytes, *, run: Callable[[Tensors], Tensors] = alphabet, **changed: Any
) -> tuple[Answer, list[Tensors]]:
    """The answer, and what the model was fed."""
    usual: dict[str, Any] = {"ids": "ids", "output": "logits", "stop": (STOP,), "max_new_tokens": 8, "max_tokens": 64}
    prepared = ReadPrompt(**(usual | changed)).apply(raw)
    fed: list[Tensors] = []

    def listen(call: Tensors) -> Tensors:
        fed.append(call)
        return run(call)

    outputs = run_prepared(prepared, batch=1, run=listen)
    return ReadText().apply(Outputs(calls=outputs, context=prepared.context)), fed


@pytest.mark.parametrize("run", [alphabet, last_only])
def test_each_call_takes_all_tokens_so_far_until_the_model_stops(run: Callable[[Tensors], Tensors]) -> None:
    answer, fed = generate(b"w", run=run)
    assert answer == {"text": "xyz", "tokens": [120, 121, 122]}
    assert [call["ids"].tolist() for call in fed] == [[[119]], [[119, 120]], [[119, 120, 121]], [[119, 120, 121, 122]]]
    assert {call["ids"].dtype for call in fed} == {np.dtype(np.int64)}


def test_no_more_tokens_are_made_than_are_wanted() -> None:
    answer, fed = generate(b"a", max_new_tokens=3)
    assert (answer["text"], len(fed)) == ("bcd", 3)


def test_no_more_tokens_are_fed_than_the_model_takes() -> None:
    answer, fed = generate(b"abc", max_tokens=4)
    assert (answer["text"], [call["ids"].shape for call in fed]) == ("de", [(1, 3), (1, 4)])


def test_a_model_of_fixed_length_is_filled_up_and_read_at_the_last_token() -> None:
    answer, fed = generate(b"xy", is_padded=True, max_tokens=6, pad_id=7, mask="mask")
    assert answer["text"] == "z"
    assert [call["ids"].tolist() for call in fed] == [[[120, 121, 7, 7, 7, 7]], [[120, 121, 122, 7, 7, 7]]]
    assert [call["mask"].tolist() for call in fed] == [[[1, 1, 0, 0, 0, 0]], [[1, 1, 1, 0, 0, 0]]]


def test_a_model_may_stop_at_once() -> None:
    assert generate(b"z")[0] == {"text": "", "tokens": []}


def test_of_equal_logits_the_first_is_taken() -> None:
    answer, _ = generate(b"a", run=lambda call: {"logits": np.zeros((1, 4), np.float32)}, max_new_tokens=2)
    assert answer["tokens"] == [0, 0]


def test_asking_again_for_the_same_call_gives_the_same() -> None:
    prepared = ReadPrompt(ids="ids", output="logits", max_new_tokens=8, max_tokens=64).apply(b"a")
    assert prepared.follow is not None
    second = prepared.follow(0, alphabet(prepared.calls[0]))
    assert second is not None
    prepared.follow(1, alphabet(second))
    again = prepared.follow(0, alphabet(prepared.calls[0]))
    assert again is not None
    assert again["ids"].tolist() == second["ids"].tolist() == [[97, 98]]


@pytest.mark.parametrize(
    ("logits", "changed", "said"),
    [
        (None, {}, "'logits' is missing"),
        (np.zeros((1, 3, 9)), {}, r"shape \[1, 3, 9\], expected \[1, 2, vocabulary\]"),
        (np.zeros((2, 9)), {}, r"shape \[2, 9\]"),
        (np.zeros((1, 2, 0)), {}, r"shape \[1, 2, 0\]"),
        (np.zeros(9), {}, r"shape \[9\]"),
        (np.zeros((1, 1, 9)), {"is_padded": True, "max_tokens": 4}, r"expected \[1, 4, vocabulary\]"),
        (np.full((1, 2, 9), np.nan), {}, "not finite"),
    ],
)
def test_refuses_outputs_that_are_no_logits(logits: Any, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(BadOutput, match=said):
        generate(b"ab", run=lambda call: {} if logits is None else {"logits": logits}, **changed)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "0 tokens, expected 1 to 64"),
        (b"a" * 65, "65 tokens, expected 1 to 64"),
        (b"\xc3", "byte 0 is not UTF-8"),
        (b"a" * 101, "101 bytes, expected at most 100"),
    ],
)
def test_refuses_a_prompt_that_the_model_does_not_take(raw: bytes, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        generate(raw, max_bytes=100)


def test_refuses_a_tokenizer_that_is_none() -> None:
    pytest.importorskip("tokenizers", reason="tokenizers is an extra: shoal-agent[text]")
    with pytest.raises(ValueError, match=r"text\.prompt: tokenizer"):
        generate(b"a", tokenizer="{}")


@pytest.mark.parametrize(
    ("expected", "answer", "score"),
    [
        ({"tokens": [1, 2, 3, 4]}, {"tokens": [1, 2, 3, 4], "text": "a"}, 1.0),
        ({"tokens": [1, 2, 3, 4]}, {"tokens": [1, 2, 9, 4], "text": "a"}, 0.5),
        ({"tokens": [1, 2, 3, 4]}, {"tokens": [1], "text": "a"}, 0.25),
        ({"tokens": [1, 2]}, {"tokens": [1, 2, 3], "text": "a"}, 1.0),
        ({"tokens": [1, 2]}, {"tokens": [], "text": ""}, 0.0),
        ({"text": "one two  three"}, {"tokens": [], "text": " one two four"}, 2 / 3),
        ({"text": "same", "tokens": [1, 2]}, {"tokens": [2, 1], "text": "same"}, 0.0),
    ],
)
def test_the_share_of_what_agrees_from_the_start(expected: Any, answer: Answer, score: float) -> None:
    verdict = SHARE.compare(answer, expected=expected)
    assert verdict.score == pytest.approx(score)
    assert verdict.passed is (score >= 0.5)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=8), st.lists(st.integers(0, 2), max_size=8))
def test_the_share_is_that_of_the_longest_common_start(wanted: list[int], found: list[int]) -> None:
    longest = max(at for at in range(len(wanted) + 1) if wanted[:at] == found[:at])
    score = SHARE.compare({"tokens": found, "text": ""}, expected={"tokens": wanted}).score
    assert score == pytest.approx(longest / len(wanted))


def test_verdict_and_answer_are_put_in_words() -> None:
    verdict = SHARE.compare({"tokens": [1, 3], "text": ""}, expected={"tokens": [1, 2]})
    assert verdict.words == "the first 1 of 2 tokens agree, a share of 0.5 wanted"
    assert describe_text({"text": "a\n b", "tokens": []}) == "a b"
    assert describe_text({"text": " ", "tokens": []}) == "no text"
    assert describe_text({"text": "x" * 121, "tokens": []}) == "x" * 118 + " …"


@pytest.mark.parametrize("expected", [{}, {"tokens": []}, {"text": " "}, {"tokens": ["a"]}, {"tokens": [-1]}, None])
def test_refuses_an_expected_answer_without_tokens_or_words(expected: object) -> None:
    with pytest.raises(BadPipeline, match=r"text\.start"):
        SHARE.compare({"tokens": [1], "text": "a"}, expected=expected)
