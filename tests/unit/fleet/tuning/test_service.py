"""Is what boards found out kept, and is a board told what holds for its kind and its release?"""

import pytest
from msgspec.structs import replace
from shoal_fleet.database import Sessions
from shoal_fleet.devices import service as devices
from shoal_fleet.telemetry import service as telemetry
from shoal_fleet.tuning import service
from shoal_wire.manifest import parse_manifest
from shoal_wire.messages import ReleaseReference, Tuned
from shoal_wire.tuning import Candidate, KnownChoice

from tests.unit.fleet.boards import NOW, Board, manifest_of, reference, weights_of
from tests.unit.fleet.telemetry.rows import BOARD, LITERT, ONNX, tuned

V1, V2 = reference("notes", 1), reference("notes", 2)
WEIGHTS = (weights_of("notes", 1),)
ONLY = replace(LITERT, variant="only")
OTHER = replace(ONNX, variant="only")
EMULATED = replace(BOARD, is_emulated=True)


def verdict(choice: Candidate = ONLY, *, release: ReleaseReference = V1, files: tuple[str, ...] = WEIGHTS) -> Tuned:
    return tuned(choice, release=release, files=files)


def enrol(sessions: Sessions, name: str, *rows: Tuned) -> Board:
    board = Board(name)
    board.enrol(sessions)
    with sessions() as session:
        telemetry.commit_batch(session, board.plain_batch(first=1, rows=rows), now=NOW)
    return board


def known(
    sessions: Sessions, *, version: int = 1, weights: str | None = None, fingerprint: str | None = BOARD.fingerprint
) -> tuple[KnownChoice, ...]:
    manifest = parse_manifest(manifest_of("notes", version, weights=weights, variants=("only", "other")))
    with sessions() as session:
        return service.KnownChoices(session, manifest).of(fingerprint)


def standing(sessions: Sessions, **wanted: str) -> list[tuple[str, int, str]]:
    asked = {"model": None, "fingerprint": None, "device_id": None} | wanted
    with sessions() as session:
        rows = service.list_standing(session, **asked, after_id=0, limit=10)
        return [(row.device_id, row.version, str(service.read_choice(row))) for row in rows]


def test_a_board_of_the_kind_is_told_with_the_figures_and_how_many_agree(sessions: Sessions) -> None:
    for name in ("a", "b"):
        enrol(sessions, name, verdict())
    (found,) = known(sessions)
    assert found == KnownChoice(
        model="notes", candidate=ONLY, files=WEIGHTS, engine_version="2.0.3", p50_ms=18.25, boards=2
    )


@pytest.mark.parametrize(
    "fingerprint", [None, replace(BOARD, processors=2).fingerprint, EMULATED.fingerprint, "0" * 64]
)
def test_a_board_of_another_kind_is_told_nothing(sessions: Sessions, fingerprint: str | None) -> None:
    enrol(sessions, "a", verdict())
    assert known(sessions, fingerprint=fingerprint) == ()


def test_a_release_of_other_weights_has_no_known_choice(sessions: Sessions) -> None:
    enrol(sessions, "a", verdict())
    assert known(sessions, version=2) == ()


def test_another_version_with_the_same_weights_has_it_under_its_own_name(sessions: Sessions) -> None:
    enrol(sessions, "a", verdict(replace(LITERT, variant="old-name")))
    (found,) = known(sessions, version=2, weights=WEIGHTS[0])
    assert found.candidate == ONLY


def test_another_model_says_nothing(sessions: Sessions) -> None:
    enrol(sessions, "a", verdict(release=reference("birds", 1)))
    assert known(sessions) == ()


def test_emulated_boards_tell_nobody_anything(sessions: Sessions) -> None:
    enrol(sessions, "a", replace(verdict(), board=EMULATED))
    assert known(sessions) == ()
    assert known(sessions, fingerprint=EMULATED.fingerprint) == ()


def test_another_objective_is_another_question(sessions: Sessions) -> None:
    enrol(sessions, "a", replace(verdict(), objective="memory"))
    assert known(sessions) == ()
    manifest = parse_manifest(manifest_of("notes", 1))
    with sessions() as session:
        assert len(service.KnownChoices(session, manifest, objective="memory").of(BOARD.fingerprint)) == 1


def test_a_revoked_board_has_no_say(sessions: Sessions) -> None:
    board = enrol(sessions, "a", verdict())
    with sessions() as session:
        devices.revoke(session, board.id, actor="user:anna", now=NOW)
    assert known(sessions) == ()


def test_a_newer_verdict_takes_the_place_of_the_older(sessions: Sessions) -> None:
    enrol(sessions, "a", verdict(), verdict(replace(OTHER, threads=3)), verdict(release=V2))
    (found,) = known(sessions)
    assert (found.candidate, found.boards) == (ONLY, 1)
    assert standing(sessions) == [
        ("d-a", 1, "only onnxruntime exact threads=3"),
        ("d-a", 2, "only litert exact threads=2"),
    ]


def test_standing_verdicts_by_model_kind_and_device(sessions: Sessions) -> None:
    enrol(sessions, "a", verdict())
    enrol(sessions, "b", verdict(release=reference("birds", 1)), replace(verdict(), board=EMULATED))
    assert [row[:2] for row in standing(sessions, model="notes")] == [("d-a", 1), ("d-b", 1)]
    assert [row[0] for row in standing(sessions, fingerprint=EMULATED.fingerprint)] == ["d-b"]
    assert [row[0] for row in standing(sessions, device_id="d-a")] == ["d-a"]


def test_newest_verdict_of_each_device_and_release(sessions: Sessions) -> None:
    enrol(sessions, "a", verdict(), replace(verdict(), is_confirmed=True), verdict(OTHER, release=V2))
    with sessions() as session:
        newest = service.find_newest(session)
    assert {key: (row.is_confirmed, row.version) for key, row in newest.items()} == {
        ("d-a", V1.manifest_sha256): (True, 1),
        ("d-a", V2.manifest_sha256): (False, 2),
    }
