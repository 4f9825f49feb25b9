"""How well do scores tell two kinds of items apart, whatever the threshold?"""

import numpy as np
from numpy.typing import NDArray


def area_under_curve(truth: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    """Area under the ROC curve; NaN where all items are of one kind.

    From the sum of ranks (Mann and Whitney, "On a test of whether one of two random variables is stochastically larger
    than the other", Annals of Mathematical Statistics 18, 1947): it is wanted of a thousand selections.
    """
    from scipy.stats import rankdata  # takes a second

    high = int(truth.sum())
    low = len(truth) - high
    if not high or not low:
        return float("nan")
    ranks = rankdata(scores)[truth].sum() - high * (high + 1) / 2
    return float(ranks / (high * low))
