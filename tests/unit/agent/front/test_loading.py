"""In which way is a model loaded: which variant, which engine first, and in what manner each engine runs?"""

import dataclasses
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace
from shoal_agent.front.loading import LoadFailure, LoadSetting, Stored, Way, choose_ways, is_same, make_recipes
from shoal_agent.front.worker import WorkerOptions
from shoal_agent.tuned import ServingChoice
from shoal_wire.manifest import Manifest, Variant
from shoal_wire.tuning import Candidate

from tests.unit.agent.updater.releases import (
    CASE_FILE,
    MODEL_FILE,
    MODEL_PLAIN,
    NAME,
    OTHER_FILE,
    OTHER_PLAIN,
    held,
    manifest,
    model,
)

ENGINES = ("litert", "onnxruntime", "openvino")
SETTING = LoadSetting(
    options=WorkerOptions(threads=2),
    interpreters={engine: f"/opt/{engine}/bin/python" for engine in ENGINES},
    engines=ENGINES,
    own="python",
    deadline_s=1.0,
)
"""Three engines are here, whatever is installed."""
MODEL = Variant("onnx-int8", "onnx", "int8", ("model",))


def candidate(engine: str, **changes: object) -> Candidate:
    return replace(Candidate(variant="chosen", engine=engine, threads=1), **changes)


def chose(engine: str, *files: str) -> dict[str, ServingChoice]:
    choice = ServingChoice(candidate=candidate(engine), files=files, engine_version="1", key="0" * 64)
    return {NAME: choice}


def stored(
    store: Path,
    *here: str,
    tuned: dict[str, ServingChoice] | None = None,
    variant: str = "onnx-int8",
    without_key: str = "",
) -> Stored:
    """A release of which these sealed files are in the store, with the keys to all but one."""
    for digest in here:
        (store / digest).write_bytes(b"sealed")
    keys = {digest: "key" for digest in (MODEL_FILE, CASE_FILE, OTHER_FILE) if digest != without_key}
    return Stored(held=replace(held(2), variant=variant), store=store, content_keys=keys, tuned=tuned or {})


def way(release: Stored, signed: Manifest | None = None, *, setting: LoadSetting = SETTING) -> Way:
    return choose_ways(release, signed or manifest(2), setting=setting)[0]


def test_untuned_model_is_loaded_as_its_slot_says(tmp_path: Path) -> None:
    found = way(stored(tmp_path, MODEL_FILE, OTHER_FILE))
    assert found == Way(MODEL)


def test_chosen_variant_goes_before_the_slots_if_it_is_here(tmp_path: Path) -> None:
    found = way(stored(tmp_path, MODEL_FILE, OTHER_FILE, tuned=chose("openvino", OTHER_PLAIN)))
    assert (found.variant.name, found.choice, found.ignored) == ("openvino-int8", candidate("openvino"), "")


@pytest.mark.parametrize(
    ("here", "tuned", "ignored"),
    [
        ((MODEL_FILE, OTHER_FILE), chose("openvino", "9" * 64), ""),
        ((MODEL_FILE, OTHER_FILE), chose("openvino", MODEL_PLAIN, OTHER_PLAIN), ""),
        ((MODEL_FILE,), chose("openvino", OTHER_PLAIN), "variant openvino-int8 was chosen, which isn't on this board"),
        ((MODEL_FILE, OTHER_FILE), chose("litert", MODEL_PLAIN), "engine litert was chosen for onnx, engines here are"),
    ],
    ids=["other-bytes", "more-bytes", "not-here", "no-engine"],
)
def test_choice_that_cannot_be_followed_changes_nothing_and_says_why(
    tmp_path: Path, here: tuple[str, ...], tuned: dict[str, ServingChoice], ignored: str
) -> None:
    found = way(stored(tmp_path, *here, tuned=tuned))
    assert (found.variant, found.choice) == (MODEL, None)
    assert found.ignored.startswith(ignored) and bool(found.ignored) is bool(ignored)
    assert is_same([found], [Way(MODEL)])


def test_variant_without_a_key_is_not_here(tmp_path: Path) -> None:
    tuned = chose("openvino", OTHER_PLAIN)
    assert way(stored(tmp_path, MODEL_FILE, OTHER_FILE, tuned=tuned, without_key=OTHER_FILE)).variant == MODEL


def test_each_of_several_models_is_loaded_as_its_slot_says(tmp_path: Path) -> None:
    second = model(name="reader")
    ways = choose_ways(
        stored(tmp_path, MODEL_FILE, OTHER_FILE, variant="openvino-int8,onnx-int8"),
        manifest(2, model(), second),
        setting=SETTING,
    )
    assert [found.variant.name for found in ways] == ["openvino-int8", "onnx-int8"]


def test_engine_that_is_gone_since_the_update_leaves_what_else_is_here(tmp_path: Path) -> None:
    release = stored(tmp_path, MODEL_FILE, variant="tflite-int8")
    assert way(release).variant == MODEL
    with pytest.raises(LoadFailure, match="engines here run"):
        way(release, setting=dataclasses.replace(SETTING, engines=("litert",)))


def test_only_the_chosen_engine_runs_as_chosen_and_it_is_tried_first() -> None:
    chosen = candidate("openvino", precision="fast", batch=4, threads=1)
    first, second = make_recipes(Way(MODEL, chosen), SETTING, model_fds=(), warm_up={})
    assert (first.engine, first.interpreter, first.batch) == ("openvino", "/opt/openvino/bin/python", 4)
    assert (first.options.precision, first.options.threads) == ("fast", 1)
    assert (second.engine, second.batch) == ("onnxruntime", 1)
    assert (second.options.precision, second.options.threads) == ("exact", 2)


def test_untuned_engines_are_tried_in_the_tables_order() -> None:
    recipes = make_recipes(Way(MODEL), SETTING, model_fds=(), warm_up={})
    assert [recipe.engine for recipe in recipes] == ["onnxruntime", "openvino"]
    assert {(recipe.options.precision, recipe.options.threads, recipe.batch) for recipe in recipes} == {("exact", 2, 1)}


@given(chosen=st.integers(1, 16), shares=st.lists(st.integers(1, 16), min_size=1))
def test_chosen_engine_never_has_more_threads_than_chosen_nor_than_its_share(chosen: int, shares: list[int]) -> None:
    ways = Way(MODEL, candidate("openvino", threads=chosen))
    tuned, other = make_recipes(ways, SETTING, model_fds=(), warm_up={})
    for share in shares:
        tuned, other = tuned.with_share(share), other.with_share(share)
        assert (tuned.options.threads, other.options.threads) == (min(chosen, share), share)


def test_device_that_was_chosen_is_tried_first_and_the_same_engine_without_it_next() -> None:
    limited = dataclasses.replace(
        SETTING, options=dataclasses.replace(SETTING.options, groups=Path("/g"), limit_bytes=7)
    )
    chosen = candidate("onnxruntime", device="CUDAExecutionProvider", precision="fast")
    first, second, third = make_recipes(Way(MODEL, chosen), limited, model_fds=(), warm_up={})
    assert [recipe.engine for recipe in (first, second, third)] == ["onnxruntime", "onnxruntime", "openvino"]
    assert (first.options.device, first.options.precision) == ("CUDAExecutionProvider", "fast")
    assert first.options.groups is None, "a driver takes memory that no model's size foretells"
    assert {(one.options.device, one.options.precision, one.options.limit_bytes) for one in (second, third)} == {
        ("", "exact", 7)
    }


def test_engine_that_computes_a_variant_wrongly_is_left_out(tmp_path: Path) -> None:
    right = replace(MODEL, runtimes=("openvino", "tensorrt"))
    assert [one.engine for one in make_recipes(Way(right), SETTING, model_fds=(), warm_up={})] == ["openvino"]
    other = replace(model().variants[0], name="other")
    signed = manifest(2, model(variants=(right, other)))
    release = stored(tmp_path, MODEL_FILE, OTHER_FILE, tuned=chose("onnxruntime", MODEL_PLAIN))
    assert way(release, signed).ignored == ("engine onnxruntime was chosen for onnx, engines here are ['openvino']")
    without = dataclasses.replace(SETTING, engines=("onnxruntime",))
    with pytest.raises(
        LoadFailure, match=r"has variants for \['onnx \(right in openvino, tensorrt only\)'\], engines here"
    ):
        way(release, manifest(2, model(variants=(right,))), setting=without)
