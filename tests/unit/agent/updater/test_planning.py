"""Which release, variant and files does a board choose, and what does it refuse?"""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace
from shoal_agent.slots import HeldRelease
from shoal_agent.tuned import ServingChoice, ServingChoices
from shoal_agent.updater.errors import Refused, TryLater
from shoal_agent.updater.planning import (
    RESERVE_BYTES,
    Board,
    check_space,
    held_files,
    hold,
    needed_files,
    plan_release,
    planned_files,
    raise_floors,
)
from shoal_wire.manifest import Manifest, Needs, ReferenceOutputs, Variant
from shoal_wire.messages import Assignment
from shoal_wire.tuning import Candidate, KnownChoice

from tests.unit.agent.updater.releases import (
    CASE_FILE,
    MODEL_FILE,
    MODEL_PLAIN,
    NAME,
    OTHER_FILE,
    OTHER_PLAIN,
    assignment,
    journal,
    manifest,
    model,
    sealed,
)

BOARD = Board(engines={"onnx": ("onnxruntime",)}, architecture="aarch64", memory_bytes=1 << 30, agent_version="0.1.0")


def plan(release: Manifest, *, wanted: Assignment | None = None, board: Board = BOARD, **floors: int) -> Any:
    wanted = wanted or assignment(release.version)
    return plan_release(release, wanted, floors={NAME: floors.get("floor", 0)}, board=board)[0]


BOTH = assignment(2, files=(OTHER_FILE, MODEL_FILE, CASE_FILE))
"""The keys to all variants."""
EITHER = BOARD._replace(engines={"onnx": ("onnxruntime", "openvino"), "openvino": ("openvino",)})


def candidate(engine: str = "onnxruntime") -> Candidate:
    return Candidate(variant="onnx-int8", engine=engine, threads=1)


def chose(*files: str) -> ServingChoices:
    """What serving.json says of the model."""
    choice = ServingChoice(candidate=candidate(), files=files, engine_version="1", key="0" * 64)
    return ServingChoices(models={NAME: choice})


def known(*files: str) -> Assignment:
    """What the fleet knows of the model."""
    choice = KnownChoice(model=NAME, candidate=candidate(), files=files, engine_version="1", p50_ms=1.0, boards=3)
    return replace(BOTH, known=(choice,))


def test_first_variant_that_an_engine_runs_is_chosen_with_its_files_and_golden_cases() -> None:
    chosen = plan(manifest(2))
    assert chosen.variant == "onnx-int8"
    assert [file.ciphertext_sha256 for file in chosen.files] == [MODEL_FILE, CASE_FILE]


def test_publishers_order_decides_among_variants_that_run() -> None:
    wanted = assignment(2, files=(OTHER_FILE, CASE_FILE))
    assert plan(manifest(2), wanted=wanted, board=EITHER).variant == "openvino-int8"


def test_variant_that_needs_more_memory_than_the_board_has_is_passed_over() -> None:
    variants = (
        Variant("onnx-fp32", "onnx", "fp32", ("other",), (), 2 << 30),
        Variant("onnx-int8", "onnx", "int8", ("model",), (), 1 << 20),
    )
    assert plan(manifest(2, model(variants=variants))).variant == "onnx-int8"


@pytest.mark.parametrize(
    ("engines", "variant"),
    [
        ({"tflite": ("litert", "tflite-runtime")}, "dynamic"),
        ({"tflite": ("tflite-runtime",)}, "full"),
        ({"tflite": ("tflite-runtime",), "onnx": ("litert",)}, "full"),
    ],
    ids=["right", "wrong", "right-one-for-another-format"],
)
def test_variant_goes_to_boards_with_an_engine_that_computes_it_right(
    engines: dict[str, tuple[str, ...]], variant: str
) -> None:
    variants = (
        Variant("dynamic", "tflite", "int8-weights", ("model",), runtimes=("litert", "openvino")),
        Variant("full", "tflite", "int8", ("other",)),
    )
    board = BOARD._replace(engines=engines, all_variants=True)
    chosen = plan(manifest(2, model(variants=variants)), wanted=BOTH, board=board)
    assert chosen.variant == variant
    assert chosen.spare == ((OTHER_FILE,) if variant == "dynamic" else ())


def test_each_of_several_models_has_its_own_variant() -> None:
    second = model(name="reader", variants=(Variant("onnx-fp16", "onnx", "fp16", ("other",)),))
    wanted = assignment(2, files=(MODEL_FILE, CASE_FILE, OTHER_FILE))
    chosen = plan(manifest(2, model(), second), wanted=wanted)
    assert chosen.variant == "onnx-int8,onnx-fp16"
    assert [file.ciphertext_sha256 for file in chosen.files] == [MODEL_FILE, CASE_FILE, OTHER_FILE]


@pytest.mark.parametrize(
    ("choices", "wanted", "variant"),
    [
        (chose(MODEL_PLAIN), known(OTHER_PLAIN), "onnx-int8"),
        (chose(OTHER_PLAIN), known(MODEL_PLAIN), "openvino-int8"),
        (chose("0" * 64), known(MODEL_PLAIN), "onnx-int8"),
        (ServingChoices(), known(MODEL_PLAIN), "onnx-int8"),
        (ServingChoices(), known(MODEL_PLAIN, OTHER_PLAIN), "openvino-int8"),
        (chose("0" * 64), BOTH, "openvino-int8"),
    ],
    ids=["own", "own-first", "own-of-other-files", "known", "known-of-more-files", "neither"],
)
def test_own_choice_goes_before_the_fleets_and_that_before_the_publishers_order(
    choices: ServingChoices, wanted: Assignment, variant: str
) -> None:
    chosen = plan(manifest(2), wanted=wanted, board=EITHER._replace(choices=choices))
    assert chosen.variant == variant
    assert [file.ciphertext_sha256 for file in chosen.files] == [
        MODEL_FILE if variant == "onnx-int8" else OTHER_FILE,
        CASE_FILE,
    ]


@pytest.mark.parametrize(
    ("board", "wanted"),
    [
        (BOARD._replace(choices=chose(OTHER_PLAIN)), BOTH),
        (EITHER._replace(choices=chose(OTHER_PLAIN), engines=BOARD.engines), known(OTHER_PLAIN)),
        (BOARD._replace(choices=chose(OTHER_PLAIN)), assignment(2)),
    ],
    ids=["format", "known-format", "grant"],
)
def test_choice_that_does_not_fit_is_as_good_as_none(board: Board, wanted: Assignment) -> None:
    assert plan(manifest(2), wanted=wanted, board=board).variant == "onnx-int8"


def test_disk_without_room_for_what_was_chosen_gets_what_it_would_have_got() -> None:
    board = EITHER._replace(choices=chose(MODEL_PLAIN))
    plans = plan_release(manifest(2), BOTH, floors={}, board=board)
    assert [one.variant for one in plans] == ["onnx-int8", "openvino-int8"]
    only_chosen = assignment(2, files=(MODEL_FILE, CASE_FILE))
    assert [one.variant for one in plan_release(manifest(2), only_chosen, floors={}, board=board)] == ["onnx-int8"]


def test_every_variant_that_could_serve_is_fetched_to_be_tuned_where_there_is_room() -> None:
    variants = (*model().variants, Variant("onnx-huge", "onnx", "fp32", ("huge",), (), 2 << 30))
    variants += (Variant("tflite", "tflite", "fp32", ("lite",)),)
    release = manifest(2, model(variants=variants))
    release = replace(release, files=(*release.files, sealed("huge", "f" * 64), sealed("lite", "9" * 64)))
    wanted = assignment(2, files=tuple(file.ciphertext_sha256 for file in release.files))
    wide, narrow = plan_release(release, wanted, floors={}, board=EITHER._replace(all_variants=True))
    assert wide.variant == narrow.variant == "openvino-int8"
    assert [file.ciphertext_sha256 for file in wide.files] == [OTHER_FILE, CASE_FILE, MODEL_FILE]
    assert wide.spare == (MODEL_FILE,)
    assert [file.ciphertext_sha256 for file in narrow.files] == [OTHER_FILE, CASE_FILE] and not narrow.spare


@pytest.mark.parametrize(
    ("choices", "wanted"),
    [(chose(MODEL_PLAIN), BOTH), (ServingChoices(), known(MODEL_PLAIN))],
    ids=["own", "known"],
)
def test_one_variant_is_fetched_where_the_best_is_known(choices: ServingChoices, wanted: Assignment) -> None:
    board = EITHER._replace(choices=choices, all_variants=True)
    assert plan(manifest(2), wanted=wanted, board=board).spare == ()


@pytest.mark.parametrize("granted", [(OTHER_FILE, CASE_FILE), (OTHER_FILE, CASE_FILE, MODEL_FILE)])
def test_variant_to_be_tuned_never_makes_a_release_refused(granted: tuple[str, ...]) -> None:
    release = manifest(2)
    broken = replace(release.files[0], chunk_bytes=100)
    release = replace(release, files=(broken, *release.files[1:]))
    wanted = assignment(2, files=granted)
    chosen = plan(release, wanted=wanted, board=EITHER._replace(all_variants=True))
    assert (chosen.variant, chosen.spare) == ("openvino-int8", ())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"needs": Needs(architectures=("x86_64",))}, "made for x86_64, this board is aarch64"),
        ({"needs": Needs(memory_bytes=2 << 30)}, "needs 2147483648 bytes of memory, this board has 1073741824"),
        ({"minimum_agent": "0.2"}, "needs agent 0.2 or newer, this is 0.1.0"),
        ({"minimum_agent": "soon"}, "'soon' is no version of the agent"),
        (
            {"variants": (Variant("tflite", "tflite", "int8", ("model",)),)},
            f"model {NAME} comes as tflite; engines of this board take onnx in onnxruntime",
        ),
        (
            {"variants": (Variant("onnx", "onnx", "int8", ("model",), runtimes=("openvino",)),)},
            f"model {NAME} comes as onnx (right in openvino only); engines of this board take onnx in onnxruntime",
        ),
        (
            {"variants": (Variant("coreml", "coreml", "fp16", ("model",)),)},
            f"model {NAME} comes as coreml; engines of this board take onnx in onnxruntime; coreml runs on Apple's",
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
    with pytest.raises(TryLater, match="release: needs 64 bytes on disk"):
        check_space([(file, 2000)], free_bytes=RESERVE_BYTES + 63, what="release")


def test_slot_keeps_only_grants_of_files_that_the_board_needs() -> None:
    begun = journal(2, generation=3, variant="onnx-int8")
    wide = assignment(2, files=(OTHER_FILE, MODEL_FILE, CASE_FILE))
    kept = hold(replace(begun, assignment=wide), manifest(2))
    assert [grant.ciphertext_sha256 for grant in kept.grants] == [MODEL_FILE, CASE_FILE]
    assert (kept.epoch, kept.generation, kept.reference.version) == (1, 3, 2)


def test_slot_keeps_the_grants_of_variants_to_be_tuned_and_what_the_fleet_knew() -> None:
    begun = replace(journal(2, generation=3, variant="openvino-int8"), assignment=known(MODEL_PLAIN))
    wide = replace(begun, spare=(MODEL_FILE,))
    assert [file.ciphertext_sha256 for file in planned_files(manifest(2), wide)] == [OTHER_FILE, CASE_FILE, MODEL_FILE]
    assert {grant.ciphertext_sha256 for grant in hold(wide, manifest(2)).grants} == {OTHER_FILE, CASE_FILE, MODEL_FILE}
    assert {grant.ciphertext_sha256 for grant in hold(begun, manifest(2)).grants} == {OTHER_FILE, CASE_FILE}
    assert hold(begun, manifest(2)).known == begun.assignment.known


def test_files_of_a_variant_are_kept_if_the_slot_can_open_all_of_them() -> None:
    variants = (*model().variants, Variant("onnx-pair", "onnx", "int8", ("case", "absent")))
    release = manifest(2, model(variants=variants))
    release = replace(release, files=(*release.files, sealed("absent", "f" * 64)))

    def kept(*granted: str) -> set[str]:
        begun = replace(journal(2, generation=3, variant="openvino-int8"), assignment=assignment(2, files=granted))
        held: HeldRelease = hold(replace(begun, spare=granted), release)
        return {file.ciphertext_sha256 for file in held_files(release, held)}

    assert kept(OTHER_FILE, CASE_FILE) == {OTHER_FILE, CASE_FILE}
    assert kept(OTHER_FILE, CASE_FILE, MODEL_FILE) == {OTHER_FILE, CASE_FILE, MODEL_FILE}
    assert kept(OTHER_FILE, "f" * 64) == {OTHER_FILE, CASE_FILE}


def with_outputs() -> Manifest:
    """Either variant has outputs recorded of its own, in a file each."""
    case = model().golden[0]
    outputs = tuple(
        ReferenceOutputs(variants=(name,), file=f"{name}.npz", maximum_difference=0.1, source="measured")
        for name in ("onnx-int8", "openvino-int8")
    )
    release = manifest(2, model(golden=(replace(case, outputs=outputs),)))
    recorded = (sealed("onnx-int8.npz", ONNX_OUTPUTS), sealed("openvino-int8.npz", OPENVINO_OUTPUTS))
    return replace(release, files=(*release.files, *recorded))


ONNX_OUTPUTS, OPENVINO_OUTPUTS = "8" * 64, "9" * 64
ALL_FILES = assignment(2, files=(OTHER_FILE, MODEL_FILE, CASE_FILE, ONNX_OUTPUTS, OPENVINO_OUTPUTS))


def test_recorded_outputs_are_fetched_with_the_variant_that_they_are_of() -> None:
    chosen = plan(with_outputs(), wanted=ALL_FILES)
    assert [file.ciphertext_sha256 for file in chosen.files] == [MODEL_FILE, CASE_FILE, ONNX_OUTPUTS]
    with pytest.raises(Refused, match=r"no grant for its file onnx-int8\.npz"):
        plan(with_outputs(), wanted=BOTH)


def test_variant_to_be_tuned_comes_with_its_recorded_outputs() -> None:
    board = EITHER._replace(all_variants=True)
    chosen = plan(with_outputs(), wanted=ALL_FILES, board=board)
    needed = [OTHER_FILE, CASE_FILE, OPENVINO_OUTPUTS]
    assert [file.ciphertext_sha256 for file in chosen.files] == [*needed, MODEL_FILE, ONNX_OUTPUTS]
    assert chosen.spare == (MODEL_FILE, ONNX_OUTPUTS)

    without = assignment(2, files=(MODEL_FILE, *needed))
    assert plan(with_outputs(), wanted=without, board=board).spare == ()


def test_slot_keeps_the_recorded_outputs_of_the_variants_that_it_keeps() -> None:
    begun = replace(journal(2, generation=3, variant="openvino-int8"), assignment=ALL_FILES)
    needed = {OTHER_FILE, CASE_FILE, OPENVINO_OUTPUTS}

    def kept(*spare: str) -> set[str]:
        held = hold(replace(begun, spare=spare), with_outputs())
        return {file.ciphertext_sha256 for file in held_files(with_outputs(), held)}

    assert kept() == needed
    assert kept(MODEL_FILE) == needed, "it could be run, but not checked"
    assert kept(MODEL_FILE, ONNX_OUTPUTS) == needed | {MODEL_FILE, ONNX_OUTPUTS}
