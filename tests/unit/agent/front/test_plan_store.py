"""Do plans on disk give nothing away, and is one that can't be opened forgotten?"""

import hashlib
import hmac
from pathlib import Path

import pytest
from shoal_agent.files import DiskFiles
from shoal_agent.front.plan_store import SealedPlans
from shoal_wire import sealed_file

MODEL = "ab" * 32
NAME = f"{MODEL}-exact-{'1' * 64}"
CONTENT_KEY = b"k" * 32
PLAN = b"weights " * 1000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "plans"


def plans(folder: Path, content_key: bytes = CONTENT_KEY) -> SealedPlans:
    return SealedPlans(folder, files=DiskFiles(), content_key=content_key)


@pytest.mark.parametrize("plan", [b"", b"x", PLAN, bytes(sealed_file.CHUNK_BYTES + 1)])
def test_a_plan_is_read_as_it_was_written(folder: Path, plan: bytes) -> None:
    plans(folder).write(NAME, plan)
    assert plans(folder).read(NAME) == plan


def test_what_lies_on_the_disk_is_sealed_under_a_key_that_comes_from_the_models(folder: Path) -> None:
    plans(folder).write(NAME, PLAN)
    raw = (folder / NAME).read_bytes()
    assert b"weights" not in raw
    salt, sealed = raw[:32], raw[32:]
    # RFC 5869 with the standard library: extract, then one block of expand.
    extracted = hmac.digest(salt, CONTENT_KEY, hashlib.sha256)
    key = hmac.digest(extracted, b"shoal/plan/v1" + NAME.encode() + b"\1", hashlib.sha256)
    header, chunk = sealed[: sealed_file.HEADER_BYTES], sealed[sealed_file.HEADER_BYTES :]
    assert b"".join(sealed_file.unseal([header, chunk], key)) == PLAN


def test_two_plans_under_one_name_never_share_a_key(folder: Path) -> None:
    plans(folder).write(NAME, PLAN)
    first = (folder / NAME).read_bytes()
    plans(folder).write(NAME, PLAN)
    assert (folder / NAME).read_bytes()[:32] != first[:32]


def test_nothing_is_found_before_it_was_written(folder: Path) -> None:
    plans(folder).remove(NAME)
    assert plans(folder).read(NAME) is None


@pytest.mark.parametrize("at", [0, 31, 40, 100, -1])
def test_a_damaged_plan_is_removed(folder: Path, at: int) -> None:
    plans(folder).write(NAME, PLAN)
    raw = bytearray((folder / NAME).read_bytes())
    raw[at] ^= 1
    (folder / NAME).write_bytes(raw)
    assert plans(folder).read(NAME) is None
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("size", [0, 16, 32, 63, 64, 500])
def test_a_cut_off_plan_is_removed(folder: Path, size: int) -> None:
    plans(folder).write(NAME, PLAN)
    (folder / NAME).write_bytes((folder / NAME).read_bytes()[:size])
    assert plans(folder).read(NAME) is None
    assert list(folder.iterdir()) == []


def test_a_plan_of_another_models_key_or_under_another_name_cannot_be_opened(folder: Path) -> None:
    plans(folder).write(NAME, PLAN)
    other = NAME[:-1] + "2"
    (folder / other).write_bytes((folder / NAME).read_bytes())
    assert plans(folder).read(other) is None
    assert plans(folder, b"l" * 32).read(NAME) is None
    assert list(folder.iterdir()) == []


def test_a_plan_takes_the_place_of_those_that_went_out_of_date(folder: Path) -> None:
    old, other_precision, other_model = (
        f"{MODEL}-exact-{'0' * 64}",
        f"{MODEL}-fast-{'0' * 64}",
        f"{'cd' * 32}-exact-{'0' * 64}",
    )
    folder.mkdir()
    for name in (old, f".{old}.new", other_precision, other_model):
        (folder / name).write_bytes(b"x")
    plans(folder).write(NAME, PLAN)
    assert {path.name for path in folder.iterdir()} == {NAME, other_precision, other_model}
