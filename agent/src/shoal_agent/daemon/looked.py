"""Is there anything about a release on this board that tuning hasn't looked into yet?

A test that costs next to nothing, because the daemon can't load an engine to ask its version. It may say yes where a
verdict still holds: then the tuning child finds that verdict and ends. Warmth isn't in it, though verdicts are kept by
it: a board gets warm by serving, and would measure all day.
"""

import hashlib
import importlib.metadata
import logging
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from shoal_wire.encoding import Counter, ModelName, Seconds, Sha256, decode_struct, encode
from shoal_wire.errors import WireError
from shoal_wire.tuning import BoardKind, Objective

from shoal_agent.configuration import Configuration
from shoal_agent.engine_table import Candidate, present
from shoal_agent.files import Files
from shoal_agent.slots import HeldRelease
from shoal_agent.tuned import FOLDER, MAX_BYTES

LOOKED = "looked.json"
RETRY_S = (3600.0, 86_400.0)
"""First and longest pause after a tuning that found nothing, or during which the board went down."""
MAX_DOWNS = 5
"""Tunings of the same digest during which the board may go down. After that it is the tuning that takes it down."""
_PACKAGES = ("lib/python*/site-packages", "lib/python3/dist-packages", "local/lib/python*/dist-packages")
"""Where an interpreter has its packages, from the folder above its own: a virtual environment's; a Debian system's, of
apt and of pip."""

_LOG = logging.getLogger(__name__)


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What else a verdict is good for, beside the release."""

    board: BoardKind
    agent_version: str
    objective: Objective
    engines: dict[str, tuple[str, ...]]
    """By `<engine>.<format>`, what tells one installation from another."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """A tuning of a slot's release, written before it begins and when it has ended."""

    digest: Sha256
    at: Seconds
    attempts: Counter
    is_done: bool
    downs: Counter = 0
    """Attempts that nobody saw the end of: this one, and those during which the board or the daemon went down."""


class Looks(msgspec.Struct, frozen=True, kw_only=True):
    """Content of `tuning/looked.json`."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    slots: dict[ModelName, Look] = {}


def read_circumstances(configuration: Configuration, *, board: BoardKind, agent_version: str) -> Circumstances:
    """What holds at this moment. Nothing is imported and no program started."""
    here = present(interpreters=configuration.interpreters, allowed=configuration.engines)
    return Circumstances(
        board=board,
        agent_version=agent_version,
        objective=configuration.tuning.objective,
        engines={f"{one.engine}.{one.model_format}": _installation(one, configuration) for one in here},
    )


def digest_of(held: HeldRelease, circumstances: Circumstances) -> str:
    """Equal as long as nothing that can be seen from here has changed."""
    files = sorted(grant.ciphertext_sha256 for grant in held.grants)
    return hashlib.sha256(
        encode(circumstances) + "".join([held.reference.manifest_sha256, *files]).encode()
    ).hexdigest()


def is_due(look: Look | None, *, digest: str, now: float, up_s: float) -> bool:
    """Whether to tune. `now` is the clock's time, `up_s` what has gone by since the daemon started.

    A clock that is behind the last attempt says nothing: boards without a battery for it start in the past each time.
    Then the pause is counted from the daemon's start.
    """
    if look is None or look.digest != digest:
        return True
    first_s, most_s = RETRY_S
    pause_s = min(most_s, first_s * 2.0 ** min(32, max(0, look.attempts - 1)))
    waited_s = now - look.at if now >= look.at else up_s
    return not look.is_done and not is_given_up(look, digest=digest) and waited_s >= pause_s


def is_given_up(look: Look | None, *, digest: str) -> bool:
    """Whether the board went down so often while this was tuned that it isn't tried again until something changes."""
    return look is not None and look.digest == digest and not look.is_done and look.downs >= MAX_DOWNS


def begin(look: Look | None, *, digest: str, now: float) -> Look:
    """What to write before a tuning. It counts as failed until it has ended: it may bring the board down."""
    attempts, downs = (look.attempts, look.downs) if look and look.digest == digest and not look.is_done else (0, 0)
    return Look(digest=digest, at=now, attempts=attempts + 1, is_done=False, downs=downs + 1)


def end(begun: Look, *, is_done: bool) -> Look:
    """What to write when a tuning has ended, well or not, and the board is still there."""
    return msgspec.structs.replace(begun, is_done=is_done, downs=begun.downs - 1)


def load_looks(files: Files, state: Path) -> Looks:
    """What was looked into; nothing where that can't be read."""
    try:
        return decode_struct(files.read(state / FOLDER / LOOKED), Looks, what=LOOKED, limit_bytes=MAX_BYTES)
    except FileNotFoundError:
        return Looks()
    except (WireError, OSError) as error:
        _LOG.error("what was tuned can't be read: %s; everything is tuned anew", error)
        return Looks()


def keep_looks(files: Files, state: Path, looks: Looks) -> None:
    """Put it on the disk. Raises OSError."""
    files.write(state / FOLDER / LOOKED, encode(looks))


def _installation(candidate: Candidate, configuration: Configuration) -> tuple[str, ...]:
    """Version of the engine's package; where that has another name, or another interpreter, the place and its age."""
    interpreter = configuration.interpreters.get(candidate.engine)
    if interpreter is not None:
        return interpreter, _age(Path(interpreter)), *_package_ages(Path(interpreter))
    module = candidate.module.partition(".")[0]
    try:
        return (importlib.metadata.version(module.replace("_", "-")),)
    except importlib.metadata.PackageNotFoundError:
        spec = find_spec(module)
        return (spec.origin, _age(Path(spec.origin))) if spec and spec.origin else ("",)


def _package_ages(interpreter: Path) -> tuple[str, ...]:
    """Of the folders with its packages, which change whenever one is installed, upgraded or removed.

    The interpreter of a virtual environment is a link to one elsewhere: its own name says where the packages are.
    """
    home = interpreter.parent.parent
    return tuple(_age(folder) for pattern in _PACKAGES for folder in sorted(home.glob(pattern)))


def _age(path: Path) -> str:
    try:
        return str(path.stat().st_mtime_ns)
    except OSError:
        return ""
