"""How well does a pipeline with this network hear sounds whose score is known?"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import fmean

import onnxruntime as ort
from shoal_agent.front.operations.pipeline import Pipeline, compare
from shoal_agent.front.operations.values import Answer, Prepared, Tensors, Verdict, Windowing
from shoal_wire.manifest import Operation

from shoal_converters.note_events.synthesis import Score, compose_score, synthesise_wav


@dataclass(frozen=True, kw_only=True)
class PlayedSound:
    """A WAV file and the score that it was made from."""

    seed: int
    score: Score
    wav: bytes

    @property
    def expected(self) -> dict[str, list[dict[str, float]]]:
        """The expected answer of a golden case."""
        return {"notes": [{"pitch": note.pitch, "start_s": note.start_s} for note in self.score.notes]}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """F1 of each sound, in the order given."""

    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        return fmean(self.scores)

    @property
    def lowest(self) -> float:
        return min(self.scores)


class Network:
    """The network in ONNX Runtime on this machine's CPU: one inference per core at a time, each on one thread."""

    def __init__(self, model: bytes) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._outputs = [output.name for output in self._session.get_outputs()]

    def run(self, prepared: Prepared[Windowing]) -> list[Tensors]:
        """Run one inference per call; outputs come in the order of the calls."""
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            return list(pool.map(self._infer, prepared.calls))

    def _infer(self, inputs: Tensors) -> Tensors:
        return dict(zip(self._outputs, self._session.run(self._outputs, inputs), strict=True))


def play(seed: int) -> PlayedSound:
    """Compose and synthesise the sound of a seed."""
    score = compose_score(seed)
    return PlayedSound(seed=seed, score=score, wav=synthesise_wav(score))


def hear(sound: PlayedSound, *, network: Network, pipelines: Sequence[Pipeline]) -> list[Answer]:
    """Answer of each pipeline to one sound. The network runs once, so all must prepare sounds in the same way."""
    prepared = pipelines[0].prepare(sound.wav)
    outputs = network.run(prepared)
    return [pipeline.finish(outputs, prepared.context) for pipeline in pipelines]


def judge(answer: Answer, *, sound: PlayedSound, comparison: Operation) -> Verdict:
    """Compare an answer with the score."""
    return compare(comparison, answer=answer, expected=sound.expected)


def measure(
    sounds: Sequence[PlayedSound], *, network: Network, pipelines: Sequence[Pipeline], comparison: Operation
) -> list[Measured]:
    """F1 of each pipeline on each sound; the pipelines must prepare sounds in the same way."""
    answers = [hear(sound, network=network, pipelines=pipelines) for sound in sounds]
    return [
        Measured(
            scores=tuple(
                judge(heard[number], sound=sound, comparison=comparison).score
                for heard, sound in zip(answers, sounds, strict=True)
            )
        )
        for number in range(len(pipelines))
    ]
