"""Do only a board's own timings get into its profile, and does everything else in the file stay?"""

import datetime

import msgspec
import pytest
from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.measured_tables import Report, merge_rows, parse_report, take_rows, write_merged
from shoal_wire.device_profile import DeviceProfile, Engine, MeasuredSpeed, parse_profile

PROFILE = """\
# A board of ours.
name = "tiny-board"
board = "Tiny board"   # as its maker calls it
architecture = "aarch64"
engines = ["onnxruntime", "litert"]
ciphers = ["aes-256-gcm"]
compatible = ["us,tiny-board"]

[thermal_limits] # from its data sheet
slowed_from_celsius = 80.0
limit_celsius = 85.0
"""
MEASURED = """
[[measured_speeds]]
# by hand
model = "faces"
variant = "tflite-int8"
engine = "litert"
engine_version = "2.0"
threads = 2
answers_per_second = 20.0
"""
AT = datetime.datetime(2027, 3, 1, 12, tzinfo=datetime.UTC).timestamp()
BOARD = {
    "architecture": "aarch64",
    "board": "Tiny board Rev 1",
    "processor": "aarch64 0xd0b",
    "processors": 4,
    "governor": "ondemand",
}
CANDIDATE = {"variant": "tflite-int8", "engine": "litert", "threads": 2}
FIGURES = {
    "candidate": CANDIDATE,
    "is_finalist": True,
    "p50_ms": 12.34567,
    "p95_ms": 15.0,
    "answers_per_s": 81.23456,
    "peak_bytes": 40_000_000,
    "joules": 0.012346,
}


def report(*measured: dict[str, object], **changes: object) -> Report:
    """What an agent prints, as far as a profile is concerned."""
    text = {
        "model": "faces",
        "at": AT,
        "conditions": {"engines": {"litert.tflite": "2.3.0"}, "governor": "ondemand", "agent_version": "0.2.0"},
        "meter": "hwmon power",
        "measured": measured or (FIGURES,),
        "board": BOARD,
        "profile": "tiny-board",
        "something": "newer",
    }
    return parse_report(msgspec.json.encode(text | changes), what="faces.json")


def take(found: Report, *, text: str = PROFILE) -> tuple[MeasuredSpeed, ...]:
    return take_rows(found, profile=parse_profile(text), what="faces.json")


def read(text: str) -> DeviceProfile:
    return parse_profile(text)


def test_row_has_all_that_was_measured_and_where_joules_come_from() -> None:
    assert take(report()) == (
        MeasuredSpeed(
            model="faces",
            variant="tflite-int8",
            engine=Engine.LITERT,
            engine_version="2.3.0",
            threads=2,
            answers_per_second=81.23,
            p50_ms=12.35,
            p95_ms=15.0,
            joules=0.01235,
            joules_source="meter",
            meter="hwmon power",
            memory_peak_bytes=40_000_000,
            measured_on=datetime.date(2027, 3, 1),
            agent_version="0.2.0",
            governor="ondemand",
            processor="aarch64 0xd0b",
        ),
    )


def test_board_without_a_meter_gives_no_joules() -> None:
    (row,) = take(report(FIGURES | {"joules": None}, meter=""))
    assert (row.joules, row.joules_source, row.meter) == (None, None, None)


def test_candidates_that_were_dropped_or_run_in_other_engines_are_left_out() -> None:
    dropped = FIGURES | {"is_finalist": False, "candidate": CANDIDATE | {"threads": 1}}
    plug_in = FIGURES | {"candidate": CANDIDATE | {"engine": "tvm"}}
    assert [row.threads for row in take(report(dropped, FIGURES, plug_in))] == [2]
    with pytest.raises(CommandError, match="no candidate was measured to the end"):
        take(report(dropped))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"board": BOARD | {"is_emulated": True}}, "emulated board"),
        ({"board": None}, "doesn't say on which board"),
        ({"profile": "raspberry-pi-5"}, "expected a report of tiny-board, found one of raspberry-pi-5"),
        ({"profile": ""}, "found one of no known profile"),
        ({"board": BOARD | {"architecture": "x86_64"}}, "x86_64"),
        ({"at": 0.0}, "1970-01-01"),
    ],
    ids=["emulated", "no board", "another board", "no profile", "another machine", "clock never set"],
)
def test_report_that_says_nothing_of_such_a_board_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        take(report(**changes))


def test_profile_of_any_board_takes_no_timings() -> None:
    with pytest.raises(CommandError, match="no board is known by profile"):
        take(report(), text=PROFILE.replace('compatible = ["us,tiny-board"]\n', ""))


def test_what_is_no_report_is_refused_with_what_was_expected() -> None:
    with pytest.raises(CommandError, match="shoal-agent tune MODEL --json"):
        parse_report(b"{}", what="faces.json")


def test_the_newest_timing_of_a_candidate_counts() -> None:
    (newer,) = take(report())
    older = msgspec.structs.replace(newer, measured_on=datetime.date(2027, 1, 1), answers_per_second=1.0)
    assert merge_rows([older], [newer]) == (newer,)
    assert merge_rows([newer], [older]) == (newer,)
    assert merge_rows([msgspec.structs.replace(older, measured_on=None)], [newer]) == (newer,)
    other = msgspec.structs.replace(newer, threads=1)
    assert merge_rows([newer], [other]) == (newer, other)


def test_comments_and_facts_stay_where_rows_are_added() -> None:
    rows = take(report())
    merged = write_merged(PROFILE, rows)
    assert merged.startswith(PROFILE)
    assert read(merged).measured_speeds == rows
    assert "measured_on = 2027-03-01" in merged
    assert "precision" not in merged  # its default


def test_row_that_is_there_is_rewritten_in_its_place_and_others_stay() -> None:
    other = MEASURED.replace('"faces"', '"notes"').replace("by hand", "another")
    text = PROFILE + MEASURED + other
    (newer,) = take(report())
    rows = merge_rows(read(text).measured_speeds, [newer])
    merged = write_merged(text, rows)
    assert [row.model for row in read(merged).measured_speeds] == ["faces", "notes"]
    assert read(merged).measured_speeds[0] == newer
    assert "# by hand" in merged and other in merged
    again = write_merged(merged, rows)
    assert again == merged


def test_empty_list_of_rows_is_filled() -> None:
    (row,) = take(report())
    text = PROFILE.replace("[thermal_limits]", "measured_speeds = []\n\n[thermal_limits]")
    assert read(write_merged(text, (row,))).measured_speeds == (row,)
