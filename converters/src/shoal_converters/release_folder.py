"""How does a release get into a folder, whole or not at all?"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from shoal_wire.encoding import encode
from shoal_wire.manifest import ReleaseDraft

from shoal_converters.errors import BuildFailed


def write_release(draft: ReleaseDraft, contents: Mapping[str, bytes], *, folder: Path) -> None:
    """Write release.json and the draft's files beside `folder`, then move them there, replacing what is there.

    `contents` has the bytes of each file by its name, and may have more.

    Raises:
        BuildFailed: it can't be written.
    """
    fresh = folder.with_name(f".{folder.name}-{os.getpid()}")
    try:
        fresh.mkdir(parents=True)
        for file in draft.files:
            (fresh / file.path).write_bytes(contents[file.name])
        (fresh / "release.json").write_bytes(encode(draft))
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise BuildFailed(f"{folder}: {error}") from error
