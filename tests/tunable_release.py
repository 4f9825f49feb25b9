"""What is a release of the note events network that has a variant for two kinds of engines, and a damaged one?

The example's release 2 without OpenVINO's form, which would only make tests longer.
"""

import shutil
from pathlib import Path

import msgspec
from shoal_converters.note_events.damage import damage
from shoal_wire.encoding import encode
from shoal_wire.manifest import DraftFile, Model, parse_draft

ONNX = "onnx-fp32"
TFLITE = "tflite-fp32"
DAMAGED = "onnx-damaged"
DAMAGED_FILE = "damaged.onnx"


def build_tunable_release(release_2: Path, out: Path, *, with_damaged: bool = False) -> Path:
    """Write the release folder to `out`, from that of the example's release 2. `out` must not be there yet."""
    shutil.copytree(release_2, out)
    draft = parse_draft((out / "release.json").read_bytes())
    model = with_outputs_of(draft.models[0], ONNX, TFLITE)
    of_example = {variant.name: variant for variant in model.variants}
    variants = [of_example[ONNX], of_example[TFLITE]]
    files = [
        file for file in draft.files if file.role in ("golden", "outputs") or file.name in ("nmp.onnx", "nmp.tflite")
    ]
    if with_damaged:
        (out / DAMAGED_FILE).write_bytes(damage((out / "nmp.onnx").read_bytes(), what=DAMAGED_FILE))
        files.append(DraftFile(name=DAMAGED_FILE, role="model", path=DAMAGED_FILE))
        variants.append(msgspec.structs.replace(of_example[ONNX], name=DAMAGED, files=(DAMAGED_FILE,)))
    changed = msgspec.structs.replace(
        draft, models=(msgspec.structs.replace(model, variants=tuple(variants)),), files=tuple(files)
    )
    (out / "release.json").write_bytes(encode(changed))
    return out


def with_outputs_of(model: Model, *variants: str) -> Model:
    """The model with recorded outputs of these variants only."""
    replace = msgspec.structs.replace
    return replace(
        model,
        golden=tuple(
            replace(case, outputs=tuple(replace(one, variants=variants) for one in case.outputs))
            for case in model.golden
        ),
    )
