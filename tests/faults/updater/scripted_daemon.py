"""A daemon of which only the answers to the updater are there, and those are written down beforehand."""

from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from shoal_agent.slots import SLOTS, HeldRelease, Slots
from shoal_wire.histogram import Sketch
from shoal_worker.channel import Channel, ChannelClosed, ChannelTimeout

from tests.faults.updater.publisher import MODEL

HEALTH_EVERY_S = 0.02


@dataclass
class ScriptedDaemon:
    """What the daemon will say, and what it heard. The release that it is unhappy with is `suspect`."""

    state: Path
    suspect: str = ""
    """Manifest digest; empty: all are well."""
    fails_golden: bool = False
    fails_to_serve: bool = False
    latency_ms: float = 50.0
    """Of the suspect; all others take 50."""
    check_unavailable: int = 0
    """Times that golden cases can't be run."""
    check_short: int = 0
    """Times that there is no memory for golden cases."""
    supersedes_at_check: bool = False
    content_keys: dict[str, str] = field(default_factory=dict)
    """That it opens, in base64."""
    is_reported: bool = True
    """Whether the fleet acknowledges the agent's reports."""
    heard: list[dict[str, object]] = field(default_factory=list)

    def serve(self, channel: Channel) -> None:
        """Until the updater ends."""
        try:
            channel.greet(role="daemon")
            while True:
                try:
                    message, _ = channel.receive(HEALTH_EVERY_S)
                except ChannelTimeout:
                    self._tell_health(channel)
                    continue
                self.heard.append(message)
                for reply in self._reply(message):
                    channel.send(reply)
        except ChannelClosed:
            channel.close()

    def events(self) -> list[tuple[object, object]]:
        """Name and detail of each."""
        return [(message["name"], message["detail"]) for message in self.heard if message["type"] == "event"]

    def _reply(self, message: dict[str, object]) -> list[dict[str, object]]:
        if message["type"] == "baseline":
            return [{"type": "baseline", "p95_ms": 50.0, "answers": 100}]
        if message["type"] == "check":
            held = msgspec.convert(message["release"], HeldRelease)
            return [self._check(held.reference.manifest_sha256)]
        if message["type"] == "switch":
            return [self._switch()]
        if message["type"] == "keys":
            return [{"type": "keys", "content_keys": self.content_keys}]
        if message["type"] == "agent":
            return [{"type": "agent_health", "is_reported": self.is_reported, "serving": [MODEL]}]
        return []

    def _check(self, manifest_sha256: str) -> dict[str, object]:
        if self.supersedes_at_check:
            return {"type": "superseded"}
        if self.check_unavailable:
            self.check_unavailable -= 1
            return {"type": "verdict", "passed": False, "reason": "the front was killed", "unavailable": True}
        if self.check_short:
            self.check_short -= 1
            reason = "needs 900 MB, 100 MB are available"
            return {"type": "verdict", "passed": False, "reason": reason, "unavailable": True, "is_short": True}
        passed = not (self.fails_golden and manifest_sha256 == self.suspect)
        reason = "" if passed else "case day: expected 1 car, found 7"
        return {"type": "verdict", "passed": passed, "reason": reason, "unavailable": False}

    def _switch(self) -> dict[str, object]:
        current = self._current()
        assert current is not None
        if self.fails_to_serve and current.reference.manifest_sha256 == self.suspect:
            return {"type": "serve_failed", "reason": "the engine refused the model"}
        return {"type": "serving", "reference": msgspec.to_builtins(current.reference)}

    def _tell_health(self, channel: Channel) -> None:
        current = self._current()
        if current is None:
            return
        sketch = Sketch()
        for _ in range(20):
            sketch.add(self.latency_ms if current.reference.manifest_sha256 == self.suspect else 50.0)
        channel.send(
            {
                "type": "health",
                "release": MODEL,
                "manifest_sha256": current.reference.manifest_sha256,
                "answers": 20,
                "errors": 0,
                "deaths": 0,
                "histogram": msgspec.to_builtins(sketch.histogram()),
                "serving": True,
            }
        )

    def _current(self) -> HeldRelease | None:
        path = self.state / SLOTS
        slots = msgspec.json.decode(path.read_bytes(), type=Slots) if path.exists() else Slots()
        return slots.slots[MODEL].current if MODEL in slots.slots else None
