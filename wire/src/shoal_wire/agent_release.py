"""What does a release of the agent itself promise, beside what every release does?

Its manifest has the part `agent` instead of models, and names that part as critical: an agent that is older than such
releases refuses it with words. Each tree is a sealed file like any other: a tar of plain files, compressed by xz,
whose first member `tree.json` lists all the others.
"""

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal_wire.encoding import Bytes, Identifier, Sha256, Version, decode_struct
from shoal_wire.errors import Malformed

AGENT_RELEASE = "shoal-agent"
"""Name of every release of the agent; no model has it."""

CONTENTS = "tree.json"
"""First member of a tree's archive, and a file of the tree afterwards."""
MAX_CONTENTS_BYTES = 16 << 20
MAX_FILES = 50_000
MAX_PATH = 400

AgentVersion = Annotated[str, Meta(pattern=r"^[0-9]{1,6}(\.[0-9]{1,6}){0,3}\Z")]
PythonVersion = Annotated[str, Meta(pattern=r"^3\.[0-9]{1,3}\Z")]
StateFormat = Annotated[int, Meta(ge=1, le=2**15)]

_PATH = re.compile(r"[^\0/]+(/[^\0/]+)*")


class AgentTree(msgspec.Struct, frozen=True, kw_only=True):
    """The agent with all that it needs, for one machine and one Python."""

    machine: Identifier
    """As `uname -m` prints it."""
    python: PythonVersion
    """Its extension modules are of this Python and of no other."""
    file: Identifier
    """Sealed file of role "agent"."""
    unpacked_bytes: Bytes


class AgentPart(msgspec.Struct, frozen=True, kw_only=True):
    """What a release of the agent has instead of models."""

    version: AgentVersion
    """What the agent will say that it is. The release's own version counts releases."""
    floor: Version = 1
    """Lowest release of the agent that the fleet may still assign: what lies below is revoked."""
    oldest_state: StateFormat
    """Oldest format of the state folder that it runs on without changing it: it may have to be gone back from."""
    newest_state: StateFormat
    """The format that it writes once it was committed."""
    trees: Annotated[tuple[AgentTree, ...], Meta(min_length=1, max_length=64)]

    def tree_for(self, *, machine: str, python: str) -> AgentTree | None:
        """The tree that runs there; None where the release has none."""
        return next((tree for tree in self.trees if (tree.machine, tree.python) == (machine, python)), None)


class TreeFile(msgspec.Struct, frozen=True):
    """One file of a tree."""

    size_bytes: Bytes
    sha256: Sha256


class TreeContents(msgspec.Struct, frozen=True, kw_only=True):
    """Content of `tree.json`: which files a tree has, all of them."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    version: AgentVersion
    machine: Identifier
    python: PythonVersion
    files: Annotated[dict[str, TreeFile], Meta(min_length=1, max_length=MAX_FILES)]
    """By path, in the tree, with `/` between its parts."""


def parse_contents(raw: bytes) -> TreeContents:
    """Parse a `tree.json`.

    Raises:
        Malformed: it isn't one, or names a path that leads out of the tree.
    """
    contents = decode_struct(raw, TreeContents, what=CONTENTS, limit_bytes=MAX_CONTENTS_BYTES)
    for path in contents.files:
        check_path(path)
    return contents


def check_path(path: str) -> None:
    """Make sure that a file of that path lies in its tree.

    Raises:
        Malformed: it is absolute, empty, too long, or has a part that is `.` or `..`.
    """
    if len(path) > MAX_PATH or not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
        raise Malformed(f"{CONTENTS}: {path[:80]!r} is no path of a file within the tree")


def version_order(version: str) -> tuple[int, ...]:
    """Which of two versions of the agent is the newer; 1.2 and 1.2.0 are the same.

    Raises:
        Malformed: no version.
    """
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6}){0,3}", version):
        raise Malformed(f"{version[:80]!r} is no version of the agent, expected numbers with dots")
    numbers = tuple(map(int, version.split(".")))
    return (*numbers, 0, 0, 0)[:4]
