"""A PaddlePaddle program, saved by Paddle in a process of its own, read by OpenVINO without it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shoal_wire.manifest import Tensor

from tests.converters_heavy.conversions import answer, convert, need, run

FLOAT32 = 1e-5
SAVE = """
import sys
import numpy, paddle
from paddle import nn


class Network(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.dense, self.other = (
            nn.Conv2D(1, 8, 3, padding=1), nn.BatchNorm2D(8), nn.Linear(8, 10), nn.Linear(8, 2))

    def forward(self, image):
        x = nn.functional.relu(self.norm(self.conv(image))).mean([2, 3])
        return nn.functional.softmax(self.dense(x)), self.other(x)


paddle.seed(0)
network = Network()
network.eval()
paddle.jit.save(network, "net", input_spec=[paddle.static.InputSpec([None, 1, 8, 8], "float32", "image")])
image = numpy.random.default_rng(0).standard_normal((5, 1, 8, 8)).astype("float32")
first, second = network(paddle.to_tensor(image))
numpy.savez("expected.npz", image=image, first=first.numpy(), second=second.numpy())
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    need("paddle")
    (tmp_path / "save.py").write_text(SAVE)  # Paddle reads the source of what it saves
    subprocess.run(
        [sys.executable, "save.py"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "FLAGS_enable_pir_api": "0", "HOME": f"{tmp_path}"},
        check=True,
        timeout=300,
    )
    return tmp_path / "net.pdmodel"


def test_program_computes_the_same_in_openvino(program: Path, tmp_path: Path) -> None:
    names = [Tensor("scores", "float32", ()), Tensor("values", "float32", ())]

    made = convert("paddle_openvino", program, "paddle", folder=tmp_path, outputs=names)

    assert made.reply.inputs == (Tensor("image", "float32", (-1, 1, 8, 8)),)
    expected = np.load(program.with_name("expected.npz"))
    (found,) = run(made, [{"image": expected["image"]}])
    assert np.abs(found["scores"] - expected["first"]).max() < FLOAT32
    assert np.abs(found["values"] - expected["second"]).max() < FLOAT32
    (own,) = answer(
        "paddle_run",
        program,
        "paddle",
        [{"image": expected["image"]}],
        folder=tmp_path,
        inputs=made.reply.inputs,
        outputs=made.reply.outputs,
    )
    assert np.abs(own["scores"] - expected["first"]).max() < FLOAT32
    assert np.abs(own["values"] - expected["second"]).max() < FLOAT32


def test_says_which_file_of_weights_is_missing(tmp_path: Path) -> None:
    (tmp_path / "net.pdmodel").write_bytes(b"")

    made = convert("paddle_openvino", tmp_path / "net.pdmodel", "paddle", folder=tmp_path)

    assert "expected its weights in net.pdiparams beside it" in made.reply.refused["openvino-fp32"]


def test_says_how_to_save_a_program_of_the_newer_form_again(tmp_path: Path) -> None:
    (tmp_path / "net.json").write_bytes(b"{}")

    made = convert("paddle_openvino", tmp_path / "net.json", "paddle", folder=tmp_path)

    assert "FLAGS_enable_pir_api=0" in made.reply.refused["openvino-fp32"]
