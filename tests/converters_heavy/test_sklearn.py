"""Estimators that were fitted to digits, into ONNX files that give the same numbers."""

from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from shoal_wire.manifest import Tensor
from sklearn.datasets import load_digits
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from tests.converters_heavy.conversions import answer, convert, run

FITTED = 600
FLOAT32 = 1e-4
"""Kernels and trees in float32 instead of float64."""
ESTIMATORS = {
    "logistic regression": (LogisticRegression(max_iter=200), "predict_proba"),
    "random forest": (RandomForestClassifier(n_estimators=20, random_state=0), "predict_proba"),
    "scaled support vectors": (make_pipeline(StandardScaler(), SVC(random_state=0)), "decision_function"),
    "linear regression": (LinearRegression(), "predict"),
    "isolation forest": (IsolationForest(n_estimators=20, random_state=0), "decision_function"),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimator_gives_the_same_numbers(name: str, tmp_path: Path) -> None:
    estimator, method = ESTIMATORS[name]
    rows, labels = load_digits(return_X_y=True)
    rows = rows.astype(np.float32) / 16
    estimator.fit(rows[:FITTED], labels[:FITTED])
    joblib.dump(estimator, tmp_path / "model.joblib")
    expected: Any = getattr(estimator, method)(rows[FITTED:])

    made = convert(
        "sklearn_onnx",
        tmp_path / "model.joblib",
        "sklearn",
        folder=tmp_path,
        outputs=[Tensor("numbers", "float32", ())],
    )

    assert made.reply.inputs == (Tensor("input", "float32", (-1, 64)),)
    (found,) = run(made, [{"input": rows[FITTED:]}])
    assert np.abs(found["numbers"].reshape(expected.shape) - expected).max() < FLOAT32
    (own,) = answer(
        "sklearn_run",
        tmp_path / "model.joblib",
        "sklearn",
        [{"input": rows[FITTED:]}],
        folder=tmp_path,
        inputs=made.reply.inputs,
        outputs=made.reply.outputs,
    )
    assert own["numbers"].shape == found["numbers"].shape
    assert np.abs(own["numbers"].reshape(expected.shape) - expected).max() < FLOAT32


def test_scores_of_two_classes_get_a_column_each_the_larger_for_what_scikit_learn_predicts(tmp_path: Path) -> None:
    rows, labels = load_digits(return_X_y=True)
    rows = rows.astype(np.float32) / 16
    estimator = SVC(random_state=0).fit(rows[:FITTED], labels[:FITTED] > 4)
    joblib.dump(estimator, tmp_path / "model.joblib")

    (own,) = answer(
        "sklearn_run",
        tmp_path / "model.joblib",
        "sklearn",
        [{"input": rows[FITTED:]}],
        folder=tmp_path,
        inputs=[Tensor("input", "float32", (-1, 64))],
        outputs=[Tensor("scores", "float32", (-1, 2))],
    )

    assert (own["scores"].argmax(1) == estimator.predict(rows[FITTED:])).all()


def test_says_that_an_estimator_was_not_fitted(tmp_path: Path) -> None:
    joblib.dump(LogisticRegression(), tmp_path / "model.joblib")

    made = convert("sklearn_onnx", tmp_path / "model.joblib", "sklearn", folder=tmp_path)

    assert "it wasn't fitted" in made.reply.refused["onnx-fp32"]


def test_refuses_a_file_that_holds_no_estimator(tmp_path: Path) -> None:
    joblib.dump({"weights": 1}, tmp_path / "model.joblib")

    made = convert("sklearn_onnx", tmp_path / "model.joblib", "sklearn", folder=tmp_path)

    assert "holds dict, expected a scikit-learn estimator" in made.reply.refused["onnx-fp32"]
