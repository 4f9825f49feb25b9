"""How is a sound of any length given to a model that takes a set one, at once or frame after frame?"""

from math import prod
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta

from shoal_agent.front.operations.audio import MAX_SAMPLE_RATE_HZ
from shoal_agent.front.operations.errors import BadInput, BadOutput
from shoal_agent.front.operations.outputs import Finite, Name, read_output
from shoal_agent.front.operations.values import Hearing, Prepared, Sound, Tensors

MAX_LENGTH_S = 600.0
MAX_CALLS = 4_096
"""Of one sound: 131 s in frames of 32 ms."""
MAX_STATE_VALUES = 1 << 22

Side = Annotated[int, Meta(ge=1, le=MAX_STATE_VALUES)]
Shape = Annotated[tuple[Side, ...], Meta(max_length=8)]


class FitSound(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`audio.fit`: a sound of exactly `length_s`, rounded to whole samples: cut, or padded with silence.

    `where` says what stays where it was: the sound's start, so that its end is cut or padded, or its middle, so that
    both ends are, by the same number of samples, or one more at the end where that number is odd.
    """

    takes: ClassVar[type] = Sound
    gives: ClassVar[type] = Sound

    length_s: Annotated[float, Meta(ge=0.001, le=MAX_LENGTH_S)]
    where: Literal["start", "middle"] = "start"

    def apply(self, sound: Sound) -> Sound:
        """Cut or pad."""
        length = round(self.length_s * sound.sample_rate_hz)
        lacking = length - sound.samples.size
        before = abs(lacking) // 2 if self.where == "middle" else 0
        if lacking <= 0:
            samples = sound.samples[before : before + length]
        else:
            samples = np.pad(sound.samples, (before, lacking - before))
        return Sound(samples=samples, sample_rate_hz=sound.sample_rate_hz)


class State(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model must be told of the frames before: it gives it as an output and takes it as an input."""

    input: Name
    output: Name
    shape: Shape
    """It begins as float32 zeros."""

    def __post_init__(self) -> None:
        if prod(self.shape) > MAX_STATE_VALUES:
            raise ValueError(f"state {self.input!r} has {prod(self.shape)} values, expected at most {MAX_STATE_VALUES}")


class Constant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input that is the same in every call, all its values equal."""

    input: Name
    dtype: Literal["float32", "int32", "int64", "bool"]
    shape: Shape = ()
    """Empty: a scalar."""
    value: Finite

    def __post_init__(self) -> None:
        if prod(self.shape) > MAX_STATE_VALUES:
            raise ValueError(f"{self.input!r} has {prod(self.shape)} values, expected at most {MAX_STATE_VALUES}")
        if self.dtype.startswith("int") and (self.value % 1 or abs(self.value) >= 1 << 31):
            raise ValueError(f"{self.input!r}: {self.value:g} is no whole number of 32 bits")


class Stream(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`audio.stream`: a sound frame after frame, for a model that may carry a state from each to the next.

    The input `input` is a float32 of `context_samples` + `frame_samples`: the last samples of what came before, zeros
    at first, and then those of the frame. The last frame ends in silence. Without states all calls are known at once.
    """

    takes: ClassVar[type] = Sound
    gives: ClassVar[Any] = Prepared[Hearing]

    input: Name
    frame_samples: Annotated[int, Meta(ge=1, le=int(MAX_LENGTH_S) * MAX_SAMPLE_RATE_HZ)]
    context_samples: Annotated[int, Meta(ge=0, le=1 << 20)] = 0
    layout: Literal["samples", "samples-channel", "channel-samples"] = "samples"
    """The input's shape: [1, n], [1, n, 1] or [1, 1, n]."""
    states: Annotated[tuple[State, ...], Meta(max_length=64)] = ()
    constants: Annotated[tuple[Constant, ...], Meta(max_length=16)] = ()

    def __post_init__(self) -> None:
        names = [self.input, *(state.input for state in self.states), *(constant.input for constant in self.constants)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"the input {twice[0]!r} is given twice")

    def apply(self, sound: Sound) -> Prepared[Hearing]:
        """Cut a sound. The frames are views of one read-only buffer.

        Raises:
            BadInput: it would take more than MAX_CALLS calls.
        """
        frames = max(1, -(-sound.samples.size // self.frame_samples))
        if frames > MAX_CALLS:
            raise BadInput(f"sound: {frames} frames of {self.frame_samples} samples, expected at most {MAX_CALLS}")
        padded = np.zeros(self.context_samples + frames * self.frame_samples, dtype=np.float32)
        padded[self.context_samples : self.context_samples + sound.samples.size] = sound.samples
        padded.flags.writeable = False
        constants = {one.input: np.full(one.shape, one.value, dtype=one.dtype) for one in self.constants}
        length = self.context_samples + self.frame_samples
        shape = {"samples": (1, length), "samples-channel": (1, length, 1), "channel-samples": (1, 1, length)}

        def make_call(number: int, states: Tensors) -> Tensors:
            start = number * self.frame_samples
            return {self.input: padded[start : start + length].reshape(shape[self.layout])} | states | constants

        def follow(number: int, outputs: Tensors) -> Tensors | None:
            return make_call(number + 1, self._carry(outputs)) if number + 1 < frames else None

        first = make_call(0, {state.input: np.zeros(state.shape, dtype=np.float32) for state in self.states})
        rate_hz = sound.sample_rate_hz
        context = Hearing(call_s=self.frame_samples / rate_hz, sound_s=sound.samples.size / rate_hz, fed=first)
        if self.states:
            return Prepared(calls=[first], context=context, follow=follow)
        return Prepared(calls=[make_call(number, {}) for number in range(frames)], context=context)

    def _carry(self, outputs: Tensors) -> Tensors:
        """The states that a call has left, as inputs of the next."""
        carried: Tensors = {}
        for state in self.states:
            left = read_output(outputs, name=state.output)
            if left.shape != state.shape:
                raise BadOutput(
                    f"state {state.output!r} has the shape {list(left.shape)}, expected {list(state.shape)}"
                )
            carried[state.input] = left.astype(np.float32)
        return carried
