"""Equality of words of gates by the SAT solver in Yosys."""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from xpulpnn_sim.formal.algebra import GaveUpError, Inequality
from xpulpnn_sim.formal.gate_graph import GateGraph, GateKind
from xpulpnn_sim.yosys import find_yosys

_START_S = 60
"""Seconds Yosys may take besides solving."""

_SWEEP = "strash\n&get -n\n&fraig -x\n&put\nmap\n"
"""Commands of ABC that make one gate of those it proves equal."""

_ROWS = {GateKind.AND: ("{0}{1} 1",), GateKind.MAJORITY: ("{0}{1}- 1", "{0}-{2} 1", "-{1}{2} 1")}


def prove_equal(
    graph: GateGraph, words: tuple[Sequence[int], Sequence[int]], *, timeout_s: int, sweep: bool = False
) -> Inequality | None:
    """None if two words of literals are equal for all inputs, else inputs for which they are not."""
    if list(words[0]) == list(words[1]):
        return None
    merge = "simplemap\nabc -g AND,XOR,MUX -script sweep.abc\n" if sweep else ""
    script = (
        f"read_blif miter.blif\n{merge}tee -q -o sat.txt sat -prove differs 0 -show-inputs -timeout {timeout_s} miter\n"
    )
    with tempfile.TemporaryDirectory(prefix="xpulpnn-sat-") as name:
        folder = Path(name)
        (folder / "miter.blif").write_text(_blif(graph, words))
        (folder / "sweep.abc").write_text(_SWEEP)
        find_yosys().run(script, folder, what="miter", results=["sat.txt"], timeout_s=timeout_s + _START_S)
        answer = (folder / "sat.txt").read_text()
    if "SUCCESS!" in answer:
        return None
    if "FAIL!" not in answer:
        raise GaveUpError
    ones = re.findall(r"^\s+\\n(\d+)\s+1\s", answer, re.MULTILINE)
    return Inequality(frozenset(int(node) << 1 for node in ones))


def _blif(graph: GateGraph, words: tuple[Sequence[int], Sequence[int]]) -> str:
    """A module whose output ``differs`` is 1 where the words are not equal."""
    cone = graph.cone([*words[0], *words[1]])
    inputs = [node for node in cone if graph.nodes[node].kind is GateKind.INPUT]
    lines = [".model miter", ".inputs " + " ".join(f"n{node}" for node in inputs), ".outputs differs"]
    for node in cone:
        kind, operands, _ = graph.nodes[node]
        if kind in (GateKind.INPUT, GateKind.CONSTANT):
            lines += [".names n0"] if kind is GateKind.CONSTANT else []
            continue
        lines.append(".names " + " ".join(f"n{operand >> 1}" for operand in operands) + f" n{node}")
        values = [str(1 - (operand & 1)) for operand in operands]
        lines += ["10 1", "01 1"] if kind is GateKind.XOR else [row.format(*values) for row in _ROWS[kind]]
    if 0 not in cone:
        lines.append(".names n0")
    lines.append(".names differs0")
    pairs = [(one, other) for one, other in zip(*words, strict=True) if one != other]
    for place, (one, other) in enumerate(pairs):
        rows = ["10- 1", "01- 1", "--1 1"] if not (one ^ other) & 1 else ["00- 1", "11- 1", "--1 1"]
        lines += [f".names n{one >> 1} n{other >> 1} differs{place} differs{place + 1}", *rows]
    lines += [f".names differs{len(pairs)} differs", "1 1"]
    return "\n".join([*lines, ".end", ""])
