"""Which release, variant and files does a board choose, and what does it refuse?"""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace
from shoal_agent.updater.errors import Refused
from shoal_agent.updater.planning import (
    RESERVE_BYTES,
    Board,
    check_space,
    hold,
    needed_files,
    plan_release,
    raise_floors,
)
from shoal_wire.manifest import Manifest, Needs, Variant
from shoal_wire.messages import Assignment

from tests.unit.agent.updater.releases import (
    CASE_FILE,
    MODEL_FILE,
    NAME,
    OTHER_FILE,
    assignment,
    journal,
    manifest,
    model,
    sealed,
)

BOARD = Board(formats=("onnx",), architecture="aarch64", memory_bytes=1 << 30, agent_version="0.1.0")


def plan(release: Manifest, *, wanted: Assignment | None = None, board: Board = BOARD, **floors: int) -> Any:
    wanted = wanted or assignment(release.version)
    return plan_release(release, wanted, floors={NAME: floors.get("floor", 0)}, board=board)


def test_first_variant_that_an_engine_runs_is_chosen_with_its_files_and_golden_cases() -> None:
    chosen = plan(manifest(2))
    assert chosen.variant == "onnx-int8"
    assert [file.ciphertext_sha256 for file in chosen.files] == [MODEL_FILE, CASE_FILE]


def test_publishers_order_decides_among_variants_that_run() -> None:
    board = BOARD._replace(formats=("onnx", "openvino"))
    wanted = assignment(2, files=(OTHER_FILE, CASE_FILE))
    assert plan(manifest(2), wanted=wanted, board=board).variant == "openvino-int8"


def test_variant_that_needs_more_memory_than_the_board_has_is_passed_over() -> None:
    variants = (
        Variant("onnx-fp32", "onnx", "fp32", ("other",), (), 2 << 30),
        Variant("onnx-int8", "onnx", "int8", ("model",), (), 1 << 20),
    )
    assert plan(manifest(2, model(variants=variants))).variant == "onnx-int8"


def test_each_of_several_models_has_its_own_variant() -> None:
    second = model(name="reader", variants=(Variant("onnx-fp16", "onnx", "fp16", ("other",)),))
    wanted = assignment(2, files=(MODEL_FILE, CASE_FILE, OTHER_FILE))
    chosen = plan(manifest(2, model(), second), wanted=wanted)
    assert chosen.variant == "onnx-int8,onnx-fp16"
    assert [file.ciphertext_sha256 for file in chosen.files] == [MODEL_FILE, CASE_FILE, OTHER_FILE]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"needs": Needs(architectures=("x86_64",))}, "made for x86_64, this board is aarch64"),
        ({"needs": Needs(memory_bytes=2 << 30)}, "needs 2147483648 bytes of memory, this board has 1073741824"),
        ({"minimum_agent": "0.2"}, "needs agent 0.2 or newer, this is 0.1.0"),
        ({"minimum_agent": "soon"}, "'soon' is no version of the agent"),
        (
            {"variants": (Variant("tflite", "tflite", "int8", ("model",)),)},
            f"model {NAME} comes as tflite; engines of this board take onnx",
        ),
        (
            {"variants": (Variant("coreml", "coreml", "fp16", ("model",)),)},
            f"model {NAME} comes as coreml; engines of this board take onnx; coreml runs on Apple's macOS",
        ),
    ],
)
def test_release_for_another_board_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused, match=r"^release yard-camera-detector 2: ") as caught:
        plan(manifest(2, model(**changes)))
    assert reason in str(caught.value)


def test_version_below_a_floor_is_refused_and_one_on_it_is_not() -> None:
    assert plan(manifest(2), floor=2).variant == "onnx-int8"
    with pytest.raises(Refused, match="version 2 of model yard-camera-detector is below its floor, 3"):
        plan(manifest(2), floor=3)


def test_manifest_of_another_release_is_refused() -> None:
    with pytest.raises(Refused, match="release yard-camera-detector 3: its manifest is of yard-camera-detector 2"):
        plan(manifest(2), wanted=assignment(3))


def test_file_without_a_grant_is_refused() -> None:
    with pytest.raises(Refused, match="no grant for its file case"):
        plan(manifest(2), wanted=assignment(2, files=(MODEL_FILE,)))


@pytest.mark.parametrize(
    "changes",
    [
        {"chunk_sha256s": ("1" * 64,)},
        {"chunk_bytes": 100},
        {"ciphertext_bytes": 32},
        {"chunk_bytes": 1 << 30, "chunk_sha256s": ("1" * 64,)},
    ],
)
def test_file_whose_sizes_contradict_each_other_is_refused(changes: dict[str, Any]) -> None:
    wrong = manifest(2)
    files = (sealed("model", MODEL_FILE, **changes), *wrong.files[1:])
    with pytest.raises(Refused, match=r"^file model: "):
        plan(replace(wrong, files=files))


def test_unknown_variant_has_no_files() -> None:
    with pytest.raises(Refused, match="has no variant gone"):
        needed_files(manifest(2), "gone")
    with pytest.raises(Refused, match="1 models, but 'a,b' names 2 variants"):
        needed_files(manifest(2), "a,b")


@given(st.dictionaries(st.sampled_from([NAME, "bird-sounds"]), st.integers(1, 9)), st.integers(1, 9))
def test_floors_never_sink(floors: dict[str, int], floor: int) -> None:
    raised = raise_floors(floors, manifest(9, model(floor=floor)))
    assert raised[NAME] == max(floor, floors.get(NAME, 0))
    assert all(raised[name] >= before for name, before in floors.items())


def test_space_counts_only_what_is_missing() -> None:
    file = sealed("model", MODEL_FILE)
    check_space([(file, 2064)], free_bytes=0, what="release")
    check_space([(file, 2000)], free_bytes=RESERVE_BYTES + 64, what="release")
    with pytest.raises(Refused, match="release: needs 64 bytes on disk"):
        check_space([(file, 2000)], free_bytes=RESERVE_BYTES + 63, what="release")


def test_slot_keeps_only_grants_of_files_that_the_board_needs() -> None:
    begun = journal(2, generation=3, variant="onnx-int8")
    wide = assignment(2, files=(OTHER_FILE, MODEL_FILE, CASE_FILE))
    kept = hold(replace(begun, assignment=wide), manifest(2))
    assert [grant.ciphertext_sha256 for grant in kept.grants] == [MODEL_FILE, CASE_FILE]
    assert (kept.epoch, kept.generation, kept.reference.version) == (1, 3, 2)
