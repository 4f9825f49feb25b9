"""Does every parser of outside bytes refuse what it can't take, with the errors that its caller expects alone?"""

import random
import tracemalloc
import zlib
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.conformance.agent_parsers import AGENT
from tests.conformance.fleet_parsers import FLEET
from tests.conformance.parser_table import BOMBS, MAX_MUTATED_BYTES, Parser, mutate
from tests.conformance.wire_parsers import WIRE

PARSERS: Mapping[str, Parser] = {**WIRE, **AGENT, **FLEET}
EXAMPLES = 12
MAX_PEAK_BYTES = 48 << 20

every_parser = pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)


def try_out(parser: Parser, raw: bytes) -> None:
    """Whatever isn't among the documented errors fails the test."""
    try:
        parser.parse(raw)
    except parser.errors as error:
        if not isinstance(error, ValidationError):  # the API answers with its first faults
            assert len(str(error)) < 4_000, "an error that repeats what strangers sent"


@every_parser
def test_takes_what_it_should(parser: Parser) -> None:
    for seed in parser.seeds:
        parser.parse(seed)


@every_parser
@given(seed=st.integers(0, 2**32 - 1), raw=st.binary(max_size=200))
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_random_and_changed_bytes_give_documented_errors_alone(parser: Parser, seed: int, raw: bytes) -> None:
    chance = random.Random(seed)
    try_out(parser, raw)
    for _ in range(4):
        try_out(parser, mutate(chance.choice(parser.seeds), chance))


@every_parser
def test_bombs_give_documented_errors_alone(parser: Parser) -> None:
    for raw in (*BOMBS, *parser.refuses):
        try_out(parser, raw)


@every_parser
def test_memory_stays_within_bounds(parser: Parser, request: pytest.FixtureRequest) -> None:
    chance = random.Random(zlib.crc32(request.node.name.encode()))
    inputs = [mutate(chance.choice(parser.seeds), chance) for _ in range(8)]
    tracemalloc.start()
    try:
        for raw in (*inputs, *BOMBS):
            try_out(parser, raw)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert max(map(len, inputs)) <= MAX_MUTATED_BYTES
    assert peak_bytes < MAX_PEAK_BYTES
