"""How does a test get a Python that has NumPy, one of its own modules as an engine, and nothing else?"""

import importlib.util
import venv
from collections.abc import Mapping
from pathlib import Path


def make_python(folder: Path, *, engine: Path, names: Mapping[str, str]) -> str:
    """The interpreter. `engine` is the module's file; `names` the formats by the engine's name."""
    venv.create(folder, symlinks=True, with_pip=False)
    packages = next(folder.glob("lib/python*/site-packages"))
    spec = importlib.util.find_spec("numpy")
    assert spec is not None and spec.origin is not None
    numpy = Path(spec.origin).parent
    for path in (numpy, numpy.with_name("numpy.libs")):
        if path.exists():
            (packages / path.name).symlink_to(path)
    (packages / engine.name).symlink_to(engine)
    described = packages / f"{engine.stem}-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {engine.stem}\nVersion: 1\n")
    entries = "".join(f"{name}.{model_format} = {engine.stem}\n" for name, model_format in names.items())
    (described / "entry_points.txt").write_text(f"[shoal.engines]\n{entries}")
    return str(folder / "bin/python")
