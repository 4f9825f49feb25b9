"""A front that speaks the real channel, but whose answers are made up: one for each file of its source's folder.

An item is removed once its answer is stored, as in a real source. `--behaviour` makes it fail: `refuse` says no to
golden cases, `untuned` passes them without a choice of tuning only, `load-fails` says no to loading version 2,
`load-anew-fails` to loading what serves by another choice, `dies-of-choice` ends it over a load by one; once after the
third answer, `dies` ends it and `babbles` has it send a message of a wrong type. `poisoned` tells of two workers that
died of one item, then ends. `crash-loops` stops version 2 after its eighth answer, for want of an engine.
"""

import argparse
import hashlib
import os
import sys
from pathlib import Path

import msgspec
from shoal_wire.histogram import Sketch
from shoal_wire.messages import Answer, ReleaseReference
from shoal_worker.channel import Channel, ChannelClosed, ChannelTimeout
from shoal_worker.process import die_with_parent

POISON = "abcd" * 16


class FakeFront:
    def __init__(self, channel: Channel, *, behaviour: str, mark: Path) -> None:
        self.channel = channel
        self.behaviour = behaviour
        self.mark = mark
        self.sources: list[dict[str, str]] = []
        self.serving: dict[str, ReleaseReference] = {}
        self.counts: dict[str, tuple[int, Sketch]] = {}
        self.asked: dict[str, Path] = {}
        self.answered = 0

    def run(self) -> None:
        self.channel.greet(role="front")
        while True:
            try:
                message, _ = self.channel.receive(0.05)
            except ChannelTimeout:
                self.answer_items()
                self.report_health()
                continue
            getattr(self, f"on_{message['type']}")(message)

    def on_configure(self, message: dict) -> None:  # type: ignore[type-arg]
        assert message["device"] and message["threads"] >= 0
        if self.behaviour == "poisoned":
            assert message["suspects"] == ({POISON: 2} if self.mark.exists() and "--check" not in sys.argv else {})
        self.sources = message["sources"]

    def on_load(self, message: dict) -> None:  # type: ignore[type-arg]
        reference = message["held"]["reference"]
        if self.behaviour == "load-fails" and reference["version"] == 2:
            self.channel.send({"type": "load_failed", "slot": message["slot"], "reference": reference, "reason": "no"})
            return
        tuned = message["tuned"].get(message["slot"])
        if self.behaviour == "dies-of-choice" and tuned:
            os.abort()
        serves = self.serving.get(message["slot"]) == msgspec.convert(reference, ReleaseReference)
        if self.behaviour == "load-anew-fails" and serves:
            self.channel.send({"type": "load_failed", "slot": message["slot"], "reference": reference, "reason": "no"})
            return
        keys = sorted(message["content_keys"].values())
        assert keys, "a release without content keys"
        self.serving[message["slot"]] = msgspec.convert(reference, ReleaseReference)
        self.counts.setdefault(reference["manifest_sha256"], (0, Sketch()))
        self.channel.send(
            {
                "type": "serving",
                "slot": message["slot"],
                "reference": reference,
                "variant": message["held"]["variant"],
                "engine": tuned["candidate"]["engine"] if tuned else "fake",
                "engine_version": "1",
                "placement": ["cpu"],
                "load_ms": 1.0,
            }
        )

    def on_unload(self, message: dict) -> None:  # type: ignore[type-arg]
        serving = self.serving.get(message["slot"])
        if serving and serving.manifest_sha256 not in message["keep"]:
            del self.serving[message["slot"]]

    def on_check(self, message: dict) -> None:  # type: ignore[type-arg]
        passed = self.behaviour != "refuse"
        is_untuned = self.behaviour == "untuned" and bool(message["tuned"])
        verdict = {"type": "verdict", "passed": passed, "reason": "one case", "cases": [], "is_untuned": is_untuned}
        self.channel.send(verdict)
        sys.exit(0)

    def on_stored(self, message: dict) -> None:  # type: ignore[type-arg]
        for answer_id in message["answer_ids"]:
            self.asked.pop(answer_id).unlink()

    def answer_items(self) -> None:
        for source in self.sources:
            serving = self.serving.get(source["release"])
            for path in sorted(Path(source["path"]).iterdir()) if serving else ():
                if path not in self.asked.values():
                    self.answer(path, source["name"], serving)

    def answer(self, path: Path, source: str, serving: ReleaseReference | None) -> None:
        assert serving is not None
        answers, sketch = self.counts[serving.manifest_sha256]
        sketch.add(10.0)
        self.counts[serving.manifest_sha256] = (answers + 1, sketch)
        answer = Answer(
            answer_id=hashlib.sha256(path.name.encode()).hexdigest(),
            at=1.0,
            source=source,
            item=path.name,
            reference=serving,
            latency_ms=10.0,
            answer={"size": path.stat().st_size},
        )
        self.asked[answer.answer_id] = path
        self.channel.send({"type": "answers", "items": [msgspec.to_builtins(answer)]})
        self.answered += 1
        if self.answered >= 3:
            self.misbehave_once()

    def misbehave_once(self) -> None:
        version = max((serving.version for serving in self.serving.values()), default=0)
        if self.behaviour == "crash-loops" and version == 2 and self.answered_by_second() >= 8:
            slot, serving = self.serving.popitem()
            stopped = {"type": "stopped", "slot": slot, "reason": "fake: its workers died"}
            self.channel.send({**stopped, "reference": msgspec.to_builtins(serving)})
        if self.behaviour in ("dies", "babbles", "poisoned") and not self.mark.exists():
            self.mark.touch()
            if self.behaviour == "poisoned":
                for _ in range(2):
                    self.tell_of_death()
                os.abort()
            if self.behaviour == "dies":
                os.abort()
            self.channel.send({"type": "answers", "items": "many"})

    def answered_by_second(self) -> int:
        return self.counts[next(iter(self.serving.values())).manifest_sha256][0]

    def tell_of_death(self) -> None:
        slot, serving = next(iter(self.serving.items()))
        died: dict[str, object] = {"type": "worker_died", "slot": slot, "reference": msgspec.to_builtins(serving)}
        died |= {"engine": "fake", "engine_version": "1", "reason": "was killed by signal 11", "exit_code": -11}
        self.channel.send({**died, "peak_bytes": 1_000_000, "item_sha256": POISON})

    def report_health(self) -> None:
        for slot, serving in self.serving.items():
            answers, sketch = self.counts[serving.manifest_sha256]
            self.channel.send(
                {
                    "type": "health",
                    "slot": slot,
                    "manifest_sha256": serving.manifest_sha256,
                    "answers": answers,
                    "errors": 0,
                    "deaths": 0,
                    "histogram": msgspec.to_builtins(sketch.histogram()),
                }
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--behaviour", default="good")
    parser.add_argument("--mark", type=Path)
    parser.add_argument("--fd", type=int)
    parser.add_argument("--parent", type=int)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    die_with_parent(options.parent)
    try:
        FakeFront(Channel.from_fd(options.fd), behaviour=options.behaviour, mark=options.mark).run()
    except ChannelClosed:
        sys.exit(0)


if __name__ == "__main__":
    main()
