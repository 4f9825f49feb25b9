"""When does a model run as a plan that was built for this very board?

A plan takes minutes to build and is good for one GPU, one version of the engine and one release of the board's
software. Until it is there, the model runs in the engine that it came for. A plan holds the model's weights: in here it
is bytes in memory, and whoever implements `PlanStore` seals them before they touch a disk.
"""

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from shoal_worker.errors import WorkerError

JETSON_RELEASE = Path("/etc/nv_tegra_release")
"""First line of this file: the release of Jetson Linux, which a release of JetPack is made of."""
MAX_RELEASE_CHARACTERS = 200


@dataclass(frozen=True, kw_only=True)
class PlanKey:
    """All that a plan is good for. A plan under another key is never loaded."""

    model_sha256: str
    precision: str
    engine: str
    engine_version: str
    device: str
    """Name and compute capability of the GPU, as the engine lists it."""
    board_release: str
    """Of the board's software; empty where it has none of its own."""

    @property
    def name(self) -> str:
        """A name for the plan that no other key has: SHA-256 in hex."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


class PlanStore(Protocol):
    """Keeps plans over restarts, sealed."""

    def read(self, name: str) -> bytes | None:
        """The plan of that name; None where there is none, or it can't be opened any more."""

    def write(self, name: str, plan: bytes) -> None:
        """Keep a plan, in place of one of the same name."""

    def remove(self, name: str) -> None:
        """Forget a plan, if it is there."""


def read_board_release(path: Path = JETSON_RELEASE) -> str:
    """The release of the board's software, as its maker writes it; empty where there is no such file."""
    try:
        return path.read_text(errors="replace").partition("\n")[0][:MAX_RELEASE_CHARACTERS]
    except OSError:
        return ""


class PlanBuild:
    """A plan in the making, in the background. `outcome` is None for as long as it is."""

    def __init__(self, key: PlanKey, *, store: PlanStore, build: Callable[[], bytes | None]) -> None:
        """Start to build. `build` runs in a thread of its own, best in a niced worker; its plan goes to the store."""
        self._key = key
        self._store = store
        self._build = build
        self.outcome: bytes | WorkerError | None = None
        self._thread = threading.Thread(target=self._run, name="plan", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Whether the build has ended, at the latest after `timeout_s`."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            plan = self._build()
        except WorkerError as error:
            self.outcome = error
            return
        if plan is None:
            self.outcome = WorkerError(f"engine {self._key.engine} gave no plan back")
            return
        self._store.write(self._key.name, plan)
        self.outcome = plan


def find_or_build(
    key: PlanKey, *, store: PlanStore, build: Callable[[], bytes | None], takes: Callable[[bytes], bool]
) -> bytes | PlanBuild:
    """The plan that is good for this board, or the build of one that has been started.

    `takes` loads a kept plan on trial: one that the engine refuses is removed and built anew.
    """
    plan = store.read(key.name)
    if plan is not None and takes(plan):
        return plan
    if plan is not None:
        store.remove(key.name)
    return PlanBuild(key, store=store, build=build)
