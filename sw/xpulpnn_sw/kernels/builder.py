"""Builder of kernel code: it collects instructions, labels and loops."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn.isa.table import find
from xpulpnn_sw.kernels.layout import Program

ZERO = 0  # register x0
THRESHOLD_BYTES = 2  # bytes of a threshold
WORD = WORD_BYTES  # bytes of an instruction and of a data word
STORE_BY_BITS = {8: "sb", 16: "sh", 32: "sw"}
IMMEDIATE = {"add": "addi", "and": "andi", "sra": "srai", "sltu": "sltiu"}  # forms with an immediate operand
MAX_COUNT_IMMEDIATE = 0xFFF  # largest count of ``lp.setupi``
MAX_SHORT_BODY = 15  # most instructions between ``lp.setupi`` and the end of its body: a 5-bit offset in half-words
_REACH = 1 << 12  # largest backward distance of a branch in bytes
_LOW_BITS, _SIGN_SHIFT = 12, 31
_LOW = 1 << _LOW_BITS
LOAD_BY_REGISTER = "rd,rs2(rs1!)"  # operand form of loads with post-increment by a register
# operand forms of stores: post-increment by an immediate, or by a register; base plus register
_BY_IMMEDIATE, BY_REGISTER, WITH_REGISTER = "rs2,stimm12(rs1!)", "rs2,rs3(rs1!)", "rs2,rs3(rs1)"
# default form of mnemonics that have several: post-increment by an immediate
_FORMS: dict[str, str] = dict.fromkeys(("p.lw", "p.lb", "p.lbu", "p.lh", "p.lhu"), "rd,imm12(rs1!)")
_FORMS.update(dict.fromkeys(("p.sw", "p.sh", "p.sb"), _BY_IMMEDIATE))


@dataclass(frozen=True, slots=True)
class Held:
    register: int


Value = int | Held  # operand of an instruction: a constant, or a number in a register


@cache
def _row(mnemonic: str, form: str | None = None) -> Insn:
    return find(mnemonic, form or _FORMS.get(mnemonic))


@lru_cache(1 << 16)
def _encoded(mnemonic: str, form: str, operands: tuple[int, ...]) -> int:
    insn = find(mnemonic, form)
    names = (token.field.name for token in insn.tokens)
    return insn.encode(**dict(zip(names, operands, strict=True)))


def fits_immediate(value: int) -> bool:
    return -_LOW // 2 <= value < _LOW // 2


@dataclass(slots=True)
class Label:
    position: int | None = None


@dataclass(slots=True)
class _Line:
    insn: Insn
    operands: tuple[int, ...]
    region: str
    target: Label | None


class Builder:
    def __init__(self, text_base: int, *, xpulp: bool, is_long: bool = False) -> None:
        self._text_base, self.xpulp, self.is_long = text_base, xpulp, is_long
        self._lines: list[_Line] = []
        self._loop_ends, self._inner = set[int](), set[int]()
        self._region = "setup"
        self._deferred: list[tuple[str, Callable[[], None]]] = []

    def __call__(self, mnemonic: str, *operands: int, form: str | None = None) -> None:
        self._append(_row(mnemonic, form), operands)

    def chain(self, rd: int, first: int, *steps: tuple[str, int]) -> None:
        """Write ``rd = first``, then apply each mnemonic with its second operand to it, from left to right."""
        for mnemonic, operand in steps:
            self(mnemonic, rd, first, operand)
            first = rd

    def _append(self, insn: Insn, operands: tuple[int, ...], target: Label | None = None) -> None:
        self._lines.append(_Line(insn, operands, self._region, target))

    def clear(self, registers: Sequence[int]) -> None:
        for register in registers:
            self.li(register, 0)

    def load_words(self, registers: Sequence[int], pointer: int) -> None:
        for register in registers:
            self("p.lw", register, WORD, pointer)

    def store_words(self, registers: Sequence[int], pointer: int) -> None:
        for register in registers:
            self("p.sw", register, WORD, pointer)

    def access(self, mnemonic: str, register: int, size: int, offset: int, pointer: int) -> None:
        """Load or store at ``pointer`` with post-increment by ``size``; without XpulpV2 at ``pointer + offset``."""
        if self.xpulp:
            self(f"p.{mnemonic}", register, size, pointer)
        else:
            self(mnemonic, register, offset, pointer)

    def li(self, rd: int, value: int) -> None:
        value &= WORD_MASK
        signed = value - (WORD_MASK + 1) if value > WORD_MASK // 2 else value
        if fits_immediate(signed):
            self("addi", rd, ZERO, signed)
            return
        low = (value + _LOW // 2) % _LOW - _LOW // 2
        self("lui", rd, (value - low & WORD_MASK) >> _LOW_BITS)
        if low:
            self("addi", rd, rd, low)

    def mv(self, rd: int, rs: int) -> None:
        self("addi", rd, rs, 0)

    def put(self, rd: int, value: Value) -> None:
        self.mv(rd, value.register) if isinstance(value, Held) else self.li(rd, value)

    def operate(self, mnemonic: str, rd: int, rs: int, value: Value, temporary: int = ZERO) -> None:
        """Write ``rd = rs op value``; ``temporary`` is clobbered if ``value`` is a constant of more than 12 bits."""
        if isinstance(value, int) and fits_immediate(value):
            self(IMMEDIATE[mnemonic], rd, rs, value)
            return
        if isinstance(value, int):
            self.li(temporary, value)
        self(mnemonic, rd, rs, value.register if isinstance(value, Held) else temporary)

    def add(self, register: int, value: Value, temporary: int) -> None:
        """Add ``value`` to a register; ``temporary`` is clobbered if ``value`` is a constant of more than 12 bits."""
        if value != 0:
            self.operate("add", register, register, value, temporary)

    def shift_right(self, rd: int, rs: int, value: Value) -> None:
        if value != 0 or rd != rs:
            self.operate("sra", rd, rs, value)

    def add_shifted(self, rd: int, rs: int, value: Value) -> None:
        """Write ``rd = (rd + rs) >> value`` with a 32-bit sum and an arithmetic shift."""
        if not self.xpulp:
            self("add", rd, rd, rs)
            self.shift_right(rd, rd, value)
        elif isinstance(value, Held):
            self("p.addN", rd, rs, value.register)
        else:
            self("p.addNi", rd, rd, rs, value)

    def accumulate(self, rd: int, a: int, b: int, work: int) -> None:
        """Write ``rd = rd + a * b``; without XpulpV2 ``work`` is clobbered."""
        if self.xpulp:
            self("p.mac", rd, a, b)
        else:
            self("mul", work, a, b)
            self("add", rd, rd, work)

    def upper_word(
        self, rd: int, a: int, lam: tuple[int, int], kappa: tuple[int, int], work: tuple[int, int], shift: Value
    ) -> None:
        """Write ``rd = (kappa * a + lam >> 32) >> shift``; ``kappa`` and ``lam`` are pairs, lower word first."""
        total, product = work
        self.chain(total, a, ("mul", kappa[0]), ("add", lam[0]))
        self.chain(total, total, ("sltu", lam[0]), ("add", lam[1]))
        self.accumulate(total, a, kappa[1], product)
        self("mulhsu", rd, a, kappa[0])
        self.add_shifted(rd, total, shift)

    def exchange(self, first: int, second: int, width: int, mask: int, work: int) -> None:
        """Swap the upper halves of the elements in ``first`` with the lower halves of those in ``second``."""
        self.chain(work, first, ("srli", width), ("xor", second), ("and", mask))
        self("xor", second, second, work)
        self("slli", work, work, width)
        self("xor", first, first, work)

    def to_bytes(self, rd: int, word: int, first: int, bits: int, elements: Sequence[int], *, signed: bool) -> None:
        """Expand four elements of ``word``, from bit ``first`` on, to bytes in ``rd``; ``elements`` are clobbered."""
        extract = "p.extracti" if signed else "p.extractui"
        for lane, element in enumerate(elements):
            self(extract, element, word, bits - 1, first + lane * bits)
        self("pv.packlo.b", rd, elements[1], elements[0])
        self("pv.packhi.b", rd, elements[3], elements[2])

    def append_bits(self, word: int, value: int, bits: int, place: int, work: int) -> None:
        """Insert a ``value`` of ``bits`` bits at bit ``place`` of ``word``; without XpulpV2 ``work`` is clobbered."""
        if self.xpulp:
            self("p.inserti", word, value, bits - 1, place)
        else:
            self("slli", work, value, place)
            self("or", word, word, work)

    def clip(self, rd: int, value: int, bits: int, work: int, *, signed: bool) -> None:
        """Clip to an element; without XpulpV2 bits above it are wrong, and ``value`` and ``work`` are clobbered."""
        if self.xpulp:
            self("p.clipi", rd, value, bits) if signed else self("p.clipui", rd, value, bits + 1)
            return
        half = 1 << (bits - 1) if signed else 0
        self.add(value, half, work)
        # all ones if out of range, which the xor with the sign turns into 0 for negative values
        self.chain(work, value, ("sltiu", 1 << bits), ("addi", -1), ("or", value))
        self("srai", value, value, _SIGN_SHIFT)
        self("xor", rd, work, value)
        self.add(rd, -half, work)

    def requantise(
        self, word: int, value: int, shift: int, lane: int, bits: int, *, signed: bool, exact: bool = False
    ) -> None:
        """Requantise ``value`` into element ``lane`` of ``word``; the next instruction should not use ``word``."""
        self(f"pv.rq{'x' * exact}{'us'[signed]}.{ElemFmt.of_width(bits).suffix}", word, value, shift, lane)

    def search(self, places: Sequence[int], values: Sequence[int], work: Sequence[int], bits: int) -> None:
        """Search ascending tables: move each pointer ``places[i]`` past the half-words that are below ``values[i]``."""
        for half in [1 << level for level in reversed(range(bits))]:
            for threshold, place in zip(work, places, strict=False):
                self("lh", threshold, (half - 1) * THRESHOLD_BYTES, place)
            for threshold, place, value in zip(work, places, values, strict=False):
                self("slt", threshold, threshold, value)
                self("slli", threshold, threshold, (half * THRESHOLD_BYTES).bit_length() - 1)
                self("add", place, place, threshold)

    def set_below(self, rd: int, register: int, bound: Value) -> None:
        """Write ``rd = register < bound``, compared as unsigned numbers; negative values therefore give 0."""
        self.operate("sltu", rd, register, bound, rd)

    def positive(self, register: int, temporary: int) -> None:
        """Write ``register = max(register, 0)``."""
        if self.xpulp:
            self("p.max", register, register, ZERO)
            return
        self.chain(temporary, register, ("srai", _SIGN_SHIFT), ("xori", -1))
        self("and", register, register, temporary)

    def at_most(self, register: int, bound: int, temporary: int, other: int) -> None:
        """Write ``register = min(register, bound)``; the difference of the two registers must fit 32 bits."""
        if self.xpulp:
            self("p.min", register, register, bound)
            return
        self("sub", temporary, register, bound)
        self("srai", other, temporary, _SIGN_SHIFT)
        self("and", temporary, temporary, other)
        self("add", register, bound, temporary)

    @contextmanager
    def region(self, name: str) -> Generator[None]:
        outer, self._region = self._region, name
        yield
        self._region = outer

    def defer(self, write: Callable[[], None]) -> None:
        """Defer ``write``, whose instructions belong to the current region, to the next :meth:`emit_deferred`."""
        self._deferred.append((self._region, write))

    def emit_deferred(self) -> None:
        """Emit the deferred instructions; control must not fall through into them."""
        # deferred code may defer more
        for region, write in self._deferred:
            with self.region(region):
                write()
        self._deferred.clear()

    @property
    def position(self) -> int:
        return len(self._lines)

    def place(self, label: Label) -> None:
        label.position = self.position

    def branch(self, mnemonic: str, rs1: int, rs2: int, target: Label) -> None:
        self._append(_row(mnemonic), (rs1, rs2), target)

    def far_branch(self, mnemonic: str, rs1: int, rs2: int, target: Label) -> None:
        """Branch by ``beq`` or ``bne`` to a label that may be too far for a branch instruction."""
        over = Label()
        self.branch({"beq": "bne", "bne": "beq"}[mnemonic], rs1, rs2, over)
        self.jump(target)
        self.place(over)

    def jump(self, target: Label, link: int = ZERO) -> None:
        self._append(_row("jal"), (link,), target)

    @contextmanager
    def skipped(self, mnemonic: str, rs1: int, rs2: int, *, is_far: bool = False) -> Generator[None]:
        """Branch over the instructions written in the context; ``is_far`` allows any number of them."""
        end = Label()
        (self.far_branch if is_far else self.branch)(mnemonic, rs1, rs2, end)
        yield
        self.place(end)

    @contextmanager
    def replaced(self, mnemonic: str, rs1: int, rs2: int, write: Callable[[], None]) -> Generator[None]:
        """Write a branch from the instructions of the context to a replacement, which ``write`` emits later."""
        other, end = Label(), Label()

        def write_other() -> None:
            self.place(other)
            write()
            self.jump(end)

        (self.far_branch if self.is_long else self.branch)(mnemonic, rs1, rs2, other)
        self.defer(write_other)
        yield
        self.place(end)

    @contextmanager
    def loop(self, count: Value, counter: int, *, level: int | None = None, short: bool = False) -> Generator[None]:
        """Repeat the instructions written in the context ``count`` >= 1 times; a constant 1 needs no loop.

        ``level`` is the hardware loop to use if the core has any: ``counter`` is then needed for its set-up only, and
        not at all if the body is ``short`` (at most :data:`MAX_SHORT_BODY` instructions) and the count constant.
        Otherwise ``counter`` counts down and the body must not write it.
        """
        if count == 1:
            yield
        elif level is not None and self.xpulp:
            with self._hardware_loop(count, counter, level, short=short):
                yield
        else:
            if count != Held(counter):
                self.put(counter, count)
            start = Label(self.position)
            yield
            self("addi", counter, counter, -1)
            is_far = (self.position - (start.position or 0)) * WORD > _REACH
            (self.far_branch if is_far else self.branch)("bne", counter, ZERO, start)

    def repeat(self, count: Value, counter: int, body: Callable[[], None], *, level: int | None = None) -> None:
        """Repeat ``body`` ``count`` >= 0 times; a hardware loop may not end with a branch or another loop."""
        may_be_none = self.skipped("beq", count.register, ZERO) if isinstance(count, Held) else nullcontext()
        if count != 0:
            with may_be_none, self.loop(count, counter, level=level):
                body()

    @contextmanager
    def _hardware_loop(self, count: Value, counter: int, level: int, *, short: bool) -> Generator[None]:
        end = Label()
        if isinstance(count, int) and short and count <= MAX_COUNT_IMMEDIATE:
            self._append(_row("lp.setupi"), (level, count), end)
        else:
            if isinstance(count, int):
                self.li(counter, count)
            self._append(_row("lp.setup"), (level, count.register if isinstance(count, Held) else counter), end)
        yield
        end.position = self.position - 1
        self._loop_ends.add(end.position)

    @contextmanager
    def inner_loop(self, count: Value, length: int, counter: int) -> Generator[None]:
        """Write the instructions of the context as hardware loop 0 and mark them as the innermost loop of a MatMul."""
        with self._hardware_loop(count, counter, 0, short=length <= MAX_SHORT_BODY):
            first = self.position
            yield
            self._inner |= set(range(first, self.position))

    @contextmanager
    def branch_loop(self, pointer: int, end: int) -> Generator[None]:
        """Write the innermost loop of a MatMul with a branch; the loop ends when ``pointer`` equals ``end``."""
        start = Label(self.position)
        yield
        self.branch("bne", pointer, end, start)
        self._inner |= set(range(start.position or 0, self.position))

    def finish(self) -> Program:
        self.emit_deferred()
        words = np.zeros(self.position, dtype=np.uint32)
        for position, line in enumerate(self._lines):
            operands = line.operands
            if line.target is not None:
                assert line.target.position is not None
                operands = (*operands, (line.target.position - position) * WORD)
            words[position] = _encoded(line.insn.mnemonic, line.insn.operands, operands)
        positions = np.arange(self.position, dtype=np.uint32)
        return Program(
            words=words,
            pcs=positions * np.uint32(WORD) + np.uint32(self._text_base),
            insns=tuple(line.insn for line in self._lines),
            regions=tuple(line.region for line in self._lines),
            hwloop_end=np.isin(positions, list(self._loop_ends)),
            is_inner=np.isin(positions, list(self._inner)),
        )
