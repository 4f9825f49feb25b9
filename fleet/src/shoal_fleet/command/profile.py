"""What is known of a kind of board, and is that written down rightly? `shoal profile …`"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from shoal_wire.device_profile import DeviceProfile, MeasuredSpeed, parse_profile
from shoal_wire.device_profile_rules import find_clashes, find_mistakes, subject_of
from shoal_wire.errors import Malformed

from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.measured_tables import MAX_REPORT_BYTES, merge_rows, parse_report, take_rows, write_merged
from shoal_fleet.command.output import Columns, listing, print_result, print_table
from shoal_fleet.command.parsers import add_command, add_group
from shoal_fleet.command.profile_files import find_folder, find_profile, load_profile, load_profiles, read_bounded

_COLUMNS: Columns[DeviceProfile] = {
    "NAME": lambda profile: profile.name,
    "BOARD": lambda profile: profile.board,
    "MACHINE": lambda profile: profile.architecture.value,
    "CORES": lambda profile: profile.cores or "differs",
    "MEMORY": lambda profile: _memory(profile) or "differs",
    "ENGINES": lambda profile: ", ".join(engine.value for engine in profile.engines),
    "MEASURED": lambda profile: len(profile.measured_speeds),
}


class Checked(msgspec.Struct, frozen=True):
    """What `shoal profile check` found in a file."""

    file: str
    mistakes: tuple[str, ...]


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal profile`."""
    actions = add_group(commands, "profile", summary="what is known of kinds of boards", example="shoal profile list")
    add_command(
        actions,
        "list",
        summary="all device profiles",
        description="All device profiles on this machine: those in SHOAL_PROFILES, of the source tree or the package.",
        example="shoal profile list",
        run=_list,
    )
    show = add_command(
        actions,
        "show",
        summary="the facts of one",
        description="The facts of one device profile, with the documents that they come from.",
        example="shoal profile show raspberry-pi-5",
        run=_show,
    )
    show.add_argument("name", metavar="NAME", help="as `shoal profile list` prints it")
    check = add_command(
        actions,
        "check",
        summary="whether files are right",
        description="Whether device profiles are right, each by itself and beside each other; exits with 1 if not.",
        example="shoal profile check device_profiles/*.toml",
        run=_check,
    )
    check.add_argument("files", metavar="FILE", type=Path, nargs="+", help="a profile, called <name>.toml")
    merge = add_command(
        actions,
        "merge",
        summary="put measurements of a board into its profile",
        description="Print a device profile with what `shoal-agent tune MODEL --json` measured on such a board. "
        "Reports of other boards and of emulated ones are refused. Of each candidate the newest timing counts; "
        "comments stay. With --json the rows instead of the profile.",
        example="shoal profile merge raspberry-pi-5.toml faces.json > new.toml && mv new.toml raspberry-pi-5.toml",
        run=_merge,
    )
    merge.add_argument("profile", metavar="PROFILE", type=Path, help="its file")
    merge.add_argument("reports", metavar="TUNING", type=Path, nargs="+", help="what the agent's tuning printed")


def check_files(texts: Mapping[str, bytes]) -> list[Checked]:
    """What is wrong with profiles, by file; one line for each file."""
    profiles: dict[str, DeviceProfile] = {}
    mistakes: dict[str, list[str]] = {name: [] for name in texts}
    for name, raw in texts.items():
        try:
            profiles[name] = parse_profile(raw)
        except Malformed as error:
            mistakes[name].append(str(error))
            continue
        mistakes[name] += find_mistakes(profiles[name])
        if Path(name).stem != profiles[name].name:
            mistakes[name].append(
                f"name: expected {Path(name).stem}, as the file is called, found {profiles[name].name}"
            )
    by_profile = {profile.name: name for name, profile in profiles.items()}
    for clash in find_clashes(list(profiles.values())):
        mistakes[by_profile[clash.partition(":")[0]]].append(clash.partition(": ")[2])
    return [Checked(name, tuple(found)) for name, found in mistakes.items()]


def _list(arguments: argparse.Namespace) -> None:
    profiles = load_profiles(find_folder())
    print_table(profiles, profiles, _COLUMNS, as_json=arguments.json, empty=f"none in {find_folder()}")


def _show(arguments: argparse.Namespace) -> None:
    profile = find_profile(find_folder(), arguments.name)
    print_result(profile, as_json=arguments.json, text=describe(profile))


def _check(arguments: argparse.Namespace) -> None:
    checked = check_files({str(path): read_bounded(path) for path in arguments.files})
    for one in checked:
        words = "\n".join(f"{one.file}: {mistake}" for mistake in one.mistakes) or f"{one.file}: right"
        print_result(one, as_json=arguments.json, text=words)
    wrong = [one for one in checked if one.mistakes]
    if wrong:
        raise CommandError(f"{len(wrong)} of {len(checked)} device profiles have mistakes")


def _merge(arguments: argparse.Namespace) -> None:
    profile = load_profile(arguments.profile)
    rows = profile.measured_speeds
    for path in arguments.reports:
        with path.open("rb") as file:
            report = parse_report(file.read(MAX_REPORT_BYTES + 1), what=str(path))
        taken = take_rows(report, profile=profile, what=str(path))
        rows = merge_rows(rows, taken)
        print(f"{path}: {len(taken)} timings of {report.model}", file=sys.stderr)
    merged = write_merged(read_bounded(arguments.profile).decode(), rows)
    print_result(rows, as_json=arguments.json, text=merged.rstrip("\n"))


def describe(profile: DeviceProfile) -> str:
    """A profile for a person."""
    told: dict[str, Sequence[str] | str] = {
        "name": profile.name,
        "board": profile.board,
        "machine": profile.architecture.value,
        "processor": profile.processor or "",
        "cores": "" if profile.cores is None else str(profile.cores),
        "instructions": " ".join(profile.instructions),
        "lacks": " ".join(profile.lacks_instructions),
        "memory": _memory(profile),
        "accelerators": profile.accelerators,
        "engines": ", ".join(engine.value for engine in profile.engines),
        "ciphers": ", ".join(profile.ciphers),
        "supply": [_supply(source.connector, source.volts, source.amperes) for source in profile.power_sources],
        "sensors": [f"{one.measures} of {one.of}: {one.path} ({one.driver})" for one in profile.power_sensors],
        "heat": _heat(profile),
        "storage": profile.storage,
        "known by": [*profile.compatible, *profile.processor_names],
        "measured": [_speed(row) for row in profile.measured_speeds],
        "limits": profile.known_limits,
        "sources": profile.sources,
    }
    lines: dict[str, object] = {}
    for name, value in told.items():
        values = [value] if isinstance(value, str) else list(value)
        for number, one in enumerate(each for each in values if each):
            lines[name if number == 0 else f"{name} {number + 1}"] = one
    return listing(lines)


def _memory(profile: DeviceProfile) -> str:
    return ", ".join(f"{size / 2**30:g}" for size in profile.memory_bytes) + (" GiB" if profile.memory_bytes else "")


def _supply(connector: str, volts: float, amperes: float | None) -> str:
    return f"{connector}, {volts:g} V" + (f", {amperes:g} A" if amperes else "")


def _heat(profile: DeviceProfile) -> str:
    limits = profile.thermal_limits
    if limits is None:
        return ""
    return f"slowed down from {limits.slowed_from_celsius:g} °C on, never above {limits.limit_celsius:g} °C"


def _speed(row: MeasuredSpeed) -> str:
    return f"{subject_of(row)}: {row.answers_per_second:g} answers/s in {row.engine.value} {row.engine_version}"
