"""How do two models differ: in their signatures, output by output, and layer by layer?"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from shoal_agent.front.bindings import Bindings
from shoal_agent.front.worker import Worker
from shoal_wire.manifest import Tensor
from shoal_worker.errors import WorkerError

from shoal_converters.comparing.differences import Difference, Meter
from shoal_converters.comparing.feeds import Feeds, load_feeds, make_feeds
from shoal_converters.comparing.golden_inputs import prepare_golden
from shoal_converters.comparing.matching import bind_matches, fix_lengths, match_tensors, note_matches
from shoal_converters.comparing.onnx_layers import observe_onnx
from shoal_converters.comparing.openvino_layers import observe_openvino
from shoal_converters.comparing.sides import Side, Signature, find_ranges, find_signature, make_bindings
from shoal_converters.comparing.taps import Layers, Tap, output_name
from shoal_converters.errors import BadData, BadModel, ToolMissing
from shoal_converters.inspection.running import DEADLINE_S, open_worker

OBSERVERS: Mapping[str, Callable[[Path, Path], Layers]] = {"onnx": observe_onnx, "openvino": observe_openvino}
"""By the format of both files: how their intermediate tensors are made outputs."""
TAP_ENGINES: Mapping[str, str] = {"onnx": "onnxruntime", "openvino": "openvino"}
"""In which both are then run."""
RANDOM_NOTE = "random inputs lie outside the range that a quantized model was calibrated for: use --data"
TAPS_AT_ONCE = 64
"""Intermediate tensors that are kept in memory together."""


class OutputDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One output of both."""

    name: str
    other: str
    """Its name in the second model."""
    difference: Difference


class LayerDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One intermediate tensor of both."""

    name: str
    operator: str
    """That gives it, in the first model."""
    difference: Difference


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Of two models. The first is the reference."""

    first: str
    second: str
    engines: tuple[str, str]
    """With versions."""
    calls: int
    outputs: tuple[OutputDifference, ...]
    layers: tuple[LayerDifference, ...] = ()
    """In the order in which the first model computes them."""
    notes: tuple[str, ...] = ()


def compare_sides(
    first: Side, second: Side, *, data: Path | None, count: int, free_length: int, compares_layers: bool
) -> Comparison:
    """Run both on the same inputs: those of `data`, else of the golden cases of a release, else `count` random ones.

    Raises:
        BadModel: an engine refuses one of them, or their signatures can't be matched.
        BadData: inputs that can't be read or made.
    """
    with contextlib.ExitStack() as running:
        workers = [running.enter_context(_open(side)) for side in (first, second)]
        own, theirs = (
            find_signature(side, inputs=worker.info.inputs, outputs=worker.info.outputs)
            for side, worker in zip((first, second), workers, strict=True)
        )
        joint, notes = _join(own, theirs)
        bindings = (make_bindings(own), make_bindings(joint))
        if data is not None:
            feeds = load_feeds(data, joint.inputs)
        else:
            feeds, told = _take_golden((first, second), joint.inputs)
            notes += told
        if not feeds:
            ranges = find_ranges([*joint.bindings, *own.bindings])
            feeds = make_feeds(joint.inputs, count=count, free_length=free_length, ranges=ranges)
            notes += [RANDOM_NOTE] if first.is_calibrated or second.is_calibrated else []
        outputs = _compare_outputs(
            (first, second), workers, bindings=bindings, feeds=feeds, names=[tensor.name for tensor in own.outputs]
        )
        engines = [f"{worker.info.engine} {worker.info.engine_version}" for worker in workers]
    names = {binding.tensor: binding.name for binding in joint.bindings}
    layers: tuple[LayerDifference, ...] = ()
    if compares_layers:
        layers, told = _compare_layers((first, second), bindings=bindings, feeds=feeds)
        notes += told
    return Comparison(
        first=first.name,
        second=second.name,
        engines=(engines[0], engines[1]),
        calls=len(feeds),
        outputs=tuple(
            OutputDifference(name=name, other=names[name], difference=meter.read()) for name, meter in outputs.items()
        ),
        layers=layers,
        notes=tuple(notes),
    )


def _take_golden(sides: Sequence[Side], inputs: Sequence[Tensor]) -> tuple[list[Feeds], list[str]]:
    """Inputs of the golden cases of the first side that has some for these inputs, and notes; none where none has."""
    notes: list[str] = []
    for side in sides:
        if side.golden:
            try:
                return prepare_golden(side, inputs), [f"inputs are those of the golden cases of {side.name}"]
            except BadData as error:
                notes.append(f"{error}, so they aren't the inputs")
    return [], notes


@contextlib.contextmanager
def _open(side: Side) -> Iterator[Worker]:
    """What fails in the block is the side's own fault too."""
    try:
        with open_worker(side.files, engine=side.engine, model_format=side.format) as worker:
            yield worker
    except WorkerError as error:
        raise BadModel(f"{side.name} in {side.engine}: {error}") from None


def _join(own: Signature, theirs: Signature) -> tuple[Signature, list[str]]:
    """The first model's signature, with how the second one's file has its tensors; and notes.

    Axes of inputs that are free in the first model have the lengths that they have in the second one.
    """
    inputs = match_tensors(own.inputs, theirs.inputs, what="input")
    outputs = match_tensors(own.outputs, theirs.outputs, what="output")
    bindings = [*bind_matches(inputs, theirs.bindings), *bind_matches(outputs, theirs.bindings)]
    notes = [*note_matches(inputs, what="input"), *note_matches(outputs, what="output")]
    fixed = tuple(Tensor(match.tensor.name, match.tensor.dtype, fix_lengths(match)) for match in inputs)
    return Signature(inputs=fixed, outputs=own.outputs, bindings=tuple(bindings)), notes


def _compare_outputs(
    sides: Sequence[Side],
    workers: Sequence[Worker],
    *,
    bindings: Sequence[Bindings],
    feeds: Sequence[Feeds],
    names: Sequence[str],
) -> dict[str, Meter]:
    """A meter for each output of the first model's signature."""
    meters = {name: Meter() for name in names}
    for feed in feeds:
        first, second = (
            _run(side, worker, feed, bindings=bound)
            for side, worker, bound in zip(sides, workers, bindings, strict=True)
        )
        for name, meter in meters.items():
            if first[name].shape != second[name].shape:
                shapes = f"{list(first[name].shape)} and {list(second[name].shape)}"
                raise BadModel(f"output {name!r} has the shapes {shapes} for the same inputs")
            meter.add(first[name], second[name])
    return meters


def _run(side: Side, worker: Worker, feed: Feeds, *, bindings: Bindings) -> Feeds:
    try:
        return bindings.from_file(worker.run(bindings.to_file(feed), deadline_s=DEADLINE_S))
    except WorkerError as error:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in feed.items())
        hint = "other lengths of free axes with --free-length, or inputs of your own with --data"
        raise BadModel(f"{side.name} in {side.engine}, with {shapes}: {error}; try {hint}") from None


def _compare_layers(
    sides: Sequence[Side], *, bindings: Sequence[Bindings], feeds: Sequence[Feeds]
) -> tuple[tuple[LayerDifference, ...], list[str]]:
    """Layers, and notes."""
    first, second = sides
    observe = OBSERVERS.get(first.format) if first.format == second.format else None
    if observe is None:
        return (), [f"layers aren't compared: both must be one of {', '.join(OBSERVERS)}"]
    try:
        layers = observe(first.files[0], second.files[0])
    except ToolMissing as error:
        return (), [str(error)]
    found: list[LayerDifference] = []
    notes = [f"{layers.unmatched} layers of the first model have none of their name in the second"]
    for start in range(0, len(layers.taps), TAPS_AT_ONCE):
        some = layers.taps[start : start + TAPS_AT_ONCE]
        try:
            found += _measure_layers(sides, layers, some, bindings=bindings, feeds=feeds)
        except WorkerError as error:
            notes.append(f"layers {some[0].name!r} to {some[-1].name!r} can't be looked at: {error}")
    return tuple(found), notes if layers.unmatched else notes[1:]


def _measure_layers(
    sides: Sequence[Side], layers: Layers, taps: Sequence[Tap], *, bindings: Sequence[Bindings], feeds: Sequence[Feeds]
) -> list[LayerDifference]:
    files = layers.build(taps)
    meters = [Meter() for _ in taps]
    with contextlib.ExitStack() as running:
        workers = [
            running.enter_context(open_worker(own, engine=TAP_ENGINES[side.format], model_format=side.format))
            for side, own in zip(sides, files, strict=True)
        ]
        for feed in feeds:
            first, second = (
                worker.run(bound.to_file(feed), deadline_s=DEADLINE_S)
                for worker, bound in zip(workers, bindings, strict=True)
            )
            for number, meter in enumerate(meters):
                one, other = first[output_name(number)], second[output_name(number)]
                if one.shape == other.shape:
                    meter.add(one, other)
    return [
        LayerDifference(name=tap.name, operator=tap.operator, difference=meter.read())
        for tap, meter in zip(taps, meters, strict=True)
        if meter.calls
    ]
