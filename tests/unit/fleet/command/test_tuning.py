"""Does `shoal tuning list` count boards, not verdicts, and keep what differs apart?"""

import pytest
from msgspec.structs import replace
from shoal_fleet.command.tuning import gather
from shoal_fleet.command.views import Verdict, describe_board
from shoal_wire.tuning import BoardKind

from tests.unit.fleet.telemetry.rows import BOARD, LITERT, ONNX, figures


def verdict(number: int, device: str, *, p50_ms: float = 5.0) -> Verdict:
    return Verdict(
        id=number,
        device=device,
        board=BOARD,
        model="notes",
        objective="latency",
        choice=LITERT,
        measured=(figures(LITERT, p50_ms=p50_ms),),
        is_settled=False,
        is_confirmed=False,
    )


def test_boards_that_agree_are_one_line_with_the_newest_figures() -> None:
    (found,) = gather([verdict(3, "b", p50_ms=7.0), verdict(1, "a"), verdict(2, "b")])
    assert (found.boards, found.newest.id, found.is_settled) == (2, 3, False)


def test_what_differs_is_a_line_of_its_own_and_most_boards_come_first() -> None:
    odd = replace(verdict(9, "z"), choice=ONNX)
    others = [
        replace(verdict(4, "z"), model="birds"),
        replace(verdict(5, "z"), objective="memory"),
        replace(verdict(6, "z"), board=replace(BOARD, processors=1)),
    ]
    found = gather([odd, verdict(1, "a"), verdict(2, "b"), *others])
    assert [(one.newest.model, one.newest.objective, one.newest.id, one.boards) for one in found] == [
        ("birds", "latency", 4, 1),
        ("notes", "latency", 6, 1),
        ("notes", "latency", 2, 2),
        ("notes", "latency", 9, 1),
        ("notes", "memory", 5, 1),
    ]


@pytest.mark.parametrize("is_confirmed", [False, True])
def test_a_confirmation_settles_nothing(is_confirmed: bool) -> None:
    settled = replace(verdict(2, "b"), is_settled=True, is_confirmed=is_confirmed)
    (found,) = gather([verdict(1, "a"), settled])
    assert found.is_settled is not is_confirmed


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (BOARD, "Raspberry Pi 5, Cortex-A76 (aarch64), 4 threads"),
        (
            BoardKind(architecture="x86_64", processor="N100", processors=1, governor="powersave", is_emulated=True),
            "N100 (x86_64), 1 thread, powersave, emulated",
        ),
    ],
)
def test_a_kind_of_board_in_words(kind: BoardKind, words: str) -> None:
    assert describe_board(kind) == words
