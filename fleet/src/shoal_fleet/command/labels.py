"""How are devices labelled? `shoal device label`"""

import argparse
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import UsageError
from shoal_fleet.command.output import print_result
from shoal_fleet.command.parsers import add_command


def add_parser(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal device label`."""
    label = add_command(
        actions,
        "label",
        summary="set and remove labels of devices",
        description='Set labels, which expressions then find devices by (labels.site == "north"), and remove others.\n'
        "Labels that aren't named stay.",
        example="shoal device label yard-3 yard-4 --set site=north --set cellar= --remove roof",
        run=_label,
    )
    label.add_argument("device", nargs="+", help="id or name")
    label.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="may be given more than once")
    label.add_argument("--remove", action="append", default=[], metavar="KEY", help="may be given more than once")


def read_labels(texts: Sequence[str], *, option: str) -> dict[str, str]:
    """Labels of a command line.

    Raises:
        UsageError: one isn't KEY=VALUE, or two have the same key.
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{option} {text}: expected KEY=VALUE, as site=north")
        if key in found:
            raise UsageError(f"{option} {text}: {key} is there twice")
        found[key] = value
    return found


def write_labels(labels: Mapping[str, str] | None) -> str:
    """Labels as a person writes them."""
    return ", ".join(f"{key}={value}" for key, value in sorted((labels or {}).items()))


def _label(arguments: argparse.Namespace) -> None:
    changes: dict[str, str | None] = {**read_labels(arguments.set, option="--set")}
    for key in arguments.remove:
        if key in changes:
            raise UsageError(f"--remove {key}: --set has it, too")
        changes[key] = None
    if not changes:
        raise UsageError("nothing to change: expected --set KEY=VALUE or --remove KEY")
    labelled = {}
    with Client() as client:
        for device in arguments.device:
            shown = client.patch(f"/api/v1/devices/{quote(device, safe='')}/labels", {"labels": changes})
            labelled[device] = shown["labels"]
    text = "\n".join(f"{device}: {write_labels(labels) or 'no labels'}" for device, labels in labelled.items())
    print_result(labelled, as_json=arguments.json, text=text)
