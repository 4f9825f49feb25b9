"""How is a release rolled out in the demo, and what shows how that ended on each board?"""

from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from shoal_wire.manifest import ReleaseDraft, parse_draft
from shoal_wire.update import UpdateState

from shoal_fleet.command.demo.boards import Board
from shoal_fleet.command.demo.evidence import Expected, Shown, on_every_board, update_ended
from shoal_fleet.command.demo.programs import command
from shoal_fleet.command.demo.stage import Scene, Stage

ANSWERS = 10
"""On which a board judges a release: few enough for a demo. One that is far too slow goes after four."""
P95_RATIO = 2.5
"""Release 3 takes ten times as long as release 2, and four times its p95 where that was measured on a busy machine. A
good release may be caught by other work here that began when the one before had been measured."""
_NOTHING_LARGE_BYTES = 64 << 10
"""The sealed weights alone have more than three times as many."""
_WATCH_S = 240
_SETTLE_S = 15.0


class Ended(NamedTuple):
    """A rollout that has ended, or was watched for too long."""

    draft: ReleaseDraft
    digest: str
    """Of the manifest."""
    state: str
    seconds: Mapping[str, float]
    """From assignment to end, by the board's name."""
    uploaded_bytes: int


def commit(scene: Scene, folder: str, *, boards: Sequence[Board], fetches_weights: bool) -> tuple[Shown, str]:
    """Roll out a release that every board must keep; also returns its manifest's digest."""
    ended = _roll_out(scene, folder, boards=boards)
    most = None if fetches_weights else _NOTHING_LARGE_BYTES

    def expect(board: Board) -> Expected:
        return _expect(UpdateState.COMMITTED, board, ended, current=ended.digest)._replace(most_fetched_bytes=most)

    return _judge(scene, ended, {board: expect(board) for board in boards}, rollout="succeeded"), ended.digest


def take_back(
    scene: Scene, folder: str, *, boards: Sequence[Board], good: str, state: UpdateState, why: str
) -> tuple[Shown, str]:
    """Roll out a release that no board must keep: it runs `good` afterwards and says why."""
    ended = _roll_out(scene, folder, boards=boards)
    expected = {board: _expect(state, board, ended, current=good)._replace(why=why) for board in boards}
    return _judge(scene, ended, expected, rollout="failed"), ended.digest


def read_draft(stage: Stage, folder: str) -> ReleaseDraft:
    """What the converters say of a release that they built.

    Raises:
        Malformed: it isn't a release.
    """
    return parse_draft((stage.releases / folder / "release.json").read_bytes())


def _roll_out(scene: Scene, folder: str, *, boards: Sequence[Board]) -> Ended:
    """Release and roll out what is in a release folder, to all boards at once, and wait for the end."""
    draft = read_draft(scene.stage, folder)
    publisher = ("--publisher", str(scene.stage.publisher))
    path = str(scene.stage.releases / folder)
    release = scene.programs.run(command("shoal"), "release", "create", path, *publisher, "--json")
    devices = [word for board in boards for word in ("--device", scene.devices[board.name])]
    limits = ("--probation-answers", str(ANSWERS), "--probation-p95-ratio", str(P95_RATIO))
    target = (draft.name, str(draft.version), *devices, *limits, "--watch", "--timeout", str(_WATCH_S), "--json")
    rollout = scene.programs.run(command("shoal"), "rollout", "start", *target, may_fail=True)
    return Ended(
        draft,
        digest=release["manifest_sha256"],
        state=rollout.get("state", "not ended"),
        seconds={one["name"]: round(one["changed_at"] - one["assigned_at"], 1) for one in rollout.get("devices", ())},
        uploaded_bytes=release["uploaded_bytes"],
    )


def _expect(state: UpdateState, board: Board, ended: Ended, *, current: str) -> Expected:
    formats = _formats(ended.draft)
    own = board.model_format if board.model_format in formats.values() else next(iter(formats.values()))
    return Expected(state, target=ended.digest, current=current, engine=board.engine, model_format=own)


def _judge(scene: Scene, ended: Ended, expected: Mapping[Board, Expected], *, rollout: str) -> Shown:
    """What the boards sign must be as expected, and so must be the end of the rollout."""
    formats, model = _formats(ended.draft), ended.draft.name

    def look(board: Board) -> Shown:
        reported = scene.reported(board)
        if reported is None:
            return Shown(ok=False, evidence={}, words=("has reported nothing",))
        return update_ended(reported, model=model, formats=formats, expected=expected[board])

    shown = {}
    for board in expected:
        one = scene.programs.settle(partial(look, board), is_settled=attrgetter("ok"), timeout_s=_SETTLE_S)
        seconds = {"seconds": ended.seconds.get(board.name)}
        shown[board.name] = one._replace(evidence={**one.evidence, **seconds})
    common = {"rollout": ended.state, "expected_rollout": rollout, "uploaded_bytes": ended.uploaded_bytes}
    every = on_every_board(shown, **common)
    return every._replace(ok=every.ok and ended.state == rollout)


def _formats(draft: ReleaseDraft) -> Mapping[str, str]:
    """Of the variants, by name."""
    return {variant.name: variant.format for model in draft.models for variant in model.variants}
