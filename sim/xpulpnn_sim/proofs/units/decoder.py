"""The instruction decoder for every word of 32 bits."""

from collections.abc import Mapping, Sequence
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.core.control_rows import control_fields
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import enabled
from xpulpnn_sim.proofs.engine import solvers
from xpulpnn_sim.proofs.engine.elaborate import ClockCycle, ClockedGates
from xpulpnn_sim.proofs.engine.gate_graph import GateGraph
from xpulpnn_sim.proofs.units.unit_proof import Claim, Fault, none, rare, shown

_WORD = 32
_RETURN = 0x0000_8067  # jalr x0, 0(x1)
_LOAD = 0x0000_0003  # lb x0, 0(x0)


def _rows(config: CoreConfig) -> list[Insn]:
    rows = enabled(config.extensions, config.widths)
    return [insn for insn in rows if len(insn.pattern) == _WORD and not insn.alias]


def _is_row(graph: GateGraph, word: Sequence[int], insn: Insn) -> int:
    """Literal of a word being one of a row: its fixed bits, and no field with the value that it must not have."""
    fixed = [bit ^ (insn.match >> place & 1) ^ 1 for place, bit in enumerate(word) if insn.mask >> place & 1]
    found = graph.all(fixed)
    for token in insn.restricted:
        places = [place for low, _, width in token.field.parts for place in range(low, low + width)]
        for number in range(1 << len(places)):
            held = sum((number >> index & 1) << place for index, place in enumerate(places))
            if not token.accepts(token.field.extract(held)):
                excluded = graph.all([word[place] ^ (held >> place & 1) ^ 1 for place in places])
                found = graph.and_(found, excluded ^ 1)
    return found


def _value(value: Any) -> int:
    """A field's value: a member of an enumeration, or a number."""
    return int(getattr(value, "value", value))


class _Decoder:
    """Gates of a decoder, and what the table says of the same word."""

    def __init__(
        self, gates: ClockedGates, ports: Sequence[Mapping[str, Any]], config: CoreConfig, fault: Fault
    ) -> None:
        self.graph = GateGraph()
        self.word = self.graph.inputs(_WORD)
        seen = {"word": self.word}
        fault(self.graph, seen)
        self.cycle = ClockCycle(self.graph, gates, seen, {})
        self.rows = {insn: _is_row(self.graph, self.word, insn) for insn in _rows(config)}
        self.legal = self.graph.any(self.rows.values())
        self._ports = ports

    def controls(self) -> list[tuple[str, list[int], list[int]]]:
        """Name, literals and wanted literals of each field of the control words; 0 for an illegal word."""
        fields = {insn: control_fields(insn) for insn in self.rows}
        found: list[tuple[str, list[int], list[int]]] = []
        for port in self._ports:
            if port["direction"] != "output" or port["name"] == "illegal":
                continue
            literals = self.cycle.port(port["name"])
            prefix = "" if port["name"] == "ctrl" else f"{port['name']}."
            for field in port["fields"]:
                name = f"{prefix}{field['name']}"
                values = {insn: _value(controls.get(name, 0)) for insn, controls in fields.items()}
                wanted = [
                    self.graph.any(self.rows[insn] for insn, value in values.items() if value >> bit & 1)
                    for bit in range(field["width"])
                ]
                bits = literals[field["lsb"] : field["lsb"] + field["width"]]
                found.append((name, [self.graph.and_(bit, self.legal) for bit in bits], wanted))
        return found


def claims(
    gates: ClockedGates, ports: Sequence[Mapping[str, Any]], config: CoreConfig, *, fault: Fault = none
) -> list[Claim]:
    """Claims about every word of 32 bits: it is legal or not, and if so each field of the control word is its row's."""

    def legality(timeout_s: float) -> str:
        unit = _Decoder(gates, ports, config, fault)
        words = (unit.cycle.port("illegal"), [unit.legal ^ 1])
        different = solvers.prove_equal(unit.graph, words, timeout_s=int(timeout_s))
        if different is None:
            return ""
        legal = unit.graph.number(different.ones, [unit.legal])
        return f"{shown(unit.graph, {'word': unit.word}, different.ones)} must be {'' if legal else 'il'}legal"

    def controls(timeout_s: float) -> str:
        unit = _Decoder(gates, ports, config, fault)
        fields = unit.controls()
        words = ([bit for _, bits, _ in fields for bit in bits], [bit for _, _, wanted in fields for bit in wanted])
        different = solvers.prove_equal(unit.graph, words, timeout_s=int(timeout_s))
        if different is None:
            return ""
        word = shown(unit.graph, {"word": unit.word}, different.ones)
        ones = different.ones
        number = unit.graph.number
        pairs = ((name, number(ones, bits), number(ones, want)) for name, bits, want in fields)
        return "; ".join(f"{word}: {name} must be {want}, not {bits}" for name, bits, want in pairs if bits != want)

    return [
        Claim(what="every 32-bit word: legal or not", method="sat", decide=legality),
        Claim(what="every legal word: control word of its row", method="sat", decide=controls),
    ]


def broken(gates: ClockedGates, ports: Sequence[Mapping[str, Any]], config: CoreConfig) -> list[list[Claim]]:
    """Claims that are wrong: each in turn about a decoder that mistakes one word for its neighbour.

    A return from a subroutine loses a bit of its opcode, or a load of a byte becomes one of a half-word.
    """
    opcode, width = (
        claims(gates, ports, config, fault=rare("word", word, bit)) for word, bit in ((_RETURN, 0), (_LOAD, 12))
    )
    return [opcode[:1], width[1:]]
