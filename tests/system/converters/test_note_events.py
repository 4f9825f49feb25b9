"""With the real network in ONNX Runtime: do the four releases behave as they are meant to?"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shoal_agent.front.operations.pipeline import Pipeline, compare
from shoal_agent.front.operations.values import Answer, Verdict
from shoal_converters.note_events.evaluation import Network, play
from shoal_converters.note_events.fetch import default_cache, fetch_model
from shoal_converters.note_events.releases import DAMAGE
from shoal_wire.manifest import ReleaseDraft, parse_draft

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
    return fetch_model(default_cache()).read_bytes()


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
    outputs = Network((built / f"release-{version}" / model.variants[0].files[0]).read_bytes()).run(prepared)
    return pipeline.finish(outputs, prepared.context)


def run_golden(built: Path, version: int) -> list[Verdict]:
    draft = read_draft(built, version)
    paths = {file.name: built / f"release-{version}" / file.path for file in draft.files}
    return [
        compare(
            case.comparison,
            answer=answer_of(built, version, paths[case.file].read_bytes()),
            expected=case.expected,
        )
        for case in draft.models[0].golden
    ]


def test_folders_hold_the_files_that_they_name_and_no_others(built: Path) -> None:
    for version in (1, 2, 3, 4):
        draft = read_draft(built, version)
        assert (draft.name, draft.version) == ("note-events", version)
        found = {path.name for path in (built / f"release-{version}").iterdir()}
        assert found == {file.path for file in draft.files} | {"release.json"}


def test_releases_1_to_3_share_every_file_and_4_all_but_the_model(built: Path) -> None:
    first = digests_of(built, 1)
    assert digests_of(built, 2) == first
    assert digests_of(built, 3) == first
    damaged = digests_of(built, 4)
    assert {name for name in first if damaged[name] != first[name]} == {"nmp.onnx"}


def test_measured_accuracy_rises_from_release_1_to_2(built: Path) -> None:
    first, better = (read_draft(built, version).models[0].variants[0].accuracy[0] for version in (1, 2))
    assert first.samples == better.samples == 40
    assert better.value >= 0.95
    assert first.value <= better.value - 0.1


@pytest.mark.parametrize("version", [1, 2, 3])
def test_golden_cases_of_a_good_release_pass(built: Path, version: int) -> None:
    verdicts = run_golden(built, version)
    assert [verdict.words for verdict in verdicts if not verdict.passed] == []
    assert len(verdicts) == 2


def test_golden_cases_of_the_damaged_release_fail(built: Path) -> None:
    assert [verdict.words for verdict in run_golden(built, 4) if verdict.passed] == []


def test_damage_changes_the_answer_to_every_held_out_sound(built: Path) -> None:
    for seed in HELD_OUT:
        wav = play(seed).wav
        assert answer_of(built, 4, wav)["notes"] != answer_of(built, 2, wav)["notes"]


def test_a_higher_overlap_gives_the_same_notes(built: Path) -> None:
    wav = play(HELD_OUT[0]).wav
    fast, slow = (answer_of(built, version, wav)["notes"] for version in (2, 3))
    assert [note["pitch"] for note in slow] == [note["pitch"] for note in fast]
    assert np.abs([a["start_s"] - b["start_s"] for a, b in zip(fast, slow, strict=True)]).max() < 0.05


def test_damage_turns_the_signs_of_the_largest_weights_of_the_note_layer(network: bytes) -> None:
    weights = np.frombuffer(network[NOTE_LAYER], dtype="<f4")
    largest = np.argsort(-np.abs(weights), kind="stable")[: len(DAMAGE)]
    signs = {NOTE_LAYER.start + 4 * int(index) + 3 for index in largest}
    assert {offset for offset, _ in DAMAGE} == signs
    assert all(network[offset] ^ value == 0x80 for offset, value in DAMAGE)


def test_fetching_without_an_index_ends_with_1_and_the_reason(tmp_path: Path) -> None:
    done = note_events("fetch", "--cache", str(tmp_path / "cache"), PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull)
    assert done.returncode == 1
    assert done.stderr.startswith("error: pip download basic-pitch==0.4.0: exit code 1")
    assert list((tmp_path / "cache").iterdir()) == []
