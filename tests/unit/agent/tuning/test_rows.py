"""What does the fleet hear of a verdict?"""

from msgspec.structs import replace
from shoal_agent.tuning.rows import make_row
from shoal_wire.encoding import encode
from shoal_wire.messages import ReleaseReference, parse_row
from shoal_wire.tuning import MAX_MEASURED, BoardKind, Candidate

from tests.unit.agent.tuning.verdict_example import CONDITIONS, FAST, SMALL, VERDICT, measured

BOARD = BoardKind(architecture="aarch64", processor="0xd0b", processors=4)
REFERENCE = ReleaseReference("notes", 3, "e" * 64)


def test_it_hears_the_choice_with_its_files_and_every_figure() -> None:
    row = make_row(VERDICT, chosen=FAST, reference=REFERENCE, board=BOARD, is_confirmed=False)
    assert (row.choice, row.files, row.board, row.reference) == (FAST, ("b" * 64,), BOARD, REFERENCE)
    assert [one.engine_version for one in row.measured] == ["1.2", "5.6", "3.4"]
    assert [one.p50_ms for one in row.measured] == [5.25, 8.5, 20.0]
    assert parse_row(encode(row)) == row


def test_of_very_many_figures_the_choices_is_told() -> None:
    many = tuple(
        measured(Candidate(variant="o", engine="onnxruntime", threads=1, batch=number), p50_ms=1.0, peak_mb=1)
        for number in range(1, 2 * MAX_MEASURED)
    )
    last = measured(SMALL, p50_ms=50.0, peak_mb=1)
    verdict = replace(VERDICT, conditions=CONDITIONS, measured=(*many, last))
    row = make_row(verdict, chosen=SMALL, reference=REFERENCE, board=BOARD, is_confirmed=True)
    assert len(row.measured) == MAX_MEASURED
    assert row.measured[0].candidate == many[0].candidate and row.measured[-1].candidate == SMALL
    assert row.is_confirmed and parse_row(encode(row)) == row
