"""What is a release of the agent, and who refuses what else calls itself one?"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_wire.agent_release import TreeContents, TreeFile, check_path, parse_contents, version_order
from shoal_wire.encoding import Document, decode, encode
from shoal_wire.errors import Malformed, Unsupported
from shoal_wire.manifest import parse_draft, parse_manifest

from tests.vectors.examples import example, to_json

Change = Callable[[dict[str, Any]], None]


def document(change: Change = lambda _: None, *, name: str = "agent_manifest") -> bytes:
    found = example(name)
    change(found)
    return to_json(found)


def part(found: dict[str, Any]) -> dict[str, Any]:
    agent: dict[str, Any] = found["agent"]
    return agent


class EarlierManifest(Document, frozen=True, kw_only=True):
    """The fields of a manifest as version 0.1.0 of the agent knew them."""

    name: str
    version: int
    created_at: str
    licence: str
    provenance: str
    models: list[Any]
    files: list[Any]


def test_an_agent_that_knows_no_such_releases_refuses_one_with_words() -> None:
    with pytest.raises(Unsupported, match=r"needs the field 'agent', .*update this software"):
        decode(document(), EarlierManifest, what="manifest")


def test_a_tree_is_chosen_by_machine_and_python() -> None:
    agent = parse_manifest(document()).agent
    assert agent is not None
    tree = agent.tree_for(machine="aarch64", python="3.11")
    assert tree is not None and tree.file == "agent-aarch64-3.11"
    assert agent.tree_for(machine="aarch64", python="3.13") is None
    assert agent.tree_for(machine="armv7l", python="3.11") is None


def test_the_agents_floor_is_by_the_name_of_its_releases() -> None:
    assert parse_manifest(document()).floors == {"shoal-agent": 2}


WRONG: list[tuple[Change, str]] = [
    (lambda m: m.update(critical=[]), "doesn't say that its part 'agent' is critical"),
    (lambda m: m.update(name="yard-camera"), "is named shoal-agent and holds no models"),
    (lambda m: m.update(models=example("manifest")["models"]), "is named shoal-agent and holds no models"),
    (lambda m: part(m)["trees"][0].update(file="other"), "names the file 'other'"),
    (lambda m: part(m)["trees"].append(part(m)["trees"][0]), "tree for .*'aarch64, Python 3.11' is named twice"),
    (lambda m: part(m).update(floor=9), "floor 9 is above the release's own version 3"),
    (lambda m: part(m).update(oldest_state=5), "state formats from 5 to 1 are none"),
    (lambda m: part(m).update(version="1.2-rc"), r"\$\.agent\.version"),
    (lambda m: part(m)["trees"][0].update(python="2.7"), r"python"),
    (lambda m: part(m)["trees"].clear(), r"length >= 1.*trees"),
]


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_is_not_as_agreed_is_refused(change: Change, message: str) -> None:
    with pytest.raises(Malformed, match=message):
        parse_manifest(document(change))
    with pytest.raises(Malformed, match=message):
        parse_draft(document(change, name="agent_draft"))


def contents(*paths: str) -> bytes:
    file = TreeFile(3, "a" * 64)
    return encode(TreeContents(version="0.2.0", machine="x86_64", python="3.11", files=dict.fromkeys(paths, file)))


def test_a_list_of_files_is_read_back() -> None:
    assert set(parse_contents(contents("site-packages/a.py", "licences/a")).files) == {
        "site-packages/a.py",
        "licences/a",
    }


@pytest.mark.parametrize("path", ["", "/etc/passwd", "a/../b", "..", "./a", "a//b", "a/", "a\0b", "a" * 401])
def test_a_path_that_leads_out_of_the_tree_is_refused(path: str) -> None:
    with pytest.raises(Malformed, match="no path of a file within the tree"):
        check_path(path)
    with pytest.raises(Malformed, match="no path of a file within the tree"):
        parse_contents(contents("site-packages/a.py", path))


NUMBERS = st.lists(st.integers(0, 999_999), min_size=1, max_size=4)


@given(NUMBERS, NUMBERS)
def test_versions_are_ordered_by_their_numbers(first: list[int], second: list[int]) -> None:
    texts = [".".join(map(str, numbers)) for numbers in (first, second)]
    padded = [(*numbers, 0, 0, 0)[:4] for numbers in (first, second)]
    assert (version_order(texts[0]) < version_order(texts[1])) == (padded[0] < padded[1])


@pytest.mark.parametrize("text", ["", "1.", "v1", "1.0rc1", "1.2.3.4.5", "١"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        version_order(text)


def test_a_manifest_of_models_says_nothing_of_an_agent() -> None:
    assert parse_manifest(to_json(example("manifest"))).agent is None
    assert msgspec.json.decode(encode(parse_manifest(document())))["agent"]["version"] == "0.2.0"
