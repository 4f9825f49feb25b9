"""With the real network and photographs: is the release right in every engine, and are photographs answered rightly?"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from shoal_agent.front.operations.pipeline import Pipeline, compare
from shoal_converters.spread import judge_golden_cases, run_variant
from shoal_wire.manifest import Operation, ReleaseDraft, parse_draft
from shoal_wire.tuning import Candidate

ENGINES = ("litert", "openvino")


def face_detection(*arguments: str) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "shoal_converters.face_detection", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("faces")
    (built,) = face_detection("build", "--out", str(out))
    assert built["folder"] == str(out / "face-1")
    return out / "face-1"


@pytest.fixture(scope="module")
def draft(folder: Path) -> ReleaseDraft:
    return parse_draft((folder / "release.json").read_bytes())


@pytest.fixture(scope="module")
def contents(folder: Path, draft: ReleaseDraft) -> dict[str, bytes]:
    return {file.name: (folder / file.path).read_bytes() for file in draft.files}


def test_the_folder_holds_the_files_that_it_names_and_no_others(folder: Path, draft: ReleaseDraft) -> None:
    assert (draft.name, draft.version, [model.name for model in draft.models]) == ("face-detection", 1, [draft.name])
    assert {path.name for path in folder.iterdir()} == {file.path for file in draft.files} | {"release.json"}


def test_golden_cases_pass_in_every_engine(draft: ReleaseDraft, contents: dict[str, bytes]) -> None:
    runs = [Candidate(variant="tflite-fp32", engine=engine, threads=1) for engine in ENGINES]
    (judged,) = judge_golden_cases(draft.models, contents, runs=runs)
    assert [verdict.words for one in judged for verdict in one.verdicts if not verdict.passed] == []
    assert [len(one.verdicts) for one in judged] == [4, 4]


def test_golden_cases_refuse_a_network_that_sees_nothing(draft: ReleaseDraft, contents: dict[str, bytes]) -> None:
    """With a threshold that nothing reaches, as a stand-in for one that was damaged."""
    (model,) = draft.models
    (variant,) = model.variants
    decode, merge = model.post
    blind = Operation(decode.name, {**decode.parameters, "minimum_score": 1.0})
    with run_variant(variant, contents, engine="litert") as running:
        pipeline = Pipeline(pre=model.pre, post=(blind, merge))
        passed = [
            compare(
                case.comparison, answer=running.answer(contents[case.file], pipeline=pipeline), expected=case.expected
            ).passed
            for case in model.golden
        ]
    assert passed == [False, False, True, True]


def test_the_manifest_says_how_well_it_tells_faces(draft: ReleaseDraft) -> None:
    """Nearly every pair is in order: 0.9999 was measured with another pipeline and the same network."""
    area, accuracy = draft.models[0].variants[0].accuracy
    assert (area.samples, accuracy.samples) == (200, 200)
    assert area.value == pytest.approx(0.9999, abs=0.001)
    assert accuracy.value >= 0.88


def test_photographs_are_answered_as_they_are_labelled(
    draft: ReleaseDraft, contents: dict[str, bytes], tmp_path: Path
) -> None:
    (model,) = draft.models
    lines = face_detection("photographs", "--out", str(tmp_path), "--count", "12", "--seed", "100")
    pipeline = Pipeline(pre=model.pre, post=model.post)
    with run_variant(model.variants[0], contents, engine="litert") as running:
        for line in lines:
            raw = (tmp_path / str(line["file"])).read_bytes()
            assert line["sha256"] == hashlib.sha256(raw).hexdigest()
            answer = running.answer(raw, pipeline=pipeline)
            assert pipeline.describe(answer).startswith(str(line["words"]))
            right = compare(Operation("faces.iou", {"minimum_iou": 0.6}), answer=answer, expected=line)
            assert right.passed, right.words
    assert {str(line["words"]) for line in lines} == {"1 face", "no face"}
    assert len({line["sha256"] for line in lines}) == 12
