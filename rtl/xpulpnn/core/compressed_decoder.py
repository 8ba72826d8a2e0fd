"""Decoder of compressed instructions, generated from the instruction table."""

from contextlib import nullcontext

from amaranth.hdl import Cat, Const, Module

from xpulpnn.component import Component, In, Out
from xpulpnn.isa.compressed import COMPRESSED_ROWS, EXPANSIONS
from xpulpnn.isa.fields import Token
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import HALF_BITS, LENGTH_BITS, XLEN


def expansion_wiring(insn: Insn) -> list[int | None]:
    """Return the source of every bit of the 32-bit word to which a compressed instruction expands.

    An element of the list is the number of a bit of the compressed word, None for constant 0 or ``-1`` for constant 1.
    Every expansion only moves bits (registers, scattered and sign-extended immediates), so toggling the free bits of
    the instruction one at a time finds all sources.
    """
    expansion = EXPANSIONS[insn.mnemonic]
    constant = expansion.word(insn.decode(insn.match))
    sources: list[int | None] = [-1 if constant >> bit & 1 else None for bit in range(XLEN)]
    for bit in range(HALF_BITS):
        if insn.mask >> bit & 1:
            continue
        toggled = expansion.word(insn.decode(insn.match | 1 << bit)) ^ constant
        for target in range(XLEN):
            if toggled >> target & 1:
                sources[target] = bit
    return sources


def excluded_pattern(token: Token) -> str:
    """Return the pattern of the half-words whose field holds the value that the instruction excludes."""
    mask, value = token.field.insert(-1), token.field.insert(token.excluded)
    bits = reversed(range(HALF_BITS))
    return "".join(str(value >> bit & 1) if mask >> bit & 1 else "-" for bit in bits)


class CompressedDecoder(Component):
    """Expands a compressed instruction to the equivalent 32-bit word; only the link of jumps differs.

    Rows of the table that are special cases of others (``c.nop`` of ``c.addi``) have more fixed bits and are tried
    first; excluded values that no other row covers are reserved. Combinational.
    """

    word: In(32)  #: Instruction at the program counter; the upper half is ignored if it is compressed.
    expanded: Out(32)  #: 32-bit instruction; 0, an illegal instruction, for a reserved compressed word.
    compressed: Out(1)  #: The instruction takes two bytes.

    def elaborate(self, platform):
        m = Module()
        half = self.word[:HALF_BITS]
        m.d.comb += [self.compressed.eq(~half[:LENGTH_BITS].all()), self.expanded.eq(self.word)]
        constants = {None: Const(0, 1), -1: Const(1, 1)}
        rows = sorted(COMPRESSED_ROWS, key=lambda insn: insn.pattern.count("-"))
        with m.If(self.compressed):
            m.d.comb += self.expanded.eq(0)
            with m.Switch(self.word):
                for insn in rows:
                    bits = [constants[bit] if bit in constants else half[bit] for bit in expansion_wiring(insn)]
                    # half-words with a field that holds its excluded value
                    excluded = [excluded_pattern(token) for token in insn.restricted]
                    legal = m.If(~half.matches(*excluded)) if excluded else nullcontext()
                    with m.Case("-" * (XLEN - HALF_BITS) + insn.pattern), legal:
                        m.d.comb += self.expanded.eq(Cat(*bits))
        return m

    def case_note(self, path: tuple[tuple[str, ...], ...]) -> list[str]:
        """Return the mnemonics of the instructions that a case of the Verilog expands."""
        patterns = [text[XLEN - HALF_BITS :] for text in path[0]]
        return [row.mnemonic for row in COMPRESSED_ROWS if row.pattern in patterns]
