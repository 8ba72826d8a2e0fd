"""Prove the instruction decoder and the decoder of compressed instructions for all words.

Proofs of instructions (``prove instructions``) include the control words of the instructions that they cover; the
control words of other instructions are proved by this module.
"""

from collections.abc import Iterator, Sequence

from xpulpnn.core.control import control_fields
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import HALF_BITS
from xpulpnn.isa.table import enabled
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph, counting_pattern, literals_of
from xpulpnn_sim.proofs.engine.integers import Integers
from xpulpnn_sim.proofs.instructions.statement_gates import allowed_fields, is_executable
from xpulpnn_sim.proofs.units.unit_proof import Claim, Definition, Equality, InputFault, ProvenUnit, unequal
from xpulpnn_sim.reference.golden.compressed import expanded

_WORD = 32


def _is_row(graph: GateGraph, word: Sequence[int], insn: Insn) -> int:
    fixed = [bit ^ (insn.match >> place & 1) ^ 1 for place, bit in enumerate(word) if insn.mask >> place & 1]
    return graph.all([*fixed, *allowed_fields(insn, word, Integers(graph))])


class _Decoder:
    def __init__(self, unit: ProvenUnit) -> None:
        self.graph = GateGraph()
        self.word = self.graph.inputs(_WORD)
        self.cycle = unit.cycle(self.graph, {"word": self.word})
        rows = enabled(unit.config.extensions, unit.config.widths)
        words = [insn for insn in rows if len(insn.pattern) == _WORD and not insn.alias]
        self.rows = {insn: _is_row(self.graph, self.word, insn) for insn in words}
        self.unproved = [insn for insn in words if not is_executable(insn)]
        self.legal = self.graph.any(self.rows.values())
        self._ports = unit.ports

    def controls(self) -> Iterator[Equality]:
        fields = {insn: control_fields(insn) for insn in self.unproved}
        for port in self._ports:
            if port["direction"] != "output" or port["name"] == "illegal":
                continue
            literals = self.cycle.port(port["name"])
            prefix = "" if port["name"] == "ctrl" else f"{port['name']}."
            for field in port["fields"]:
                name = f"{prefix}{field['name']}"
                values = {insn: controls.get(name, 0) for insn, controls in fields.items()}
                numbers = {insn: getattr(value, "value", value) for insn, value in values.items()}
                expected = [
                    self.graph.any(self.rows[insn] for insn, value in numbers.items() if value >> bit & 1)
                    for bit in range(field["width"])
                ]
                yield Equality(name, literals[field["lsb"] : field["lsb"] + field["width"]], expected)


def _decoder_claims(unit: ProvenUnit) -> list[Claim]:
    def legality(timeout_s: float) -> str:
        decoder = _Decoder(unit)
        illegal = Equality("illegal", decoder.cycle.port("illegal"), [decoder.legal ^ 1])
        return unequal(decoder.graph, TRUE, [illegal], {"word": decoder.word}, timeout_s)

    def controls(timeout_s: float) -> str:
        decoder = _Decoder(unit)
        unproved = decoder.graph.any(decoder.rows[insn] for insn in decoder.unproved)
        return unequal(decoder.graph, unproved, [*decoder.controls()], {"word": decoder.word}, timeout_s)

    return [
        Claim("every 32-bit word: legal or not", "sat", legality),
        Claim("CSR, system and pv.qnt words: control word of the row", "sat", controls),
    ]


DECODER = Definition(
    _decoder_claims,
    # faults: returns from subroutines lose an opcode bit; ecall becomes ebreak
    [InputFault("word", 0x8067, refutes="every 32-bit"), InputFault("word", 0x73, 20, refutes="CSR, system")],
)

_QUADRANT_BITS = 2
_QUADRANTS = 3  # of compressed words; the fourth quadrant has 32-bit words


def _wrong_halves(unit: ProvenUnit) -> Iterator[str]:
    cases = 1 << (HALF_BITS - _QUADRANT_BITS)
    mask = (1 << cases) - 1
    for quadrant in range(_QUADRANTS):
        graph = GateGraph()
        free = graph.inputs(_WORD - _QUADRANT_BITS)
        word = [*literals_of(quadrant, _QUADRANT_BITS), *free]
        cycle = unit.cycle(graph, {"word": word})
        outputs = [*cycle.port("expanded"), *cycle.port("compressed")]
        counted, above = free[: HALF_BITS - _QUADRANT_BITS], free[HALF_BITS - _QUADRANT_BITS :]
        given = {literal: counting_pattern(place, cases) for place, literal in enumerate(counted)}
        used = {node << 1 for node in graph.cone(outputs)}
        columns = graph.evaluate(given, outputs, mask)
        for case in range(cases):
            half = case << _QUADRANT_BITS | quadrant
            actual = sum((column >> case & 1) << place for place, column in enumerate(columns))
            expected = expanded(half) or 0
            if actual != expected | 1 << _WORD:
                kind = "" if actual >> _WORD else " and is taken for a word of 32 bits"
                yield f"0x{half:04x} must become 0x{expected:08x}, not 0x{actual % (1 << _WORD):08x}{kind}"
        if used.intersection(above):
            yield "what follows a compressed word must make no difference, but gates read it"


def _wrong_word(unit: ProvenUnit) -> str:
    graph = GateGraph()
    word = [TRUE, TRUE, *graph.inputs(_WORD - _QUADRANT_BITS)]
    cycle = unit.cycle(graph, {"word": word})
    if cycle.port("compressed") == [FALSE] and cycle.port("expanded") == word:
        return ""
    return "a word of 32 bits must stay, but its gates are others"


COMPRESSED = Definition(
    lambda unit: [
        Claim("every 16-bit word, whatever follows", "exhaustive", lambda _: next(_wrong_halves(unit), "")),
        Claim("every 32-bit word stays", "same gates", lambda _: _wrong_word(unit)),
    ],
    [InputFault("word", 0x4501)],
)
"""The compressed decoder expands every compressed word by the manual, and passes 32-bit words unchanged.

The fault moves c.li a0, 0 followed by zeros to another quadrant, and vice versa.
"""
