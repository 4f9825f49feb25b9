"""A report as a build of an image classifier gives it, made up, with every part that a report may have."""

import hashlib
from typing import Any

from shoal_converters.report.results import (
    Attempt,
    BoardVerdict,
    Confusion,
    Example,
    Golden,
    Interval,
    Layer,
    Prediction,
    Report,
    SourceComparison,
    SourceDifference,
    Speed,
    VariantResult,
)

ORIGINAL = 0.8125


def speed(engine: str, p50_ms: float, **changes: Any) -> Speed:
    """With 12 rounds that differ a little, in which all variants were alike disturbed."""
    rounds = tuple(p50_ms * (1 + 0.02 * (number % 4)) for number in range(12))
    values: dict[str, Any] = {
        "engine": engine,
        "precision": "exact",
        "threads": 1,
        "p50_ms": p50_ms,
        "p95_ms": p50_ms * 1.3,
        "answers_per_s": 1050 / p50_ms,
        "memory_bytes": 118_000_000,
        "rounds_ms": rounds,
    }
    return Speed(**(values | changes))


def variant(name: str, *, drop: float | None = 0.0, **changes: Any) -> VariantResult:
    """Released, unless something else is said."""
    model_format, _, precision = name.partition("-")
    values: dict[str, Any] = {
        "name": name,
        "format": model_format,
        "precision": precision,
        "how": f"{model_format} by its own tool 1.2.3, {precision}",
        "size_bytes": 18_600_000,
        "sha256s": {f"model-{name}.bin": hashlib.sha256(name.encode()).hexdigest()},
        "judged_in": "onnxruntime 1.32.0",
        "value": None if drop is None else ORIGINAL - drop,
        "interval": None if drop is None else Interval(ORIGINAL - drop - 0.024, ORIGINAL - drop + 0.023),
        "drop": drop,
        "drop_interval": None if drop is None else Interval(drop - 0.004, drop + 0.004),
        "agreement": None if drop is None else 1 - 2.1 * abs(drop),
        "is_released": True,
    }
    return VariantResult(**(values | changes))


ATTEMPTS = (
    Attempt(method="min-max, per tensor", value=0.7703, drop=0.0422, size_bytes=4_890_000, seconds=21.4),
    Attempt(method="percentile 99.99, per tensor", value=0.7881, drop=0.0244, size_bytes=4_890_000, seconds=48.0),
    Attempt(method="entropy, per channel", value=0.7969, drop=0.0156, size_bytes=4_930_000, seconds=66.2),
    Attempt(
        method="per channel, 3 layers in float",
        value=0.8078,
        drop=0.0047,
        size_bytes=5_310_000,
        seconds=112.9,
        note="first.conv, head.fc and block12.se in float",
    ),
)

LAYERS = tuple(
    Layer(name=name, operator=operator, sensitivity=sensitivity, is_kept_float=kept)
    for name, operator, sensitivity, kept in (
        ("/features/first/conv", "Conv", 0.214, True),
        ("/classifier/head.fc", "Gemm", 0.162, True),
        ("/features/block12/se/scale", "Mul", 0.131, True),
        ("/features/block3/depthwise", "Conv", 0.058, False),
        ("/features/block7/expand", "Conv", 0.031, False),
        ("/features/block2/depthwise", "Conv", 0.0294, False),
        ("/features/block9/project", "Conv", 0.012, False),
        ("/features/block14/project", "Conv", 0.0041, False),
    )
)

CONFUSIONS = (
    Confusion(expected="tabby", answered="tiger cat", original=11, variant=19),
    Confusion(expected="tabby", answered="tabby", original=61, variant=54),
    Confusion(expected="beagle", answered="basset", original=7, variant=4),
)


def example(number: int, *, picture: str = "") -> Example:
    """An item that the quantized variant has wrong."""
    return Example(
        item=f"cats/tabby/{number:04d}.jpg",
        expected="tabby",
        original=f"tabby {0.81 - number / 100:.2f}",
        variant=f"tiger cat {0.44 + number / 100:.2f}",
        score=0.0,
        picture=picture,
    )


def variants(*, pictures: tuple[str, ...] = ()) -> tuple[VariantResult, ...]:
    """Nine: some of them not better, some not good enough, one that can't run here."""
    return (
        variant("onnx-fp32", speeds=(speed("onnxruntime", 21.3), speed("onnxruntime", 12.9, threads=2))),
        variant("onnx-fp16", drop=0.0002, size_bytes=9_320_000, gains=("smaller",), reason="smaller, but not faster"),
        variant(
            "onnx-int8",
            drop=0.0047,
            size_bytes=5_310_000,
            gains=("smaller", "faster"),
            speeds=(speed("onnxruntime", 7.41), speed("onnxruntime", 4.72, threads=2)),
            attempts=ATTEMPTS,
            layers=LAYERS,
            confusions=CONFUSIONS,
            worst=tuple(example(number, picture=picture) for number, picture in enumerate(pictures or ("",), start=1)),
        ),
        variant("tflite-fp32", drop=0.0001, size_bytes=18_550_000, speeds=(speed("litert", 35.2),)),
        variant(
            "tflite-int8",
            drop=0.0081,
            size_bytes=4_980_000,
            gains=("smaller", "faster"),
            speeds=(speed("litert", 3.9), speed("openvino", 5.1)),
        ),
        variant("openvino-fp32", speeds=(speed("openvino", 19.6, threads=2), speed("openvino", 6, precision="fast"))),
        variant(
            "openvino-int8",
            drop=0.0219,
            size_bytes=4_860_000,
            gains=("smaller", "faster"),
            is_released=False,
            reason="loses 0.0219 of top-1 accuracy, allowed 0.01",
            speeds=(speed("openvino", 4.4, threads=2),),
        ),
        variant(
            "tflite-int8-dynamic",
            drop=0.71,
            size_bytes=4_900_000,
            gains=("smaller",),
            is_released=False,
            reason="loses 0.7100 of top-1 accuracy, allowed 0.01",
            speeds=(speed("litert", 36.5),),
            not_timed={"openvino (exact)": "openvino doesn't take the model: unknown operator"},
        ),
        variant(
            "coreml-fp16",
            drop=None,
            size_bytes=9_400_000,
            is_released=False,
            reason="its accuracy could not be measured here",
            not_timed={"coreml": "coreml runs on Apple's systems only"},
        ),
    )


READERS: dict[str, dict[str, tuple[str, ...]]] = {
    "raspberry-pi-5": {"onnx": ("onnxruntime",), "tflite": ("litert",)},
    "jetson-orin-nano": {"onnx": ("tensorrt", "onnxruntime")},
}
"""Engines that read a format, by board."""


def report(**changes: Any) -> Report:
    """All of it; `changes` replace fields."""
    told = variants()
    values: dict[str, Any] = {
        "name": "pet-breeds",
        "version": 3,
        "task": "classification",
        "metric": "top-1 accuracy",
        "samples": 1_280,
        "max_drop": 0.01,
        "original": variant("original", format="torch-export", precision="fp32", how="PyTorch exported program"),
        "variants": told,
        "source": SourceComparison(
            framework="PyTorch 2.13",
            items=16,
            calls=32,
            allowed=1e-3,
            differences=(
                SourceDifference(variant="onnx-fp32", output="logits", difference=4.1e-7),
                SourceDifference(variant="tflite-fp32", output="logits", difference=0.083),
                SourceDifference(variant="tflite-fp32", output="logits"),
            ),
        ),
        "missing": {"onnx-int8-tensorrt": "tensorrt-rtx isn't installed: pip install 'shoal-converters[tensorrt]'"},
        "predictions": (
            Prediction(
                board="raspberry-pi-5",
                variant="tflite-int8",
                engine="litert",
                threads=1,
                answers_per_s=71.3,
                source="estimated: 269 answers/s on this machine x 0.265, by which this kind of board differs from it",
            ),
        ),
        "boards": tuple(
            BoardVerdict(board=board, variant=one.name, engines=engines, words=words)
            for board, readers in READERS.items()
            for one in told
            for engines in [readers.get(one.format, ())]
            for words in ["needs 118 MB of memory" if engines else f"no engine of this board reads {one.format}"]
        ),
        "golden": (
            Golden(item="cats/tabby/0007.jpg", kind="easy", minimum=0.9, maximum_difference=0.021),
            Golden(item="dogs/beagle/0113.jpg", kind="boundary", minimum=0.34, maximum_difference=0.043),
            Golden(item="dogs/pug/0009.jpg", kind="hard", minimum=0.51, maximum_difference=None),
        ),
        "notes": ("onnx-fp16: Softmax computes in float32, as its range in half precision is too small",),
        "reference_output": {"labels": {"tabby": 74, "beagle": 61}, "scores": [0, 3, 8, 21, 968]},
        "licence": "Apache-2.0",
        "provenance": "Trained by us on 31,000 licensed photographs; run 8f3a.",
        "source_sha256": hashlib.sha256(b"source").hexdigest(),
        "versions": {"python": "3.11.9", "onnxruntime": "1.32.0", "openvino": "2026.4.1", "shoal-converters": "0.1.0"},
        "machine": "Intel Xeon, 2 cores, x86_64",
        "command": "shoal-convert build recipe.toml --out releases/pet-breeds-3",
        "manifest_sha256": hashlib.sha256(b"manifest").hexdigest(),
    }
    return Report(**(values | changes))
