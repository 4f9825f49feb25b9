"""How does the status of the fleet look?"""

from datetime import UTC, datetime

from shoal_fleet.console.page import Visitor, document, element, escape, form, table, wrap
from shoal_fleet.console.status import AttemptLine, DeviceLine, RolloutLine, Status, Tone
from shoal_fleet.errors import FleetError
from shoal_fleet.telemetry.queries import DEATHS_WINDOW_S

_DEVICES = (
    ("Device", "tight"),
    ("Model", "tight"),
    ("Release", "number"),
    ("Engine", "tight"),
    ("State", "words"),
    ("Answers/s", "number"),
    ("p50 ms", "number"),
    ("p95 ms", "number"),
    ("Last answer", "words"),
)
_ROLLOUTS = (
    ("Rollout", "tight"),
    ("Release", "tight"),
    ("Started", "tight soft"),
    ("Device", "tight"),
    ("State", "tight"),
    ("Reason", "words"),
)
_REFUSED = (("Device", "tight"), ("Channel", "tight"), ("Messages", "number"), ("Reason of the last", "words"))

_NONE = '<span class="soft">–</span>'


def render_status(status: Status, *, visitor: Visitor, fault: FleetError | None = None) -> str:
    """The page. `fault`: why what was just asked for was refused."""
    devices = table(_DEVICES, [[_device_cells(line, now=status.now)] for line in status.devices])
    rollouts = table(_ROLLOUTS, [_rollout_rows(line, now=status.now, csrf=visitor.csrf) for line in status.rollouts])
    warnings = "".join(element("li", words) for words in status.warnings)
    main = (
        (element("p", fault, css="fault") if fault else "")
        + (element("h2", "Warnings") + wrap("ul", warnings, css="card warnings") if warnings else "")
        + element("h2", "Devices")
        + _card(devices, is_empty=not status.devices, empty="No device yet. Make a token with: shoal device token")
        + element("h2", "Rollouts")
        + _card(rollouts, is_empty=not status.rollouts, empty="No rollout yet. Start one with: shoal rollout start")
    )
    if status.refused:
        rows = [
            (escape(one.device_id), escape(one.channel), escape(one.count), escape(one.reason))
            for one in status.refused
        ]
        main += element("h2", "Refused messages") + _card(table(_REFUSED, [rows]), is_empty=False, empty="")
    at = datetime.fromtimestamp(status.now, UTC)
    main += element("p", f"As of {at:%Y-%m-%d %H:%M:%S} UTC", css="soft")
    # A page with a fault is at the form's address, which can't be asked for again.
    return document("Shoal: status", main, is_live=fault is None, visitor=visitor)


def approve_path(number: int | str) -> str:
    """Where the form of a rollout that waits for approval is sent to."""
    return f"/rollouts/{number}/approve"


def say_ago(seconds: float) -> str:
    """How long ago something was, in as few letters as possible."""
    for limit, divisor, unit in ((100, 1, "s"), (100 * 60, 60, "min"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{max(0, int(seconds / divisor))} {unit} ago"
    return f"{int(seconds / 86400)} d ago"


def _card(inside: str, *, is_empty: bool, empty: str) -> str:
    return wrap("div", element("div", empty, css="empty") if is_empty else inside, css="card")


def _device_cells(line: DeviceLine, *, now: float) -> tuple[str, ...]:
    pace = line.pace
    return (
        f'{_dot(line.tone)}<span title="{escape(line.device_id)}">{escape(line.device)}</span>',
        escape(line.model) or _NONE,
        escape(line.release) or _NONE,
        _engine(line),
        escape(line.state) + _deaths(line.deaths),
        _number(None if pace is None else pace.answers_per_s, digits=2),
        _number(None if pace is None else pace.p50_ms, digits=1),
        _number(None if pace is None else pace.p95_ms, digits=1),
        _NONE if line.answered_at is None else _answer(line.words, ago_s=now - line.answered_at),
    )


def _engine(line: DeviceLine) -> str:
    if not line.engine:
        return _NONE
    return escape(line.engine) + (" " + element("span", line.tuned, css="soft") if line.tuned else "")


def _deaths(deaths: int) -> str:
    if deaths == 0:
        return ""
    workers = "1 worker" if deaths == 1 else f"{deaths:,} workers"
    return " " + element("span", f"{workers} died in the last {DEATHS_WINDOW_S / 3600:.0f} h", css="warning tight")


def _rollout_rows(line: RolloutLine, *, now: float, csrf: str) -> list[tuple[str, ...]]:
    """One row for each device; what they share stands in the first."""
    first = (
        f"{_dot(line.tone)}{line.number} {escape(line.state)}"
        + (" " + element("span", line.reason, css="soft") if line.reason else "")
        + (_approval(line, csrf=csrf) if csrf else ""),
        escape(line.release),
        escape(say_ago(now - line.started_at) + (f" by {line.started_by}" if line.started_by else "")),
    )
    return [
        (*(first if index == 0 else ("", "", "")), *_attempt_cells(attempt))
        for index, attempt in enumerate(line.attempts)
    ]


def _approval(line: RolloutLine, *, csrf: str) -> str:
    if not line.may_approve:
        return ""
    return form(approve_path(line.number), "<button>Approve</button>", csrf=csrf, css="approval")


def _attempt_cells(attempt: AttemptLine) -> tuple[str, str, str]:
    return escape(attempt.device), f"{_dot(attempt.tone)}{escape(attempt.state)}", escape(attempt.reason)


def _answer(words: str, *, ago_s: float) -> str:
    return f"{escape(words)} {element('span', say_ago(ago_s), css='soft tight')}"


def _dot(tone: Tone) -> str:
    return f'<span class="dot {tone.value}"></span>'


def _number(value: float | None, *, digits: int) -> str:
    return _NONE if value is None else escape(f"{value:,.{digits}f}")
