"""Is what the updater keeps on disk read back as it was written, and a damaged file named?"""

from pathlib import Path

import msgspec
import pytest
from shoal_agent.files import DiskFiles
from shoal_agent.slots import PLANS, Slots
from shoal_agent.updater.collect import collect
from shoal_agent.updater.errors import BrokenInstallation, UnreadableJournal
from shoal_agent.updater.records import Records
from shoal_wire.encoding import encode

from tests.unit.agent.updater.releases import CASE_FILE, MODEL_FILE, NAME, journal, manifest, manifest_digest, slot


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path, files=DiskFiles())


def test_records_are_read_as_they_were_written(records: Records) -> None:
    records.write_journal(journal(2, generation=3))
    records.write_slots(Slots(slots={NAME: slot(2, 1, (1, 2))}))
    records.write_floors({NAME: 2})
    assert records.journal() == journal(2, generation=3)
    assert records.slots() == Slots(slots={NAME: slot(2, 1, (1, 2))})
    assert records.floors() == {NAME: 2}


def test_new_board_has_no_journal_slots_or_floors(records: Records) -> None:
    assert records.journal() is None
    assert records.slots() == Slots()
    assert records.floors() == {}


@pytest.mark.parametrize("content", [b"", b"{", b'{"format":2}', b"\0" * 40])
def test_damaged_journal_is_unreadable(content: bytes, records: Records) -> None:
    (records.state / "update.json").write_bytes(content)
    with pytest.raises(UnreadableJournal, match=r"update\.json"):
        records.journal()


@pytest.mark.parametrize("name", ["slots.json", "floors.json", "device.json"])
def test_other_damaged_files_need_a_person(name: str, records: Records) -> None:
    (records.state / name).write_bytes(b"{")
    read = {"slots.json": records.slots, "floors.json": records.floors, "device.json": records.device}
    with pytest.raises(BrokenInstallation, match=name):
        read[name]()


def test_board_that_was_not_enrolled_is_told_so(records: Records) -> None:
    with pytest.raises(BrokenInstallation, match="was this board enrolled"):
        records.device()


def fill_store(records: Records, *names: str) -> None:
    for name in names:
        records.files.write(records.state / "store" / name, b"")


def test_collecting_keeps_what_slots_and_plan_name(records: Records) -> None:
    records.write_slots(Slots(slots={NAME: slot(1)}))
    records.files.write(records.state / "store" / manifest_digest(1), encode(manifest(1)))
    planned = "d" * 64
    file = manifest(2).files[0]
    fill_store(records, MODEL_FILE, CASE_FILE, "e" * 64, planned, f"{MODEL_FILE}.part", f"{'e' * 64}.part", ".x.new")

    collect(records, planned=[file], manifest_sha256=planned)

    kept = {manifest_digest(1), MODEL_FILE, CASE_FILE, planned, f"{MODEL_FILE}.part"}
    assert set(records.store_names()) == kept


def test_nothing_is_collected_while_a_slots_manifest_is_missing(records: Records) -> None:
    records.write_slots(Slots(slots={NAME: slot(1)}))
    fill_store(records, MODEL_FILE, "e" * 64)

    collect(records)

    assert records.store_names() == [MODEL_FILE, "e" * 64]


def test_collecting_forgets_writes_of_this_program_that_were_cut_short(records: Records) -> None:
    for name in (".slots.json.new", ".trust.json.new", ".desired.dsse.new"):
        (records.state / name).write_bytes(b"{")

    collect(records)

    assert records.files.names(records.state) == [".desired.dsse.new"]


def test_collecting_keeps_plans_of_models_that_slots_and_plan_name(records: Records) -> None:
    records.write_slots(Slots(slots={NAME: slot(1)}))
    records.files.write(records.state / "store" / manifest_digest(1), encode(manifest(1)))
    held, planned = (manifest(1).files[0], manifest(2).files[0])
    planned = msgspec.structs.replace(planned, plaintext_sha256="d" * 64)
    kept = {f"{held.plaintext_sha256}-exact-1", f".{held.plaintext_sha256}-fast-1.new", f"{'d' * 64}-exact-1"}
    for name in {*kept, f"{'e' * 64}-exact-1", f".{'e' * 64}-exact-1.new"}:
        records.files.write(records.state / PLANS / name, b"")

    collect(records, planned=[planned])

    assert set(records.files.names(records.state / PLANS)) == kept
