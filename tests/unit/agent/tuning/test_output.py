"""What does a person see of a verdict, and what may they ask for?"""

import argparse
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from shoal_agent.tuned import Choice, Limits
from shoal_agent.tuning.options import BATCHES, add_tune_options, parse_tune_options
from shoal_agent.tuning.plot import draw_verdict, frontier
from shoal_agent.tuning.report import write_verdict

from tests.unit.agent.tuning.verdict_example import FAST, SMALL, VERDICT, measured

SVG = "{http://www.w3.org/2000/svg}"


def test_the_table_marks_what_was_chosen_what_nobody_beats_and_what_was_dropped() -> None:
    lines = write_verdict(VERDICT).splitlines()
    assert re.match(r"\* +o +onnxruntime +- +exact +2 +1 +5\.25 +6\.30 +190\.48 +90 +500 +-$", lines[1])
    assert lines[2].startswith("+ ") and lines[3].startswith("(3)")


def test_the_table_says_where_an_engine_really_ran() -> None:
    candidate = replace(FAST, device="GPU")
    (placed, asked) = (replace(VERDICT.measured[0], candidate=candidate, placement=to) for to in (("GPU.0", "CPU"), ()))
    lines = write_verdict(replace(VERDICT, measured=(placed, asked))).splitlines()
    assert re.search(r" onnxruntime +GPU\.0\+CPU +exact ", lines[1])
    assert re.search(r" onnxruntime +GPU +exact ", lines[2])


def test_reasons_of_refusals_choice_and_missing_meter_are_told() -> None:
    text = write_verdict(VERDICT)
    assert "refused  x litert exact threads=1: F1 0.1, at least 0.9 wanted" in text
    assert "choice   o onnxruntime exact threads=2: best for latency of 3" in text
    assert "no meter that can be read" in text
    nobody = replace(VERDICT, choice=Choice(candidate=None, why="nobody meets it"))
    assert "choice   none: nobody meets it" in write_verdict(nobody)


def test_the_picture_has_a_dot_for_each_candidate_and_nothing_from_outside() -> None:
    text = draw_verdict(VERDICT)
    root = ElementTree.fromstring(text)
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert titles[0] == "o onnxruntime exact threads=2: p50 5.25 ms, 90 MB, 190.48 answers/s"
    assert len(titles) == 3
    assert "x86_64 <A & B>" in "".join(root.itertext())
    assert text.count("http") == 1  # the name of the format


def test_the_picture_of_nothing_is_a_picture() -> None:
    ElementTree.fromstring(draw_verdict(replace(VERDICT, measured=())))


def test_the_line_goes_through_those_that_nobody_beats_in_both() -> None:
    third = measured(SMALL, p50_ms=9.0, peak_mb=60)
    assert [one.candidate for one in frontier([*VERDICT.measured, third])] == [FAST, SMALL]


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--state", type=Path, default=Path("/state"))
    add_tune_options(parser)
    return parser.parse_args(arguments)


def test_options_become_one_value() -> None:
    options = parse_tune_options(
        parse("m", "--objective", "memory", "--limit-memory-mb", "1.5", "--threads", "2,1,2", "--budget-s", "5")
    )
    assert options.limits == Limits(memory_bytes=1_500_000)
    assert (options.threads, options.batches, options.budget_s, options.objective) == ((1, 2), BATCHES, 5.0, "memory")
    assert parse_tune_options(parse("m", "--batch", "3,1")).batches == (1, 3)


@pytest.mark.parametrize(
    "wrong",
    [("--threads", "0"), ("--threads", "a"), ("--budget-s", "0"), ("--limit-p95-ms", "-1"), ("--budget-s", "nan")],
)
def test_numbers_that_make_no_sense_are_refused(wrong: tuple[str, str]) -> None:
    with pytest.raises(argparse.ArgumentError, match="expected"):
        parse("m", *wrong)
