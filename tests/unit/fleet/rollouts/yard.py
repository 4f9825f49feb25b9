"""Boards that a rollout in waves goes to, at the level of the fleet's services, with a clock that a test sets."""

from collections.abc import Callable
from typing import Any

from shoal_fleet.audit.models import AuditRow
from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices import service as devices
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.labels.service import put_labels
from shoal_fleet.rollouts import service
from shoal_fleet.rollouts.engine import Engine
from shoal_fleet.rollouts.models import DesiredRow, Rollout
from shoal_fleet.rollouts.plan import Plan, Wave
from shoal_fleet.rollouts.service import RolloutStart
from shoal_wire.encoding import decode
from shoal_wire.messages import Desired, ProbationLimits
from shoal_wire.update import UpdateState
from sqlalchemy import select

from tests.unit.fleet.boards import NOW, Board, add_release, progress, reference, slot

HOUR = 3600.0
CANARY_FIRST = (Wave(where='labels.canary == "yes"'), Wave(count=2, soak_s=HOUR), Wave())


class Yard:
    """A fleet with six boards that run release 1 of the notes, of which one is the canary, and a clock that is set."""

    def __init__(self, sessions: Sessions, keys: OnlineKeys) -> None:
        self.sessions, self.keys, self.now = sessions, keys, NOW
        for version in (1, 2, 3):
            add_release(sessions, keys, name="notes", version=version)
        self.boards = {name: Board(name) for name in ("canary", "b1", "b2", "b3", "b4", "b5")}
        for board in self.boards.values():
            self.join(board)
        with sessions() as session, writing(session):
            put_labels(session, self.boards["canary"].id, {"canary": "yes"})
        self.engine = Engine(sessions, vault=keys.vault, clock=lambda: self.now)

    def join(self, board: Board) -> None:
        board.enrol(self.sessions)
        self.boards[board.name] = board
        self.report(board, 1)

    def start(self, plan: Plan, *names: str, version: int = 2) -> int:
        wanted = RolloutStart("notes", version, names, ProbationLimits(), plan)
        with self.sessions() as session:
            rollout = service.start(session, wanted, by="user:anna", vault=self.keys.vault, now=self.now)
        self.engine.look()
        return rollout.id

    def order(self, board: Board) -> tuple[int, int]:
        with self.sessions() as session:
            row = session.get(DesiredRow, board.id)
            return (0, 0) if row is None else (row.epoch, row.generation)

    def assigned(self, board: Board) -> int:
        """Version that the board is to run, 0 for none."""
        with self.sessions() as session:
            row = session.get(DesiredRow, board.id)
            document = None if row is None else decode(row.document, Desired, what="desired")
        return next((one.version for one in document.assignments), 0) if document else 0

    def report(self, board: Board, version: int, *, reason: str = "") -> None:
        """The board runs that version and has settled; or, with a reason, went back to it from the one assigned."""
        order = self.order(board)
        failed = progress(reference("notes", self.assigned(board)), UpdateState.FELL_BACK, order=order, reason=reason)
        reported = board.reported(
            order=order, slots=[slot(reference("notes", version))], update=failed if reason else None
        )
        with self.sessions() as session, writing(session):
            raw = board.sign_reported(reported)
            devices.record_reported(session, device_id=board.id, raw=raw, now=self.now)
            device = devices.find_device(session, board.id)
            service.follow(session, device=device, vault=self.keys.vault, now=self.now)

    def succeed(self, *names: str) -> None:
        """Boards that were told do as they were."""
        for name in names:
            self.report(self.boards[name], self.assigned(self.boards[name]))
        self.engine.look()

    def told(self, rollout: int) -> set[str]:
        return {name for name, state in self.states(rollout).items() if state != "waiting"}

    def states(self, rollout: int) -> dict[str, str]:
        with self.sessions() as session:
            return {device.name: row.state.value for row, device in service.list_attempts(session, rollout)}

    def waves(self, rollout: int) -> list[str]:
        with self.sessions() as session:
            return [wave.state.value for wave in service.list_waves(session, rollout)]

    def rollout(self, number: int) -> Rollout:
        with self.sessions() as session:
            return service.find_rollout(session, number)

    def actions(self, rollout: int) -> list[str]:
        with self.sessions() as session:
            wanted = select(AuditRow.action).where(AuditRow.subject == f"rollout {rollout}").order_by(AuditRow.sequence)
            return [action.removeprefix("rollout.") for action in session.scalars(wanted)]

    def steer(self, verb: Callable[..., Any], rollout: int, **options: object) -> Any:
        with self.sessions() as session:
            return verb(session, rollout, by="user:anna", now=self.now, **options)
