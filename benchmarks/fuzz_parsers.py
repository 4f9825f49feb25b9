"""What else than its documented errors comes out of any parser of outside bytes, when a fuzzer looks for long?

The table of `tests/conformance` under atheris (libFuzzer, guided by coverage), each parser in a process of its own.
What is unexpected is counted by where it was raised, and the first input of each kind is kept in a file. A parser that
takes longer than 10 s for one input, or more than 1 GB, ends its process and is told too.

Run by hand, in an interpreter that has atheris as well: `python -m benchmarks.fuzz_parsers [--seconds 60] [--json]`
"""

import argparse
import hashlib
import json
import random
import re
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

INSTRUMENTED = ("shoal_wire", "shoal_agent", "shoal_fleet", "shoal_worker", "tuf")
MAX_INPUT_BYTES = 1 << 16
SLOW_S = 10
MAX_RSS_MB = 1024
GRACE_S = 120
"""For a process to import everything, instrumented, and to end."""

_EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_PEAK = re.compile(r"stat::peak_rss_mb:\s*(\d+)")
_COVERED = re.compile(r"\bcov: (\d+)")
_ENDED = re.compile(r"ERROR: libFuzzer: (.*)")


def main() -> int:
    """Fuzz, print; exit code 1 if anything unexpected came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each parser (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="parsers whose name has this in it")
    parser.add_argument(
        "--found", type=Path, default=Path("fuzz-found"), help="folder for inputs (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--run", metavar="NAME", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run is not None:
        fuzz(arguments.run, seconds=arguments.seconds, found=arguments.found)
        return 0
    results = {}
    for name in parser_names():
        if arguments.only in name:
            results[name] = run_one(name, seconds=arguments.seconds, found=arguments.found)
            if not arguments.json:
                print(describe(name, results[name]), flush=True)
    if arguments.json:
        print(json.dumps(results))
    return 1 if any(result["unexpected"] for result in results.values()) else 0


def run_one(name: str, *, seconds: int, found: Path) -> dict[str, Any]:
    """Fuzz one parser in a process of its own; what libFuzzer and the process said of it."""
    folder = found / hashlib.sha256(name.encode()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.fuzz_parsers", "--run", name]
    ended = subprocess.run(
        [*command, "--seconds", str(seconds), "--found", str(folder)],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds + GRACE_S,
        check=False,
    )
    unexpected = {path.stem: path.read_text() for path in sorted(folder.glob("*.txt"))}
    for what in _ENDED.findall(ended.stderr):
        unexpected[what] = what
    if ended.returncode and not unexpected:
        unexpected["ended"] = f"exit code {ended.returncode}: {ended.stderr[-400:]}"
    return {
        "executions": _last(_EXECUTED, ended.stderr),
        "peak_rss_mb": _last(_PEAK, ended.stderr),
        "covered": _last(_COVERED, ended.stderr),
        "unexpected": unexpected,
    }


def describe(name: str, result: Mapping[str, Any]) -> str:
    """One parser in a few lines."""
    lines = [
        f"{name}: {result['executions']:,} executions, {result['covered']} edges, {result['peak_rss_mb']} MB, "
        f"{len(result['unexpected'])} unexpected"
    ]
    lines += [f"    {words}" for words in result["unexpected"].values()]
    return "\n".join(lines)


def parser_names() -> Sequence[str]:
    """All parsers of the table."""
    from tests.conformance.test_parsers import PARSERS

    return list(PARSERS)


def fuzz(name: str, *, seconds: int, found: Path) -> None:
    """Fuzz one parser in this process until the time is over; does not return."""
    import atheris

    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        from tests.conformance.parser_table import BOMBS, mutate
        from tests.conformance.test_parsers import PARSERS
    parser = PARSERS[name]
    corpus = found / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, seed in enumerate((*parser.seeds, *BOMBS)):
        (corpus / f"seed-{number}").write_bytes(seed[:MAX_INPUT_BYTES])
    known: set[str] = set()

    def try_out(raw: bytes) -> None:
        try:
            parser.parse(raw)
        except parser.errors:
            return
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            words = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {str(error)[:200]}"
            kind = hashlib.sha256(words.partition(": ")[0].encode()).hexdigest()[:12]
            if kind not in known:
                known.add(kind)
                (found / f"{kind}.txt").write_text(words)
                (found / f"{kind}.input").write_bytes(raw)

    def change(raw: bytes, limit_bytes: int, seed: int) -> bytes:
        """Half of the time as the tests change bytes, half as libFuzzer does."""
        chance = random.Random(seed)
        if chance.random() < 0.5:
            return mutate(raw, chance)[:limit_bytes]
        changed: bytes = atheris.Mutate(raw, limit_bytes)
        return changed

    options = {
        "max_total_time": seconds,
        "timeout": SLOW_S,
        "rss_limit_mb": MAX_RSS_MB,
        "max_len": MAX_INPUT_BYTES,
        "print_final_stats": 1,
    }
    command = [sys.argv[0], str(corpus), *(f"-{option}={value}" for option, value in options.items())]
    atheris.Setup(command, try_out, custom_mutator=change)
    atheris.Fuzz()


def _last(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.findall(text)
    return int(found[-1]) if found else 0


if __name__ == "__main__":
    sys.exit(main())
