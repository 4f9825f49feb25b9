"""Is every item known that a program has placed?"""

import json
import subprocess
import sys

from shoal_fleet.command.demo.items import Item, Placing, stop_all

PLACES = """
import json, sys, time
for number in range(int(sys.argv[1]), 1_000_000):
    print(json.dumps({"file": f"{number}.wav", "sha256": "00" * 32, "words": "C4", "seed": number}), flush=True)
    time.sleep(0.05)
"""


def begin(first: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PLACES, str(first)], stdout=subprocess.PIPE, text=True)


def test_items_are_those_that_were_said_until_the_programs_were_stopped() -> None:
    programs = [begin(first) for first in (10, 20)]
    placings = [Placing(program) for program in programs]
    stop_all(placings)
    for first, program, placing in zip((10, 20), programs, placings, strict=True):
        placed = list(placing.placed().values())
        assert placed == [Item(f"{number}.wav", "00" * 32, "C4") for number in range(first, first + len(placed))]
        assert placed
        assert program.stdout is not None
        assert program.stdout.read() == ""
        program.stdout.close()


def test_stopping_nothing_is_done_at_once() -> None:
    stop_all([])


def test_program_that_ended_by_itself_has_placed_what_it_said() -> None:
    line = json.dumps({"file": "a", "sha256": "11" * 32, "words": ""})
    with subprocess.Popen([sys.executable, "-c", f"print('{line}')"], stdout=subprocess.PIPE, text=True) as program:
        placing = Placing(program)
        program.wait()
        stop_all([placing])
    assert placing.placed() == {"a": Item("a", "11" * 32, "")}
