"""What does an INT8 release gain on a board? The model digits, first in fp32, then in INT8, both by the workbench.

What the workbench claims of INT8 is in the release's report.json; beside it stands how the board answered pictures
whose digits are known.
"""

import statistics
import sys
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec
from shoal_wire.encoding import decode_struct

from shoal_fleet.command.demo import rollouts
from shoal_fleet.command.demo.boards import DIGITS, Board, boards_with
from shoal_fleet.command.demo.evidence import Shown
from shoal_fleet.command.demo.items import Item
from shoal_fleet.command.demo.programs import Begun, Programs
from shoal_fleet.command.demo.stage import Scene, Stage
from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.views import parse

FP32, INT8 = "onnx-fp32", "onnx-int8"
FOLDERS = {FP32: f"{DIGITS.model}/release-1", INT8: f"{DIGITS.model}/release-2"}
"""Of the releases, by the variant that a board takes of each."""
BOARD_THREADS = 1
"""See `boards.agent_configuration`."""
NICENESS = 5
"""Of the workbench, which measures and calculates while releases of other models are judged by how fast they are."""
ENOUGH_ANSWERS = 30
LEAST_RIGHT = 0.95
"""Of the answers. Fewer would mean that something is wrong on the board: the network gets more than 99 % right."""
_MOST_ANSWERS = 1000
_ANSWERED_S = 120.0
_MOST_REPORT_BYTES = 64 << 20


class Answered(NamedTuple):
    """How a board answered with one variant."""

    answers: int
    right: int
    p50_ms: float
    """NaN without answers."""

    @property
    def is_right(self) -> bool:
        """Often enough, and of enough answers."""
        return self.answers >= ENOUGH_ANSWERS and self.right >= LEAST_RIGHT * self.answers

    @property
    def evidence(self) -> dict[str, Any]:
        """The numbers by their names."""
        return {"answers": self.answers, "right": self.right, "p50_ms": round(self.p50_ms, 3)}


class Gain(NamedTuple):
    """What the workbench found of INT8 on this machine, against fp32."""

    accuracy: Mapping[str, float]
    """By variant, on its evaluation set."""
    size_ratio: float
    speed_ratio: float | None
    """How many times as fast in the board's engine with as many threads; None where that wasn't timed."""
    claims: tuple[str, ...]
    """What it says that holds beyond chance: "smaller", "faster"."""

    @property
    def words(self) -> str:
        """For people."""
        speed = "not timed" if self.speed_ratio is None else f"{self.speed_ratio:.2f} × as fast"
        right = ", ".join(f"{variant} {value:.4f}" for variant, value in self.accuracy.items())
        claims = " and ".join(self.claims) or "no gain"
        return f"report: {self.size_ratio:.2f} × the size, {speed}, so {claims}; accuracy {right}"


class Told(msgspec.Struct, frozen=True):
    """An answer, as far as it is judged here."""

    item: str
    latency_ms: float
    answer: dict[str, Any]


class Speed(msgspec.Struct, frozen=True):
    """A measurement in the workbench's report."""

    engine: str
    precision: str
    threads: int
    p50_ms: float


class Variant(msgspec.Struct, frozen=True):
    """A variant in the workbench's report."""

    name: str
    size_bytes: int
    value: float
    speeds: tuple[Speed, ...]
    gains: tuple[str, ...]


class Report(msgspec.Struct, frozen=True):
    """What is read of the workbench's report.json."""

    variants: tuple[Variant, ...]
    missing: dict[str, str]
    """Why others could not be made, by name."""


def begin_building(stage: Stage, programs: Programs) -> Begun:
    """Begin to train the network and to make both releases of it."""
    out = ("build", "--out", str(stage.releases / DIGITS.model), "--json")
    return programs.begin(sys.executable, "-m", DIGITS.package, *out, niceness=NICENESS)


def roll_out_fp32(scene: Scene, building: Begun) -> tuple[Shown, None]:
    """Wait for the releases, and have the first one answer."""
    scene.programs.result(building)
    (board,) = boards_with(DIGITS)
    shown, _ = rollouts.commit(scene, FOLDERS[FP32], boards=(board,), fetches_weights=True)
    answered = _wait_for_answers(scene, board, variant=FP32)
    return _show(shown, board, variant=FP32, answered={FP32: answered}), None


def roll_out_int8(scene: Scene) -> tuple[Shown, None]:
    """Have the second one answer, and show what that gains."""
    (board,) = boards_with(DIGITS)
    gain = read_gain((scene.stage.releases / FOLDERS[INT8] / "report.json").read_bytes(), engine=board.engine)
    shown, _ = rollouts.commit(scene, FOLDERS[INT8], boards=(board,), fetches_weights=True)
    answered = {variant: _wait_for_answers(scene, board, variant=variant) for variant in (INT8, FP32)}
    return _show(shown, board, variant=INT8, answered=answered, gain=gain), None


def judge_answers(answers: Collection[Told], placed: Mapping[str, Item]) -> Answered:
    """Compare answers with the digits that were placed, by file name; of items that aren't known nothing is said."""
    known = [one for one in answers if one.item in placed]
    return Answered(
        len(known),
        right=sum(_first_label(one) == placed[one.item].words for one in known),
        p50_ms=statistics.median([one.latency_ms for one in known]) if known else float("nan"),
    )


def read_gain(raw: bytes, *, engine: str) -> Gain:
    """What a report.json says of INT8.

    Raises:
        Malformed: it isn't such a report.
        CommandError: one of the variants was not made; with the reason.
    """
    report = decode_struct(raw, Report, what="report.json", limit_bytes=_MOST_REPORT_BYTES)
    fp32, int8 = _find(FP32, report), _find(INT8, report)
    before, after = _find_p50(fp32, engine=engine), _find_p50(int8, engine=engine)
    return Gain(
        accuracy={one.name: one.value for one in (fp32, int8)},
        size_ratio=int8.size_bytes / fp32.size_bytes,
        speed_ratio=before / after if before and after else None,
        claims=int8.gains,
    )


def _wait_for_answers(scene: Scene, board: Board, *, variant: str) -> Answered:
    def look() -> Answered:
        answers = _read_answers(scene, board, version=rollouts.read_draft(scene.stage, FOLDERS[variant]).version)
        return judge_answers(answers, scene.placed(board, DIGITS))

    return scene.programs.settle(look, is_settled=lambda one: one.answers >= ENOUGH_ANSWERS, timeout_s=_ANSWERED_S)


def _read_answers(scene: Scene, board: Board, *, version: int) -> list[Told]:
    query: dict[str, str | int] = {"device": scene.devices[board.name], "release": DIGITS.model, "version": version}
    found = scene.client.get("/api/v1/answers", **query, limit=_MOST_ANSWERS)
    return parse(found, list[Told], what="answers")


def _show(
    shown: Shown, board: Board, *, variant: str, answered: Mapping[str, Answered], gain: Gain | None = None
) -> Shown:
    """A rollout's evidence with that of the answers, and of what the workbench claims."""
    served = shown.evidence["boards"][board.name].get("variant")
    words = tuple(
        f"{name}: {one.right} of {one.answers} digits right, p50 {one.p50_ms:.1f} ms"
        for name, one in sorted(answered.items())
    )
    claims = () if gain is None else (gain.words,)
    more: dict[str, Any] = {"answered": {name: one.evidence for name, one in answered.items()}}
    if gain is not None:
        more["report"] = gain._asdict()
    ok = shown.ok and served == variant and all(one.is_right for one in answered.values())
    return Shown(
        ok=ok and (gain is None or "smaller" in gain.claims),
        evidence={**shown.evidence, **more},
        words=(*shown.words, *claims),
        boards={board.name: (*shown.boards[board.name], *words)},
    )


def _find(name: str, report: Report) -> Variant:
    found = next((one for one in report.variants if one.name == name), None)
    if found is None:
        raise CommandError(f"report.json: no {name}: {report.missing.get(name, 'the recipe asks for none')}")
    return found


def _find_p50(variant: Variant, *, engine: str) -> float | None:
    wanted = engine, "exact", BOARD_THREADS
    return next((one.p50_ms for one in variant.speeds if (one.engine, one.precision, one.threads) == wanted), None)


def _first_label(told: Told) -> str | None:
    """None where the item was refused."""
    classes: list[dict[str, Any]] = told.answer.get("classes", [])
    return classes[0]["label"] if classes else None
