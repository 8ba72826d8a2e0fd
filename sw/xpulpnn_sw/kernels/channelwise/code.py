"""Accesses, fields and ranges, in the instructions of each level."""

from collections.abc import Callable, Mapping, Sequence

from xpulpnn.isa.machine import TEXT_BASE
from xpulpnn_sw.kernels.arguments import Structure
from xpulpnn_sw.kernels.builder import WORD, ZERO, Builder, Held, Label, Value, fits_immediate
from xpulpnn_sw.kernels.channelwise.levels import ElementLevel
from xpulpnn_sw.kernels.frame import ARGUMENTS_POINTER, CORE, CORES, FREE, RA, Frame, Registers
from xpulpnn_sw.kernels.terms import Term
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS

_LOADS = {(8, False): "lbu", (8, True): "lb", (16, False): "lhu", (16, True): "lh", (32, False): "lw", (32, True): "lw"}
_STORES = {8: "sb", 16: "sh", 32: "sw"}
_BY_IMMEDIATE = {"l": "rd,imm12(rs1!)", "s": "rs2,stimm12(rs1!)"}
_BY_REGISTER = {"l": "rd,rs2(rs1!)", "s": "rs2,rs3(rs1!)"}
_AT_REGISTER = {"l": "rd,rs2(rs1)", "s": "rs2,rs3(rs1)"}


ARGUMENT_REGISTERS = (ARGUMENTS_POINTER, CORE, CORES)
"""Registers that no number may live in while the others are computed, the first ones that are handed out."""


class Code:
    """Writes instructions, those of XpulpV2 where the level has them."""

    def __init__(self, level: ElementLevel) -> None:
        """Start with no instruction."""
        self.level, self.xpulp = level, level.xpulp
        self.b = Builder(TEXT_BASE, xpulp=level.xpulp)

    def frame(
        self,
        structure: Structure,
        known: Mapping[str, int],
        terms: Mapping[str, Term],
        homes: Mapping[str, int],
        registers: Registers,
        wanted: Sequence[str] = (),
        *,
        calls: bool = False,
        passing: Sequence[str] = (),
    ) -> Frame:
        """The numbers of a function that uses the registers taken from ``registers``, and ``wanted`` more.

        If it ``calls`` parts of itself, the return address is saved and no number lives there. Numbers that are
        ``passing`` are needed by others only.
        """
        free = registers.rest()
        if calls:
            free.remove(RA)
        spare = free[: len(wanted)]
        used = {*FREE} - {*free[len(wanted) :]}
        fields = [field.name for field in structure.fields]
        return Frame(self.b, fields, known, terms, homes, wanted, spare, used, passing)

    # -- memory

    def load(self, rd: int, pointer: int, step: Value = 0, *, bits: int = WORD_BITS, signed: bool = False) -> None:
        """Load an element at ``pointer``, which then moves by ``step``."""
        self._access(_LOADS[bits, signed], rd, pointer, step)

    def store(self, register: int, pointer: int, step: Value = 0, *, bits: int = WORD_BITS) -> None:
        """Store an element at ``pointer``, which then moves by ``step``."""
        self._access(_STORES[bits], register, pointer, step)

    def load_at(
        self, rd: int, base: int, offset: int, work: int, *, bits: int = WORD_BITS, signed: bool = False
    ) -> None:
        """Load the element ``offset`` bytes after ``base``, both registers; without XpulpV2 ``work`` is lost."""
        mnemonic = _LOADS[bits, signed]
        if self.xpulp:
            self.b.of_form(f"p.{mnemonic}", _AT_REGISTER["l"], rd, offset, base)
        else:
            self.b("add", work, base, offset)
            self.b(mnemonic, rd, 0, work)

    def _access(self, mnemonic: str, register: int, pointer: int, step: Value) -> None:
        kind = mnemonic[0]
        if step == 0 or not self.xpulp:
            self.b(mnemonic, register, 0, pointer)
            if isinstance(step, Held):
                self.b("add", pointer, pointer, step.register)
            elif step:
                self.b("addi", pointer, pointer, step)
        elif isinstance(step, Held):
            self.b.of_form(f"p.{mnemonic}", _BY_REGISTER[kind], register, step.register, pointer)
        else:
            self.b.of_form(f"p.{mnemonic}", _BY_IMMEDIATE[kind], register, step, pointer)

    # -- elements of a word

    def extract(self, rd: int, word: int, bits: int, place: int, *, signed: bool) -> None:
        """The element of a word whose lowest bit is number ``place``."""
        top = WORD_BITS - bits - place
        if bits == WORD_BITS:
            if rd != word:
                self.b.mv(rd, word)
        elif self.xpulp:
            self.b("p.extracti" if signed else "p.extractui", rd, word, bits - 1, place)
        elif signed:
            self.b("slli", rd, word, top)
            self.b("srai", rd, rd, WORD_BITS - bits)
        elif place == 0 and fits_immediate((1 << bits) - 1):
            self.b("andi", rd, word, (1 << bits) - 1)
        elif top == 0:
            self.b("srli", rd, word, place)
        else:
            self.b("slli", rd, word, top)
            self.b("srli", rd, rd, WORD_BITS - bits)

    def insert(self, word: int, value: int, bits: int, place: int) -> None:
        """Make ``value``, in the range of an element and lost, an element of ``word``; the first one is at place 0."""
        if place == 0:
            if word != value:
                self.b.mv(word, value)
            if not self.xpulp:
                self.b("andi", word, word, (1 << bits) - 1)
        elif self.xpulp:
            self.b("p.inserti", word, value, bits - 1, place)
        else:
            self.b("andi", value, value, (1 << bits) - 1)
            self.b("slli", value, value, place)
            self.b("or", word, word, value)

    def clip(self, rd: int, value: int, bits: int, work: int, *, signed: bool) -> None:
        """``value`` clipped to the range of an element; without XpulpV2 ``value`` and ``work`` are lost."""
        if self.xpulp:
            if signed:
                self.b("p.clipi", rd, value, bits)
            else:
                self.b("p.clipui", rd, value, bits + 1)
            return
        half = 1 << (bits - 1) if signed else 0
        if half:
            self.b("addi", value, value, half)
        # all ones if out of range; the sign then turns that of negative values to 0
        self.b("sltiu", work, value, 1 << bits)
        self.b("addi", work, work, -1)
        self.b("or", work, work, value)
        self.b("srai", value, value, WORD_BITS - 1)
        self.b("xor", rd, work, value)
        self.b("andi", rd, rd, (1 << bits) - 1)
        if half:
            self.b("addi", rd, rd, -half)

    # -- arithmetic and control

    def accumulate(self, rd: int, a: int, b: int, work: int) -> None:
        """``rd = rd + a * b``; without XpulpV2 ``work`` is lost."""
        if self.xpulp:
            self.b("p.mac", rd, a, b)
        else:
            self.b("mul", work, a, b)
            self.b("add", rd, rd, work)

    def repeat(self, count: Value, counter: int, body: Callable[[], None], *, level: int | None = None) -> None:
        """Repeat the instructions of ``body`` ``count`` times, which may be none.

        ``level`` is the hardware loop to use where there are any. Then the last instruction is no branch, and what
        follows the loop is in the same body of an outer one.
        """
        if count == 0:
            return
        skip = Label()
        if isinstance(count, Held):
            self.b.branch("beq", count.register, ZERO, skip)
        with self.b.loop(count, counter, level=level):
            body()
        self.b.place(skip)


def words_of(elements: int, bits: int) -> int:
    """Words that hold so many elements, the last one maybe in part."""
    return -(-elements * bits // (WORD * BYTE_BITS))
