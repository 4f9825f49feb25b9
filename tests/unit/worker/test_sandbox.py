"""Which places may a worker read, and which engines get to the accelerators?"""

import sys
from pathlib import Path

import pytest
import shoal_worker
from shoal_worker import sandbox


@pytest.mark.parametrize(
    ("engine", "device", "expected"),
    [
        ("litert", "", False),
        ("tflite-runtime", "", False),
        ("onnxruntime", "", False),
        ("onnxruntime", "CPUExecutionProvider", False),
        ("onnxruntime", "CUDAExecutionProvider", True),
        ("openvino", "", True),
        ("openvino", "GPU", True),
        ("tensorrt", "", True),
        ("somebody-elses", "", True),
    ],
)
def test_only_engines_that_may_use_an_accelerator_get_at_its_nodes(engine: str, device: str, expected: bool) -> None:
    assert sandbox.needs_accelerators(engine, device) is expected


def test_interpreter_packages_and_the_worker_itself_may_be_read() -> None:
    places = {Path(place) for place in sandbox.readable_places()}
    for needed in (shoal_worker.__file__, sys.prefix, sys.base_prefix, sys.executable, pytest.__file__):
        real = Path(needed).resolve()
        assert any(real.is_relative_to(place) for place in places), needed


def test_packages_that_links_lead_to_may_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages, elsewhere = tmp_path / "packages", tmp_path / "elsewhere" / "engine"
    packages.mkdir()
    elsewhere.mkdir(parents=True)
    (packages / "engine").symlink_to(elsewhere)
    monkeypatch.setattr(sys, "path", [str(packages), "/nowhere"])
    assert str(elsewhere.resolve()) in sandbox.readable_places()


@pytest.mark.parametrize("private", ["/", "/etc", "/var", "/home", "/root", "/tmp", "/dev", "/proc", "/run"])
def test_no_place_where_people_or_services_keep_their_own_is_readable_as_a_whole(private: str) -> None:
    assert private not in sandbox.readable_places()


def test_what_is_offered_is_either_there_or_missed() -> None:
    offered = sandbox.offered()
    assert len(offered.parts) + len(offered.gaps) == 2
