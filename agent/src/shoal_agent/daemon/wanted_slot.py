"""What should serve in a slot, what does, and what stands in for it?

slots.json is the updater's to write, and it says what should serve: `wanted`. When that can't serve, because every
engine's workers died of it or because it can't be loaded and nothing else serves, the previous release stands in: the
report then names another release under `serving` than under `current`. What is wanted is tried again, after pauses that
grow; in probation the updater sees that it doesn't serve, and falls back.
"""

import asyncio

from shoal_wire.encoding import ModelName

from shoal_agent.daemon.backoff import Backoff
from shoal_agent.front_messages import Health, Serving
from shoal_agent.slots import HeldRelease
from shoal_agent.tuned import ServingChoice

RETRY_S = (5.0, 300.0)
"""First and longest pause after a release couldn't be loaded: memory was short, or an interpreter was missing."""
REVIVE_S = (900.0, 86_400.0)
"""After workers died of it in every engine."""


class WantedSlot:
    """One model's place in the front, as the daemon sees it."""

    def __init__(self) -> None:
        self.wanted: HeldRelease | None = None
        self.previous: HeldRelease | None = None
        self.serving: Serving | None = None
        self.health: Health | None = None
        self.tuned: dict[ModelName, ServingChoice] = {}
        """By which choices of tuning the front was last asked to load what is to serve."""
        self.is_loading = False
        self.failure = ""
        """Why what is wanted can't serve; empty as long as it may."""
        self.deaths = 0
        """What speaks against `wanted` since it is wanted: deaths of fronts, and of workers unless of a known item."""
        self.deaths_in_load = 0
        self.retry = Backoff(first_s=RETRY_S[0], most_s=RETRY_S[1])
        self.revive = Backoff(first_s=REVIVE_S[0], most_s=REVIVE_S[1])
        self._waiters: list[asyncio.Future[str | None]] = []

    @property
    def digest(self) -> str | None:
        """Of the wanted release's manifest."""
        return self.wanted.reference.manifest_sha256 if self.wanted else None

    @property
    def held(self) -> tuple[HeldRelease, ...]:
        """What slots.json names."""
        return tuple(held for held in (self.wanted, self.previous) if held)

    @property
    def target(self) -> HeldRelease | None:
        """What the front is to load now."""
        return self.previous if self.failure and self.previous else self.wanted

    @property
    def serving_digest(self) -> str | None:
        """Of the manifest of what serves."""
        return self.serving.reference.manifest_sha256 if self.serving else None

    @property
    def is_serving(self) -> bool:
        """Whether the front serves what is wanted."""
        return self.serving_digest == self.digest

    def want(self, wanted: HeldRelease | None, *, previous: HeldRelease | None) -> bool:
        """slots.json says so; whether that is news."""
        self.previous = previous
        if (wanted.reference.manifest_sha256 if wanted else None) == self.digest:
            return False
        self.wanted, self.failure, self.is_loading = wanted, "", False
        self.deaths = self.deaths_in_load = 0
        self.retry.reset()
        self.revive.reset()
        return True

    def note_serving(self, message: Serving) -> None:
        """The front serves this now."""
        self.serving = message
        if self.is_serving:
            self.is_loading, self.failure, self.deaths_in_load = False, "", 0
            self.retry.reset()
            self.answer(None)
        elif self.target and message.reference == self.target.reference:
            self.is_loading = False

    def note_front_end(self) -> bool:
        """The front is gone, and all that it served and counted; whether it ended over a load."""
        self.serving = self.health = None
        was_loading, self.is_loading = self.is_loading, False
        if self.wanted is None:
            self.answer(None)
            return False
        self.deaths += 1
        self.deaths_in_load += was_loading
        return was_loading

    def wait(self) -> asyncio.Future[str | None]:
        """Done when what is wanted serves (None), or can't (why)."""
        waiter: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    def answer(self, failure: str | None) -> None:
        """Tell those who wait how it went."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(failure)
