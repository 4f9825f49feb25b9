"""Which projects are there? `shoal project …`"""

import argparse

from shoal_fleet.command.client import Client
from shoal_fleet.command.output import Columns, print_result, print_table, printable, when
from shoal_fleet.command.parsers import add_command, add_group
from shoal_fleet.command.views import Project, parse

_PATH = "/api/v1/projects"

_COLUMNS: Columns[Project] = {
    "PROJECT": lambda project: project.name,
    "MADE (UTC)": lambda project: when(project.created_at),
}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal project`."""
    actions = add_group(
        commands, "project", summary="devices and releases that belong together", example="shoal project list"
    )
    add_command(
        actions,
        "list",
        summary="the projects in which you have a role",
        description="The projects in which you have a role.",
        example="shoal project list",
        run=_list,
    )
    add = add_command(
        actions,
        "add",
        summary="make a project",
        description="Make a project. What there is stays where it is: devices come in by their enrolment token, and\n"
        "releases by the first one of their name. A project is never removed.",
        example="shoal project add yard",
        run=_add,
    )
    add.add_argument("name", help="lower-case letters, digits and -")


def _list(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.get(_PATH)
    print_table(shown, parse(shown, list[Project], what="projects"), _COLUMNS, as_json=arguments.json)


def _add(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.post(_PATH, {"name": arguments.name})
    print_result(shown, as_json=arguments.json, text=printable(f"{arguments.name} is made"))
