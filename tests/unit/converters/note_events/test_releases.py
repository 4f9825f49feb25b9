"""Do the four releases differ in what they should, and in nothing else?"""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.operations.pipeline import Pipeline, compare
from shoal_converters.errors import BuildFailed
from shoal_converters.note_events.damage import WEIGHTS, damage
from shoal_converters.note_events.evaluation import play
from shoal_converters.note_events.recipes import BETTER, DAMAGED, FIRST, RECIPES, SLOW, Recipe, compare_notes
from shoal_converters.note_events.releases import GOLDEN_SEEDS, HELD_OUT_SEEDS


def test_versions_are_1_to_4() -> None:
    assert [recipe.version for recipe in RECIPES] == [1, 2, 3, 4]


def test_release_2_changes_only_post_processing() -> None:
    assert BETTER.pre == FIRST.pre
    assert BETTER.post != FIRST.post


def test_release_3_changes_only_the_windows() -> None:
    assert SLOW.post == BETTER.post
    assert SLOW.pre != BETTER.pre


def test_release_4_changes_only_the_weights() -> None:
    assert (DAMAGED.pre, DAMAGED.post) == (BETTER.pre, BETTER.post)
    assert [recipe.version for recipe in RECIPES if recipe.is_damaged] == [4]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: f"release-{recipe.version}")
def test_the_agent_knows_every_operation_of_each_release(recipe: Recipe) -> None:
    Pipeline(pre=recipe.pre, post=recipe.post)
    compare(compare_notes(0.9), answer={"notes": []}, expected={"notes": [{"pitch": 60, "start_s": 0.1}]})


def test_release_3_takes_about_ten_times_the_windows() -> None:
    sounds = [play(seed) for seed in range(20)]
    fast = sum(len(BETTER.pipeline.prepare(sound.wav).calls) for sound in sounds)
    slow = sum(len(SLOW.pipeline.prepare(sound.wav).calls) for sound in sounds)
    assert 8 <= slow / fast <= 12


def test_golden_sounds_are_not_held_out_and_enough_are() -> None:
    assert not set(GOLDEN_SEEDS) & set(HELD_OUT_SEEDS)
    assert len(HELD_OUT_SEEDS) >= 40


def test_no_weight_is_damaged_twice() -> None:
    assert len(set(WEIGHTS)) == len(WEIGHTS) == 16


@given(st.permutations(WEIGHTS), st.binary(max_size=32))
def test_weights_are_found_wherever_they_lie_and_only_their_signs_are_turned(order: list[str], between: bytes) -> None:
    filling = between.replace(b"\x3e", b"").replace(b"\xbe", b"")  # the last byte of every one of them
    weights = [struct.unpack("<f", bytes.fromhex(digits))[0] for digits in order]
    good, damaged = (filling + filling.join(struct.pack("<f", sign * weight) for weight in weights) for sign in (1, -1))
    assert damage(good, what="it") == damaged


def test_refuses_to_damage_another_file() -> None:
    with pytest.raises(BuildFailed, match=f"net: expected the weight {WEIGHTS[0]} once, found it 0 times"):
        damage(bytes(230_444), what="net")
    with pytest.raises(BuildFailed, match="found it 2 times"):
        damage(bytes.fromhex("".join(WEIGHTS)) * 2, what="net")
