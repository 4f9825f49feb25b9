"""How do trees of the agent become a release folder? `shoal release agent`.

A tree is what `packaging/tree.py` makes, of which the plain files are packed: what leads to an interpreter is made on
the board. The same trees give the same archives. The folder is then released as any other: `shoal release create`.
"""

import argparse
import hashlib
import io
import lzma
import re
import tarfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from shoal_wire.agent_release import (
    AGENT_RELEASE,
    CONTENTS,
    AgentPart,
    AgentTree,
    TreeContents,
    TreeFile,
    check_path,
    version_order,
)
from shoal_wire.encoding import encode
from shoal_wire.errors import Malformed
from shoal_wire.manifest import DraftFile, ReleaseDraft

from shoal_fleet.command.errors import UsageError
from shoal_fleet.command.output import print_result
from shoal_fleet.command.parsers import add_command
from shoal_fleet.command.sealing import DRAFT

PACKED = ("site-packages", "licences")
STATE_FORMATS = re.compile(r"(\d{1,5})-(\d{1,5})")
_EXTENSION = re.compile(r"\.cpython-3(\d{1,3})-(x86_64|aarch64)-linux-gnu\.so$")
_VERSION = re.compile(r"shoal_agent-(.+)\.dist-info$")
_ROLE = "agent"


class Source(NamedTuple):
    """A tree, and what its files say that it is for."""

    folder: Path
    version: str
    machine: str
    python: str

    @property
    def file(self) -> str:
        """Name of its archive in the release."""
        return f"agent-{self.machine}-{self.python}"


def add_parser(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal release agent`."""
    agent = add_command(
        actions,
        "agent",
        summary="make a release folder of the agent itself",
        description="Pack trees of the agent, one for each machine and Python, into a release folder. Boards on which\n"
        "the agent's package is installed take it as they take models: by signature, in rollouts, on trial.",
        example="shoal release agent trees/x86_64-3.11 trees/aarch64-3.11 --version 3 --out build/agent-3",
        run=_pack,
    )
    agent.add_argument("trees", type=Path, nargs="+", metavar="TREE", help="folder that packaging/tree.py made")
    agent.add_argument("--version", type=int, required=True, help="of the release: a whole number above the last")
    agent.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="release folder, which is made")
    agent.add_argument("--floor", type=int, default=1, help="lowest release that boards may still go to (1)")
    agent.add_argument(
        "--state-formats",
        default="1-1",
        metavar="OLDEST-NEWEST",
        help="formats of a board's state folder that this agent reads (1-1)",
    )


def _pack(arguments: argparse.Namespace) -> None:
    formats = STATE_FORMATS.fullmatch(arguments.state_formats)
    if formats is None:
        raise UsageError(f"--state-formats {arguments.state_formats}: expected two numbers, as 1-1")
    sources = read_sources(arguments.trees)
    out: Path = arguments.out
    try:
        out.mkdir(parents=True)
    except FileExistsError:
        raise UsageError(f"{out} is there already: name a folder that isn't") from None
    trees = tuple(pack(source, out / f"{source.file}.tar.xz") for source in sources)
    agent = AgentPart(
        version=sources[0].version,
        floor=arguments.floor,
        oldest_state=int(formats[1]),
        newest_state=int(formats[2]),
        trees=trees,
    )
    draft = ReleaseDraft(
        critical=("agent",),
        name=AGENT_RELEASE,
        version=arguments.version,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        licence="Apache-2.0",
        provenance=f"shoal-agent {agent.version} with the packages that its archives list in licences/packages.json",
        agent=agent,
        files=tuple(DraftFile(source.file, _ROLE, f"{source.file}.tar.xz") for source in sources),
    )
    (out / DRAFT).write_bytes(encode(draft))
    result = {"name": draft.name, "version": draft.version, "agent": agent.version, "folder": str(out)}
    made = ", ".join(f"{source.machine} with Python {source.python}" for source in sources)
    print_result(result, as_json=arguments.json, text=f"{out}: agent {agent.version} for {made}")


def read_sources(folders: Sequence[Path]) -> list[Source]:
    """What each tree is for, by its compiled modules and its agent's version.

    Raises:
        UsageError: one is no tree, of another version than the others, or for the same board as another.
    """
    sources = sorted((_read_source(folder) for folder in folders), key=lambda source: source.file)
    for name, values in (
        ("version", {source.version for source in sources}),
        ("for", {source.file for source in sources}),
    ):
        if name == "version" and len(values) > 1:
            raise UsageError(f"trees of several versions of the agent: {', '.join(sorted(values))}")
        if name == "for" and len(values) < len(sources):
            raise UsageError(f"two trees for one machine and Python: {', '.join(str(one.folder) for one in sources)}")
    return sources


def pack(source: Source, path: Path) -> AgentTree:
    """Write the archive of a tree; what its manifest says of it."""
    names = sorted(_files_of(source.folder))
    listed = {name: _describe(source.folder / name) for name in names}
    contents = TreeContents(version=source.version, machine=source.machine, python=source.python, files=listed)
    with lzma.open(path, "wb", format=lzma.FORMAT_XZ, preset=6) as compressed:
        with tarfile.open(fileobj=compressed, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            raw = encode(contents)
            archive.addfile(_member(CONTENTS, len(raw)), io.BytesIO(raw))
            for name in names:
                with (source.folder / name).open("rb") as file:
                    archive.addfile(_member(name, listed[name].size_bytes), file)
        unpacked_bytes = compressed.tell()
    return AgentTree(machine=source.machine, python=source.python, file=source.file, unpacked_bytes=unpacked_bytes)


def _read_source(folder: Path) -> Source:
    packages = folder / "site-packages"
    versions = [match[1] for path in packages.glob("shoal_agent-*.dist-info") if (match := _VERSION.search(path.name))]
    made = {(match[2], f"3.{match[1]}") for path in packages.rglob("*.so") if (match := _EXTENSION.search(path.name))}
    if len(versions) != 1 or len(made) != 1:
        raise UsageError(
            f"{folder}: expected a tree of the agent as packaging/tree.py makes it, found {len(versions)} agents, "
            f"compiled for {sorted(made) or 'nothing'}"
        )
    ((machine, python),) = made
    try:
        version_order(versions[0])
    except Malformed as error:
        raise UsageError(f"{folder}: {error}") from None
    return Source(folder, versions[0], machine, python)


def _files_of(folder: Path) -> Iterator[str]:
    for part in PACKED:
        for path in (folder / part).rglob("*"):
            name = path.relative_to(folder).as_posix()
            if path.is_symlink():
                raise UsageError(f"{path} is a link: a tree holds plain files only")
            if path.is_file():
                check_path(name)
                yield name


def _describe(path: Path) -> TreeFile:
    with path.open("rb") as file:
        return TreeFile(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def _member(name: str, size_bytes: int) -> tarfile.TarInfo:
    """Nothing but name and size: times and owners differ where the files are the same."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = size_bytes, 0o644
    return member
