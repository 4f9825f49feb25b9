"""Which engines work on this board, and what would make the others work?"""

import re
from collections.abc import Iterator, Mapping

from shoal_agent.doctor.board import Board
from shoal_agent.doctor.engine_facts import EngineFacts
from shoal_agent.doctor.findings import Checked, Finding, Health

INSTALLATION: Mapping[str, str] = {
    "onnxruntime": "install shoal-agent[onnxruntime] into the agent's environment",
    "openvino": "install shoal-agent[openvino] into the agent's environment, or the package that adds it",
    "litert": "install shoal-agent[litert] into the agent's environment",
    "tflite-runtime": "make an environment with Python 3.11, tflite-runtime and NumPy 1, and name its interpreter "
    "under [interpreters] in agent.toml",
    "tensorrt": "it comes with the board maker's system: name that system's Python under [interpreters] in agent.toml",
}
"""How each engine gets onto a board, where it isn't."""

PACKAGES: Mapping[str, str] = {
    "libgomp.so.1": "libgomp1",
    "libatomic.so.1": "libatomic1",
    "libstdc++.so.6": "libstdc++6",
    "libOpenCL.so.1": "ocl-icd-libopencl1",
    "libGL.so.1": "libgl1",
}
"""Debian's packages of libraries that engines miss."""

FIXES: tuple[tuple[str, str], ...] = (
    (r"(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+", "its library is built for a newer system: use Debian 12 or later"),
    (r"numpy|_ARRAY_API|NumPy", "it wants another NumPy: give it an environment of its own (docs/engines.md)"),
    (
        r"signal 4 |[Ii]llegal instruction",
        "its library was built for instructions that this processor lacks: leave it out with `engines` in agent.toml",
    ),
    (r"for want of memory|signal 9 ", "memory ran short: see the line on memory"),
    (r"can't be started", "correct the interpreter's path under [interpreters] in agent.toml"),
    (r"No module named|can't import", "install it into the interpreter that [interpreters] names, or correct that"),
    (r"didn't answer in time", "the board was too busy or too slow: try again while nothing serves"),
    (r"expected the outputs", "it computes wrong numbers here: leave it out with `engines` in agent.toml"),
)
"""What helps, by what a worker or its engine says. The first that is found counts."""

_MISSING_LIBRARY = re.compile(r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file")


def check_engines(board: Board) -> Iterator[Checked]:
    """One line for all engines together, then one for each."""
    if board.is_quick:
        return
    wanted = _profile_engines(board)
    findings = {facts.engine: judge_engine(facts, is_expected=facts.engine in wanted) for facts in board.engines}
    working = [facts.engine for facts in board.engines if any(probe.is_usable for probe in facts.probes)]
    summary = (
        Finding(Health.GOOD, f"{', '.join(working)} can serve")
        if working
        else Finding(Health.BAD, "no engine works here: nothing can be served", "see the lines below")
    )
    for name, finding in {"engines": summary, **{f"engine {name}": one for name, one in findings.items()}}.items():
        yield Checked(check=name, health=finding.health, words=finding.words, advice=finding.advice)


def judge_engine(facts: EngineFacts, *, is_expected: bool) -> Finding:
    """What was found of an engine. `is_expected`: the board's profile names it."""
    if not facts.is_wanted:
        return Finding(Health.UNKNOWN, "`engines` in agent.toml leaves it out")
    if not facts.is_found:
        install = INSTALLATION.get(facts.engine, "install its plug-in")
        if is_expected:
            return Finding(Health.WARNING, "it isn't installed, and boards of this kind can use it", install)
        return Finding(Health.UNKNOWN, "it isn't installed", install)
    if not facts.probes:
        return Finding(Health.UNKNOWN, "it is installed; there is no model to try it with")
    failed = [probe for probe in facts.probes if not probe.is_usable]
    usable = [probe for probe in facts.probes if probe.is_usable]
    reasons = "; ".join(f"{probe.model_format}: {probe.reason}" for probe in failed)
    if not usable:
        return Finding(Health.WARNING, f"it doesn't work here: {reasons}", find_fix(reasons))
    works = f"{usable[0].version} answers right for {', '.join(probe.model_format for probe in usable)}"
    places = dict.fromkeys(place for probe in usable for place in probe.placement)
    works += f" on {', '.join(places)}" if places else ""
    if failed:
        return Finding(Health.WARNING, f"{works}, but not for {reasons}", find_fix(reasons))
    return Finding(Health.GOOD, works)


def find_fix(reason: str) -> str:
    """What helps against what a worker said."""
    missing = _MISSING_LIBRARY.search(reason)
    if missing:
        package = PACKAGES.get(missing[1])
        return f"apt install {package}" if package else f"install the package that holds {missing[1]}"
    return next((fix for pattern, fix in FIXES if re.search(pattern, reason)), "see docs/engines.md")


def _profile_engines(board: Board) -> frozenset[str]:
    profile = board.profile
    if profile is None or not (profile.compatible or profile.processor_names):
        return frozenset()  # of any computer: it knows nothing of this one
    return frozenset(engine.value for engine in profile.engines)
