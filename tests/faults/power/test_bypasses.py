"""Does the agent write nothing past `Files` but what is known, and why that may be?"""

import ast
from pathlib import Path

import shoal_agent

SOURCES = Path(shoal_agent.__file__).parent

KNOWN = {
    "files.py": "the file layer itself",
    "cli.py": "a plot that an operator asked for",
    "daemon/daemon.py": "a lock, empty",
    "daemon/delegation.py": "the kernel's control groups",
    "daemon/outbox.py": "SQLite, which syncs by itself",
    "front/worker_group.py": "the kernel's control groups",
    "own_trees.py": "a lock, empty",
    "renewal.py": "a lock, empty",
    "self_test.py": "SQLite, read only",
    "status.py": "a lock, looked at",
    "tuning/program.py": "a lock, empty",
    "updater/unpacking.py": "a tree that is synced as a whole before it is named",
}


def test_only_known_modules_write_past_the_file_layer() -> None:
    assert {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py") if writes(path.read_text())} == set(KNOWN)


def writes(source: str) -> bool:
    """Whether there is a call that puts bytes in a file: folders, links and pipes aren't looked for."""
    return any(_is_write(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))


def _is_write(call: ast.Call) -> bool:
    what = ast.unparse(call.func)
    if what.endswith((".write_text", ".write_bytes")) or what in ("sqlite3.connect", "os.rename", "os.replace"):
        return True
    if what == "os.open":
        return any(flag in ast.unparse(call) for flag in ("O_CREAT", "O_WRONLY", "O_RDWR"))
    if what == "open" or what.endswith(".open"):
        modes = [one.value for one in ast.walk(call) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        return any(set(mode) <= set("rwxab+t") and set(mode) & set("wxa+") for mode in modes)
    return False
