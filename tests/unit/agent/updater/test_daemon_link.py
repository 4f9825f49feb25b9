"""Does the updater hear what is meant for it, among all that the daemon says?"""

from collections.abc import Iterable

import msgspec
import pytest
from shoal_agent.updater.daemon_link import DaemonLink
from shoal_agent.updater.errors import Refused, Superseded
from shoal_wire.histogram import Histogram
from shoal_worker.channel import BadMessage, ChannelTimeout

from tests.unit.agent.updater.releases import held

SERVING = {"type": "serving", "reference": msgspec.to_builtins(held(2).reference)}
SERVING_OTHER = {"type": "serving", "reference": msgspec.to_builtins(held(1).reference)}
BASELINE = {"type": "baseline", "p95_ms": 61.0, "answers": 30}


def health(version: int, *, answers: int) -> dict[str, object]:
    return {
        "type": "health",
        "release": held(version).reference.release,
        "manifest_sha256": held(version).reference.manifest_sha256,
        "answers": answers,
        "errors": 0,
        "deaths": 0,
        "histogram": msgspec.to_builtins(Histogram()),
        "serving": True,
    }


class RecordedChannel:
    """Says what was recorded, then nothing more in time."""

    def __init__(self, messages: Iterable[dict[str, object]]) -> None:
        self.messages = list(messages)
        self.sent: list[dict[str, object]] = []

    def send(self, message: dict[str, object]) -> None:
        self.sent.append(message)

    def receive(self, timeout_s: float | None) -> tuple[dict[str, object], list[int]]:
        if not self.messages:
            raise ChannelTimeout("nothing")
        return self.messages.pop(0), []


def link(*messages: dict[str, object], may_be_superseded: bool = False) -> DaemonLink:
    made = DaemonLink(RecordedChannel(messages))
    made.may_be_superseded = may_be_superseded
    return made


def test_answer_is_found_among_news() -> None:
    reply = link(health(1, answers=1), {"type": "of-a-newer-daemon"}, BASELINE).ask_baseline("yard-camera-detector")
    assert (reply.p95_ms, reply.answers) == (61.0, 30)


def test_silence_is_refused() -> None:
    with pytest.raises(Refused, match="didn't answer in time when asked for baseline"):
        link().ask_baseline("yard-camera-detector")


def test_late_answer_to_an_earlier_switch_is_passed_over() -> None:
    late = link(SERVING_OTHER, SERVING)
    assert late.ask_switch("yard-camera-detector", expected=held(2).reference) is None


def test_release_that_cannot_be_served_has_a_reason() -> None:
    failed = link({"type": "serve_failed", "reason": "no engine"})
    assert failed.ask_switch("yard-camera-detector", expected=held(2).reference) == "no engine"


def test_health_of_another_release_is_passed_over() -> None:
    news = link(health(1, answers=9), health(2, answers=4)).next_health(held(2).reference, timeout_s=0.0)
    assert news is not None and news.answers == 4
    assert link(health(1, answers=9)).next_health(held(2).reference, timeout_s=0.0) is None


def test_newer_document_counts_only_before_the_switch() -> None:
    with pytest.raises(Superseded):
        link({"type": "superseded"}, may_be_superseded=True).listen()
    link({"type": "superseded"}).listen()


def test_message_with_a_field_of_another_type_is_named() -> None:
    with pytest.raises(BadMessage, match=r"a baseline message of the daemon: .*answers"):
        link({"type": "baseline", "p95_ms": 1.0, "answers": "many"}).ask_baseline("yard-camera-detector")
