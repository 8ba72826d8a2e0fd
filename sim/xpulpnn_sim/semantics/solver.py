"""Words of gates that are equal under assumptions, by the equivalence checker of ABC."""

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.formal.aiger_text import write_aiger
from xpulpnn_sim.formal.gate_graph import FALSE, TRUE, GateGraph

PROVED, REFUTED, UNDECIDED = "proved", "REFUTED", "time is up"
"""Verdicts."""

_COMMANDS = "read_aiger miter.aig; strash; iprove; write_cex -s example.txt"


def difference(graph: GateGraph, assumed: Sequence[int], pairs: Sequence[tuple[int, int, int]]) -> int:
    """Literal that is 1 where all assumptions hold, but two literals of a pair differ although its condition holds."""
    found = FALSE
    for condition, one, other in pairs:
        found = graph.or_(found, graph.and_(condition, graph.xor(one, other)))
    for literal in assumed:
        found = graph.and_(found, literal)
    return found


def solve(graph: GateGraph, wrong: int, abc: str, timeout_s: float) -> tuple[str, frozenset[int]]:
    """Whether a literal can be 1: :data:`PROVED` if it cannot, else with the inputs that are 1 then."""
    if wrong == FALSE:
        return PROVED, frozenset()
    if wrong == TRUE:
        return REFUTED, frozenset()
    miter = write_aiger(graph, wrong)
    with tempfile.TemporaryDirectory(prefix="xpulpnn-semantics-") as name:
        folder = Path(name)
        (folder / "miter.aig").write_bytes(miter.content)
        try:
            done = subprocess.run(
                [abc, "-c", _COMMANDS],
                cwd=folder,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return UNDECIDED, frozenset()
        text = done.stdout + done.stderr
        if "UNSATISFIABLE" in text:
            return PROVED, frozenset()
        if "SATISFIABLE" in text:
            bits = (folder / "example.txt").read_text().split("#")[0].strip()
            return REFUTED, frozenset(literal for literal, bit in zip(miter.inputs, bits, strict=True) if bit == "1")
    if "UNDECIDED" in text:
        return UNDECIDED, frozenset()
    raise ToolError(f"abc must decide an equality, not end with {text.strip().splitlines()[-1:]}")
