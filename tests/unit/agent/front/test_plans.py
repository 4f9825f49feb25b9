"""Is a plan kept for exactly the board, engine and model that it was built for?"""

from dataclasses import replace
from pathlib import Path

import pytest
from shoal_agent.front.plans import PlanKey, find_or_build, read_board_release
from shoal_worker.errors import ModelRefused, WorkerError

from tests.plan_store import PlanStoreInMemory

KEY = PlanKey(
    model_sha256="ab" * 32,
    precision="exact",
    engine="tensorrt",
    engine_version="10.3.0",
    device="Orin (nvgpu), sm_87",
    board_release="# R36 (release), REVISION: 4.3",
)


def proven(plan: bytes) -> str:
    if plan == b"stale":
        raise ModelRefused("built for another GPU")
    return f"proven: {plan.decode()}"


def never() -> bytes:
    raise AssertionError("nothing had to be built")


@pytest.fixture
def store() -> PlanStoreInMemory:
    return PlanStoreInMemory()


def build(key: PlanKey, store: PlanStoreInMemory, plan: bytes = b"plan") -> None:
    found = find_or_build(key, store=store, build=lambda: plan, prove=proven)
    assert found == (plan, f"proven: {plan.decode()}")


def test_a_plan_is_built_once_and_proven_each_time(store: PlanStoreInMemory) -> None:
    build(KEY, store)
    assert find_or_build(KEY, store=store, build=never, prove=proven) == (b"plan", "proven: plan")


@pytest.mark.parametrize("field", list(PlanKey.__dataclass_fields__))
def test_whatever_changes_needs_another_plan(field: str, store: PlanStoreInMemory) -> None:
    build(KEY, store)
    changed = replace(KEY, **{field: "another"})
    assert changed.name != KEY.name
    build(changed, store, b"another plan")
    assert store.plans == {KEY.name: b"plan", changed.name: b"another plan"}


def test_names_of_plans_for_one_model_in_one_precision_differ_in_their_last_part_only() -> None:
    names = [
        key.name.rpartition("-")[0]
        for key in (KEY, replace(KEY, engine_version="10.7.0"), replace(KEY, device="Thor", board_release=""))
    ]
    assert names == ["ab" * 32 + "-exact"] * 3


def test_a_kept_plan_that_the_engine_refuses_is_built_anew(store: PlanStoreInMemory) -> None:
    store.write(KEY.name, b"stale")
    build(KEY, store)
    assert store.plans == {KEY.name: b"plan"}


def test_a_kept_plan_that_cannot_be_tried_now_is_kept(store: PlanStoreInMemory) -> None:
    def exhausted(plan: bytes) -> str:
        raise WorkerError("worker 7 was killed for want of memory")

    store.write(KEY.name, b"plan")
    with pytest.raises(WorkerError, match="want of memory"):
        find_or_build(KEY, store=store, build=never, prove=exhausted)
    assert store.plans == {KEY.name: b"plan"}


def test_a_failed_build_says_why_and_keeps_nothing(store: PlanStoreInMemory) -> None:
    def refuse() -> bytes:
        raise ModelRefused("tensorrt doesn't take the model: unknown operator")

    with pytest.raises(ModelRefused, match="unknown operator"):
        find_or_build(KEY, store=store, build=refuse, prove=proven)
    assert store.plans == {}


def test_the_release_of_the_board_is_the_first_line_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "nv_tegra_release").write_text("# R36 (release), REVISION: 4.3\n# KERNEL_VARIANT: oot\n")
    assert read_board_release(tmp_path / "nv_tegra_release") == "# R36 (release), REVISION: 4.3"
    assert read_board_release(tmp_path / "nothing") == ""
