"""Where do plans lie in tests?"""

from collections.abc import Mapping


class PlanStoreInMemory:
    """A PlanStore that forgets at its end. A real one seals."""

    def __init__(self, plans: Mapping[str, bytes] | None = None) -> None:
        self.plans = dict(plans or {})

    def read(self, name: str) -> bytes | None:
        return self.plans.get(name)

    def write(self, name: str, plan: bytes) -> None:
        self.plans[name] = plan

    def remove(self, name: str) -> None:
        self.plans.pop(name, None)
