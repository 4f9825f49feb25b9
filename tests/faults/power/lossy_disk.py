"""What may a disk hold after power went, given what a program asked of the operating system until then?

A program runs on a real folder, which is looked at after each of its calls. From that follows what POSIX promises, and
no more: a file's bytes are there once the file was synced, a name (made, moved, removed) once its folder was. Anything
else may have reached the disk or not, each by itself, and bytes that weren't synced may be torn.
"""

import contextlib
import itertools
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

Content = bytes | str | None
"""Of a name: a file's bytes, where a link leads, None for a folder."""
Tree = dict[str, Content]
Names = dict[str, int]
"""Of one folder: which inode has the name."""

CHANGING = ("write", "ftruncate", "replace", "rename", "unlink", "mkdir", "rmdir", "symlink", "fsync", "open")


class LossyDisk:
    """What is on the disk for certain, and what may be."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root = folder.stat().st_ino
        self._held: dict[int, int] = {}
        self._now: dict[int, Content | Names] = {}
        self._look()
        self._synced = {node: dict(it) if isinstance(it, dict) else it for node, it in self._now.items()}
        self._pending: list[tuple[int, dict[str, int | None]]] = []

    def close(self) -> None:
        """Let inodes be used again: while held, none gets the number of one that is gone."""
        for descriptor in self._held.values():
            os.close(descriptor)

    def note(self) -> None:
        """See which names have come and gone since."""
        before = {node: dict(it) for node, it in self._now.items() if isinstance(it, dict)}
        self._look()
        for node, it in self._now.items():
            if isinstance(it, dict):
                old = before.get(node, {})
                changed = {name: it.get(name) for name in old.keys() | it.keys() if old.get(name) != it.get(name)}
                if changed:
                    self._pending.append((node, changed))

    def sync(self, node: int) -> None:
        """What fsync of that inode promises."""
        if isinstance(self._now.get(node), dict):
            self._synced[node] = dict(self._now[node])  # type: ignore[arg-type]
            self._pending = [one for one in self._pending if one[0] != node]
        elif node in self._now:
            self._synced[node] = self._now[node]

    def states(self, *, most: int, seed: int) -> Iterator[Tree]:
        """What may be found: all of it, or that many drawn with the seed where there is more."""
        torn = [node for node, it in self._now.items() if isinstance(it, bytes) and self._synced.get(node) != it]
        choices = [(False, True)] * len(self._pending) + [tuple(sorted(self._tear(node))) for node in torn]
        size = 1
        for one in choices:
            size *= len(one)
        drawn = random.Random(seed)
        picks = (
            itertools.product(*choices) if size <= most else ([drawn.choice(c) for c in choices] for _ in range(most))
        )
        for pick in picks:
            folders = {node: dict(it) for node, it in self._synced.items() if isinstance(it, dict)}
            for (folder, changed), is_there in zip(self._pending, pick, strict=False):
                if is_there:
                    names = {**folders.get(folder, {}), **changed}
                    folders[folder] = {name: node for name, node in names.items() if node is not None}
            contents = {
                node: it for node, it in zip(torn, pick[len(self._pending) :], strict=True) if isinstance(it, bytes)
            }
            yield dict(self._walk(self._root, "", folders, contents))

    def _tear(self, node: int) -> set[bytes]:
        new, old = self._now[node], self._synced.get(node, b"")
        assert isinstance(new, bytes)
        assert isinstance(old, bytes)
        kept = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
        rest = len(new) - kept
        half = new[: kept + rest // 2]
        return {old, new, half, new[:kept], new[:kept] + bytes(rest), new[:kept] + bytes(rest // 2) + new[len(half) :]}

    def _walk(
        self, folder: int, at: str, folders: dict[int, Names], contents: dict[int, bytes]
    ) -> Iterator[tuple[str, Content]]:
        for name, node in folders.get(folder, {}).items():
            it = contents.get(node, self._now[node])
            yield at + name, None if isinstance(it, dict) else it
            if isinstance(it, dict):
                yield from self._walk(node, f"{at}{name}/", folders, contents)

    def _look(self) -> None:
        for it in self._now.values():
            if isinstance(it, dict):
                it.clear()  # a folder that is gone holds nothing
        self._look_at(self._folder, self._root)

    def _look_at(self, path: Path, node: int) -> None:
        if node not in self._held:
            self._held[node] = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        if path.is_symlink():
            self._now[node] = os.readlink(path)
        elif path.is_dir():
            names = {entry.name: entry.lstat().st_ino for entry in path.iterdir()}
            self._now[node] = names
            for name, inner in names.items():
                self._look_at(path / name, inner)
        else:
            self._now[node] = path.read_bytes()


@contextlib.contextmanager
def recording(disk: LossyDisk, cut: Callable[[], None]) -> Iterator[None]:
    """Have the disk see each call of `os` that changes something, and `cut` called after it."""
    is_inside = False

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal is_inside
            result = real(*arguments, **options)
            if not is_inside:
                is_inside = True
                try:
                    disk.note()
                    if name == "fsync":
                        disk.sync(os.fstat(arguments[0]).st_ino)
                    cut()
                finally:
                    is_inside = False
            return result

        return call

    with contextlib.ExitStack() as stack:
        for name in CHANGING:
            stack.enter_context(mock.patch.object(os, name, wrap(name, getattr(os, name))))
        yield
