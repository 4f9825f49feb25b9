"""Does the bill of materials list what a member declares, and nothing of the tools that it is tested with?"""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def normalise(name: str) -> str:
    """As the package index compares names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.long
@pytest.mark.parametrize("member", ["agent", "fleet"])
def test_bill_of_materials_lists_what_is_installed(member: str) -> None:
    subprocess.run([ROOT / "packaging" / "sbom.sh"], check=True, capture_output=True, timeout=1200)
    listed = json.loads((ROOT / "dist" / "sbom" / f"shoal-{member}.cdx.json").read_text())
    found = {normalise(component["name"]) for component in listed["components"]}
    project = tomllib.loads((ROOT / member / "pyproject.toml").read_text())["project"]
    declared = {normalise(re.split(r"[\[<>=!~; ]", requirement)[0]) for requirement in project["dependencies"]}
    assert declared <= found
    assert not found & {"pytest", "hypothesis", "mypy", "ruff"}
