"""What is a plan good for, and when is a kept one good enough?

A plan takes minutes to build and is good for one model on one GPU, in one version of the engine and one release of the
board's software. It holds the model's weights: in here it is bytes in memory, and whoever implements `PlanStore` seals
them before they touch a disk.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from shoal_worker.errors import ModelRefused

JETSON_RELEASE = Path("/etc/nv_tegra_release")
"""First line of this file: the release of Jetson Linux, which a release of JetPack is made of."""
MAX_RELEASE_CHARACTERS = 200

_Proof = TypeVar("_Proof")


@dataclass(frozen=True, kw_only=True)
class PlanKey:
    """All that a plan is good for. A plan under another key is never loaded."""

    model_sha256: str
    """Of the plaintext of the model's file."""
    precision: str
    engine: str
    engine_version: str
    device: str
    """Name and compute capability of the GPU, as the engine lists it."""
    board_release: str
    """Of the board's software; empty where it has none of its own."""

    @property
    def name(self) -> str:
        """A name for the plan that no other key has; model, precision, then SHA-256 in hex of the whole key.

        Of two keys with the same model and precision one has gone out of date: a board has one GPU and one release.
        """
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
        return f"{self.model_sha256}-{self.precision}-{digest}"


class PlanStore(Protocol):
    """Keeps plans over restarts, sealed."""

    def read(self, name: str) -> bytes | None:
        """The plan of that name; None where there is none, or it can't be opened any more."""

    def write(self, name: str, plan: bytes) -> None:
        """Keep a plan, in place of those that have gone out of date (see `PlanKey.name`)."""

    def remove(self, name: str) -> None:
        """Forget a plan, if it is there."""


def read_board_release(path: Path = JETSON_RELEASE) -> str:
    """The release of the board's software, as its maker writes it; empty where there is no such file."""
    try:
        return path.read_text(errors="replace").partition("\n")[0][:MAX_RELEASE_CHARACTERS]
    except OSError:
        return ""


def find_or_build(
    key: PlanKey, *, store: PlanStore, build: Callable[[], bytes], prove: Callable[[bytes], _Proof]
) -> tuple[bytes, _Proof]:
    """The plan that is good for this board, kept or built now, and what `prove` says of it.

    A kept plan is proven like a new one: the cases belong to the release, which may have changed. One that the engine
    doesn't take (ModelRefused from `prove`) is removed and built anew. One that answers wrongly stays kept, or it would
    be built again at each start.

    Raises:
        WorkerError: no plan can be built, or it can't be loaded.
        OSError: it can't be kept.
    """
    plan = store.read(key.name)
    if plan is not None:
        try:
            return plan, prove(plan)
        except ModelRefused:
            store.remove(key.name)
    plan = build()
    store.write(key.name, plan)
    return plan, prove(plan)
