"""What is the daemon made of, and how does it start, run and stop?

The composition root: every part is made here, and one task group holds all of their tasks.
"""

import asyncio
import contextlib
import fcntl
import importlib.metadata
import logging
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from shoal_wire.envelope import KeySigner
from shoal_wire.messages import Event
from shoal_wire.topics import Up
from shoal_wire.tuning import BoardKind
from shoal_wire.update import TERMINAL
from shoal_worker.process import disable_core_dumps

from shoal_agent.board import read_governor, read_kind
from shoal_agent.configuration import Configuration
from shoal_agent.cpu_budget import budget, read_processors
from shoal_agent.daemon.checking import check
from shoal_agent.daemon.delegation import claim_own
from shoal_agent.daemon.delivery import Delivery
from shoal_agent.daemon.holdings import Holdings
from shoal_agent.daemon.inbox import Inbox
from shoal_agent.daemon.link import Incoming, Link
from shoal_agent.daemon.looked import read_circumstances
from shoal_agent.daemon.memory import children
from shoal_agent.daemon.notify import keep_watchdog, notify
from shoal_agent.daemon.outbox import open_outbox
from shoal_agent.daemon.own_agent import OwnAgent, describe_agent
from shoal_agent.daemon.proven import ProvenChoices
from shoal_agent.daemon.quarantine import Quarantine
from shoal_agent.daemon.recording import Recorder
from shoal_agent.daemon.renewal import CertificateKeeper
from shoal_agent.daemon.reporting import Origin, Reporter, Running
from shoal_agent.daemon.sampling import Sampler
from shoal_agent.daemon.secrets import Secrets
from shoal_agent.daemon.serving import FrontKeeper, Setting
from shoal_agent.daemon.supervision import Programs
from shoal_agent.daemon.tuning import Pace, TuningKeeper
from shoal_agent.daemon.updating import UpdaterKeeper
from shoal_agent.engine_table import runnable_engines
from shoal_agent.errors import AlreadyRunning
from shoal_agent.files import Files
from shoal_agent.keys import load_keys
from shoal_agent.own_trees import read_launch
from shoal_agent.state import LOCK, OUTBOX, load_device
from shoal_agent.swap import keep_out_of_swap

_LOCK_PATIENCE_S = 2.0
_LOG = logging.getLogger(__name__)


class Daemon:
    """One start of the daemon."""

    def __init__(
        self, state: Path, *, configuration: Configuration, files: Files, programs: Programs, pace: Pace
    ) -> None:
        """Make all parts. In the loop, before there is a child.

        Raises:
            NotEnrolled, StateDamaged: see `state.py` and `keys.py`.
            sqlite3.Error: the outbox can't be opened.
        """
        device = load_device(files, state)
        name = device.device
        keys = load_keys(files, state)
        signer = KeySigner(keys.identity)
        stream = secrets.token_hex(16)
        self._kind = read_kind(processors=budget(read_processors(), configured=configuration.threads))
        self._outbox = open_outbox(state / OUTBOX, stream=stream, limit_bytes=configuration.outbox_bytes)
        self._recorder = Recorder(self._outbox, on_rows=lambda: self._delivery.wake())
        self._link = Link(
            device,
            files=files,
            state=state,
            stream=stream,
            on_message=self._note_message,
            on_connected=self._note_connected,
            on_turned_away=lambda: self._certificate.note_turned_away(),
        )
        self._certificate = CertificateKeeper(
            programs.renewal,
            files=files,
            state=state,
            is_known=bool(device.operators_url),
            recorder=self._recorder,
            on_renewed=self._link.connect_anew,
        )
        self._delivery = Delivery(
            self._recorder, device=name, signer=signer, publish=lambda batch: self._link.publish(Up.BATCH, batch)
        )
        self._files, self._launch = files, read_launch(os.environ)
        self._holdings = Holdings(files, state, device=name, tree=self._launch.tree, on_change=self._note_holdings)
        self._reporter = Reporter(
            files,
            state,
            origin=Origin(name, device.profile, _agent_version(), stream),
            signer=signer,
            running=self._read_running,
            publish=lambda report: self._link.publish(Up.REPORTED, report, is_retained=True),
        )
        self._delegation = claim_own()
        sealed = Secrets(device=name, key=keys.hpke, sealed=self._holdings.secrets)
        setting = Setting(programs.front, state, name, keys.recipient, configuration, self._delegation.group, sealed)
        self._make_keepers(setting, files=files, programs=programs, pace=pace)
        self._inbox = self._make_inbox(name)

    def _make_inbox(self, device: str) -> Inbox:
        return Inbox(
            device,
            holdings=self._holdings,
            reporter=self._reporter,
            delivery=self._delivery,
            updater=self._updater,
            recorder=self._recorder,
            taken=self._link.taken,
            on_accepted=self._front.renew_sources,
        )

    def _make_keepers(self, setting: Setting, *, files: Files, programs: Programs, pace: Pace) -> None:
        """What starts children: front, updater and tuning."""
        state, configuration = setting.state, setting.configuration
        self._front = FrontKeeper(
            setting,
            recorder=self._recorder,
            quarantine=Quarantine(files, state),
            proven=ProvenChoices(files, state),
            on_change=self._reporter.touch,
            on_end=lambda counted: self._sampler.take_last(counted),
        )
        self._sampler = Sampler(
            configuration.telemetry, recorder=self._recorder, front=self._front, processes=self._processes
        )
        self._updater = UpdaterKeeper(
            programs.updater,
            state=state,
            engines=runnable_engines(interpreters=configuration.interpreters, allowed=configuration.engines),
            all_variants=configuration.tuning.at_install and configuration.tuning.all_variants,
            holder=self._holdings,
            front=self._front,
            own=OwnAgent(setting, reporter=self._reporter, holdings=self._holdings, front=self._front),
            check=lambda held: check(held, setting=setting, recorder=self._recorder, front=self._front),
            recorder=self._recorder,
            on_begin=lambda: self._tuning.look(),
        )
        self._tuning = TuningKeeper(
            programs.tuning,
            setting=setting,
            files=files,
            holder=self._holdings,
            front=self._front,
            circumstances=lambda: read_circumstances(
                configuration, board=self._read_kind(), agent_version=_agent_version()
            ),
            recorder=self._recorder,
            pace=pace,
        )

    async def serve(self) -> None:
        """Run until cancelled, or until a part fails in a way that only a new start can mend."""
        self._load()
        parts = (
            self._recorder,
            self._delivery,
            self._reporter,
            self._front,
            self._updater,
            self._tuning,
            self._inbox,
            self._link,
            self._certificate,
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                for part in parts:
                    tasks.create_task(part.serve())
                tasks.create_task(self._sampler.serve())
                tasks.create_task(keep_watchdog())
                notify("READY=1")
        finally:
            notify("STOPPING=1")
            self._outbox.close()

    def _load(self) -> None:
        """Take up what the last start left on the disk."""
        self._tuning.follow()
        self._holdings.reload()
        untrusted = self._holdings.load_desired()
        if untrusted is not None:
            self._inbox.keep(untrusted)
        desired = self._holdings.desired
        if desired is not None and desired.order > (self._reporter.accepted or (0, 0)):
            self._reporter.accept(desired.order)
        if self._delegation.group is None:
            detail = f"workers have no memory limit of their own: {self._delegation.reason}"
            self._recorder.note(Event(at=time.time(), name="memory-limits-off", detail=detail))
        self._updater.wake()

    def _note_holdings(self) -> None:
        journal = self._holdings.journal
        in_update = journal.assignment.release if journal and journal.state not in TERMINAL else None
        self._front.want(self._holdings.slots, in_update=in_update)
        self._tuning.look()
        self._inbox.look_again()
        self._reporter.touch()

    def _read_running(self) -> Running:
        held = self._holdings
        return Running(
            held.slots,
            held.journal,
            self._front.serving,
            self._read_kind(),
            own=held.own,
            agent=describe_agent(self._launch, files=self._files),
            tree=self._launch.tree,
            trust=held.trust,
        )

    def _read_kind(self) -> BoardKind:
        """A power policy may change the governor; the rest stays as it is until the next start."""
        return msgspec.structs.replace(self._kind, governor=read_governor())

    def _note_message(self, message: Incoming) -> None:
        self._inbox.put(message)

    def _note_connected(self, is_connected: bool) -> None:
        self._delivery.connected(is_connected)
        if is_connected:
            self._certificate.note_connected()
            self._reporter.touch()
            self._updater.wake()

    def _processes(self) -> list[tuple[str, int | None]]:
        front = self._front.pid
        others = [("front", front), ("updater", self._updater.pid), ("tuning", self._tuning.pid)]
        workers = [("worker", worker) for worker in (children(front) if front else ())]
        return [("daemon", os.getpid()), *others, *workers]


def _agent_version() -> str:
    return importlib.metadata.version("shoal-agent")


def run_daemon(
    state: Path,
    *,
    configuration: Configuration,
    files: Files,
    programs: Programs = Programs(),
    pace: Pace = Pace(),
) -> None:
    """Run a daemon until SIGTERM or SIGINT.

    Raises:
        AlreadyRunning: another one uses the state folder.
        NotEnrolled, StateDamaged, sqlite3.Error: see `Daemon`.
    """
    disable_core_dumps()  # this process holds the device's keys
    keep_out_of_swap()  # where that can't be, the front says so
    with _only_one(state):
        asyncio.run(
            _serve(lambda: Daemon(state, configuration=configuration, files=files, programs=programs, pace=pace))
        )


async def _serve(make: Callable[[], Daemon]) -> None:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stopped.set)
    serving = asyncio.ensure_future(make().serve())
    stopping = asyncio.ensure_future(stopped.wait())
    await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
    for task in (serving, stopping):
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving


@contextlib.contextmanager
def _only_one(state: Path) -> Iterator[None]:
    """Hold the state folder's lock. `shoal-agent status` holds it for an instant, so it is tried for a while."""
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(state / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + _LOCK_PATIENCE_S
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise AlreadyRunning(f"another shoal-agent runs with the state folder {state}") from None
                time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)
