"""Is a release of a source that no engine runs held against what the source answers in its own framework?"""

import json
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from tests.converters_heavy.conversions import need
from tests.system.converters import digits_material as digits

EXTRA = "sklearn"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    need("skl2onnx")
    rows, labels = load_digits(return_X_y=True)
    estimator = LogisticRegression(max_iter=200)
    estimator.fit((rows[: digits.TRAINED] / 16).astype(np.float32), labels[: digits.TRAINED])
    joblib.dump(estimator, tmp_path / "model.joblib")
    digits.write_sets(tmp_path)
    path = digits.write_recipe(tmp_path, "onnx-fp32", source="model.joblib")
    path.write_text(path.read_text().replace('input = "x"', 'input = "input"').replace('"y"', '"probabilities"'))
    return path


def test_report_says_how_far_conversions_lie_from_scikit_learn(recipe: Path, tmp_path: Path) -> None:
    done = digits.build(recipe, tmp_path / "release", "--python", f"{EXTRA}={sys.executable}")

    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "release" / "report.json").read_bytes())
    assert report["source"]["framework"].startswith("scikit-learn ")
    assert [one["variant"] for one in report["source"]["differences"]] == ["onnx-fp32"]
    assert all(one["difference"] < 1e-5 for one in report["source"]["differences"])
    assert f"skl2onnx ({EXTRA})" in report["versions"]
    assert "answered by the source in scikit-learn" in (tmp_path / "release" / "report.html").read_text()


def test_nothing_is_released_where_all_conversions_differ_by_more_than_is_allowed(recipe: Path, tmp_path: Path) -> None:
    text = recipe.read_text().replace("[budget]", "[budget]\nmax_source_difference = 0.0")
    recipe.write_text(text)

    done = digits.build(recipe, tmp_path / "release")

    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "no conversion of" in last and "allowed 0: the conversion computes something else" in last
    assert not (tmp_path / "release").exists()
