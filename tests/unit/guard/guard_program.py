"""The guard as a module. It is a program that is run by path, of no package."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

PATH = Path(__file__).parents[3] / "packaging" / "agent" / "guard.py"


def load_guard() -> ModuleType:
    """What the package installs, imported once."""
    if "shoal_guard" not in sys.modules:
        spec = importlib.util.spec_from_file_location("shoal_guard", PATH)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["shoal_guard"] = module
        spec.loader.exec_module(module)
    return sys.modules["shoal_guard"]
