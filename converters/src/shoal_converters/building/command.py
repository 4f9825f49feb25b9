"""What does a person type to make a release: `shoal-convert new` and `shoal-convert build`."""

import argparse
import contextlib
import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from shoal_wire.device_profile import DeviceProfile

from shoal_converters.building.build import build
from shoal_converters.building.job import Order, Tell
from shoal_converters.building.release import REPORT_HTML, REPORT_JSON, check_places
from shoal_converters.command_line import json_option, say
from shoal_converters.errors import BadRecipe
from shoal_converters.importing.drafting import Known, draft_recipe
from shoal_converters.importing.recipe_toml import write_recipe
from shoal_converters.inspection.boards import load_profiles
from shoal_converters.inspection.command import PROFILES, find_profiles
from shoal_converters.paths import EXTRAS
from shoal_converters.recipe import Recipe, load_recipe
from shoal_converters.report.verdict import tell_verdict
from shoal_converters.source_model import CODE
from shoal_converters.tasks import TASKS

NEW_EXAMPLE = """\
Writes a first recipe for a trained model: its signature, pre- and post-processing for the task, and where calibration
and evaluation sets are expected. Correct it, then build.

example:
  shoal-convert new defects.onnx --task classification --labels good,scratch,dent
  shoal-convert new network:make --task regression --out recipe.toml"""

BUILD_EXAMPLE = f"""\
Makes a release of a trained model, as a recipe says: converts it for every engine, quantizes it by the cheapest method
that keeps its accuracy, judges every variant on the evaluation set, times all of them here, picks golden cases, and
writes the release folder, which `shoal release create` seals and signs. {REPORT_HTML} and {REPORT_JSON} in it say what
was released, what was not, and why. A variant that loses more than the recipe allows, or that is neither smaller nor
faster than the model in full precision, is not released. Where none may be, FOLDER stays as it was, and the reports go
to FOLDER.report. Without names of variants in the recipe, those are made that one of its targets runs; without targets
all that can be made.

Progress goes to stderr. Exit codes: 0 done, 1 it can't be done (stderr says why), 2 wrong arguments, 130 interrupted.

example:
  shoal-convert build recipe.toml --out release-1
  shoal-convert build recipe.toml --out release-1 --python tensorflow=/opt/tensorflow/bin/python --json"""


def add_parsers(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add `new MODEL` and `build RECIPE` to a parser's commands."""
    parser = _add(commands, "new", help="write a first recipe for a model", description=NEW_EXAMPLE)
    parser.add_argument("model", metavar="MODEL", help="a file, a folder, or module:function of Python code")
    parser.add_argument("--task", choices=sorted(TASKS), required=True, help="what the model does")
    parser.add_argument("--labels", default="", metavar="A,B,…", help="labels in the order of the model's outputs")
    parser.add_argument("--name", default="", help="of the release (default: the model's)")
    parser.add_argument(
        "--out", type=Path, default=Path("recipe.toml"), metavar="FILE", help="default: %(default)s; never overwritten"
    )
    parser.set_defaults(command=_new)
    parser = _add(commands, "build", help="make a release as a recipe says", description=BUILD_EXAMPLE)
    parser.add_argument("recipe", type=Path, metavar="RECIPE", help="a recipe's file")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="release folder; an earlier one goes")
    parser.add_argument(
        "--python",
        type=_interpreter,
        action="append",
        default=[],
        metavar="EXTRA=PATH",
        help="Python program that has the framework of an extra, where this one hasn't; may be given several times",
    )
    parser.add_argument(
        "--profiles",
        type=Path,
        metavar="FOLDER",
        help=f"device profiles (default: {PROFILES} in this folder or one above)",
    )
    parser.set_defaults(command=_build)


def _add(commands: "argparse._SubParsersAction[Any]", name: str, *, help: str, description: str) -> Any:
    return commands.add_parser(
        name,
        parents=[json_option()],
        help=help,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _new(chosen: argparse.Namespace) -> None:
    out: Path = chosen.out
    if out.exists():
        raise BadRecipe(f"{out}: exists already; name another file with --out, or remove it")
    is_code = CODE.fullmatch(chosen.model) and not Path(chosen.model).exists()
    model = chosen.model if is_code else Path(chosen.model)
    drafted = draft_recipe(
        model,
        task=chosen.task,
        folder=out.resolve().parent,
        name=chosen.name or _name(chosen.model),
        version=1,
        created_at=datetime.now(UTC).date().isoformat(),
        known=Known(labels=tuple(label.strip() for label in chosen.labels.split(",") if label.strip())),
    )
    write_recipe(drafted.recipe, out, left=drafted.left)
    words = "\n".join([f"{out}: written; left to do:", *(f"  {line}" for line in drafted.left)])
    say({"recipe": str(out), "left": drafted.left}, words=words, as_json=chosen.json)


def _build(chosen: argparse.Namespace) -> None:
    recipe = load_recipe(chosen.recipe)
    out = chosen.out.resolve()
    check_places(out)
    order = Order(
        recipe=recipe,
        recipe_folder=chosen.recipe.resolve().parent,
        out=out,
        command=shlex.join(["shoal-convert", *sys.argv[1:]]),
        interpreters=dict(chosen.python),
        profiles=_load_targets(recipe, chosen.profiles),
    )
    with _engines_quiet() as terminal:
        report = build(order, tell=_tell_to(terminal))
    document = {"folder": str(chosen.out), "report": report}
    words = f"{tell_verdict(report)}\n{chosen.out / REPORT_HTML}"
    say(document, words=words, as_json=chosen.json)


def _load_targets(recipe: Recipe, folder: Path | None) -> Sequence[DeviceProfile]:
    """The profiles of the boards that a recipe names."""
    if not recipe.targets:
        return ()
    folder = folder or find_profiles(Path.cwd())
    if folder is None:
        raise BadRecipe(f"targets: no folder {PROFILES} here or above; name it with --profiles")
    known = {profile.name: profile for profile in load_profiles(folder)}
    unknown = sorted(set(recipe.targets) - set(known))
    if unknown:
        raise BadRecipe(f"targets: unknown board {unknown[0]!r}, expected out of {sorted(known)}")
    return [known[name] for name in recipe.targets]


@contextlib.contextmanager
def _engines_quiet() -> Iterator[TextIO]:
    """Gives standard error to write to, while what engines print there, in their own processes too, goes nowhere."""
    sys.stderr.flush()
    kept = os.dup(2)
    with Path(os.devnull).open("wb") as nowhere, os.fdopen(kept, "w", buffering=1) as terminal:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield terminal
        finally:
            os.dup2(kept, 2)


def _tell_to(terminal: TextIO) -> Tell:
    began = time.monotonic()

    def tell(line: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that was closed costs no build
            print(f"[{time.monotonic() - began:6.1f} s] {line}", file=terminal, flush=True)

    return tell


def _interpreter(text: str) -> tuple[str, str]:
    extra, equals, path = text.partition("=")
    if not equals or extra not in EXTRAS:
        raise argparse.ArgumentTypeError(f"{text!r}, expected EXTRA=PATH with an extra out of {', '.join(EXTRAS)}")
    if not os.access(path, os.X_OK) or not Path(path).is_file():
        raise argparse.ArgumentTypeError(f"{path}: not a program, expected a Python interpreter that has {extra}")
    return extra, path


def _name(model: str) -> str:
    return model.rpartition(":")[2] if CODE.fullmatch(model) else Path(model).stem
