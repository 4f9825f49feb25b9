"""Do conversions get to know every shape that the data have?"""

from pathlib import Path

import numpy as np
from msgspec.structs import replace
from shoal_converters.building.samples import write_samples
from shoal_converters.paths.call_files import read_calls
from shoal_wire.manifest import Operation

from tests.unit.converters.building.test_job import RECIPE, X, Y, take

PRE = (
    Operation("table.decode_csv", {"has_header": True}),
    Operation("table.feed", {"input": "x", "columns": 2}),
)


def test_one_call_of_each_shape_is_written(tmp_path: Path) -> None:
    (tmp_path / "pets.onnx").write_bytes(b"a model")
    np.savez(tmp_path / "evaluation.npz", x=X, y=Y)
    np.savez(tmp_path / "calibration.npz", x=X + 100)
    write_samples(take(tmp_path, replace(RECIPE, pre=PRE)), tmp_path / "samples.npz")
    (call,) = read_calls(tmp_path / "samples.npz", count=1)
    assert call["x"].tolist() == X[:1].tolist()
