"""Is a choice that a release must not serve by kept so over restarts, and is none left out that may serve?"""

import errno
import hashlib
import os
from pathlib import Path

import msgspec
import pytest
from shoal_agent.daemon.proven import MAX_RELEASES, PROVEN, ProvenChoices
from shoal_agent.files import DiskFiles
from shoal_agent.slots import HeldRelease, stored
from shoal_agent.tuned import FOLDER, ServingChoice
from shoal_wire.encoding import encode
from shoal_wire.messages import ReleaseReference
from shoal_wire.tuning import Candidate

from tests.unit.agent.tuning.verdict_example import CONDITIONS, VERDICT
from tests.unit.agent.updater.releases import NAME, held, manifest, model


def choose(engine: str, *, key: str = "0" * 64) -> dict[str, ServingChoice]:
    candidate = Candidate(variant="only", engine=engine, threads=1)
    return {NAME: ServingChoice(candidate=candidate, files=("1" * 64,), engine_version="1", key=key)}


A, B = choose("onnxruntime"), choose("openvino")


def start(state: Path) -> ProvenChoices:
    return ProvenChoices(DiskFiles(), state)


def keep_release(state: Path) -> HeldRelease:
    """A release whose manifest is in the store."""
    raw = encode(manifest(2))
    digest = hashlib.sha256(raw).hexdigest()
    DiskFiles().write(stored(state, digest), raw)
    return msgspec.structs.replace(held(2), reference=ReleaseReference(NAME, 2, digest))


def test_distrust_is_for_one_release_and_one_choice_and_outlives_a_restart(tmp_path: Path) -> None:
    assert start(tmp_path).distrust(held(2), A)
    again = start(tmp_path)
    assert again.trusted(held(2), A) == {} and again.trusted(held(2), B) == B and again.trusted(held(1), A) == A
    again.distrust(held(2), B)
    assert start(tmp_path).trusted(held(2), A) == start(tmp_path).trusted(held(2), B) == {}


def test_newest_releases_are_kept(tmp_path: Path) -> None:
    for version in range(1, MAX_RELEASES + 2):
        start(tmp_path).distrust(held(version), A)
    proven = start(tmp_path)
    assert proven.trusted(held(1), A) == A
    assert all(proven.trusted(held(version), A) == {} for version in range(2, MAX_RELEASES + 2))


def test_choices_for_models_of_other_releases_are_no_reason(tmp_path: Path) -> None:
    release = keep_release(tmp_path)
    proven, other = start(tmp_path), {"another-model": A[NAME]}
    assert not proven.distrust(release, other)
    assert proven.distrust(release, {**A, **other})
    assert proven.trusted(release, {**A, **other}) == other


def test_what_was_checked_outlives_a_restart_until_the_update_ends(tmp_path: Path) -> None:
    start(tmp_path).note_checked(held(2), A)
    assert start(tmp_path).release_checked == NAME
    assert start(tmp_path).checked_with(held(2)) == A and start(tmp_path).checked_with(held(1)) is None
    start(tmp_path).end_update(held(2), served_by=A, choices=A)
    assert start(tmp_path).release_checked == "" and start(tmp_path).trusted(held(2), A) == A


def test_choice_of_an_unknown_origin_that_came_in_an_update_does_not_take_the_place_of_the_checked_one(
    tmp_path: Path,
) -> None:
    proven = start(tmp_path)
    proven.note_checked(held(2), A)
    proven.end_update(held(2), served_by=A, choices=B)
    assert start(tmp_path).trusted(held(2), B) == A
    start(tmp_path).distrust(held(2), A)
    assert start(tmp_path).trusted(held(2), B) == {}


@pytest.mark.parametrize(("golden_sha256", "is_followed"), [("0" * 64, True), ("9" * 64, False)])
def test_choice_that_came_in_an_update_counts_if_its_verdict_is_about_this_release(
    tmp_path: Path, golden_sha256: str, is_followed: bool
) -> None:
    """The plaintext of the golden case has the digest 000… in the manifest."""
    about = hashlib.sha256(encode(model()) + golden_sha256.encode()).hexdigest()
    conditions = msgspec.structs.replace(CONDITIONS, model_sha256=about)
    found = choose("litert", key="7" * 64)
    DiskFiles().write(
        tmp_path / FOLDER / f"{'7' * 64}.json", encode(msgspec.structs.replace(VERDICT, conditions=conditions))
    )
    proven, release = start(tmp_path), keep_release(tmp_path)
    proven.note_checked(release, A)
    proven.end_update(release, served_by=A, choices=found)
    assert proven.trusted(release, found) == (found if is_followed else A)


def test_damaged_file_begins_anew(tmp_path: Path) -> None:
    DiskFiles().write(tmp_path / FOLDER / PROVEN, b'{"format":1,"distrusted":[{')
    proven = start(tmp_path)
    assert proven.trusted(held(2), A) == A
    proven.distrust(held(2), A)
    assert start(tmp_path).trusted(held(2), A) == {}


class FullDisk(DiskFiles):
    """Takes nothing."""

    def write(self, path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_disk_that_takes_nothing_is_no_reason_to_stop(tmp_path: Path) -> None:
    proven = ProvenChoices(FullDisk(), tmp_path)
    proven.distrust(held(2), A)
    assert proven.trusted(held(2), A) == {}
