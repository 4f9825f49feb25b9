"""Does a candidate say all that tells it from another one, and a fingerprint all that tells kinds of boards apart?"""

from typing import Any

import pytest
from hypothesis import assume, given
from msgspec.structs import replace
from shoal_wire.tuning import BoardKind, Candidate, is_placed_on

from tests.unit.wire.struct_strategies import instances

PLAIN = Candidate(variant="int8", engine="litert", threads=2)
BOARD = BoardKind(architecture="aarch64", processor="Cortex-A76", processors=4)


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (PLAIN, "int8 litert exact threads=2"),
        (replace(PLAIN, precision="fast", batch=4), "int8 litert fast threads=2 batch=4"),
        (replace(PLAIN, device="GPU"), "int8 litert exact threads=2 device=GPU"),
    ],
)
def test_a_candidate_in_words(candidate: Candidate, words: str) -> None:
    assert str(candidate) == words


@pytest.mark.parametrize(
    ("device", "placement", "expected"),
    [
        ("", (), True),
        ("", ("CPU",), True),
        ("GPU", ("GPU.0", "CPU"), True),
        ("GPU.1", ("GPU.1",), True),
        ("CUDAExecutionProvider", ("CPUExecutionProvider", "CUDAExecutionProvider"), True),
        ("CUDAExecutionProvider", ("CPUExecutionProvider",), False),
        ("GPU.1", ("GPU.0",), False),
        ("GPU", ("GPUS",), False),
        ("GPU", (), False),
    ],
)
def test_placement_is_held_against_what_was_asked_for(device: str, placement: tuple[str, ...], expected: bool) -> None:
    assert is_placed_on(device, placement=placement) is expected


@pytest.mark.parametrize(
    "change",
    [
        {"architecture": "armv7l"},
        {"board": "Raspberry Pi 5"},
        {"processor": "Cortex-A72"},
        {"processors": 3},
        {"governor": "powersave"},
        {"is_emulated": True},
    ],
)
def test_whatever_makes_boards_unequal_changes_the_fingerprint(change: dict[str, Any]) -> None:
    assert replace(BOARD, **change).fingerprint != BOARD.fingerprint


@given(instances(BoardKind), instances(BoardKind))
def test_boards_of_one_kind_alone_have_one_fingerprint(one: BoardKind, other: BoardKind) -> None:
    assume(one != other)
    assert one.fingerprint != other.fingerprint
    assert replace(one).fingerprint == one.fingerprint
