from collections.abc import Callable
from pathlib import Path

import pytest

from tests.repository.doc_paths import Repository, document_problems, trace_problems

DOCUMENT = "docs/guide.md"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    files = {
        "agent/src/shoal_agent/daemon/link.py": "RETRY_S = 2\n\n\nclass Link:\n    def publish(self) -> None: ...\n",
        "packaging/bootstrap.sh": "main() {\n    true\n}\n",
        "docs/guide.md": "",
        "README.md": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Repository(tmp_path, frozenset(files))


@pytest.fixture
def problems(repository: Repository) -> Callable[[str], list[str]]:
    return lambda text: list(document_problems(text, document=DOCUMENT, repository=repository))


@pytest.mark.parametrize(
    "name",
    [
        "agent/src/shoal_agent/daemon/link.py",
        "daemon/link.py",
        "link.py",
        "link.py:Link",
        "link.py:publish",
        "link.py:RETRY_S",
        "bootstrap.sh:main",
        "agent/src/",
        "docs/",
    ],
)
def test_accepts_names_of_what_exists(name: str, problems: Callable[[str], list[str]]) -> None:
    assert problems(f"See `{name}`.") == []


@pytest.mark.parametrize(
    "name",
    [
        "shoal/v1/<device>/up/reported",
        "shoal/v1/d1/up/reported",
        "/var/lib/shoal-agent/slots.json",
        "application/json",
        "slots.json",
        "shoal rollout start",
        ".venv/bin/shoal",
        "make run",
    ],
)
def test_leaves_words_that_are_no_file_of_the_repository_alone(name: str, problems: Callable[[str], list[str]]) -> None:
    assert problems(f"See `{name}`.") == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("agent/src/shoal_agent/daemon/missing.py", "no such file"),
        ("missing.py", "no such file"),
        ("ink.py", "no such file"),
        ("agent/missing/", "no such file"),
        ("link.py:Chain", "Chain is not defined there"),
    ],
)
def test_reports_names_of_what_is_missing(name: str, reason: str, problems: Callable[[str], list[str]]) -> None:
    assert problems(f"See `{name}`.") == [f"{DOCUMENT}: `{name}`: {reason}"]


def test_reads_no_names_in_fenced_blocks(problems: Callable[[str], list[str]]) -> None:
    assert problems("```\n`missing.py`\n```\n") == []


def test_follows_links_from_the_folder_of_the_document(problems: Callable[[str], list[str]]) -> None:
    text = "[a](../README.md) [b](guide.md#top) [c](#top) [d](https://example.org/x.md) [e](README.md)"

    assert problems(text) == [f"{DOCUMENT}: link to README.md: no such file"]


def test_accepts_two_traces_whose_steps_name_files(repository: Repository) -> None:
    text = (
        "# Architecture\n## Trace: a release\n1. `link.py` says so.\n2. And `bootstrap.sh`\n   too.\n"
        "## Trace: an answer\n1. `link.py:Link`\n## Rest\n1. No file here.\n"
    )

    assert list(trace_problems({"docs/architecture.md": text}, repository=repository)) == []


def test_reports_a_missing_trace_and_a_step_without_a_file(repository: Repository) -> None:
    text = "# Architecture\n## Trace: a release\n1. `link.py`\n2. Then it happens.\n"

    assert list(trace_problems({"docs/architecture.md": text}, repository=repository)) == [
        "docs/architecture.md: 1 sections with 'trace' in the heading, expected 2",
        "docs/architecture.md: 'Trace: a release', step 2 names no file",
    ]


def test_reports_an_architecture_document_that_is_missing(repository: Repository) -> None:
    assert list(trace_problems({}, repository=repository)) == ["docs/architecture.md: missing; it holds the 2 traces"]
