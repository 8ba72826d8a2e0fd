"""Decide with ABC or Yosys' SAT solver whether a literal can be 1, in one case or in cycles from reset.

Graphs with registers are passed as AIGER files; a counterexample consists of inputs of the graph.
"""

import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph, GateKind
from xpulpnn_sim.tools.yosys import find_yosys, run_abc

Latches = Mapping[int, tuple[int, int]]  # Literals of the next value, and reset value, of each register by its literal


class Aiger(NamedTuple):
    content: bytes
    inputs: Sequence[int]


def to_aiger(graph: GateGraph, outputs: Sequence[int], latches: Latches | None = None) -> Aiger:
    """Return the fan-in cone of the outputs, with its inputs and registers, as a binary AIGER file."""
    registers = latches or {}
    needed: dict[int, None] = {}
    cone: set[int] = set()
    waiting = [*outputs]
    while waiting:
        added = set(graph.cone(waiting)) - cone
        cone |= added
        latches_found = [node << 1 for node in sorted(added) if node << 1 in registers]
        needed.update(dict.fromkeys(latches_found))
        waiting = [registers[literal][0] for literal in latches_found]
    order = sorted(cone)
    inputs = [node << 1 for node in order if graph.nodes[node].kind is GateKind.INPUT and node << 1 not in needed]
    body = _Conjunctions()
    variables = {literal: body.input() for literal in (*inputs, *needed)}
    made = graph.replaced([*(registers[latch][0] for latch in needed), *outputs], variables, body)
    first = 1 + len(variables)
    counts = (len(body.nodes) - 1, len(inputs), len(needed), len(outputs), len(body.nodes) - first)
    lines = [f"aig {' '.join(map(str, counts))}"]
    lines += [f"{literal} {registers[latch][1]}" for latch, literal in zip(needed, made, strict=False)]
    lines += map(str, made[len(needed) :])
    packed = bytearray()
    for number, gate in enumerate(body.nodes[first:], first):
        low, high = gate.operands
        for distance in (2 * number - high, high - low):
            while distance >= 0x80:
                packed.append(distance & 0x7F | 0x80)
                distance >>= 7
            packed.append(distance)
    return Aiger("\n".join([*lines, ""]).encode() + packed, inputs)


class _Conjunctions(GateGraph):
    def xor(self, x: int, y: int) -> int:
        return self.and_(self.and_(x, y) ^ 1, self.and_(x ^ 1, y ^ 1) ^ 1)

    def majority(self, x: int, y: int, z: int) -> int:
        return self.or_(self.and_(x, y), self.and_(z, self.or_(x, y)))


def cycles_from_reset(graph: GateGraph, latches: Latches, frames: Iterable[Iterable[int]]) -> Iterator[dict[int, int]]:
    """Yield the values of inputs and registers in each cycle from reset, given the inputs that are 1 in it."""
    state = {literal: reset for literal, (_, reset) in latches.items()}
    for ones in frames:
        given = state | dict.fromkeys(ones, 1)
        yield given
        following = graph.evaluate(given, [literal for literal, _ in latches.values()])
        state = dict(zip(latches, following, strict=True))


def read_outputs(path: Path) -> list[int]:
    header, *lines = path.read_bytes().split(b"\n")
    latches, outputs = map(int, header.split()[3:5])
    return list(map(int, lines[latches : latches + outputs]))


def read_witness(text: str, inputs: Sequence[int]) -> list[frozenset[int]]:
    """Return the inputs that are 1 in each cycle, from a counterexample file of ABC."""
    _state, *lines = text.splitlines() or [""]
    frames: list[frozenset[int]] = []
    for line in lines:
        bits = line.partition("#")[0].strip()
        if not bits or bits.startswith("."):
            break
        if len(bits) != len(inputs):
            raise ToolError(f"the counterexample must have {len(inputs)} inputs in each cycle, not {len(bits)}")
        frames.append(frozenset(literal for literal, bit in zip(inputs, bits, strict=True) if bit == "1"))
    return frames


WITNESS = "counterexample.aiw"  # counterexample written by ABC

_START_S = 60  # seconds for Yosys besides solving

_GRACE_S, _LONG_GRACE_S = 15.0, 120.0
"""Seconds after the time limit in which ABC can read, simplify and exit; the second value is for whole cores."""

_NO_STATE, _ALL_STATES = "Does not work for combinational networks", "reachable states are visited"

_SWEEP = "strash\n&get -n\n&fraig -x\n&put\nmap\n"  # ABC commands that merge equivalent gates


class GaveUpError(Exception):
    """A time or size limit was exceeded before there was a result."""


class VacuousError(Exception):
    """The assumptions of a claim contradict each other."""


def ask_abc(abc: str, aiger: Aiger, commands: str, *, timeout_s: float) -> list[frozenset[int]] | None:
    """Return None if ABC proves the output constant 0, else the inputs that are 1 in each cycle of a counterexample.

    Raises :class:`GaveUpError` on timeout.
    """
    with tempfile.TemporaryDirectory(prefix="xpulpnn-abc-") as name:
        folder = Path(name)
        (folder / "graph.aig").write_bytes(aiger.content)
        began = time.monotonic()
        script = f"read_aiger graph.aig; {commands}; print_status; write_cex -a {WITNESS}"
        text = run_abc(abc, script, folder, timeout_s=timeout_s + _GRACE_S)
        status = re.search(r"^Status = (-?\d)", text, re.MULTILINE)
        if status is None and time.monotonic() - began < timeout_s:
            raise ToolError(f"abc must say what it found, not end with: {' '.join(text.split())[-300:]}")
        if status is None or status[1] not in "01":
            raise GaveUpError
        if status[1] == "1":
            return None
        # without inputs the file has no line per cycle
        return read_witness((folder / WITNESS).read_text(), aiger.inputs) or [frozenset()]


def find_case(abc: str, graph: GateGraph, literal: int, *, timeout_s: float) -> frozenset[int] | None:
    """Return None if the literal is constant 0, else the inputs that are 1 in a case in which the literal is 1."""
    if literal <= TRUE:
        return frozenset() if literal else None
    frames = ask_abc(abc, to_aiger(graph, [literal]), "strash; iprove", timeout_s=timeout_s)
    return frames[0] if frames else None


@dataclass(frozen=True, slots=True)
class CycleSearch:
    abc: str
    folder: Path
    ends: float
    log: str = "abc.log"

    @property
    def _left_s(self) -> float:
        return max(1.0, self.ends - time.monotonic())

    def search(self, read: str, first: int, last: int) -> tuple[int | None, int]:
        """Search cycles from reset for an output that is 1.

        Returns the cycle with that output or None, and the last fully searched cycle or -1. ``read`` has the ABC
        commands that load the graph. The inputs of a counterexample are written to :data:`WITNESS`. Raises
        :class:`ToolError` if ABC ends early without an answer.
        """
        (self.folder / WITNESS).unlink(missing_ok=True)
        limit = round(self._left_s)
        commands = f"{read}bmc3 -g -v -S {first} -F {last + 1} -T {limit}; write_cex -a {WITNESS}"
        text = run_abc(self.abc, commands, self.folder, timeout_s=limit + _LONG_GRACE_S, log=self.log)
        deepest = max((int(number) for number in re.findall(r"^ *(\d+) \+ :", text, re.MULTILINE)), default=-1)
        failing = re.search(r"was asserted in frame (\d+)", text)
        if failing:
            return int(failing[1]), deepest
        if _ALL_STATES in text:
            return None, last
        if _NO_STATE in text:
            # the simplified graph has no state to search
            return None, -1
        if deepest < last and time.monotonic() < self.ends - 1:
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            raise ToolError(f"abc must be able to search {self.folder.name}: {lines[-1] if lines else 'no message'}")
        return None, deepest

    def simplify(self, read: str, write: str) -> list[int]:
        commands = f"{read}dc2; scorr; dc2; write_aiger {write}"
        run_abc(self.abc, commands, self.folder, timeout_s=self._left_s + _LONG_GRACE_S)
        if not (self.folder / write).exists():
            raise ToolError(f"abc must be able to simplify {self.folder.name}: see {self.folder}/abc.log")
        return read_outputs(self.folder / write)


def prove_equal(
    graph: GateGraph, words: tuple[Sequence[int], Sequence[int]], *, timeout_s: int, sweep: bool = False
) -> frozenset[int] | None:
    """Return None if Yosys' SAT solver proves two words equal, else the inputs that are 1 in a counterexample."""
    differs = graph.any(graph.xor(bit, other) for bit, other in zip(*words, strict=True))
    if differs == FALSE:
        return None
    merge = "abc -g AND,XOR,MUX -script sweep.abc\n" if sweep else ""
    aiger = to_aiger(graph, [differs])
    symbols = "".join(f"i{place} n{literal}\n" for place, literal in enumerate(aiger.inputs)) + "o0 differs\n"
    script = (
        "read_aiger -module_name miter miter.aig\n"
        f"{merge}tee -q -o sat.txt sat -prove differs 0 -show-inputs -timeout {timeout_s} miter\n"
    )
    with tempfile.TemporaryDirectory(prefix="xpulpnn-sat-") as name:
        folder = Path(name)
        (folder / "miter.aig").write_bytes(aiger.content + symbols.encode())
        (folder / "sweep.abc").write_text(_SWEEP)
        find_yosys().run(script, folder, what="miter", results=["sat.txt"], timeout_s=timeout_s + _START_S)
        answer = (folder / "sat.txt").read_text()
    if "SUCCESS!" in answer:
        return None
    if "FAIL!" not in answer:
        raise GaveUpError
    return frozenset(map(int, re.findall(r"^\s+\\n(\d+)\s+1\s", answer, re.MULTILINE)))


_CASES = 1 << 10  # random cases tried before the solver


def require_met(graph: GateGraph, assumed: int, *, timeout_s: int) -> None:
    """Raise :class:`VacuousError` if no case makes the literal ``assumed`` 1, and :class:`GaveUpError` on timeout."""
    case = graph.random_case([(assumed, FALSE)], _CASES, Random(1))
    if case is None and prove_equal(graph, ([assumed], [FALSE]), timeout_s=timeout_s) is None:
        raise VacuousError
