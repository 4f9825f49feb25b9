"""What does a person type to take a model from another tool: `shoal-convert import`."""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shoal_converters.command_line import json_option, say
from shoal_converters.importing.importing import RECIPE, Imported, import_source
from shoal_converters.tasks import TASKS

EXAMPLE = f"""\
Takes a model from an MLflow model or registry folder (MLmodel, meta.yaml), a Hugging Face model folder on disk
(config.json), an OCI image layout (oci-layout; ModelPack or ORAS artifacts, every blob verified by its digest), or a
plain model file; copies it into a new folder and writes a first {RECIPE} with what is known: licence, labels,
signature, pre-processing, provenance with digests. Says what is left to fill in. Nothing is fetched, and no pickle is
opened.

example:
  shoal-convert import mlruns/models/defects/version-3 --out defects --task classification
  shoal-convert import ./resnet-50 --out resnet"""


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add `import SOURCE --out FOLDER` to a parser's commands."""
    parser = commands.add_parser(
        "import",
        parents=[json_option()],
        help="take a model from MLflow, Hugging Face or OCI, with a first recipe",
        description=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", type=Path, metavar="SOURCE", help="a folder of one of these, or a model's file")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="new folder that gets the model")
    parser.add_argument("--task", choices=sorted(TASKS), default="", help="what the model does (default: as it tells)")
    parser.add_argument("--name", default="", help="of the release (default: the model's)")
    parser.add_argument(
        "--reference", default="", help="name or digest of an artifact, where an OCI layout has several"
    )
    parser.set_defaults(command=_import)


def _import(chosen: argparse.Namespace) -> None:
    imported = import_source(
        chosen.source,
        out=chosen.out,
        task=chosen.task,
        name=chosen.name,
        reference=chosen.reference,
        created_at=datetime.now(UTC).date().isoformat(),
    )
    say(imported, words=_describe(imported), as_json=chosen.json)


def _describe(imported: Imported) -> str:
    lines = [f"{imported.recipe}: of this {imported.kind}:", *(f"  {name}" for name in imported.files)]
    lines += ["left to do:", *(f"  {words}" for words in imported.left)] if imported.left else []
    return "\n".join("".join(one if one.isprintable() else "?" for one in line) for line in lines)
