"""How does the worker start in an interpreter that has no shoal installed?

Run as `<interpreter> <folder>/__main__.py --fd N --parent PID`. Python puts this folder first on `sys.path`;
there its modules could shadow those of the engine, so it is taken off, and the folder is loaded by its path
as the package `shoal_worker`. The `site-packages` around it never gets onto `sys.path`: it holds packages
built for another interpreter.
"""

import os
import sys

# pathlib could be shadowed until the folder is off.
FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != FOLDER]  # noqa: PTH100

import importlib.util  # noqa: E402
from pathlib import Path  # noqa: E402


def load_package() -> None:
    """Load this folder as the package `shoal_worker`, wherever it lies."""
    spec = importlib.util.spec_from_file_location(
        "shoal_worker", Path(FOLDER, "__init__.py"), submodule_search_locations=[FOLDER]
    )
    assert spec is not None and spec.loader is not None, "a source file always has a loader"
    package = importlib.util.module_from_spec(spec)
    sys.modules["shoal_worker"] = package
    spec.loader.exec_module(package)


def main() -> None:
    """Serve until the front closes the channel; never returns."""
    load_package()
    from shoal_worker.serve import main as serve

    exit_code = serve(sys.argv[1:])
    sys.stderr.flush()
    # The engine may be in the middle of a run that nobody wants any more: don't wait for its threads.
    os._exit(exit_code)


if __name__ == "__main__":
    main()
