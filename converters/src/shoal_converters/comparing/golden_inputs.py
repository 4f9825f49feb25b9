"""Which inputs do the golden cases of a release give, through its own pre-processing?"""

from collections.abc import Sequence
from itertools import islice

from shoal_agent.front.operations.errors import OperationError
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_wire.manifest import Tensor

from shoal_converters.comparing.feeds import Feeds, check_feeds
from shoal_converters.comparing.sides import Side
from shoal_converters.errors import BadData

CALLS_OF_CASE = 8
"""Of a long sound's hundreds, the first: both sides get the same."""


def prepare_golden(side: Side, inputs: Sequence[Tensor]) -> list[Feeds]:
    """Inputs of a side's golden cases, at most CALLS_OF_CASE of each. Of calls that depend on the outputs of earlier
    ones, the first only.

    Raises:
        BadData: they can't be made here, or aren't those of `inputs`.
    """
    try:
        pipeline = Pipeline(pre=side.pre, post=side.post)
        prepared = [pipeline.prepare(path.read_bytes()) for path in side.golden]
    except (OperationError, OSError) as error:
        raise BadData(f"{side.name}: golden cases: {error}") from None
    calls = [call for one in prepared for call in islice(one.calls, CALLS_OF_CASE)]
    return [check_feeds(call, inputs, what=f"{side.name}: golden cases") for call in calls]
