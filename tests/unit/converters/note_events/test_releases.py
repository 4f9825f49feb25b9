"""Do the four releases differ in what they should, and in nothing else?"""

import pytest
from shoal_agent.front.operations.pipeline import Pipeline, compare
from shoal_converters.errors import BuildFailed
from shoal_converters.note_events.evaluation import play
from shoal_converters.note_events.releases import (
    BETTER,
    DAMAGE,
    DAMAGED,
    FIRST,
    GOLDEN_SEEDS,
    HELD_OUT_SEEDS,
    RECIPES,
    SLOW,
    Recipe,
    damage,
)


def test_versions_are_1_to_4() -> None:
    assert [recipe.version for recipe in RECIPES] == [1, 2, 3, 4]


def test_release_2_changes_only_post_processing() -> None:
    assert BETTER.pre == FIRST.pre
    assert BETTER.post != FIRST.post


def test_release_3_changes_only_the_windows() -> None:
    assert SLOW.post == BETTER.post
    assert SLOW.pre != BETTER.pre


def test_release_4_changes_only_the_weights() -> None:
    assert (DAMAGED.pre, DAMAGED.post, DAMAGED.comparison) == (BETTER.pre, BETTER.post, BETTER.comparison)
    assert [recipe.version for recipe in RECIPES if recipe.is_damaged] == [4]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: f"release-{recipe.version}")
def test_the_agent_knows_every_operation_of_each_release(recipe: Recipe) -> None:
    Pipeline(pre=recipe.pre, post=recipe.post)
    compare(recipe.comparison, answer={"notes": []}, expected={"notes": [{"pitch": 60, "start_s": 0.1}]})


def test_release_3_takes_about_ten_times_the_windows() -> None:
    sounds = [play(seed) for seed in range(20)]
    fast = sum(len(BETTER.pipeline.prepare(sound.wav).calls) for sound in sounds)
    slow = sum(len(SLOW.pipeline.prepare(sound.wav).calls) for sound in sounds)
    assert 8 <= slow / fast <= 12


def test_golden_sounds_are_not_held_out_and_enough_are() -> None:
    assert not set(GOLDEN_SEEDS) & set(HELD_OUT_SEEDS)
    assert len(HELD_OUT_SEEDS) >= 40


def test_no_byte_is_damaged_twice() -> None:
    assert len({offset for offset, _ in DAMAGE}) == len(DAMAGE) == 16


def test_refuses_to_damage_another_file() -> None:
    with pytest.raises(BuildFailed, match=r"nmp\.onnx: expected SHA-256 2c3c1d14"):
        damage(bytes(230_444))
