"""What is a release of the note events network that has a variant for every kind of engine here?

The example's release 2, with its TFLite file beside the ONNX one, and, where a test wants it, with a damaged variant.
"""

import shutil
from pathlib import Path

import msgspec
from shoal_converters.note_events.fetch import NOTE_EVENTS_TFLITE, default_cache, fetch_model
from shoal_converters.note_events.releases import damage
from shoal_wire.encoding import encode
from shoal_wire.manifest import DraftFile, Variant, parse_draft

ONNX = "onnx-fp32"
TFLITE = "tflite-fp32"
DAMAGED = "onnx-damaged"


def build_tunable_release(release_2: Path, out: Path, *, with_damaged: bool = False) -> Path:
    """Write the release folder to `out`, from that of the example's release 2. `out` must not be there yet."""
    shutil.copytree(release_2, out)
    draft = parse_draft((out / "release.json").read_bytes())
    model = draft.models[0]
    added = {TFLITE: ("tflite", "nmp.tflite", fetch_model(default_cache(), model=NOTE_EVENTS_TFLITE).read_bytes())}
    if with_damaged:
        network = (out / draft.files[0].path).read_bytes()
        added[DAMAGED] = ("onnx", "damaged.onnx", damage(network))
    variants, files = list(model.variants), list(draft.files)
    for name, (model_format, file, content) in added.items():
        (out / file).write_bytes(content)
        files.append(DraftFile(name=file, role="model", path=file))
        variants.append(Variant(name=name, format=model_format, precision="fp32", files=(file,)))
    changed = msgspec.structs.replace(
        draft, models=(msgspec.structs.replace(model, variants=tuple(variants)),), files=tuple(files)
    )
    (out / "release.json").write_bytes(encode(changed))
    return out
