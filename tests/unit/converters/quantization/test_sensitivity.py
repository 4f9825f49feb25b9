"""Are the layers that cost most found, with few measurements and within the time?"""

from collections.abc import Sequence

from shoal_converters.paths.messages import QuantizedLayer
from shoal_converters.quantization.sensitivity import measure_layers


def _layers(count: int) -> list[QuantizedLayer]:
    return [QuantizedLayer(f"l{place}", "Conv") for place in range(count)]


class FakeModel:
    """The change of a group is the sum of its layers' own, and a measurement takes a second."""

    def __init__(self, costs: dict[str, float], *, second_per_group: float = 1.0) -> None:
        self._costs = costs
        self._second_per_group = second_per_group
        self.measured = 0
        self.time_s = 0.0

    def measure(self, groups: Sequence[tuple[str, ...]], budget_s: float) -> list[float | None]:
        end_s = self.time_s + budget_s
        changes: list[float | None] = []
        for group in groups:
            if self.time_s >= end_s:
                changes.append(None)
                continue
            self.time_s += self._second_per_group
            self.measured += 1
            changes.append(sum(self._costs.get(name, 0.001) for name in group))
        return changes

    def clock(self) -> float:
        return self.time_s


def test_few_layers_are_measured_one_by_one() -> None:
    model = FakeModel({"l3": 0.5, "l1": 0.9})
    found = measure_layers(_layers(5), model.measure, budget_s=100, clock=model.clock)
    assert [(layer.name, layer.sensitivity) for layer in found[:3]] == [("l1", 0.9), ("l3", 0.5), ("l0", 0.001)]
    assert model.measured == 5


def test_two_bad_layers_of_a_thousand_are_found_with_far_fewer_measurements() -> None:
    model = FakeModel({"l333": 3.0, "l777": 2.0})
    found = measure_layers(_layers(1000), model.measure, budget_s=250, clock=model.clock)
    assert [layer.name for layer in found[:2]] == ["l333", "l777"]
    assert model.measured < 300
    assert len({layer.name for layer in found}) == 1000


def test_what_there_was_no_time_for_is_not_made_up() -> None:
    model = FakeModel({"l0": 1.0})
    found = measure_layers(_layers(10), model.measure, budget_s=3, clock=model.clock)
    assert [layer.name for layer in found] == ["l0", "l1", "l2"]


def test_a_group_that_there_was_no_time_to_take_apart_stands_for_its_layers() -> None:
    model = FakeModel({"l100": 1.0})
    found = measure_layers(_layers(240), model.measure, budget_s=24, clock=model.clock)
    assert {layer.name for layer in found[:10]} == {f"l{place}" for place in range(100, 110)}
    assert found[0].sensitivity > 1


def test_a_model_without_layers_has_none() -> None:
    model = FakeModel({})
    assert measure_layers([], model.measure, budget_s=1, clock=model.clock) == ()
