"""All mutants of a unit as one graph of gates, and the graph that one of them shares with the unit itself.

Registers of the graph keep their places. A mutant is compared with the unit by folding the number of the mutant, and 0
for the unit itself, into the gates that read it: what the change does not reach becomes one gate for both, and of the
registers only those are there twice that the change can reach.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xpulpnn_sim.mutation.mutants import BASE, LIST, SELECT
from xpulpnn_sim.riscv_formal.aiger import Aiger, read_aiger
from xpulpnn_sim.yosys import Yosys

FALSE, TRUE = 0, 1
_SPARE = 512

_GRAPH, _MAP = "mutants.aig", "mutants.map"
_NAMED = re.compile(r"^(input|output|latch|invlatch) (\d+) (\d+) (.+)$", re.MULTILINE)
SCRIPT = f"""read_rtlil {BASE}
script {LIST}
hierarchy -top {{top}}
flatten
memory_map
opt_expr
opt_clean
dffunmap
techmap
dffunmap
setundef -undriven -zero
setundef -zero
aigmap
opt_clean -purge
write_aiger -zinit -map {_MAP} {_GRAPH}
"""
"""How Yosys makes the graph, but for the name of the module."""


class Gates:
    """And-gates, equal ones made once; a literal is twice a node, plus one if inverted, and node 0 is false.

    Parameters
    ----------
    inputs : int
        Number of inputs: nodes 1 and up.
    """

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.gates: list[tuple[int, int]] = []
        self._known: dict[tuple[int, int], int] = {}

    def and_(self, one: int, other: int) -> int:
        """Both."""
        if one < other:
            one, other = other, one
        if other <= TRUE:
            return one if other else FALSE
        if one ^ other <= 1:
            return FALSE if one ^ other else one
        key = (one, other)
        found = self._known.get(key)
        if found is None:
            self.gates.append(key)
            found = self._known[key] = self.inputs + len(self.gates) << 1
        return found

    def or_(self, one: int, other: int) -> int:
        """At least one."""
        return self.and_(one ^ 1, other ^ 1) ^ 1

    def differ(self, one: int, other: int) -> int:
        """Exactly one."""
        return self.or_(self.and_(one, other ^ 1), self.and_(one ^ 1, other))

    def all_of(self, literals: Iterable[int]) -> int:
        """All of them, as a tree."""
        left = list(literals) or [TRUE]
        while len(left) > 1:
            left = [self.and_(*left[at : at + 2]) if at + 1 < len(left) else left[at] for at in range(0, len(left), 2)]
        return left[0]

    def any_of(self, literals: Iterable[int]) -> int:
        """At least one of them, as a tree."""
        return self.all_of(literal ^ 1 for literal in literals) ^ 1

    def is_number(self, word: Sequence[int], number: int) -> int:
        """Whether a word, lowest bit first, is a number."""
        return self.all_of(literal ^ (number >> place & 1) ^ 1 for place, literal in enumerate(word))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A mutant beside its unit.

    Parameters
    ----------
    gates : Gates
        Inputs: those of the unit, then one for each register.
    inputs : mapping
        Literals of each input port, lowest bit first.
    registers : sequence of (int, int, str)
        Literal, next value as a literal, and name of each register of the comparison: shared ones, then those of the
        unit, then those of the mutant. All of them are 0 at reset.
    outputs : mapping
        Literals of each output port of the unit, lowest bit first.
    different : sequence of (str, int, int)
        Name of each output bit that may differ, its literal in the unit and in the mutant.
    pairs : sequence of (int, int, int, int)
        Registers that are there twice: literals in unit and mutant, next values in unit and mutant.
    spare : sequence of int
        Literals of inputs that nothing reads, for registers of those who look at the comparison.
    """

    gates: Gates
    inputs: Mapping[str, Sequence[int]]
    registers: Sequence[tuple[int, int, str]]
    outputs: Mapping[str, Sequence[int]]
    different: Sequence[tuple[str, int, int]]
    pairs: Sequence[tuple[int, int, int, int]]
    spare: Sequence[int]


class MutantGates:
    """The graph with all mutants of a unit.

    Parameters
    ----------
    graph : Aiger
        As Yosys writes it, with the input :data:`~xpulpnn_sim.mutation.mutants.SELECT`.
    names : str
        What its inputs, outputs and latches are called: the map that Yosys writes beside it.
    """

    def __init__(self, graph: Aiger, names: str) -> None:
        self._graph = graph
        self._inputs: dict[int, tuple[str, int]] = {}
        self._latches = [f"register {number}" for number in range(len(graph.latches))]
        self._outputs = [("output", number) for number in range(len(graph.outputs))]
        for kind, number, bit, name in _NAMED.findall(names):
            name = name.lstrip("\\")
            if kind == "input":
                self._inputs[int(number)] = name, int(bit)
            elif kind == "output":
                self._outputs[int(number)] = name, int(bit)
            else:
                self._latches[int(number)] = f"{name}[{bit}]"

    def compare(self, mutant: int) -> Comparison:
        """The unit and a mutant, with as much in common as can be seen at once."""
        twice: set[int] = set()
        while True:
            found = self._folded(mutant, twice)
            (_, one), (_, other) = found[2:]
            more = {number for number in range(len(one)) if number not in twice and one[number] != other[number]}
            if not more:
                break
            # what reads a register that may differ may differ: all that is reached is found in a few rounds
            twice |= more
        gates, ports, (unit_out, unit_next), (mutant_out, mutant_next) = found
        return self._comparison(gates, ports, twice, (unit_out, mutant_out), (unit_next, mutant_next))

    def _folded(
        self, mutant: int, twice: set[int]
    ) -> tuple[Gates, dict[str, list[int]], tuple[list[int], list[int]], tuple[list[int], list[int]]]:
        """Gates, input ports, and outputs and next values of unit and mutant."""
        graph, latches = self._graph, len(self._graph.latches)
        gates = Gates(graph.inputs + latches + len(twice) + _SPARE)
        own = {number: place for place, number in enumerate(sorted(twice))}
        results: list[tuple[list[int], list[int]]] = []
        for chosen in (0, mutant):
            values = [FALSE]
            for number in range(graph.inputs):
                name, bit = self._inputs.get(number, ("", 0))
                values.append(chosen >> bit & 1 if name == SELECT else number + 1 << 1)
            for number in range(latches):
                place = graph.inputs + 1 + number
                if chosen and number in own:
                    place = graph.inputs + latches + 1 + own[number]
                values.append(place << 1)
            and_ = gates.and_
            for left, right in graph.gates:
                values.append(and_(values[left >> 1] ^ left & 1, values[right >> 1] ^ right & 1))
            outputs = [values[literal >> 1] ^ literal & 1 for literal in graph.outputs]
            results.append((outputs, [values[literal >> 1] ^ literal & 1 for literal, _ in graph.latches]))
        ports: dict[str, list[int]] = {}
        for number, (name, _) in sorted(self._inputs.items(), key=lambda item: item[1]):
            if name != SELECT:
                ports.setdefault(name, []).append(number + 1 << 1)
        return gates, ports, results[0], results[1]

    def _comparison(
        self,
        gates: Gates,
        ports: Mapping[str, Sequence[int]],
        twice: set[int],
        outputs: tuple[list[int], list[int]],
        following: tuple[list[int], list[int]],
    ) -> Comparison:
        first = self._graph.inputs + 1
        doubled = sorted(twice)
        registers = [
            (first + number << 1, literal, self._latches[number]) for number, literal in enumerate(following[0])
        ]
        registers += [
            (first + len(self._latches) + place << 1, following[1][number], self._latches[number])
            for place, number in enumerate(doubled)
        ]
        ports_out: dict[str, dict[int, int]] = {}
        for (name, bit), literal in zip(self._outputs, outputs[0], strict=True):
            ports_out.setdefault(name, {})[bit] = literal
        return Comparison(
            gates=gates,
            inputs=ports,
            registers=registers,
            outputs={name: [bits[bit] for bit in sorted(bits)] for name, bits in ports_out.items()},
            different=[
                (f"{name}[{bit}]", one, other)
                for (name, bit), one, other in zip(self._outputs, *outputs, strict=True)
                if one != other
            ],
            pairs=[
                (
                    first + number << 1,
                    first + len(self._latches) + place << 1,
                    following[0][number],
                    following[1][number],
                )
                for place, number in enumerate(doubled)
            ],
            spare=[node << 1 for node in range(gates.inputs - _SPARE + 1, gates.inputs + 1)],
        )


def make_gates(top: str, folder: Path, yosys: Yosys) -> MutantGates:
    """The graph of the mutants in ``folder``; raises :class:`ToolError` if Yosys cannot make it."""
    yosys.run(SCRIPT.format(top=top), folder, what=f"gates of {top}", results=[_GRAPH, _MAP], name="gates")
    return MutantGates(read_aiger(folder / _GRAPH), (folder / _MAP).read_text())


def packed(gates: Gates, registers: Sequence[tuple[int, int]], bad: int) -> bytes:
    """A binary AIGER file, version 1.0, of what ``bad`` depends on.

    Parameters
    ----------
    gates : Gates
        Where the literals are.
    registers : sequence of (int, int)
        Literal, an input of ``gates``, and next value of each register; the other inputs remain inputs.
    bad : int
        The only output.
    """
    following = {literal >> 1: after for literal, after in registers}
    seen: set[int] = set()
    waiting = [bad >> 1]
    while waiting:
        node = waiting.pop()
        if node in seen or not node:
            continue
        seen.add(node)
        if node > gates.inputs:
            waiting += [literal >> 1 for literal in gates.gates[node - gates.inputs - 1]]
        elif node in following:
            waiting.append(following[node] >> 1)
    inputs = [node for node in range(1, gates.inputs + 1) if node not in following]
    latches = sorted(node for node in seen if node in following)
    inner = sorted(node for node in seen if node > gates.inputs)
    number = {0: 0} | {node: place for place, node in enumerate([*inputs, *latches, *inner], 1)}

    def literal(one: int) -> int:
        return number[one >> 1] << 1 | one & 1

    header = f"aig {len(number) - 1} {len(inputs)} {len(latches)} 1 {len(inner)}\n"
    lines = "".join(f"{literal(following[node])}\n" for node in latches)
    data = bytearray()
    for node in inner:
        one, other = sorted(map(literal, gates.gates[node - gates.inputs - 1]), reverse=True)
        for delta in ((number[node] << 1) - one, one - other):
            while delta >= 0x80:
                data.append(delta & 0x7F | 0x80)
                delta >>= 7
            data.append(delta)
    return f"{header}{lines}{literal(bad)}\n".encode() + bytes(data)
