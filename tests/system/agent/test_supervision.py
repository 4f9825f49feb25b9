"""What does it cost when a worker crashes, hangs, leaks or is killed, and who hears of it?

Real workers in an interpreter of their own, with a plug-in engine that misbehaves when its input says so.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from shoal_agent import cgroup
from shoal_agent.front import priority
from shoal_agent.front.model_workers import BUSY_PATIENCE_S, Death, ModelWorkers, Recipe, Unavailable
from shoal_agent.front.worker import Array, WorkerOptions
from shoal_agent.front.worker_process import OOM_POINTS, WorkerDied, WorkerHung, WorkerLost
from shoal_worker.errors import WorkerError
from shoal_worker.memory import seal_bytes

from tests.system.agent import unruly_engine
from tests.system.agent.plug_in_python import make_python
from tests.system.agent.unruly_engine import DOUBLE, EXHAUST, HANG, ILLEGAL, LEAK, SEGFAULT, WAIT

pytestmark = pytest.mark.timeout(180)

WAIT_S = 60.0
HANG_DEADLINE_S = 0.3


class Watch:
    """Hears what becomes of workers."""

    def __init__(self) -> None:
        self.deaths: list[Death] = []
        self.notices: list[tuple[str, str]] = []
        self.stops: list[str] = []

    def died(self, death: Death) -> None:
        self.deaths.append(death)

    def noticed(self, name: str, detail: str) -> None:
        self.notices.append((name, detail))

    def stopped(self, reason: str) -> None:
        self.stops.append(reason)


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that has NumPy, the unruly engine as a plug-in, and nothing else."""
    names = dict.fromkeys(("unruly", "steady"), "unruly")
    return make_python(tmp_path_factory.mktemp("unruly"), engine=Path(unruly_engine.__file__), names=names)


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def start(interpreter: str, watch: Watch) -> Iterator[Callable[..., ModelWorkers]]:
    """Starts the workers of a model that the named engines may run."""
    started: list[ModelWorkers] = []
    fds: list[int] = []

    def start_workers(
        *engines: str,
        model: bytes = b"model",
        options: WorkerOptions = WorkerOptions(threads=1),
        is_beside: bool = False,
    ) -> ModelWorkers:
        fds.append(seal_bytes(model))
        recipes = [
            Recipe(
                interpreter=interpreter,
                engine=engine,
                model_format="unruly",
                model_fds=(fds[-1],),
                options=options,
                warm_up=feeds(DOUBLE),
                deadline_s=WAIT_S,
            )
            for engine in engines or ("unruly",)
        ]
        started.append(ModelWorkers.start(recipes, watcher=watch, is_beside=is_beside))
        return started[-1]

    yield start_workers
    for workers in started:
        workers.close()
    for fd in fds:
        os.close(fd)


def feeds(order: int) -> dict[str, Array]:
    return {"order": np.array([order], np.int64), "x": np.array([1.0, 2.0], np.float32)}


def run(workers: ModelWorkers, order: int, *, item: str = "", deadline_s: float = WAIT_S) -> list[float]:
    ran = workers.run(feeds(order), deadline_s=deadline_s, item_sha256=item, is_first=True)
    values: list[float] = ran.outputs["y"].tolist()
    return values


def pid_of(workers: ModelWorkers) -> int:
    """Of its worker: the newest child of this process that runs the worker program."""
    workers.wait_ready()
    return max(worker_pids())


def worker_pids() -> set[int]:
    """Children of this process that run the worker program."""
    found = set()
    for path in Path("/proc/self/task").glob("*/children"):
        for pid in path.read_text().split():
            if b"shoal_worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.add(int(pid))
    return found


def start_spare(workers: ModelWorkers) -> int:
    """Have the workers get their spare, as who tends them would; returns its process id."""
    before = worker_pids()
    chore = workers.tend(now=time.monotonic(), spares=1)
    assert chore is not None
    chore()
    (spare,) = worker_pids() - before
    return spare


def kill(pid: int) -> None:
    """Returns when the process has ended, though nobody has looked yet."""
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + WAIT_S
    while state_of(pid) != "Z" or len(list(Path(f"/proc/{pid}/task").iterdir())) > 1:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def die(workers: ModelWorkers, *, item: str) -> None:
    with pytest.raises(WorkerLost):
        run(workers, SEGFAULT, item=item)


@pytest.mark.parametrize(("order", "number"), [(SEGFAULT, signal.SIGSEGV), (ILLEGAL, signal.SIGILL)])
def test_crash_costs_one_request_and_is_told_with_signal_memory_and_engine(
    start: Callable[..., ModelWorkers], watch: Watch, order: int, number: signal.Signals
) -> None:
    workers = start()
    with pytest.raises(WorkerDied, match=f"was killed by signal {number.value}"):
        run(workers, order, item="poison")
    assert run(workers, DOUBLE) == [2.0, 4.0]
    (death,) = watch.deaths
    assert (death.engine, death.engine_version, death.item_sha256) == ("unruly", "1", "poison")
    assert death.exit_code == -number.value
    assert death.peak_bytes > 10 << 20


def test_hang_is_killed_after_the_deadline(start: Callable[..., ModelWorkers], watch: Watch) -> None:
    workers = start()
    with pytest.raises(WorkerHung):
        run(workers, HANG, item="slow", deadline_s=HANG_DEADLINE_S)
    assert run(workers, DOUBLE) == [2.0, 4.0]
    assert [(death.item_sha256, death.exit_code) for death in watch.deaths] == [("slow", None)]


def test_worker_that_gets_no_memory_ends_and_the_next_one_serves(
    start: Callable[..., ModelWorkers], watch: Watch
) -> None:
    workers = start()
    with pytest.raises(WorkerDied):
        run(workers, EXHAUST, item="huge")
    assert run(workers, DOUBLE) == [2.0, 4.0]
    assert [death.item_sha256 for death in watch.deaths] == ["huge"]


def test_death_between_requests_costs_none_and_blames_none(start: Callable[..., ModelWorkers], watch: Watch) -> None:
    workers = start()
    kill(pid_of(workers))
    assert run(workers, DOUBLE, item="innocent") == [2.0, 4.0]
    assert [death.item_sha256 for death in watch.deaths] == [""]


def test_death_between_two_runs_of_an_item_is_its_own(start: Callable[..., ModelWorkers], watch: Watch) -> None:
    workers = start()
    kill(pid_of(workers))
    with pytest.raises(WorkerDied):
        workers.run(feeds(DOUBLE), deadline_s=WAIT_S, item_sha256="second half", is_first=False)
    assert [death.item_sha256 for death in watch.deaths] == ["second half"]


def test_idle_worker_that_died_is_replaced_before_anybody_asks(
    start: Callable[..., ModelWorkers], watch: Watch
) -> None:
    workers = start()
    kill(pid_of(workers))
    assert workers.tend(now=time.monotonic()) is None
    assert len(watch.deaths) == 1
    chore = workers.tend(now=time.monotonic())
    assert chore is not None
    chore()
    assert workers.held_bytes() > 0


def test_others_that_wait_for_a_worker_that_dies_are_not_blamed(
    start: Callable[..., ModelWorkers], watch: Watch
) -> None:
    workers = start()
    answers: list[list[float]] = []

    def ask(item: str) -> None:
        for _ in range(10):
            answers.append(run(workers, WAIT, item=item))

    threads = [threading.Thread(target=ask, args=(f"good {number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        die(workers, item="poison")
    for thread in threads:
        thread.join()
    assert answers == [[2.0, 4.0]] * 30
    assert [death.item_sha256 for death in watch.deaths] == ["poison"] * 2


def test_different_causes_bring_the_next_engine(start: Callable[..., ModelWorkers], watch: Watch) -> None:
    workers = start("unruly", "steady")
    for item in ("a", "b", "c"):
        die(workers, item=item)
    assert run(workers, SEGFAULT, item="d") == [2.0, 4.0]
    assert workers.info.engine == "steady"
    ((name, detail),) = watch.notices
    assert name == "engine-changed" and "from unruly to steady" in detail and "signal 11" in detail


def test_one_poisoned_item_keeps_its_engine(start: Callable[..., ModelWorkers], watch: Watch) -> None:
    workers = start("unruly", "steady")
    for _ in range(4):
        die(workers, item="poison")
    assert run(workers, DOUBLE) == [2.0, 4.0]
    assert workers.info.engine == "unruly" and watch.notices == []


def test_model_stops_when_no_engine_is_left(start: Callable[..., ModelWorkers], watch: Watch) -> None:
    workers = start("unruly")
    for item in ("a", "b", "c"):
        die(workers, item=item)
    with pytest.raises(Unavailable, match="unruly: its workers died of 3 causes"):
        run(workers, DOUBLE)
    assert len(watch.stops) == 1 and workers.tend(now=time.monotonic()) is None


def test_engine_that_refuses_the_model_is_passed_over(start: Callable[..., ModelWorkers], watch: Watch) -> None:
    workers = start("missing", "steady")
    assert workers.info.engine == "steady"
    assert [name for name, _ in watch.notices] == ["engine-refused"]


def test_model_that_no_engine_takes_is_refused_with_every_reason(start: Callable[..., ModelWorkers]) -> None:
    with pytest.raises(WorkerError, match=r"unruly: .* doesn't take it; steady: .* doesn't take it"):
        start("unruly", "steady", model=b"refused")


def test_another_recipe_takes_over_and_the_one_before_comes_back_when_its_workers_die(
    start: Callable[..., ModelWorkers], watch: Watch
) -> None:
    workers = start("steady")
    workers.prefer(replace(workers.recipe, engine="unruly"))
    assert workers.info.engine == "unruly" and run(workers, DOUBLE) == [2.0, 4.0]
    for item in ("a", "b", "c"):
        die(workers, item=item)
    assert run(workers, SEGFAULT, item="d") == [2.0, 4.0]
    assert workers.info.engine == "steady"
    assert [name for name, _ in watch.notices] == ["engine-changed"] and watch.stops == []


def test_recipe_by_which_no_worker_starts_changes_nothing(start: Callable[..., ModelWorkers], watch: Watch) -> None:
    workers = start("steady")
    with pytest.raises(WorkerError, match="missing"):
        workers.prefer(replace(workers.recipe, engine="missing"))
    assert run(workers, SEGFAULT) == [2.0, 4.0]
    assert workers.recipes == (workers.recipe,) and watch.notices == [] and watch.deaths == []


def test_closed_model_goes_over_to_no_other_recipe(start: Callable[..., ModelWorkers]) -> None:
    workers = start("steady")
    workers.close()
    with pytest.raises(Unavailable, match="unloaded"):
        workers.prefer(workers.recipe)


def test_close_wakes_whoever_waits_for_a_worker(start: Callable[..., ModelWorkers]) -> None:
    workers = start()
    for _ in range(5):
        die(workers, item="poison")
    errors: list[Exception] = []

    def ask() -> None:
        try:
            run(workers, DOUBLE)
        except Unavailable as error:
            errors.append(error)

    asking = [threading.Thread(target=ask) for _ in range(3)]
    for thread in asking:
        thread.start()
    workers.close()
    for thread in asking:
        thread.join()
    assert len(errors) == 3


def test_leaking_worker_is_replaced_and_no_request_is_lost(start: Callable[..., ModelWorkers], watch: Watch) -> None:
    workers = start()
    warm_bytes = workers.held_bytes()
    assert workers.tend(now=time.monotonic()) is None
    run(workers, LEAK)
    assert workers.held_bytes() > warm_bytes + unruly_engine.LEAK_BYTES // 2
    leaking = pid_of(workers)
    answers, is_over = run_all_the_time(workers)
    now = time.monotonic()
    chore = workers.tend(now=now) or workers.tend(now=now + BUSY_PATIENCE_S)  # there may never be an idle moment
    assert chore is not None
    chore()
    seen, deadline = len(answers), time.monotonic() + WAIT_S
    while len(answers) < seen + 10:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    is_over()
    assert pid_of(workers) != leaking and not Path(f"/proc/{leaking}").exists()
    assert workers.held_bytes() < warm_bytes + unruly_engine.LEAK_BYTES // 2
    assert watch.deaths == [] and {tuple(answer) for answer in answers} == {(2.0, 4.0)}
    assert [name for name, _ in watch.notices] == ["worker-replaced"]


def test_share_of_the_processors_changes_without_a_lost_request(
    start: Callable[..., ModelWorkers], watch: Watch
) -> None:
    workers = start()
    before = pid_of(workers)
    answers, is_over = run_all_the_time(workers)
    workers.use_threads(2)
    is_over()
    assert workers.threads == 2 and pid_of(workers) != before
    assert watch.deaths == [] and {tuple(answer) for answer in answers} == {(2.0, 4.0)}


def test_spare_takes_the_place_of_a_worker_that_dies(start: Callable[..., ModelWorkers], watch: Watch) -> None:
    workers = start()
    spare = start_spare(workers)
    assert workers.tend(now=time.monotonic(), spares=1) is None
    die(workers, item="poison")
    assert run(workers, DOUBLE) == [2.0, 4.0]
    assert worker_pids() == {spare}  # nothing was loaded in between
    assert [(death.item_sha256, workers.deaths) for death in watch.deaths] == [("poison", 1)]
    assert start_spare(workers) != spare


def test_spare_is_there_before_anybody_asks_where_an_idle_worker_died(start: Callable[..., ModelWorkers]) -> None:
    workers = start()
    kill(pid_of(workers))
    workers.tend(now=time.monotonic(), spares=1)
    assert run(workers, DOUBLE) == [2.0, 4.0]
    serving = pid_of(workers)
    spare = start_spare(workers)
    kill(serving)
    workers.tend(now=time.monotonic(), spares=0)
    assert worker_pids() == {spare} and run(workers, DOUBLE) == [2.0, 4.0] and worker_pids() == {spare}


def test_spare_of_an_engine_that_is_given_up_never_serves(start: Callable[..., ModelWorkers], watch: Watch) -> None:
    workers = start("unruly", "steady")
    for item in ("a", "b"):
        die(workers, item=item)
    run(workers, DOUBLE)
    start_spare(workers)
    die(workers, item="c")
    assert run(workers, SEGFAULT) == [2.0, 4.0]
    assert workers.info.engine == "steady" and len(worker_pids()) == 1


def test_spare_that_dies_is_no_death_of_the_model(start: Callable[..., ModelWorkers], watch: Watch) -> None:
    workers = start()
    kill(start_spare(workers))
    start_spare(workers)
    assert workers.deaths == 0 and watch.deaths == []
    assert [name for name, _ in watch.notices] == ["spare-lost"]


def test_worker_that_grew_is_replaced_by_its_spare(start: Callable[..., ModelWorkers], watch: Watch) -> None:
    workers = start()
    spare = start_spare(workers)
    run(workers, LEAK)
    chore = workers.tend(now=time.monotonic(), spares=1)
    assert chore is not None
    chore()
    assert worker_pids() == {spare} and run(workers, DOUBLE) == [2.0, 4.0] and watch.deaths == []
    assert [name for name, _ in watch.notices] == ["worker-replaced"]


def test_no_spare_is_kept_while_the_model_rests(start: Callable[..., ModelWorkers]) -> None:
    workers = start()
    serving = pid_of(workers)
    start_spare(workers)
    workers.rest()
    assert worker_pids() == {serving}
    late = workers.tend(now=time.monotonic(), spares=1)
    workers.rest()
    assert late is not None
    late()
    assert worker_pids() == {serving}


def test_other_share_of_the_processors_needs_another_spare(start: Callable[..., ModelWorkers]) -> None:
    workers = start()
    spare = start_spare(workers)
    workers.use_threads(2)
    assert spare not in worker_pids() and len(worker_pids()) == 1
    start_spare(workers)
    assert workers.threads == 2


def run_all_the_time(workers: ModelWorkers) -> tuple[list[list[float]], Callable[[], None]]:
    """Ask without a pause in a thread; returns the answers, and what ends it."""
    answers: list[list[float]] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            answers.append(run(workers, DOUBLE))

    thread = threading.Thread(target=ask)
    thread.start()

    def end() -> None:
        stop.set()
        thread.join()

    return answers, end


def test_worker_is_offered_to_the_kernel_before_its_front(start: Callable[..., ModelWorkers]) -> None:
    own = int(Path("/proc/self/oom_score_adj").read_text())
    found = int(Path(f"/proc/{pid_of(start())}/oom_score_adj").read_text())
    assert found == min(1000, own + OOM_POINTS)


def test_worker_that_was_niced_while_it_loaded_serves_at_full_priority(start: Callable[..., ModelWorkers]) -> None:
    if not priority.can_restore():
        pytest.skip("this user may not take niceness back (CAP_SYS_NICE, or RLIMIT_NICE)")
    pid = pid_of(start(options=WorkerOptions(threads=1, load_nice=7), is_beside=True))
    own = os.getpriority(os.PRIO_PROCESS, 0)
    threads = [int(thread.name) for thread in Path(f"/proc/{pid}/task").iterdir()]
    assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {own}
    assert {os.sched_getscheduler(thread) for thread in threads} == {os.SCHED_OTHER}


def test_worker_beyond_its_memory_limit_dies_alone(start: Callable[..., ModelWorkers], watch: Watch) -> None:
    path = cgroup.own_path()
    groups = path[1] if len(path) > 1 else None
    if groups is None or "memory" not in _subtree_control(groups) or not os.access(groups, os.W_OK):
        pytest.skip("no control group of version 2 with a memory controller that this user may write to")
    limit_bytes = 200 << 20
    workers = start(options=WorkerOptions(threads=1, groups=groups, limit_bytes=limit_bytes))
    with pytest.raises(WorkerDied, match="for want of memory"):
        for _ in range(4):
            run(workers, LEAK, item="huge")
    assert run(workers, DOUBLE) == [2.0, 4.0]
    assert [death.item_sha256 for death in watch.deaths] == ["huge"]


def _subtree_control(group: Path) -> list[str]:
    try:
        return (group / "cgroup.subtree_control").read_text().split()
    except OSError:
        return []
