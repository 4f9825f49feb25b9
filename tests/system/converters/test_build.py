"""Does `shoal-convert build` make releases that publishers can seal and boards can check, of each kind of source?"""

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from shoal_agent import front_messages as messages
from shoal_converters.report.json import parse_json
from shoal_fleet.command.publisher import Publisher
from shoal_fleet.command.sealing import make_manifest, read_draft
from shoal_wire.encoding import encode
from shoal_wire.manifest import parse_manifest

from tests.system.agent.front_board import Board, send
from tests.system.converters import digits_material as digits
from tests.unit.fleet.command.material import make_fleet_keys

FROM_ONNX = ("onnx-fp32", "onnx-fp16", "onnx-int8", "openvino-fp32", "openvino-fp16", "openvino-int8")
FROM_TFLITE = ("tflite-fp32", "tflite-fp16", "tflite-int8", "openvino-fp32")


class Built(NamedTuple):
    """A release folder, what was printed, and the report."""

    folder: Path
    printed: str
    progress: list[str]
    report: dict[str, Any]

    @property
    def released(self) -> dict[str, dict[str, Any]]:
        return {one["name"]: one for one in self.report["variants"] if one["is_released"]}


def make(recipe: Path, out: Path, *options: str) -> Built:
    done = digits.build(recipe, out, *options)
    assert done.returncode == 0, done.stderr
    report = json.loads((out / "report.json").read_bytes())
    return Built(out, done.stdout, done.stderr.splitlines(), report)


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("material")
    layers = digits.train()
    digits.write_sets(folder)
    digits.write_onnx(folder / "digits.onnx", layers)
    digits.write_tflite(folder / "digits.tflite", layers)
    return folder


@pytest.fixture(scope="module")
def built(material: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    recipe = digits.write_recipe(material, *FROM_ONNX)
    return make(recipe, tmp_path_factory.mktemp("onnx") / "release", "--json")


@pytest.fixture(scope="module")
def from_tflite(material: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    recipe = digits.write_recipe(material, *FROM_TFLITE, source="digits.tflite", version=2)
    return make(recipe, tmp_path_factory.mktemp("tflite") / "release")


def check_on_board(folder: Path, release: Path, *, variant: str) -> messages.Verdict:
    """What the agent's checking front says of a variant."""
    folder.mkdir()
    board = Board(folder)
    try:
        held = replace(board.hold(release), variant=variant)
        channel, _ = board.start_front("--check")
        send(channel, messages.Check(held=held, store=str(board.store), content_keys=board.keys))
        verdict = board.follow(channel, until=lambda message: isinstance(message, messages.Verdict))
    finally:
        board.close()
    assert isinstance(verdict, messages.Verdict)
    return verdict


def test_what_is_within_the_budget_is_released_with_its_true_gain(built: Built) -> None:
    assert set(built.released) == set(FROM_ONNX)
    for name, one in built.released.items():
        assert one["drop"] <= 0.03
        assert ("smaller" in one["gains"]) == (not name.endswith("fp32"))
        assert one["interval"]["low"] < one["value"] < one["interval"]["high"]
    assert built.report["original"]["value"] > 0.85


def test_a_publisher_can_seal_it(built: Built, tmp_path: Path) -> None:
    publisher = Publisher(tmp_path / "publisher", passphrase=None)
    publisher.create(make_fleet_keys())
    manifest = parse_manifest(encode(make_manifest(built.folder, read_draft(built.folder), publisher)))
    (model,) = manifest.models
    assert {one.name for one in model.variants} == set(FROM_ONNX)
    assert model.variants[0].precision == "int8"
    assert len(model.golden) == 3
    assert model.reference_output["labels"]


@pytest.mark.parametrize("variant", ["onnx-int8", "openvino-fp16"])
def test_a_board_passes_its_golden_cases(built: Built, tmp_path: Path, variant: str) -> None:
    verdict = check_on_board(tmp_path / "board", built.folder, variant=variant)
    assert verdict.passed, verdict.reason
    assert len(verdict.cases) == 3


def test_both_reports_and_what_is_printed_agree(built: Built) -> None:
    (line,) = built.printed.splitlines()
    printed = json.loads(line)
    assert printed["folder"] == str(built.folder)
    report = parse_json((built.folder / "report.json").read_bytes())
    assert printed["report"]["manifest_sha256"] == report.manifest_sha256
    assert printed["report"]["variants"] == built.report["variants"]
    page = (built.folder / "report.html").read_text()
    assert report.manifest_sha256 in page and report.source_sha256 in page
    for variant in report.variants:
        assert f">{variant.name} " in page
        assert all(digest in page for digest in variant.sha256s.values())


def test_progress_says_when_what_is_begun(built: Built) -> None:
    lines = [re.fullmatch(r"\[ *\d+\.\d s\] (.+)", line) for line in built.progress]
    words = [line[1] for line in lines if line]
    assert len(words) == len(lines), built.progress
    begun = ["onnx-fp16: by onnx_fp16", "original: answering 80 items", "openvino-int8: quantizing", "timing for about"]
    places = [next(place for place, line in enumerate(words) if line.startswith(start)) for start in begun]
    assert places == sorted(places)


def test_a_tflite_file_becomes_a_release_for_two_engines(from_tflite: Built, tmp_path: Path) -> None:
    assert set(from_tflite.released) == set(FROM_TFLITE)
    assert "smaller" in from_tflite.released["tflite-int8"]["gains"]
    verdict, page = from_tflite.printed.splitlines()
    assert verdict.startswith("All 4 variants of digits version 2 are released")
    assert page == str(from_tflite.folder / "report.html")
    checked = check_on_board(tmp_path / "board", from_tflite.folder, variant="tflite-int8")
    assert checked.passed, checked.reason


def test_the_same_recipe_gives_the_same_release(built: Built, material: Path, tmp_path: Path) -> None:
    """Here of an OpenVINO model, which is judged as it is."""
    for suffix in ("xml", "bin"):
        shutil.copyfile(built.folder / f"openvino-fp32.{suffix}", material / f"given.{suffix}")
    recipe = digits.write_recipe(material, "openvino-int8", source="given.xml", version=3)
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda name: make(recipe, tmp_path / name), ("first", "second"))
    assert set(first.released) == {"openvino-int8"}
    assert first.report["original"]["how"] == "as given"
    assert first.report["original"]["value"] == built.report["original"]["value"]
    for file in ("release.json", *(file.path for file in read_draft(first.folder).files)):
        assert (first.folder / file).read_bytes() == (second.folder / file).read_bytes()
