"""How is coremltools loaded without all the frameworks that it would load wherever they are installed?

With None in its place, a package can't be imported, which saves most of the time. A path that needs one of these
imports it before.
"""

import sys

for _name in ("tensorflow", "torchao", "transformers", "xgboost"):
    sys.modules.setdefault(_name, None)  # type: ignore[arg-type]

import coremltools  # noqa: E402

__all__ = ["coremltools"]
