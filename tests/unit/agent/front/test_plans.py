"""Is a plan kept for exactly the board, engine and model that it was built for?"""

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from shoal_agent.front.plans import PlanBuild, PlanKey, find_or_build, read_board_release
from shoal_worker.errors import ModelRefused

from tests.plan_store import PlanStoreInMemory

KEY = PlanKey(
    model_sha256="ab" * 32,
    precision="exact",
    engine="tensorrt",
    engine_version="10.3.0",
    device="Orin (nvgpu), sm_87",
    board_release="# R36 (release), REVISION: 4.3",
)
WAIT_S = 30.0


def taken(plan: bytes) -> bool:
    return plan != b"stale"


def never() -> bytes:
    raise AssertionError("nothing had to be built")


@pytest.fixture
def store() -> PlanStoreInMemory:
    return PlanStoreInMemory()


def build(key: PlanKey, store: PlanStoreInMemory, plan: bytes = b"plan") -> None:
    started = find_or_build(key, store=store, build=lambda: plan, takes=taken)
    assert isinstance(started, PlanBuild)
    assert started.wait(WAIT_S)
    assert started.outcome == plan


def test_a_plan_is_built_once_and_found_afterwards(store: PlanStoreInMemory) -> None:
    build(KEY, store)
    assert find_or_build(KEY, store=store, build=never, takes=taken) == b"plan"


@pytest.mark.parametrize("field", list(PlanKey.__dataclass_fields__))
def test_whatever_changes_needs_another_plan(field: str, store: PlanStoreInMemory) -> None:
    build(KEY, store)
    changed = replace(KEY, **{field: "another"})
    assert changed.name != KEY.name
    build(changed, store, b"another plan")
    assert store.plans == {KEY.name: b"plan", changed.name: b"another plan"}


def test_whoever_asks_goes_on_while_the_plan_is_built(store: PlanStoreInMemory) -> None:
    may_end = threading.Event()

    def slow() -> bytes:
        assert may_end.wait(WAIT_S)
        return b"plan"

    started = find_or_build(KEY, store=store, build=slow, takes=taken)
    assert isinstance(started, PlanBuild)
    assert not started.wait(0)
    assert (started.outcome, store.plans) == (None, {})
    may_end.set()
    assert started.wait(WAIT_S)
    assert store.plans == {KEY.name: b"plan"}


def test_a_kept_plan_that_the_engine_refuses_is_built_anew(store: PlanStoreInMemory) -> None:
    store.write(KEY.name, b"stale")
    build(KEY, store)
    assert store.plans == {KEY.name: b"plan"}


def test_a_failed_build_says_why_and_keeps_nothing(store: PlanStoreInMemory) -> None:
    def refuse() -> bytes:
        raise ModelRefused("tensorrt doesn't take the model: unknown operator")

    started = find_or_build(KEY, store=store, build=refuse, takes=taken)
    assert isinstance(started, PlanBuild)
    assert started.wait(WAIT_S)
    assert isinstance(started.outcome, ModelRefused)
    assert store.plans == {}


def test_an_engine_that_gives_no_plan_back_is_told(store: PlanStoreInMemory) -> None:
    started = find_or_build(KEY, store=store, build=lambda: None, takes=taken)
    assert isinstance(started, PlanBuild)
    assert started.wait(WAIT_S)
    assert str(started.outcome) == "engine tensorrt gave no plan back"


def test_the_release_of_the_board_is_the_first_line_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "nv_tegra_release").write_text("# R36 (release), REVISION: 4.3\n# KERNEL_VARIANT: oot\n")
    assert read_board_release(tmp_path / "nv_tegra_release") == "# R36 (release), REVISION: 4.3"
    assert read_board_release(tmp_path / "nothing") == ""
