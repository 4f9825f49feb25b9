"""Archives of trees for tests, made with nothing of the agent."""

import hashlib
import io
import json
import lzma
import tarfile
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace
from shoal_wire.agent_release import AgentTree

FILES: dict[str, bytes] = {
    "site-packages/shoal_agent/__init__.py": b"",
    "site-packages/shoal_agent/cli.py": b"print('started')\n" * 900,
    "licences/packages.json": b"[]",
}


def listing(files: Mapping[str, bytes], **changes: Any) -> bytes:
    """A tree.json."""
    listed = {
        name: {"size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()
    }
    return json.dumps(
        {"format": 1, "version": "0.2.0", "machine": "x86_64", "python": "3.11", "files": listed} | changes
    ).encode()


def tar(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """Not yet compressed."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for member, data in members:
            archive.addfile(member, io.BytesIO(data))
    return made.getvalue()


def member(name: str, data: bytes = b"", **changes: Any) -> tuple[tarfile.TarInfo, bytes]:
    """A file of an archive."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in changes.items():
        setattr(info, key, value)
    return info, data


def archive(files: Mapping[str, bytes] = FILES, *, contents: bytes | None = None) -> bytes:
    """As `shoal release agent` makes one."""
    members = [member("tree.json", listing(files) if contents is None else contents)]
    return lzma.compress(tar(members + [member(name, data) for name, data in files.items()]))


def described(packed: bytes, **changes: Any) -> AgentTree:
    """What its manifest says of it."""
    size_bytes = len(lzma.decompress(packed))
    tree = AgentTree(machine="x86_64", python="3.11", file="agent", unpacked_bytes=size_bytes)
    return replace(tree, **changes)
