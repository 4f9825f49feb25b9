"""How long are our modules and functions, and is one too long?

Prints the longest; exits with 1 only if a module has over 500 lines or a function over 60. A line is a line of the
file, documentation included: what counts is how far a reader must scroll.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

MODULE_LIMIT_LINES = 500
FUNCTION_LIMIT_LINES = 60
SHOWN = 8

SOURCE_FOLDERS = (
    "wire/src",
    "agent/src",
    "fleet/src",
    "converters/src",
    "tests",
    "hil",
    "benchmarks",
    "packaging",
)
# Written by Alembic from the tables, and never changed by hand.
GENERATED_FOLDER = "fleet/src/shoal_fleet/migrations/versions"


class Size(NamedTuple):
    """The length of a module or function; ordered by length."""

    lines: int
    name: str


def main() -> int:
    """Measure the repository that this file lies in."""
    root = Path(__file__).resolve().parents[2]
    modules: list[Size] = []
    functions: list[Size] = []
    for path in source_files(root):
        source = path.read_text(encoding="utf-8")
        name = path.relative_to(root).as_posix()
        modules.append(Size(len(source.splitlines()), name))
        functions.extend(function_sizes(source, module_name=name))

    print(f"{len(modules)} modules, {sum(size.lines for size in modules)} lines, {len(functions)} functions")
    too_long = [
        *report(modules, kind="module", limit_lines=MODULE_LIMIT_LINES),
        *report(functions, kind="function", limit_lines=FUNCTION_LIMIT_LINES),
    ]
    for message in too_long:
        print(message, file=sys.stderr)
    return 1 if too_long else 0


def source_files(root: Path) -> Iterator[Path]:
    """Yield the Python files that people write, in order of path."""
    generated = root / GENERATED_FOLDER
    for folder in SOURCE_FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if not path.is_relative_to(generated):
                yield path


def function_sizes(source: str, *, module_name: str) -> Iterator[Size]:
    """Yield the length of each function and method of a module, from its first decorator to its last line."""
    for node in ast.walk(ast.parse(source, filename=module_name)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first_line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            last_line = node.end_lineno or node.lineno
            yield Size(last_line - first_line + 1, f"{module_name}:{node.name}")


def report(sizes: Iterable[Size], *, kind: str, limit_lines: int) -> list[str]:
    """Print the longest, and return one message for each that is over the limit."""
    longest_first = sorted(sizes, reverse=True)
    for size in longest_first[:SHOWN]:
        print(f"  {size.lines:4} lines  {size.name}")
    return [
        f"{size.name}: {size.lines} lines; a {kind} may have {limit_lines}"
        for size in longest_first
        if size.lines > limit_lines
    ]


if __name__ == "__main__":
    sys.exit(main())
