"""Does the API refuse every body that it can't take, at every path, without failing itself?"""

import json
import random
import re
from collections.abc import Iterator, Sequence

import pytest

from tests.conformance.fleet_parsers import BODIES
from tests.conformance.parser_table import BOMBS, mutate
from tests.system.fleet.fleet_site import Fleet, run_fleet

CHANGED = 5
"""Bodies for each path that are made of good ones, half of them of those for other paths."""
PLACES = {"device": "d-none", "rollout": "1", "version": "1", "sha256": "a" * 64}
"""What stands in a path for each of its parameters; others are a word."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with run_fleet(tmp_path_factory.mktemp("fleet")) as running:
        running.begin()
        yield running


def writing_paths(fleet: Fleet) -> Sequence[tuple[str, str]]:
    """Method and path of whatever takes a body."""
    described = fleet.get("/api/v1/openapi.json")["paths"]
    return [
        (method.upper(), re.sub(r"{(\w+)}", lambda name: PLACES.get(name[1], "none"), path))
        for path, methods in described.items()
        for method in methods
        if method in {"post", "put", "patch"}
    ]


def test_no_body_makes_the_fleet_fail(fleet: Fleet) -> None:
    chance = random.Random(5)
    seeds = [json.dumps(seed).encode() for _, seed in BODIES.values()]
    paths = writing_paths(fleet)
    assert len(paths) > 15
    for method, path in paths:
        for body in (*chance.sample(BOMBS, 3), *(mutate(chance.choice(seeds), chance) for _ in range(CHANGED))):
            reply = fleet.http.request(method, path, content=body, headers={"Content-Type": "application/json"})
            assert reply.status_code < 500, (method, path, body[:300], reply.text)
    assert fleet.get("/api/v1/health")["status"] == "ok"
