"""Is a known choice what most boards measured, and never anything that nobody did?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from shoal_fleet.tuning.rules import Verdict, choose, name_variants
from shoal_wire.tuning import Candidate

from tests.unit.fleet.telemetry.rows import FILES, LITERT, ONNX

OTHER_FILES = ("d" * 64, "e" * 64)


def verdict(
    number: int,
    device: str,
    choice: Candidate = LITERT,
    *,
    files: tuple[str, ...] = FILES,
    is_settled: bool = True,
    is_confirmed: bool = False,
    is_emulated: bool = False,
) -> Verdict:
    return Verdict(
        number=number,
        device_id=device,
        choice=choice,
        files=files,
        engine_version=f"engine of {number}",
        p50_ms=float(number),
        is_settled=is_settled,
        is_confirmed=is_confirmed,
        is_emulated=is_emulated,
    )


def known(*verdicts: Verdict) -> tuple[Candidate, int] | None:
    found = choose(verdicts, model="notes")
    return None if found is None else (found.candidate, found.boards)


def test_nothing_is_known_where_nobody_measured() -> None:
    assert known() is None


def test_what_most_boards_chose_is_known_with_the_figures_of_the_newest() -> None:
    found = choose([verdict(1, "a"), verdict(4, "b", ONNX), verdict(3, "c"), verdict(2, "d")], model="notes")
    assert found is not None
    assert (found.model, found.candidate, found.files, found.boards) == ("notes", LITERT, FILES, 3)
    assert (found.engine_version, found.p50_ms) == ("engine of 3", 3.0)


def test_of_equals_the_one_that_was_measured_last() -> None:
    assert known(verdict(1, "a"), verdict(2, "b", ONNX)) == (ONNX, 1)
    assert known(verdict(2, "a"), verdict(1, "b", ONNX)) == (LITERT, 1)


def test_a_board_that_measured_again_has_changed_its_word() -> None:
    assert known(verdict(1, "a"), verdict(2, "b"), verdict(3, "a", ONNX), verdict(4, "b", ONNX)) == (ONNX, 2)
    assert known(verdict(1, "a"), verdict(2, "a"), verdict(3, "a")) == (LITERT, 1)


def test_unsettled_verdicts_count_only_where_there_is_no_settled_one() -> None:
    unsettled = [verdict(number, f"u{number}", ONNX, is_settled=False) for number in (5, 6, 7)]
    assert known(*unsettled) == (ONNX, 3)
    assert known(*unsettled, verdict(1, "a")) == (LITERT, 1)


def test_emulated_boards_have_no_say() -> None:
    assert known(verdict(1, "a", is_emulated=True)) is None
    assert known(verdict(1, "a"), *(verdict(n, f"e{n}", ONNX, is_emulated=True) for n in (2, 3))) == (LITERT, 1)


def test_a_confirmation_supports_a_choice_and_makes_none() -> None:
    confirmations = [verdict(number, f"c{number}", ONNX, is_confirmed=True) for number in (2, 3)]
    assert known(*confirmations) is None
    assert known(verdict(1, "a"), *confirmations) == (LITERT, 1)
    assert known(verdict(1, "a"), verdict(4, "b", ONNX), *confirmations) == (ONNX, 3)


def test_a_board_that_confirms_what_it_had_measured_still_has_measured_it() -> None:
    assert known(verdict(1, "a"), verdict(2, "a", is_confirmed=True)) == (LITERT, 1)
    assert known(verdict(1, "a"), verdict(2, "a", ONNX, is_confirmed=True)) is None


def test_choices_of_other_files_are_other_choices() -> None:
    found = choose([verdict(1, "a"), verdict(2, "b"), verdict(3, "c", files=OTHER_FILES)], model="notes")
    assert found is not None
    assert (found.files, found.boards) == (FILES, 2)


@pytest.mark.parametrize(
    ("names", "expected"), [(["int8"], "int8"), (["new-name"], "new-name"), (["first", "int8"], "int8")]
)
def test_a_variant_goes_by_the_name_that_the_release_gives_it(names: list[str], expected: str) -> None:
    (named,) = name_variants([verdict(1, "a"), verdict(2, "b", files=OTHER_FILES)], {FILES: names})
    assert (named.device_id, named.choice) == ("a", replace(LITERT, variant=expected))


@st.composite
def verdicts(draw: st.DrawFn) -> list[Verdict]:
    made = []
    for number in range(draw(st.integers(0, 9))):
        made.append(
            verdict(
                number,
                draw(st.sampled_from("abcd")),
                draw(st.sampled_from([LITERT, ONNX])),
                files=draw(st.sampled_from([FILES, OTHER_FILES])),
                is_settled=draw(st.booleans()),
                is_confirmed=draw(st.booleans()),
                is_emulated=draw(st.booleans()),
            )
        )
    return draw(st.permutations(made))


@given(verdicts())
def test_whatever_is_known_was_measured_on_a_real_board(given_verdicts: list[Verdict]) -> None:
    found = choose(given_verdicts, model="notes")
    if found is None:
        return
    sources = [one for one in given_verdicts if (one.choice, one.files) == (found.candidate, found.files)]
    assert any(not one.is_emulated and not one.is_confirmed and one.p50_ms == found.p50_ms for one in sources)
    assert 1 <= found.boards <= len({one.device_id for one in sources if not one.is_emulated})


@given(verdicts())
def test_the_order_of_reading_does_not_matter(given_verdicts: list[Verdict]) -> None:
    assert choose(given_verdicts[::-1], model="notes") == choose(given_verdicts, model="notes")


@given(verdicts())
def test_verdicts_of_emulated_boards_change_nothing(given_verdicts: list[Verdict]) -> None:
    real = [one for one in given_verdicts if not one.is_emulated]
    assert choose(real, model="notes") == choose(given_verdicts, model="notes")


@given(verdicts())
def test_a_board_that_measures_the_known_choice_too_makes_it_one_board_more(given_verdicts: list[Verdict]) -> None:
    found = choose(given_verdicts, model="notes")
    if found is None:
        return
    newcomer = verdict(99, "newcomer", found.candidate, files=found.files, is_confirmed=True)
    again = choose([*given_verdicts, newcomer], model="notes")
    assert again is not None
    assert (again.candidate, again.boards) == (found.candidate, found.boards + 1)
