"""Instruction decoder, generated from the instruction table."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.config import CoreConfig
from xpulpnn.core.control import IdCtrl
from xpulpnn.core.control_rows import Fields, control_fields
from xpulpnn.core.cover import expanded_cover, merged
from xpulpnn.isa.table import Insn, enabled

OPCODE_BITS = 7


def legal_patterns(insn: Insn) -> list[str]:
    """Patterns of the legal words of a 32-bit row: its own, less the excluded pair of Mac&Load update bits."""
    if "nnimm5" not in insn.operands:
        return [insn.pattern]
    before_update_bits, rest = insn.pattern[:7], insn.pattern[9:]
    return [f"{before_update_bits}{update}{rest}" for update in ("0-", "10")]


def leaves(fields: data.View, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and signals of the fields of a structure, nested structures resolved."""
    for name, _ in data.Layout.cast(fields.shape()):
        value = fields[name]
        if isinstance(value, data.View):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


class Decoder(wiring.Component):
    """Control word of an instruction.

    Every output is a two-level function of the instruction word per major opcode, minimised with illegal words as
    don't-cares, so ``ctrl`` means nothing while ``illegal`` is 1. Combinational. Compressed instructions arrive
    expanded.

    Parameters
    ----------
    config : CoreConfig
        Decides which rows of the table are instructions.

    Members
    -------
    word : In(32)
        Instruction word.
    ctrl : Out(IdCtrl)
        Control word.
    illegal : Out(1)
        No enabled row of the table matches (ISA.md section 14).
    """

    word: In(32)
    ctrl: Out(IdCtrl)
    illegal: Out(1)

    def __init__(self, config: CoreConfig):
        self.config = config
        super().__init__()

    def elaborate(self, platform):
        """Build a Switch per output from the rows of the table."""
        m = Module()
        by_opcode: dict[str, list[tuple[Insn, Fields]]] = defaultdict(list)
        for insn in enabled(self.config.extensions, self.config.widths):
            if insn.size * 8 == len(self.word):
                by_opcode[insn.pattern[-OPCODE_BITS:]].append((insn, control_fields(insn)))

        self._legality(m, {opcode: [insn for insn, _ in rows] for opcode, rows in by_opcode.items()})
        for name, output in leaves(self.ctrl):
            values = {
                opcode: {insn: Const.cast(fields.get(name, 0)).value for insn, fields in rows}
                for opcode, rows in by_opcode.items()
            }
            if any(value for rows in values.values() for value in rows.values()):
                named = Signal(len(Value.cast(output)), name=name.replace(".", "_"))
                self._output(m, named, values)
                m.d.comb += Value.cast(output).eq(named)
        return m

    def _legality(self, m: Module, by_opcode: Mapping[str, Iterable[Insn]]) -> None:
        """The ``illegal`` output: 1 unless a pattern of the major opcode matches."""
        m.d.comb += self.illegal.eq(1)
        with m.Switch(self.word[:OPCODE_BITS]):
            for opcode, insns in by_opcode.items():
                patterns = [pattern for insn in insns for pattern in legal_patterns(insn)]
                with m.Case(opcode), m.Switch(self.word), m.Case(*merged(patterns)):
                    m.d.comb += self.illegal.eq(0)

    def _output(self, m: Module, output: Signal, values: Mapping[str, Mapping[Insn, int]]) -> None:
        """One output: per major opcode a constant, or a Switch over the patterns of each value but the commonest,
        which is the default."""
        with m.Switch(self.word[:OPCODE_BITS]):
            for opcode, by_insn in values.items():
                rows: dict[int, list[str]] = defaultdict(list)
                for insn, value in by_insn.items():
                    rows[value].append(insn.pattern)
                default = max(rows, key=lambda value: len(rows[value]))
                if rows.keys() == {0}:
                    continue
                if len(rows) == 1:
                    with m.Case(opcode):
                        m.d.comb += output.eq(default)
                    continue
                with m.Case(opcode), m.Switch(self.word):
                    for value in rows.keys() - {default}:
                        others = [pattern for other, kept in rows.items() if other != value for pattern in kept]
                        with m.Case(*expanded_cover(rows[value], others)):
                            m.d.comb += output.eq(value)
                    with m.Default():
                        m.d.comb += output.eq(default)
