"""Is said of each engine whether it works, why not, and what helps?"""

from dataclasses import replace

import pytest
from shoal_agent.doctor.board import Board
from shoal_agent.doctor.engine_facts import EngineFacts
from shoal_agent.doctor.engines import check_engines, find_fix, judge_engine
from shoal_agent.doctor.findings import Health

from tests.unit.agent.doctor.sound_board import USABLE

BROKEN = replace(
    USABLE, is_usable=False, reason="python can't import engine x: libgomp.so.1: cannot open shared object file"
)


def facts(*probes: object, is_wanted: bool = True, is_found: bool = True, engine: str = "onnxruntime") -> EngineFacts:
    return EngineFacts(engine, "python", is_wanted, is_found, probes)  # type: ignore[arg-type]


def test_each_engine_has_a_line_after_one_for_all(board: Board) -> None:
    seen = [facts(USABLE), facts(is_found=False, engine="litert"), facts(is_found=False, engine="openvino")]
    lines = {line.check: line.health for line in check_engines(replace(board, is_quick=False, engines=tuple(seen)))}
    assert lines == {
        "engines": Health.GOOD,
        "engine onnxruntime": Health.GOOD,
        "engine litert": Health.WARNING,  # a Raspberry Pi 5's profile names it
        "engine openvino": Health.UNKNOWN,
    }


def test_board_on_which_no_engine_works_is_bad(board: Board) -> None:
    spoiled = replace(board, is_quick=False, engines=(facts(BROKEN), facts(is_found=False, engine="litert")))
    assert next(check_engines(spoiled)).health is Health.BAD


def test_engine_that_answers_for_one_format_only_is_a_warning_and_serves(board: Board) -> None:
    half = facts(USABLE, replace(BROKEN, model_format="tflite", reason="expected the outputs 1, found 2"))
    found = judge_engine(half, is_expected=True)
    assert (found.health, "answers right for onnx on CPU, but not for tflite" in found.words) == (Health.WARNING, True)
    assert next(check_engines(replace(board, is_quick=False, engines=(half,)))).health is Health.GOOD


def test_engine_that_does_not_work_says_why_and_what_helps() -> None:
    found = judge_engine(facts(BROKEN), is_expected=True)
    assert (found.health, "libgomp.so.1" in found.words, found.advice) == (Health.WARNING, True, "apt install libgomp1")


def test_engine_that_configuration_leaves_out_or_that_nothing_can_try_is_unknown() -> None:
    assert judge_engine(facts(is_wanted=False), is_expected=True).health is Health.UNKNOWN
    assert judge_engine(facts(engine="tvm"), is_expected=False).health is Health.UNKNOWN


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("ImportError: libfoo.so.3: cannot open shared object file: No such file or directory", "libfoo.so.3"),
        ("/lib/libm.so.6: version `GLIBC_2.35' not found", "Debian 12"),
        ("worker 7 was killed by signal 4 (Illegal instruction)", "instructions that this processor lacks"),
        ("worker 7 was killed by signal 9 (Killed) for want of memory", "memory"),
        ("interpreter /opt/x can't be started: No such file or directory", "path under [interpreters]"),
        ("python can't import engine litert: No module named 'ai_edge_litert'", "[interpreters]"),
        ("A module that was compiled using NumPy 1.x cannot be run in NumPy 2.4.6", "NumPy"),
        ("expected the outputs [[11.0]], found [[0.0]]", "wrong numbers"),
        ("something new", "docs/engines.md"),
    ],
    ids=["library", "C library", "instructions", "memory", "interpreter", "module", "NumPy", "numbers", "unknown"],
)
def test_what_helps_is_found_by_what_was_said(reason: str, words: str) -> None:
    assert words in find_fix(reason)


def test_quick_look_starts_no_engine(board: Board) -> None:
    assert list(check_engines(board)) == []
