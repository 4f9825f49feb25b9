"""How is an inspection shown to people?"""

from collections.abc import Iterator, Sequence

from shoal_converters.inspection.facts import BoardVerdict, EngineRun, Facts, Inspection
from shoal_converters.inspection.formats import KINDS

MAX_OPERATORS = 20
MAX_TENSORS = 40


def describe(inspection: Inspection) -> str:
    """Lines, each with what it is about in front."""
    facts = inspection.facts
    lines = [inspection.path, *_row("is a", [KINDS[facts.format]])]
    lines += _row("size", [f"{inspection.size_bytes:,} bytes"])
    lines += _row("sha256", [inspection.sha256] if inspection.sha256 else [])
    lines += [*_describe_facts(facts), *_describe_engines(inspection.engines), *_describe_boards(inspection.boards)]
    for part in inspection.parts:
        lines += ["", part.name, *_describe_facts(part.facts)]
        lines += [*_describe_engines(part.engines), *_describe_boards(part.boards)]
    return "\n".join(lines)


def _describe_facts(facts: Facts) -> Iterator[str]:
    yield from _row("versions", [", ".join(f"{name} {value}" for name, value in facts.versions.items() if value)])
    yield from _row("inputs", _cut([tensor.words for tensor in facts.inputs], MAX_TENSORS))
    yield from _row("outputs", _cut([tensor.words for tensor in facts.outputs], MAX_TENSORS))
    yield from _row("signatures", facts.signatures)
    precision = f"{facts.precision} ({facts.how_quantized})" if facts.how_quantized else facts.precision
    yield from _row("precision", [precision])
    counted = [f"{facts.parameters:,}"] if facts.parameters is not None else []
    stored = [f"{facts.parameter_bytes:,} bytes"] if facts.parameter_bytes else []
    yield from _row("parameters", [", ".join(counted + stored)])
    names = [f"{one.domain}.{one.name}" if one.domain else one.name for one in facts.operators]
    versions = [f" v{one.version}" if one.version.isdigit() else "" for one in facts.operators]
    words = [f"{name}{v} x{one.count}" for name, v, one in zip(names, versions, facts.operators, strict=True)]
    yield from _row("operators", [", ".join(_cut(words, MAX_OPERATORS))])
    yield from _row("custom", [", ".join(facts.custom_operators)])
    yield from _row("files", facts.external_files)
    yield from _row("note", facts.notes)


def _describe_engines(runs: Sequence[EngineRun]) -> Iterator[str]:
    rows = []
    for run in runs:
        name = f"{run.engine} {run.version}".strip()
        rows.append(f"{name}: answers (loaded in {run.load_ms:.0f} ms)" if run.answers else f"{name}: {run.reason}")
    yield from _row("here", rows)


def _describe_boards(boards: Sequence[BoardVerdict]) -> Iterator[str]:
    for board in boards:
        yield from _row("board", [f"{board.board}: {'yes' if board.fits else 'no'}; {board.memory}"])
        for engine in board.engines:
            reasons = f" ({'; '.join(engine.reasons)})" if engine.reasons else ""
            yield from _row("", [f"  {engine.engine}: {'yes' if engine.fits else 'no'}{reasons}"])


def _row(about: str, words: Sequence[str]) -> Iterator[str]:
    """One line for each of the words that aren't empty; what it is about stands in front of the first."""
    shown = [word for word in words if word]
    for number, word in enumerate(shown):
        yield f"  {about if number == 0 else '':<12}{_printable(word)}"


def _cut(words: Sequence[str], most: int) -> list[str]:
    left = len(words) - most
    return [*words[:most], f"and {left} more"] if left > 0 else list(words)


def _printable(text: str) -> str:
    """Names come out of a stranger's file: no control characters get to a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)
