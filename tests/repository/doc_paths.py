"""Does every file that the documents name exist, and do the two traces name their files?

Read are README.md, CONTRIBUTING.md and docs/. A name is a word in backticks or the target of a
link, outside fenced blocks. In backticks it is taken for a file of this repository if it starts with one of the
repository's folders, or ends as sources do (`.py`, `.sh`, `.md`, `.service`); it may be the end of a path
(`daemon/link.py`) and may name something in the file (`daemon/link.py:Link`), which must then be defined there.
The traces are the sections of docs/architecture.md with "trace" in the heading; each step of their numbered lists
names at least one file.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ARCHITECTURE = "docs/architecture.md"
TRACE_COUNT = 2

SOURCE_SUFFIXES = (".py", ".sh", ".md", ".service")

_FENCED_BLOCK = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
_IN_BACKTICKS = re.compile(r"`([^`\n]+)`")
_LINK_TARGET = re.compile(r"\]\(([^)\s]+)\)")
_PATH = re.compile(r"^(?P<path>[\w.][\w./-]*)(?::(?P<symbol>[A-Za-z_]\w*))?$")
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
_STEP = re.compile(r"^\d+\. ", re.MULTILINE)


class Repository(NamedTuple):
    """The files that a document may name: their paths from the root, and their text for looking a name up."""

    root: Path
    paths: frozenset[str]

    def find(self, name: str) -> list[str]:
        """Return the files that `name` is the path of, or the end of the path of."""
        return [path for path in sorted(self.paths) if path == name or path.endswith(f"/{name}")]

    def has_folder(self, name: str) -> bool:
        """Say whether `name` is a folder that holds a file."""
        return any(path.startswith(f"{name}/") for path in self.paths)

    def top_level_folders(self) -> frozenset[str]:
        """Return the names of the folders in the root."""
        return frozenset(path.partition("/")[0] for path in self.paths if "/" in path)

    def defines(self, path: str, *, symbol: str) -> bool:
        """Say whether a file has a class, function, constant or shell function of that name."""
        definition = rf"^\s*(?:(?:async )?def|class) {symbol}\b|^\s*{symbol}(?:\(\)|\b[^=\n]*=)"
        return re.search(definition, (self.root / path).read_text(encoding="utf-8"), re.MULTILINE) is not None


def main() -> int:
    """Check the documents of the repository that this file lies in."""
    repository = read_repository(Path(__file__).resolve().parents[2])
    documents = {path: (repository.root / path).read_text(encoding="utf-8") for path in document_paths(repository)}
    problems = [
        *(
            problem
            for path, text in documents.items()
            for problem in document_problems(text, document=path, repository=repository)
        ),
        *trace_problems(documents, repository=repository),
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(documents)} documents read, {len(problems)} problems")
    return 1 if problems else 0


def read_repository(root: Path) -> Repository:
    """List the files that git tracks or would track; what is ignored (state, caches) is no part of it."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return Repository(root, frozenset(name for name in listing.split("\0") if name and (root / name).exists()))


def document_paths(repository: Repository) -> list[str]:
    """Return the documents, in order of path."""
    return sorted(
        path
        for path in repository.paths
        if path.endswith(".md") and (path.startswith("docs/") or path in {"README.md", "CONTRIBUTING.md"})
    )


def document_problems(text: str, *, document: str, repository: Repository) -> Iterator[str]:
    """Yield one message for each name in a document that no file bears."""
    prose = _FENCED_BLOCK.sub("", text)
    for name in _IN_BACKTICKS.findall(prose):
        if not is_file_name(name, repository=repository):
            continue
        problem = name_problem(name, repository=repository)
        if problem:
            yield f"{document}: `{name}`: {problem}"
    for target in _LINK_TARGET.findall(prose):
        if not link_leads_somewhere(target, document=document, repository=repository):
            yield f"{document}: link to {target}: no such file"


def is_file_name(name: str, *, repository: Repository) -> bool:
    """Say whether a word in backticks claims to be a file or folder of this repository."""
    match = _PATH.match(name)
    if match is None:
        return False
    path = match["path"]
    if "/" in path and path.partition("/")[0] in repository.top_level_folders():
        return True
    return path.endswith(SOURCE_SUFFIXES) and not path.startswith(".")


def name_problem(name: str, *, repository: Repository) -> str | None:
    """Say what is wrong with a name that claims to be a file; None if it is one."""
    path, _, symbol = name.partition(":")
    if repository.has_folder(path.rstrip("/")):
        return None
    found = repository.find(path)
    if not found:
        return "no such file"
    if symbol and not any(repository.defines(file, symbol=symbol) for file in found):
        return f"{symbol} is not defined there"
    return None


def link_leads_somewhere(target: str, *, document: str, repository: Repository) -> bool:
    """Say whether a link's target is a web address, a heading, or a file beside the document."""
    path = target.partition("#")[0]
    if not path or "://" in target:
        return True
    resolved = _normalized(PurePosixPath(document).parent / path)
    return resolved in repository.paths or repository.has_folder(resolved)


def _normalized(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def trace_problems(documents: Mapping[str, str], *, repository: Repository) -> Iterator[str]:
    """Yield one message for each trace that is missing and each step of a trace that names no file."""
    if ARCHITECTURE not in documents:
        yield f"{ARCHITECTURE}: missing; it holds the {TRACE_COUNT} traces"
        return
    traces = trace_sections(documents[ARCHITECTURE])
    if len(traces) < TRACE_COUNT:
        yield f"{ARCHITECTURE}: {len(traces)} sections with 'trace' in the heading, expected {TRACE_COUNT}"
    for heading, body in traces.items():
        steps = _STEP.split(body)[1:]
        if not steps:
            yield f"{ARCHITECTURE}: '{heading}' has no numbered steps"
        for number, step in enumerate(steps, start=1):
            names = _IN_BACKTICKS.findall(step)
            if not any(is_file_name(name, repository=repository) for name in names):
                yield f"{ARCHITECTURE}: '{heading}', step {number} names no file"


def trace_sections(text: str) -> dict[str, str]:
    """Return the sections about a trace: heading to text."""
    parts = _HEADING.split(_FENCED_BLOCK.sub("", text))
    return {
        heading.strip(): body
        for heading, body in zip(parts[1::2], parts[2::2], strict=True)
        if "trace" in heading.lower()
    }


if __name__ == "__main__":
    sys.exit(main())
