"""Programs for the coprocessor behind CV-X-IF: words and operands of its instructions and of others."""

from collections.abc import Collection, Iterator, Sequence
from random import Random

from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_MASK, XLEN
from xpulpnn.isa.table import by_mnemonic
from xpulpnn.isa.xif import STEP_BITS
from xpulpnn_sim.benches.vectors.operands import sources
from xpulpnn_sim.reference.stimuli import corner_words, instruction_words, random_word

Instruction = tuple[int, int, int]
"""Word of an instruction, and the values of rs1 and rs2."""

FAILING = (0x4000_0000, 64)  # addresses of loads that fail: the first, and their number
STATE_WORDS = (*range(22), 22, *range(24, 28))
"""Numbers of the words that pa.rd reads: accumulators, NN-RF, pointers."""

_STEPS = (0, 1, 1, 2, 3, 4, 5)
_SYSTEM, _CSR_FUNCTS = 0b1110011, (1, 2, 3, 5, 6, 7)
_NEAR = 128  # greatest distance of a pointer from the failing addresses
_ROUND = 12  # rows between two inspections of the whole state


def _without_x0(instruction: Instruction) -> Instruction:
    word, *operands = instruction
    rs1, rs2 = (value if word >> lsb & 31 else 0 for value, lsb in zip(operands, (15, 20), strict=True))
    return word, rs1, rs2


class XifPrograms:
    """Draws programs in which every row of ``insns`` occurs, with operands and state that spread the results."""

    def __init__(self, insns: Sequence[Insn], rng: Random) -> None:
        self._insns, self._rng = insns, rng
        self._rows = {insn.op: insn for insn in insns}

    @property
    def ops(self) -> Collection[str]:
        return self._rows.keys()

    def __iter__(self) -> Iterator[list[Instruction]]:
        """Yield programs of some rows each, all of them once, which end with a look at the whole state."""
        shuffled = self._rng.sample(self._insns, len(self._insns))
        for first in range(0, len(shuffled), _ROUND):
            rows = shuffled[first : first + _ROUND]
            program: list[Instruction] = []
            for instruction in (instruction for insn in rows for instruction in self._executions(insn)):
                others = [self._other(instruction)] if self._rng.random() < 0.15 else []
                program += map(_without_x0, [*others, instruction])
            yield [*program, *self.inspection()]

    def inspection(self) -> list[Instruction]:
        """Return reads of all words of state, if there are any."""
        if "pa.rd" not in self._rows:
            return []
        reads = [self.make("pa.rd", r=word) for word in STATE_WORDS]
        return reads + ([self.make("pa.sync")] if "pa.sync" in self._rows else [])

    def make(self, op: str, rs1: int = 0, rs2: int = 0, **values: int) -> Instruction:
        """Return the instruction of a row with these operand values, random registers, and other immediates 0."""
        insn = self._rows[op]
        fields = [token.field for token in insn.tokens]
        drawn = {each.name: self._rng.randrange(1, 32) * (each.kind is FieldKind.REGISTER) for each in fields}
        return insn.encode(**drawn | values), rs1, rs2

    def _other(self, near: Instruction) -> Instruction:
        """Return a CSR instruction, or one whose word differs from a given one in a bit."""
        word, rs1, rs2 = near
        rng = self._rng
        if rng.random() < 0.3:
            csr = (rng.getrandbits(XLEN) & ~0x707F) | rng.choice(_CSR_FUNCTS) << 12 | _SYSTEM
            return csr, rs1, rs2
        few = rs1 & -1 << STEP_BITS | rng.choice(_STEPS)  # in case that it is pa.step
        return word ^ 1 << rng.randrange(XLEN), few & WORD_MASK, rs2

    def _executions(self, insn: Insn) -> Iterator[Instruction]:
        rng, count = self._rng, 3
        if insn.op.startswith("pa.rq"):
            yield from self._requantisation(insn)
            return
        drawn = sources(insn, count, rng)
        words = instruction_words(insn, count, rng).tolist()
        for word, rs1, rs2 in zip(words, drawn.rs1.tolist(), drawn.rs2.tolist(), strict=True):
            match insn.op:
                case "pa.step":
                    if rng.random() < 0.5:
                        yield self.make("pa.ptr", self._pointer(), self._pointer())
                    yield word, rs1 & -1 << STEP_BITS & WORD_MASK | rng.choice(_STEPS), rs2
                case "pa.blk":
                    corners = corner_words(insn.elements.width)
                    for pair in range(2):
                        yield self.make("pa.ld", rng.choice((random_word(rng), *corners)), rng.choice(corners), e=pair)
                    yield word, rs1, rs2
                case _:
                    yield word, rs1, rs2

    def _pointer(self) -> int:
        rng = self._rng
        near = rng.choice((0, FAILING[0], FAILING[0], rng.getrandbits(XLEN), rng.getrandbits(XLEN)))
        return near + rng.randint(-_NEAR, _NEAR) & WORD_MASK

    def _requantisation(self, insn: Insn) -> Iterator[Instruction]:
        """Yield an instruction after writes of an accumulator and of the shift that bring the result near a bound."""
        drawn = sources(by_mnemonic(insn.mnemonic.replace("pa.", "pv."))[0], 8, self._rng)
        columns = zip(*(column.tolist() for column in (drawn.rs1, drawn.rs2, drawn.act, drawn.wgt)), strict=True)
        for number, scale, factor, summand in columns:
            pixel, lane = self._rng.randrange(4), self._rng.randrange(4)
            yield self.make("pa.wr", number, r=4 * pixel + lane)
            yield self.make("pa.ld", scale, random_word(self._rng), e=4)
            [word] = instruction_words(insn, 1, self._rng).tolist()
            values = insn.decode(word) | {"f": lane}
            yield insn.encode(**values), factor, summand
            yield self.make("pa.rd", r=4 * pixel)
