"""How are variants timed in turns?"""

from collections.abc import Sequence
from typing import Any

import pytest
from shoal_agent.front.operations.values import Prepared, Tensors
from shoal_agent.tuning.bench import CandidateFailed, Turn
from shoal_converters.forms import Form
from shoal_converters.gains import is_no_chance
from shoal_converters.speed import (
    ROUNDS,
    TURN_S,
    ItemTask,
    check_candidates,
    list_settings,
    time_rounds,
)
from shoal_wire.manifest import Model, Operation, Tensor
from shoal_wire.tuning import Candidate

FAST = Candidate(variant="tflite-int8", engine="litert", threads=1)
SLOW = Candidate(variant="tflite-fp32", engine="litert", threads=1)
SLOW_2 = Candidate(variant="tflite-fp32", engine="litert", threads=2)


class FakeMachine:
    """Candidates that answer in so many seconds, on a clock that only their turns move."""

    def __init__(self, seconds: dict[Candidate, float], *, fails: dict[Candidate, int] | None = None) -> None:
        """`fails`: the turn in which a candidate fails, 0 for its check."""
        self.now = 0.0
        self.turns: list[Candidate] = []
        self.checked: list[Candidate] = []
        self._seconds = seconds
        self._fails = fails or {}

    def clock(self) -> float:
        return self.now

    def check(self, candidate: Candidate, *, timeout_s: float) -> None:
        self.checked.append(candidate)
        if self._fails.get(candidate) == 0:
            raise CandidateFailed("the engine doesn't take the model")

    def turn(self, candidate: Candidate, *, seconds: float, with_rate: bool) -> Turn:
        self.turns.append(candidate)
        if self._fails.get(candidate) == self.turns.count(candidate):
            raise CandidateFailed("its worker died")
        takes = self._seconds[candidate]
        self.now += max(seconds, takes)
        return Turn((takes * 1000,), 1 / takes if with_rate else None, 0.5 if with_rate else None)

    def peak_bytes(self, candidate: Candidate) -> int:
        return 7

    def load_ms(self, candidate: Candidate) -> float:
        return 0.0

    def drop(self, candidate: Candidate) -> None:
        """Nothing is held."""


def timed(machine: FakeMachine, *candidates: Candidate, budget_s: float = 1000.0) -> Any:
    return time_rounds(candidates, machine, ends_at=machine.now + budget_s, clock=machine.clock, tell=lambda _: None)


def test_everybody_has_one_turn_in_every_round() -> None:
    machine = FakeMachine({FAST: 0.001, SLOW: 0.01, SLOW_2: 0.006})
    rounds = timed(machine, FAST, SLOW, SLOW_2)
    assert rounds.count == ROUNDS
    for number in range(ROUNDS):
        assert set(machine.turns[3 * number : 3 * number + 3]) == {FAST, SLOW, SLOW_2}
    assert [len(seen.medians_ms) for seen in rounds.seen.values()] == [ROUNDS] * 3


def test_nobody_always_follows_the_same_neighbour() -> None:
    machine = FakeMachine({FAST: 0.001, SLOW: 0.01, SLOW_2: 0.006})
    timed(machine, FAST, SLOW, SLOW_2)
    before = {machine.turns[place - 1] for place, one in enumerate(machine.turns) if one == FAST and place % 3}
    assert before == {SLOW, SLOW_2}


def test_no_round_begins_that_would_not_end_within_the_budget() -> None:
    machine = FakeMachine({FAST: 1.0, SLOW: 4.0})
    assert timed(machine, FAST, SLOW, budget_s=36.0).count == 7
    assert machine.now == pytest.approx(35.0)


def test_so_many_rounds_are_taken_that_a_gain_can_be_told() -> None:
    machine = FakeMachine({FAST: 1.0, SLOW: 4.0})
    count = timed(machine, FAST, SLOW, budget_s=0.0).count
    assert is_no_chance(count, rounds=count)
    assert not is_no_chance(count - 1, rounds=count - 1)


def test_turns_are_short_where_many_share_a_budget() -> None:
    machine = FakeMachine({FAST: 0.001})
    rounds = timed(machine, FAST, budget_s=0.0)
    assert machine.now == pytest.approx(rounds.count * TURN_S[0])


def test_who_fails_in_its_turn_has_no_speed_and_a_reason() -> None:
    machine = FakeMachine({FAST: 0.001, SLOW: 0.01}, fails={SLOW: 3})
    rounds = timed(machine, FAST, SLOW)
    assert list(rounds.seen) == [FAST]
    assert rounds.failed == {SLOW: "its worker died"}
    assert len(rounds.seen[FAST].medians_ms) == ROUNDS


def test_an_engine_that_fails_a_variant_is_not_tried_with_more_threads() -> None:
    machine = FakeMachine({}, fails={SLOW: 0})
    checked = check_candidates([SLOW, SLOW_2, FAST], machine, until=1.0, clock=machine.clock, tell=lambda _: None)
    assert checked.right == [FAST]
    assert checked.failed == {SLOW: "the engine doesn't take the model"}
    assert SLOW_2 not in machine.checked


def test_where_time_is_short_each_variant_has_one_setting_in_each_engine() -> None:
    machine = FakeMachine({})
    machine.now = 2.0
    checked = check_candidates([SLOW, SLOW_2, FAST], machine, until=1.0, clock=machine.clock, tell=lambda _: None)
    assert checked.right == machine.checked == [SLOW, FAST]
    assert checked.failed == {}


MODEL = Model(
    name="m",
    task="regression",
    inputs=(Tensor("x", "float32", (1, 2)),),
    outputs=(Tensor("y", "float32", (1, 1)),),
    pre=(Operation("table.decode_csv"), Operation("table.feed", {"input": "x", "columns": 2})),
    post=(Operation("values.read", {"output": "y", "names": ["sum"]}),),
    variants=(),
    golden=(),
)


def form(name: str, *, runtimes: tuple[str, ...] = ()) -> Form:
    model_format, _, precision = name.partition("-")
    return Form(name=name, format=model_format, precision=precision, files={name: b""}, runtimes=runtimes)


def test_engines_that_compute_a_form_wrong_are_not_timed() -> None:
    settings = list_settings(
        [form("tflite-fp32"), form("tflite-int8", runtimes=("litert",))], model=MODEL, interpreters={}
    )
    assert {one.engine for one in settings if one.variant == "tflite-fp32"} >= {"litert", "openvino"}
    assert {one.engine for one in settings if one.variant == "tflite-int8"} == {"litert"}


def adding(prepared: Prepared[Any]) -> list[Tensors]:
    return [{"y": call["x"].sum(axis=1, keepdims=True)} for call in prepared.calls]


def items(count: int) -> Sequence[bytes]:
    return [f"{number},1".encode() for number in range(count)]


def test_so_few_items_are_timed_that_the_rounds_fit() -> None:
    task = ItemTask(MODEL, items(9))
    assert task.items == 4
    assert (
        task.check(adding, candidate=Candidate(variant="v", engine="onnxruntime", precision="exact", threads=1)) == ""
    )
    task.item_s = 1.0
    task.fit(3.1 * ROUNDS)
    assert task.items == 3
    task.fit(0.0)
    assert task.items == 1
