"""Is a model tuned for and served on a device beside the processor, and on the processor where that is gone?

ONNX Runtime's providers for a GPU are a fake (`cuda_onnxruntime.py`): nothing here has run on one.
"""

import json
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from shoal_agent import front_messages as messages
from shoal_agent.configuration import Configuration
from shoal_agent.files import DiskFiles
from shoal_agent.slots import HeldRelease
from shoal_agent.tuned import Limits, ServingChoice
from shoal_agent.tuning.material import open_folder
from shoal_agent.tuning.options import TuneOptions
from shoal_agent.tuning.program import tune_material
from shoal_wire.manifest import parse_manifest
from shoal_wire.tuning import Candidate
from shoal_worker.channel import Channel

from tests import fake_onnxruntime
from tests.fake_onnxruntime import CPU, CUDA, TENSORRT
from tests.system.agent.front_board import Board, send
from tests.system.agent.tiny_release import MODEL, RIGHT, WRONG, build_tiny_release

pytestmark = pytest.mark.timeout(180)

FAKE_MODULE = Path(__file__).with_name("cuda_onnxruntime.py")


class CudaHere:
    """An interpreter with the fake of ONNX Runtime."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True, with_pip=False)
        self.interpreter = str(folder / "bin/python")
        self._packages = next(folder.glob("lib/python*/site-packages"))
        (self._packages / "onnxruntime.py").symlink_to(FAKE_MODULE)
        (self._packages / "fake_onnxruntime.py").symlink_to(fake_onnxruntime.__file__)
        (self._packages / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.play(starts=True)

    def play(self, *, starts: bool) -> None:
        (self._packages / "cuda.json").write_text(json.dumps({"starts": starts}))


@pytest.fixture
def cuda(tmp_path: Path) -> CudaHere:
    return CudaHere(tmp_path / "gpu")


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return build_tiny_release(tmp_path / "release")


@pytest.fixture
def board(tmp_path: Path, cuda: CudaHere) -> Iterator[Board]:
    board = Board(tmp_path)
    board.configuration = msgspec.structs.replace(
        board.configuration, engines=("onnxruntime",), interpreters={"onnxruntime": cuda.interpreter}
    )
    yield board
    board.close()


def test_devices_that_work_are_tuned_for_and_judged_as_the_processor_is(
    release: Path, cuda: CudaHere, tmp_path: Path
) -> None:
    told: list[str] = []
    options = TuneOptions(
        model=MODEL,
        state=tmp_path / "absent",
        release_folder=release,
        objective="memory",
        limits=Limits(),
        budget_s=40.0,
        threads=(1,),
        batches=(1,),
        is_fresh=True,
    )
    configuration = Configuration(threads=1, engines=("onnxruntime",), interpreters={"onnxruntime": cuda.interpreter})
    verdict = tune_material(
        open_folder(release, name=MODEL), options, configuration=configuration, files=DiskFiles(), tell=told.append
    ).verdict

    assert any(f"isn't usable on {TENSORRT}: {TENSORRT} runs no operator" in line for line in told), told
    found = {(one.candidate.device, one.candidate.precision): one.placement for one in verdict.measured}
    assert found == {("", "exact"): (CPU,), (CUDA, "exact"): (CUDA, CPU), (CUDA, "fast"): (CUDA, CPU)}
    assert {one.candidate.variant for one in verdict.measured} == {RIGHT}
    refused = {one.candidate.device for one in verdict.refused if "golden cases failed" in one.reason}
    assert ({one.candidate.variant for one in verdict.refused}, refused) == ({WRONG}, {"", CUDA})


def test_serves_on_the_device_that_was_chosen_and_without_it_once_that_is_gone(
    board: Board, release: Path, cuda: CudaHere
) -> None:
    held = board.hold(release)
    channel, _ = board.start_front()
    serving, _ = load(board, channel, held)
    assert (serving.engine, serving.placement) == ("onnxruntime", (CUDA, CPU))

    cuda.play(starts=False)
    channel, _ = board.start_front()
    serving, notices = load(board, channel, held)
    assert (serving.engine, serving.placement) == ("onnxruntime", (CPU,))
    assert [one.name for one in notices] == ["engine-refused"]
    assert f"couldn't start {CUDA}, it would run on {CPU}" in notices[0].detail


def load(board: Board, channel: Channel, held: HeldRelease) -> tuple[messages.Serving, list[messages.Notice]]:
    """Have a front serve by the choice of the GPU; what it said until then."""
    manifest = parse_manifest((board.store / held.reference.manifest_sha256).read_bytes())
    choice = ServingChoice(
        candidate=Candidate(variant=RIGHT, engine="onnxruntime", threads=1, device=CUDA),
        files=(manifest.file(f"{RIGHT}.onnx").plaintext_sha256,),
        engine_version="1",
        key="0" * 64,
    )
    order = messages.Load(slot=MODEL, held=held, store=str(board.store), content_keys=board.keys, tuned={MODEL: choice})
    send(channel, order)
    notices: list[messages.Notice] = []

    def is_reply(message: object) -> bool:
        if isinstance(message, messages.Notice):
            notices.append(message)
        return isinstance(message, messages.Serving | messages.LoadFailed)

    serving = board.follow(channel, until=is_reply)
    assert isinstance(serving, messages.Serving), serving
    return serving, notices
