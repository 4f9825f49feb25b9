"""Which code of the fleet's server could read rows around the limit on projects (`access/scope.py`)?

That limit holds for statements on mapped classes. A table itself, a text of SQL or the bare connection goes around it.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

FLEET = Path(__file__).parents[2] / "fleet" / "src" / "shoal_fleet"

ALLOWED: Mapping[str, str] = {
    "database.py": "opens the database",
    "schema.py": "knows all tables, to migrate them",
    "access/scope.py": "is the limit",
    "kek/scrubbing.py": "has the database write over what was removed, and reads no row",
}
"""Modules that may, and why. `models.py` and migrations say what tables are, and may too."""

_IMPORTED = frozenset({"Table", "literal_column", "table", "text"})
_ATTRIBUTES = frozenset({"__table__", "exec_driver_sql"})


class Around(NamedTuple):
    """A place that goes around the limit."""

    module: str
    line: int
    name: str


def find_around(source: str, *, module: str) -> Iterator[Around]:
    """Uses of what SQLAlchemy offers beside mapped classes."""
    tree = ast.parse(source)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sqlalchemy")
        for alias in node.names
        if alias.name in _IMPORTED
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in imported:
            yield Around(module, node.lineno, node.id)
        elif isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES:
            yield Around(module, node.lineno, node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "connection":
            yield Around(module, node.lineno, "connection()")


def find_all() -> list[Around]:
    """Over all modules of the server that aren't allowed to."""
    found: list[Around] = []
    for path in sorted(FLEET.rglob("*.py")):
        module = path.relative_to(FLEET).as_posix()
        if module in ALLOWED or path.name == "models.py" or module.startswith(("migrations/", "command/")):
            continue
        found += find_around(path.read_text(), module=module)
    return found
