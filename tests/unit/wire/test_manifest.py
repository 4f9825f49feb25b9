import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from shoal_wire.encoding import encode
from shoal_wire.errors import Malformed, Unsupported
from shoal_wire.manifest import MAX_MANIFEST_BYTES, Variant, parse_draft, parse_manifest, target_path

from tests.vectors.examples import example, to_json

Change = Callable[[dict[str, Any]], None]


def changed(change: Change, *, name: str = "manifest") -> bytes:
    document = example(name)
    change(document)
    return to_json(document)


def model(document: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = document["models"][0]
    return first


def reference(document: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = model(document)["golden"][0]["outputs"][0]
    return first


def binding(document: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = model(document)["variants"][0]["bindings"][0]
    return first


def add(items: list[Any], **changes: Any) -> None:
    """Put a copy of the first item behind the last one."""
    items.append(items[0] | changes)


CROSS_REFERENCES: list[tuple[Change, str]] = [
    (lambda m: m["files"].pop(0), "model note-events: names the file 'network', which is not among its 2 files"),
    (lambda m: m["files"].pop(1), "model note-events: names the file 'scale.wav', which is not among its 2 files"),
    (lambda m: model(m)["variants"][0]["files"].append("other"), "names the file 'other'"),
    (lambda m: model(m)["golden"][0].update(file="other"), "names the file 'other'"),
    (lambda m: reference(m).update(file="other"), "names the file 'other'"),
    (lambda m: reference(m)["variants"].append("other"), "outputs: of the variant 'other', which the model "),
    (lambda m: add(model(m)["golden"][0]["outputs"]), "case scale: outputs: variant 'onnx-fp32' is named twice"),
    (lambda m: reference(m)["variants"].append("onnx-fp32"), "outputs: variant 'onnx-fp32' is named twice"),
    (lambda m: add(m["files"], role="other"), "file 'network' is named twice"),
    (lambda m: add(m["models"], task="other"), "model 'note-events' is named twice"),
    (lambda m: add(model(m)["variants"]), "model note-events: variant 'onnx-fp32' is named twice"),
    (lambda m: add(model(m)["golden"]), "model note-events: golden case 'scale' is named twice"),
    (lambda m: m["models"].clear(), "names no model"),
    (lambda m: model(m).update(floor=4), "floor 4 is above the release's own version 3"),
]

BINDINGS: list[tuple[Change, str]] = [
    (lambda m: binding(m).update(tensor="other"), r"of 'other', which is none of the model's tensors, \['notes:0', "),
    (lambda m: model(m)["outputs"][0].update(name="sound:0"), "of 'sound:0', which is both an input and an output"),
    (lambda m: add(model(m)["variants"][0]["bindings"]), "binding of 'sound:0' is named twice"),
    (lambda m: add(model(m)["inputs"], name="serving_sound"), "input in the file 'serving_sound' is named twice"),
    (lambda m: binding(m).update(permutation=[0, 1, 1]), r"\[0, 1, 1\] is no permutation of its 3 axes"),
    (lambda m: binding(m).update(permutation=[1, 0]), r"\[1, 0\] is no permutation of its 3 axes"),
    (lambda m: binding(m).update(permutation=[]), r"its shape is \[1, 1, 43844\], expected \[-1, 43844, 1\] by the "),
    (lambda m: binding(m).update(shape=[1, 43844]), r"its shape \[1, 43844\] has another rank than \[-1, 43844, 1\]"),
    (lambda m: binding(m).update(dtype="float16"), r"scale 0\.0078125, but float16 is none of \['int16', 'int32'"),
    (lambda m: binding(m).update(dtype="uint8"), "zero point -1 is outside of uint8"),
    (lambda m: binding(m).update(zero_point=128), "zero point 128 is outside of int8"),
    (lambda m: binding(m).update(scale=0), "zero point -1 without a scale"),
]

FIELDS: list[tuple[Change, str]] = [
    (lambda m: m["files"].clear(), r"length >= 1.*\$\.files"),
    (lambda m: model(m)["golden"].clear(), r"length >= 1.*golden"),
    (lambda m: model(m)["variants"].clear(), r"length >= 1.*variants"),
    (lambda m: model(m)["variants"][0]["files"].clear(), r"length >= 1.*files"),
    (lambda m: m.update(version=0), r"\$\.version"),
    (lambda m: m.update(version="3"), r"\$\.version"),
    (lambda m: m.update(name="Note-events"), r"\$\.name"),
    (lambda m: m.update(models=m["models"] * 17), r"length <= 16.*\$\.models"),
    (lambda m: model(m)["pre"][0].update(parameters=[]), r"parameters"),
    (lambda m: model(m)["inputs"][0].update(shape=[1] * 17), r"shape"),
    (lambda m: model(m)["inputs"][0].update(shape=[-2]), r"shape"),
    (lambda m: model(m)["variants"][0]["accuracy"][0].update(samples=0), r"samples"),
    (lambda m: binding(m).update(scale=-0.5), r"scale"),
    (lambda m: binding(m).update(permutation=[-1]), r"permutation"),
    (lambda m: reference(m).update(variants=[]), r"length >= 1.*variants"),
    (lambda m: reference(m).update(maximum_difference=0), r"maximum_difference"),
]

SEALED_FILE_FIELDS: list[tuple[Change, str]] = [
    (lambda m: m["files"][0].update(chunk_sha256s=[]), r"chunk_sha256s"),
    (lambda m: m["files"][0].update(chunk_sha256s=["x"]), r"chunk_sha256s\[0\]"),
    (lambda m: m["files"][0].update(chunk_bytes=0), r"chunk_bytes"),
    (lambda m: m["files"][0].update(chunk_bytes=2**32), r"chunk_bytes"),
    (lambda m: m["files"][0].update(plaintext_bytes=-1), r"plaintext_bytes"),
    (lambda m: m["files"][0].update(ciphertext_bytes=2**60), r"ciphertext_bytes"),
    (lambda m: m["files"][0].update(ciphertext_sha256="A" * 64), r"ciphertext_sha256"),
]


@pytest.mark.parametrize(("change", "message"), CROSS_REFERENCES)
def test_references_that_do_not_hold_are_refused(change: Change, message: str) -> None:
    with pytest.raises(Malformed, match=f"^manifest: .*{message}"):
        parse_manifest(changed(change))
    with pytest.raises(Malformed, match=rf"^release\.json: .*{message}"):
        parse_draft(changed(change, name="release_draft"))


@pytest.mark.parametrize(("change", "message"), BINDINGS)
def test_binding_that_cannot_be_followed_is_refused(change: Change, message: str) -> None:
    with pytest.raises(Malformed, match=f"^manifest: model note-events: variant onnx-fp32: .*{message}"):
        parse_manifest(changed(change))


def test_file_may_have_free_what_the_signature_fixes_and_the_other_way_round() -> None:
    manifest = parse_manifest(changed(lambda m: binding(m).update(shape=[1, -1, -1])))
    assert manifest.models[0].variants[0].bindings[0].shape == (1, -1, -1)


@pytest.mark.parametrize(("change", "message"), FIELDS)
def test_field_that_is_not_as_agreed_is_refused_and_named(change: Change, message: str) -> None:
    with pytest.raises(Malformed, match=f"^manifest: .*{message}"):
        parse_manifest(changed(change))
    with pytest.raises(Malformed, match=rf"^release\.json: .*{message}"):
        parse_draft(changed(change, name="release_draft"))


@pytest.mark.parametrize(("change", "message"), SEALED_FILE_FIELDS)
def test_sealed_file_that_is_not_as_agreed_is_refused_and_the_field_named(change: Change, message: str) -> None:
    with pytest.raises(Malformed, match=rf"^manifest: .*\$\.files\[.*{message}"):
        parse_manifest(changed(change))


PATHS = ["../network", "a/b", "/network", "..", ".hidden", "a\\b", "C:network", "a\0b", "", "a b", "network\n"]


@pytest.mark.parametrize("path", PATHS)
def test_name_that_could_be_a_path_is_refused(path: str) -> None:
    places: list[Change] = [
        lambda m: m["files"][0].update(name=path),
        lambda m: model(m)["variants"][0].update(name=path),
        lambda m: model(m)["variants"][0].update(files=[path]),
        lambda m: model(m)["golden"][0].update(file=path),
        lambda m: model(m).update(name=path),
        lambda m: m.update(name=path),
    ]
    for change in places:
        with pytest.raises(Malformed, match=r"^manifest: .*regex"):
            parse_manifest(changed(change))


def test_floor_may_be_the_version_itself() -> None:
    assert parse_manifest(changed(lambda m: model(m).update(floor=3))).models[0].floor == 3


def test_one_file_may_serve_several_variants_and_models() -> None:
    def share(document: dict[str, Any]) -> None:
        add(model(document)["variants"], name="second")
        add(document["models"], name="second")

    manifest = parse_manifest(changed(share))

    assert {variant.files for each in manifest.models for variant in each.variants} == {("network",)}


def test_manifest_for_newer_software_is_refused() -> None:
    with pytest.raises(Unsupported, match="attestation"):
        parse_manifest(changed(lambda m: m.update(critical=["attestation"], attestation={})))


def test_draft_is_strict_about_its_own_fields() -> None:
    for change in (lambda m: m.update(licens="MIT"), lambda m: m["files"][0].update(digest="x")):
        with pytest.raises(Malformed, match="unknown field"):
            parse_draft(changed(change, name="release_draft"))


def test_too_long_a_manifest_is_refused() -> None:
    with pytest.raises(Malformed, match=r"^manifest: 4194305 bytes, expected at most 4194304"):
        parse_manifest(b" " * (MAX_MANIFEST_BYTES + 1))


def test_largest_manifest_is_judged_and_its_error_stays_short() -> None:
    def fill(document: dict[str, Any]) -> None:
        document["files"] = [document["files"][0] | {"name": f"file-{index}"} for index in range(4096)]

    with pytest.raises(Malformed, match="names the file 'network', which is not among its 4096 files") as caught:
        parse_manifest(changed(fill))
    assert len(str(caught.value)) < 200


def test_manifest_reads_back_byte_for_byte() -> None:
    manifest = parse_manifest(to_json(example("manifest")))

    assert parse_manifest(encode(manifest)) == manifest
    assert encode(parse_manifest(encode(manifest))) == encode(manifest)
    assert json.loads(encode(manifest)) == example("manifest")


def test_reference_outputs_of_a_variant_are_found_and_only_those() -> None:
    def add_variant(document: dict[str, Any]) -> None:
        add(model(document)["variants"], name="onnx-int8")

    (described,) = parse_manifest(changed(add_variant)).models

    assert described.golden_files == ("scale.wav", "scale.npz")
    assert described.reference_files("onnx-fp32") == ("scale.npz",)
    assert described.reference_files("onnx-int8") == ()


def test_target_is_named_for_release_and_version() -> None:
    assert target_path(name="note-events", version=3) == "note-events/3/manifest.json"


def test_variant_says_which_engines_compute_it_right() -> None:
    anywhere = Variant("v", "tflite", "int8", ("f",))
    some = replace(anywhere, runtimes=("litert", "openvino"))
    assert [one.is_right_in("tflite-runtime") for one in (anywhere, some)] == [True, False]
    assert some.is_right_in("openvino")
    assert (anywhere.needed_engines, some.needed_engines) == ("tflite", "tflite (right in litert, openvino only)")
