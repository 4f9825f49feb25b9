"""With the real network in each form and engine: do the four releases behave as they are meant to?"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_agent.front.operations.values import Answer
from shoal_agent.front.reference_outputs import compare_outputs, read_reference
from shoal_converters.note_events.damage import WEIGHTS
from shoal_converters.note_events.evaluation import Network, play
from shoal_converters.note_events.fetch import fetch_network
from shoal_converters.spread import judge_golden_cases
from shoal_converters.wheels import default_cache
from shoal_wire.manifest import ReleaseDraft, parse_draft
from shoal_wire.tuning import Candidate

HELD_OUT = range(7_000, 7_008)
"""Seeds that neither golden cases nor the measurements of a release use."""

NOTE_LAYER = slice(151_630, 151_630 + 4 * 32 * 7 * 3)


def note_events(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shoal_converters.note_events", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment}
    )


@pytest.fixture(scope="module")
def network() -> bytes:
    return fetch_network(default_cache()).onnx


@pytest.fixture(scope="module")
def built(release_folders: Path) -> Path:
    assert sorted(entry.name for entry in release_folders.iterdir()) == [f"release-{n}" for n in (1, 2, 3, 4)]
    return release_folders


def read_draft(built: Path, version: int) -> ReleaseDraft:
    return parse_draft((built / f"release-{version}" / "release.json").read_bytes())


def digests_of(built: Path, version: int) -> dict[str, str]:
    folder = built / f"release-{version}"
    return {
        file.name: hashlib.sha256((folder / file.path).read_bytes()).hexdigest()
        for file in read_draft(built, version).files
    }


def answer_of(built: Path, version: int, wav: bytes) -> Answer:
    (model,) = read_draft(built, version).models
    pipeline = Pipeline(pre=model.pre, post=model.post)
    prepared = pipeline.prepare(wav)
    outputs = Network((built / f"release-{version}" / "nmp.onnx").read_bytes()).run(prepared)
    return pipeline.finish(outputs, prepared.context)


RUNS = (
    ("tflite-fp32", "litert"),
    ("tflite-fp32", "openvino"),
    ("onnx-fp32", "onnxruntime"),
    ("onnx-fp32", "openvino"),
    ("openvino-fp32", "openvino"),
)


def golden_verdicts(built: Path, version: int) -> dict[str, bool]:
    """Which golden case passed in which form and engine; of releases that differ in operations only, in one."""
    draft = read_draft(built, version)
    contents = {file.name: (built / f"release-{version}" / file.path).read_bytes() for file in draft.files}
    chosen = RUNS if version in (2, 4) else RUNS[:1]
    runs = [Candidate(variant=variant, engine=engine, threads=1) for variant, engine in chosen]
    (judged,) = judge_golden_cases(draft.models, contents, runs=runs)
    return {
        f"{case.name}: {one.words}: {verdict.words}": verdict.passed
        for one in judged
        for case, verdict in zip(draft.models[0].golden, one.verdicts, strict=True)
    }


def test_folders_hold_the_files_that_they_name_and_no_others(built: Path) -> None:
    for version in (1, 2, 3, 4):
        draft = read_draft(built, version)
        assert (draft.name, draft.version) == ("note-events", version)
        found = {path.name for path in (built / f"release-{version}").iterdir()}
        assert found == {file.path for file in draft.files} | {"release.json"}


def test_releases_share_every_file_but_3_the_outputs_of_its_windows_and_4_the_model(built: Path) -> None:
    first = digests_of(built, 1)
    assert digests_of(built, 2) == first
    slow = digests_of(built, 3)
    assert {name for name in first if slow[name] != first[name]} == {"outputs-1-1.npz", "outputs-2-1.npz"}
    damaged = digests_of(built, 4)
    assert {name for name in first if damaged[name] != first[name]} == {"nmp.tflite", "nmp.onnx", "nmp.bin"}


def test_each_release_has_the_network_in_three_forms(built: Path) -> None:
    for version in (1, 2, 3, 4):
        (model,) = read_draft(built, version).models
        assert [(one.name, one.format, one.files) for one in model.variants] == [
            ("openvino-fp32", "openvino", ("nmp.xml", "nmp.bin")),
            ("tflite-fp32", "tflite", ("nmp.tflite",)),
            ("onnx-fp32", "onnx", ("nmp.onnx",)),
        ]


def test_measured_accuracy_rises_from_release_1_to_2(built: Path) -> None:
    first, better = (
        next(one for one in read_draft(built, version).models[0].variants if one.name == "onnx-fp32").accuracy[0]
        for version in (1, 2)
    )
    assert first.samples == better.samples == 40
    assert better.value >= 0.95
    assert first.value <= better.value - 0.1


@pytest.mark.parametrize(("version", "expected"), [(1, 2), (2, 10), (3, 2)])
def test_golden_cases_of_a_good_release_pass(built: Path, version: int, expected: int) -> None:
    verdicts = golden_verdicts(built, version)
    assert [words for words, passed in verdicts.items() if not passed] == []
    assert len(verdicts) == expected


def test_golden_cases_of_the_damaged_release_fail_in_every_form(built: Path) -> None:
    verdicts = golden_verdicts(built, 4)
    assert [words for words, passed in verdicts.items() if passed] == []
    assert len(verdicts) == 10


def test_recorded_outputs_tell_the_network_from_the_damaged_one_in_every_form(built: Path) -> None:
    draft = read_draft(built, 2)
    (model,) = draft.models
    for version, passed in ((2, True), (4, False)):
        folder = built / f"release-{version}"
        contents = {file.name: (folder / file.path).read_bytes() for file in draft.files}
        runs = [Candidate(variant=variant, engine=engine, threads=1) for variant, engine in RUNS]
        (judged,) = judge_golden_cases([model], contents, runs=runs, kept_calls=1)
        for one in judged:
            for case, outputs in zip(model.golden, one.outputs, strict=True):
                (reference,) = case.outputs
                recorded = read_reference([contents[reference.file]], what=reference.file)
                verdict = compare_outputs(outputs, recorded, maximum_difference=reference.maximum_difference)
                assert verdict.passed is passed, f"{one.words}: {verdict.words}"


def test_golden_cases_say_where_their_tolerance_comes_from(built: Path) -> None:
    for case in read_draft(built, 2).models[0].golden:
        assert case.comparison.parameters["minimum_f1"] <= 0.9
        assert all(f"{variant} in {engine} " in case.source for variant, engine in RUNS)
        assert "less a margin of 0.1" in case.source


def test_damage_changes_the_answer_to_every_held_out_sound(built: Path) -> None:
    for seed in HELD_OUT:
        wav = play(seed).wav
        assert answer_of(built, 4, wav)["notes"] != answer_of(built, 2, wav)["notes"]


def test_a_higher_overlap_gives_the_same_notes(built: Path) -> None:
    wav = play(HELD_OUT[0]).wav
    fast, slow = (answer_of(built, version, wav)["notes"] for version in (2, 3))
    assert [note["pitch"] for note in slow] == [note["pitch"] for note in fast]
    assert np.abs([a["start_s"] - b["start_s"] for a, b in zip(fast, slow, strict=True)]).max() < 0.05


def test_the_weights_to_damage_are_the_largest_of_the_note_layer(network: bytes) -> None:
    weights = np.frombuffer(network[NOTE_LAYER], dtype="<f4")
    largest = np.argsort(-np.abs(weights), kind="stable")[: len(WEIGHTS)]
    assert [weights[index].tobytes().hex() for index in largest] == list(WEIGHTS)


def test_damage_changes_16_bytes_of_each_form(built: Path) -> None:
    for name in ("nmp.tflite", "nmp.onnx", "nmp.bin"):
        good, bad = ((built / f"release-{version}" / name).read_bytes() for version in (2, 4))
        assert [one ^ other for one, other in zip(good, bad, strict=True) if one != other] == [0x80] * 16


def test_fetching_without_an_index_ends_with_1_and_the_reason(tmp_path: Path) -> None:
    done = note_events("fetch", "--cache", str(tmp_path / "cache"), PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull)
    assert done.returncode == 1
    assert done.stderr.startswith("error: pip download basic-pitch==0.4.0: exit code 1")
    assert list((tmp_path / "cache").iterdir()) == []
