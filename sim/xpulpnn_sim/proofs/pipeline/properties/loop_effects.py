"""Effects of one instruction on the registers of the hardware loops (guide, "Hardware loops")."""

from amaranth.hdl import Cat, Mux, Signal

from xpulpnn.isa.csr import csr_address
from xpulpnn_sim.proofs.pipeline.properties.words import Word

LOOPS = 2
REGISTERS = tuple(f"{name}{loop}" for loop in range(LOOPS) for name in ("lpstart", "lpend", "lpcount"))

_STARTI, _ENDI, _COUNT, _COUNTI, _SETUP, _SETUPI = range(6)  # funct3 of the set-up instructions

_OPCODE = 0x7B
_ALL = 0xFFFF_FFFF
_HALF_WORDS = 0xFFFF_FFFE


class Effects:
    """Effects of an instruction that completes on the loop registers.

    A set-up instruction or a write to their CSRs sets them. An instruction at lpend with a count above 1 is followed by
    the one at lpstart, loop 0 first, and takes 1 off the count, unless it jumps, returns or is a branch that is taken.
    """

    def __init__(self, m, prefix, raw, pc, rs1, taken, before, *, in_ex=False):
        self.word = word = Word(raw)
        self.sets = sets_up(word)
        self.late = word.branches | word.accesses_csr
        self.goes_on = goes_on = Signal(name=f"{prefix}_goes_on")
        m.d.comb += goes_on.eq(~(word.jumps | word.returns | (word.branches & taken)))
        again = [
            (pc[1:] == before[f"lpend{loop}"][1:]) & (before[f"lpcount{loop}"] > 1) & goes_on for loop in range(LOOPS)
        ]
        self.backs = Signal(LOOPS, name=f"{prefix}_backs")
        self.follows = Signal(32, name=f"{prefix}_follows")
        behind = pc + Mux(word.compressed, 2, 4)
        m.d.comb += [self.backs.eq(Cat(again[0], again[1] & ~again[0])), self.follows.eq(behind)]
        for loop in range(LOOPS):
            with m.If(self.backs[loop]):
                m.d.comb += self.follows.eq(before[f"lpstart{loop}"])
        self.accesses = {name: word.accesses_csr & (word.top12 == csr_address(name)) for name in before}
        self.after = {name: Signal(32, name=f"{prefix}_{name}") for name in before}
        values = self._values(pc, rs1)
        for name, old in before.items():
            kind, loop = name[:-1], int(name[-1])
            chosen, value = values[kind]
            after = self.after[name]
            mask = _ALL if kind == "lpcount" else _HALF_WORDS
            m.d.comb += after.eq(old)
            if kind == "lpcount":
                with m.If(self.backs[loop] & ~self.late if in_ex else self.backs[loop]):
                    m.d.comb += after.eq(old - 1)
            with m.If(self.sets & chosen & (word.loop == loop)):
                m.d.comb += after.eq(value & mask)
            if not in_ex:
                with m.If(self.accesses[name] & word.writes_csr):
                    m.d.comb += after.eq(word.written(old, rs1) & mask)

    def _values(self, pc, rs1):
        """Set-up instructions that set a register, and its value."""
        word = self.word
        offset = Cat(0, Mux(word.funct3 == _SETUPI, word.rs1, word.top12))
        immediate_count = Mux(_among(word.funct3, _COUNTI, _SETUPI), word.top12, rs1)
        return {
            "lpstart": (_among(word.funct3, _STARTI, _SETUP, _SETUPI), pc + Mux(word.funct3 == _STARTI, offset, 4)),
            "lpend": (_among(word.funct3, _ENDI, _SETUP, _SETUPI), pc + offset),
            "lpcount": (_among(word.funct3, _COUNT, _COUNTI, _SETUP, _SETUPI), immediate_count),
        }


def sets_up(word):
    """Return whether a word is a set-up instruction."""
    return word.wide & (word.opcode == _OPCODE)


def _among(value, *numbers):
    return Cat(value == number for number in numbers).any()
