"""What can be done with the agent on the command line?"""

import argparse
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import msgspec
from shoal_wire.errors import Unsupported, WireError
from shoal_wire.grant import MLKEM768_X25519, X25519

from shoal_agent.configuration import Configuration, load_configuration
from shoal_agent.enrolment_file import MAX_BYTES, EnrolmentFile, parse_enrolment_file
from shoal_agent.errors import AgentError, FleetUnreachable, NotEnrolled, WrongConfiguration
from shoal_agent.files import DiskFiles
from shoal_agent.state import CONFIGURATION
from shoal_agent.tuning.options import add_tune_options, parse_tune_options

DEFAULT_STATE = "/var/lib/shoal-agent"

OK = 0
FAILED = 1
WRONG_USE = 2
NOT_ENROLLED = 3
TRY_LATER = 75

_EXIT_CODES = f"""exit codes:
  {OK:>2}  done
  {FAILED:>2}  failed; the reason is on standard error
  {WRONG_USE:>2}  wrong options or configuration
  {NOT_ENROLLED:>2}  this board isn't enrolled yet
  {TRY_LATER:>2}  the fleet couldn't be reached: try again later
"""


class Command(NamedTuple):
    """A subcommand."""

    summary: str
    example: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except WrongConfiguration as error:
        return _fail(error, WRONG_USE)
    except NotEnrolled as error:
        return _fail(error, NOT_ENROLLED)
    except FleetUnreachable as error:
        return _fail(error, TRY_LATER)
    except (AgentError, WireError, OSError) as error:
        return _fail(error, FAILED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shoal-agent",
        description="Runs models on this board for its fleet.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"shoal-agent {version('shoal-agent')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, command in _COMMANDS.items():
        subparser = commands.add_parser(
            name,
            help=command.summary,
            description=command.summary,
            epilog=f"example:\n  {command.example}\n\n{_EXIT_CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        subparser.add_argument(
            "--state",
            type=Path,
            default=Path(os.environ.get("SHOAL_STATE", DEFAULT_STATE)),
            metavar="DIR",
            help=f"the agent's state folder (default: $SHOAL_STATE, else {DEFAULT_STATE})",
        )
        command.add_options(subparser)
        subparser.set_defaults(run=command.run)
    return parser


def _add_enrol_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "token", metavar="TOKEN", nargs="?", help="what `shoal device token` printed; - reads it from standard input"
    )
    parser.add_argument(
        "--file",
        metavar="FILE",
        help='in place of TOKEN: a file of lines such as token = "…", name = "yard-camera", profile = "…"; '
        "- reads it from standard input. Options go before what it says",
    )
    parser.add_argument("--name", metavar="NAME", help=f"what people call this board (default: {socket.gethostname()})")
    parser.add_argument(
        "--profile", metavar="NAME", help="kind of board, a device profile (default: what this board is found to be)"
    )
    parser.add_argument(
        "--identity-key",
        metavar="URI",
        help="keep the identity key in a TPM or token: pkcs11:token=NAME?module-path=LIBRARY&pin-source=file:FILE "
        "(default: identity_key in agent.toml, else a file of the state folder)",
    )
    parser.add_argument(
        "--grants",
        choices=[X25519, MLKEM768_X25519],
        help="how content keys are sealed to this board (default: as `grants` in its device profile says)",
    )


def _enrol(options: argparse.Namespace) -> int:
    from shoal_agent.board_detection import detect_here
    from shoal_agent.enrolment import Label, enrol  # an HTTP client, which the daemon goes without

    detected = detect_here()
    asked = _read_asked(options)
    profile = options.profile or asked.profile or detected.profile
    device = enrol(
        DiskFiles(),
        options.state,
        token=asked.token,
        label=Label(
            options.name or asked.name or socket.gethostname(),
            profile,
            has_hybrid=_wants_hybrid(options, profile=profile),
            identity_key=_identity_key(options),
        ),
        agent_version=version("shoal-agent"),
    )
    print(f"profile {device.profile}" + (f": {detected.reason}" if device.profile == detected.profile else ""))
    print(f"enrolled as {device.device} ({device.name}); start it with: shoal-agent run --state {options.state}")
    return OK


def _wants_hybrid(options: argparse.Namespace, *, profile: str) -> bool:
    """As the option says; else as the device profile does, where this machine can."""
    from shoal_wire.hybrid_key import HybridPrivateKey

    from shoal_agent.profiles import find_profile  # neither is needed by the daemon

    if options.grants is not None:
        return bool(options.grants == MLKEM768_X25519)
    found = find_profile(profile)
    if found is None or found.grants != MLKEM768_X25519:
        return False
    try:
        HybridPrivateKey.generate()
    except Unsupported as error:
        print(
            f"profile {profile} wants grants by {MLKEM768_X25519}, this board gets {X25519}: {error}", file=sys.stderr
        )
        return False
    return True


def _read_asked(options: argparse.Namespace) -> EnrolmentFile:
    if (options.token is None) == (options.file is None):
        raise WrongConfiguration("expected either a TOKEN or --file FILE; `shoal device token` on the fleet makes one")
    if options.token is not None:
        return EnrolmentFile(token=sys.stdin.readline() if options.token == "-" else options.token)  # noqa: S105
    if options.file == "-":
        return parse_enrolment_file(sys.stdin.buffer.read(MAX_BYTES + 1), what="enrolment file")
    with Path(options.file).open("rb") as file:
        return parse_enrolment_file(file.read(MAX_BYTES + 1), what=options.file)


def _identity_key(options: argparse.Namespace) -> str:
    if options.identity_key is not None:
        return str(options.identity_key)
    path = options.state / CONFIGURATION
    return load_configuration(path, environment={}, is_required=False).identity_key


def _add_no_options(_parser: argparse.ArgumentParser) -> None:
    pass


def _renew(options: argparse.Namespace) -> int:
    from shoal_agent.renewal import renew  # an HTTP client, which the daemon goes without

    lifetime = renew(DiskFiles(), options.state, agent_version=version("shoal-agent"), now=time.time())
    print(f"the certificate is good until {lifetime.not_after:%Y-%m-%d %H:%M:%S} UTC")
    return OK


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        default=os.environ.get("SHOAL_CONFIG"),
        metavar="FILE",
        help=f"configuration (default: $SHOAL_CONFIG, else {CONFIGURATION} in the state folder, if it is there)",
    )


def _run(options: argparse.Namespace) -> int:
    from shoal_agent.daemon.daemon import run_daemon  # only here: status and enrol need none of it

    configuration = _configuration(options)
    logging.basicConfig(
        level=configuration.log_level.upper(), stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s"
    )
    run_daemon(options.state, configuration=configuration, files=DiskFiles())
    return OK


def _configuration(options: argparse.Namespace) -> Configuration:
    path = Path(options.config) if options.config else options.state / CONFIGURATION
    return load_configuration(path, environment=os.environ, is_required=bool(options.config))


def _add_status_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines for a person")


def _status(options: argparse.Namespace) -> int:
    from shoal_agent.own_trees import read_launch
    from shoal_agent.status import read_status, write_status

    status = read_status(DiskFiles(), options.state, launch=read_launch(os.environ))
    print(msgspec.json.encode(status).decode() if options.json else write_status(status))
    return OK


def _add_doctor_options(parser: argparse.ArgumentParser) -> None:
    _add_run_options(parser)
    _add_status_options(parser)
    parser.add_argument(
        "--quick", action="store_true", help="start no engine and ask nobody over the network: done in a moment"
    )


def _doctor(options: argparse.Namespace) -> int:
    from shoal_agent.doctor.board import read_board  # NumPy, which the daemon goes without
    from shoal_agent.doctor.examination import examine, is_sound, write_report

    path = Path(options.config) if options.config else options.state / CONFIGURATION
    board = read_board(options.state, configuration=path, is_required=bool(options.config), is_quick=options.quick)
    results = examine(board)
    print(msgspec.json.encode(results).decode() if options.json else write_report(results))
    return OK if is_sound(results) else FAILED


def _add_tune_options(parser: argparse.ArgumentParser) -> None:
    _add_run_options(parser)
    add_tune_options(parser)


def _tune(options: argparse.Namespace) -> int:
    from shoal_worker.process import disable_core_dumps

    from shoal_agent.swap import keep_out_of_swap
    from shoal_agent.tuning.plot import draw_verdict
    from shoal_agent.tuning.program import check_owner, tune  # NumPy, which the daemon goes without
    from shoal_agent.tuning.report import write_verdict

    wanted = parse_tune_options(options)
    check_owner(wanted, user=os.geteuid())  # before the configuration, which lies in the same folder
    disable_core_dumps()  # content keys and weights pass through this process
    keep_out_of_swap()
    outcome = tune(
        wanted,
        configuration=_configuration(options),
        files=DiskFiles(),
        tell=lambda line: print(line, file=sys.stderr),
    )
    verdict = outcome.verdict
    if outcome.is_earlier:
        print("an earlier verdict still holds; --fresh measures again", file=sys.stderr)
    print(msgspec.json.encode(verdict).decode() if options.json else write_verdict(verdict))
    if options.plot:
        options.plot.write_text(draw_verdict(verdict))
    return OK if verdict.choice.candidate else FAILED


def _fail(error: Exception, code: int) -> int:
    print(f"shoal-agent: {error}", file=sys.stderr)
    return code


_COMMANDS = {
    "enrol": Command(
        "make this board a device of a fleet", "shoal-agent enrol shoal1.eyJ1… --name yard", _add_enrol_options, _enrol
    ),
    "renew": Command(
        "get the next certificate now; the daemon does so by itself in time, and takes it at its next connection",
        "shoal-agent renew",
        _add_no_options,
        _renew,
    ),
    "run": Command("serve, update and report until stopped", "shoal-agent run", _add_run_options, _run),
    "tune": Command(
        "find the best engine and setting for a model on this board",
        "shoal-agent tune note-events --objective latency --limit-memory-mb 200 --budget-s 60",
        _add_tune_options,
        _tune,
    ),
    "status": Command("say what this board holds", "shoal-agent status --json", _add_status_options, _status),
    "doctor": Command(
        "say what is wrong with this board, or weakens it, and what helps; fails where something is bad, not for "
        "warnings, and not for what can't be found out",
        "shoal-agent doctor --quick",
        _add_doctor_options,
        _doctor,
    ),
}


if __name__ == "__main__":
    sys.exit(main())
