"""Writes a kernel as structured code: the text with real offsets, and at the same time what it executes."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import find
from xpulpnn_sw.stream import Env, Node, Program, Repeat, Run, Select, Stream

ZERO = 0
"""Register x0."""

WORD = 4
"""Bytes of an instruction and of a data word."""

MAX_COUNT_IMMEDIATE = 0xFFF
"""Largest count of ``lp.setupi``."""

MAX_SHORT_BODY = 15
"""Most instructions between ``lp.setupi`` and the end of its body: a 5-bit offset in half-words."""

_LOW_BITS = 12
_LOW = 1 << _LOW_BITS
_MASK = 0xFFFF_FFFF

_FORMS = {
    "p.lw": "rd,imm12(rs1!)",
    "p.sw": "rs2,stimm12(rs1!)",
    "p.sh": "rs2,stimm12(rs1!)",
    "p.sb": "rs2,stimm12(rs1!)",
}
"""The operand form meant by mnemonics that have several: post-increment by an immediate."""


@cache
def _row(mnemonic: str) -> Insn:
    return find(mnemonic, _FORMS.get(mnemonic))


def fits_immediate(value: int) -> bool:
    """Whether ``value`` is a signed 12-bit immediate."""
    return -_LOW // 2 <= value < _LOW // 2


@dataclass(frozen=True, slots=True)
class Relocation:
    """An address in a pair of lui and addi, for linking the text elsewhere.

    Parameters
    ----------
    symbol : str
        What the address lies in.
    offset : int
        Distance from its start in bytes.
    """

    symbol: str
    offset: int


@dataclass(slots=True)
class _Label:
    """A place in the text, known once it is reached."""

    position: int | None = None


@dataclass(slots=True)
class _Line:
    """One instruction; the last operand is the distance to ``target`` if there is one."""

    insn: Insn
    operands: tuple[int, ...]
    region: str
    target: _Label | None
    relocation: "Relocation | None" = None


class Builder:
    """Collects instructions and control structure.

    Parameters
    ----------
    text_base : int
        Address of the first instruction.
    hardware_loops : bool
        Whether counted loops may use ``lp.setup``; otherwise they count down a register and branch.
    """

    def __init__(self, text_base: int, *, hardware_loops: bool) -> None:
        """Start empty, in the region ``setup``."""
        self._text_base = text_base
        self._hardware_loops = hardware_loops
        self._lines: list[_Line] = []
        self._loop_ends: set[int] = set()
        self._inner: set[int] = set()
        self._scopes: list[list[Node]] = [[]]
        self._run_start = 0
        self._region = "setup"

    # -- instructions

    def __call__(self, mnemonic: str, *operands: int) -> None:
        """Append an instruction; operands in assembler order."""
        self._append(mnemonic, operands)

    def _append(self, mnemonic: str, operands: tuple[int, ...], target: _Label | None = None) -> None:
        self._lines.append(_Line(_row(mnemonic), operands, self._region, target))

    def li(self, rd: int, value: int) -> None:
        """Load a 32-bit constant in one or two instructions."""
        value &= _MASK
        signed = value - (_MASK + 1) if value > _MASK // 2 else value
        if fits_immediate(signed):
            self("addi", rd, ZERO, signed)
            return
        low = (value + _LOW // 2) % _LOW - _LOW // 2
        self("lui", rd, (value - low & _MASK) >> _LOW_BITS)
        if low:
            self("addi", rd, rd, low)

    def address(self, rd: int, symbol: str, offset: int, base: int) -> None:
        """Load the address ``offset`` bytes into ``symbol``, which lies at ``base`` here; always two instructions."""
        value = base + offset & _MASK
        low = (value + _LOW // 2) % _LOW - _LOW // 2
        self("lui", rd, (value - low & _MASK) >> _LOW_BITS)
        self("addi", rd, rd, low)
        for line in self._lines[-2:]:
            line.relocation = Relocation(symbol, offset)

    def mv(self, rd: int, rs: int) -> None:
        """Copy a register."""
        self("addi", rd, rs, 0)

    def advance(self, register: int, distance: int, temporary: int) -> None:
        """Add a constant to a register; nothing if it is 0. ``temporary`` is lost if it needs more than 12 bits."""
        if distance == 0:
            return
        if fits_immediate(distance):
            self("addi", register, register, distance)
        else:
            self.li(temporary, distance)
            self("add", register, register, temporary)

    def below(self, rd: int, register: int, bound: int) -> None:
        """``rd = register < bound`` as unsigned numbers: false for every negative value too."""
        if fits_immediate(bound):
            self("sltiu", rd, register, bound)
        else:
            self.li(rd, bound)
            self("sltu", rd, register, rd)

    @contextmanager
    def region(self, name: str) -> Generator[None]:
        """Instructions written meanwhile belong to this part of the kernel."""
        outer, self._region = self._region, name
        yield
        self._region = outer

    # -- structure

    @property
    def here(self) -> int:
        """Position of the next instruction."""
        return len(self._lines)

    def _close_run(self) -> None:
        if self.here > self._run_start:
            self._scopes[-1].append(Run(self._run_start, self.here))
        self._run_start = self.here

    @contextmanager
    def _scope(self) -> Generator[list[Node]]:
        self._close_run()
        nodes: list[Node] = []
        self._scopes.append(nodes)
        yield nodes
        self._close_run()
        self._scopes.pop()

    @contextmanager
    def loop(self, count: int, counter: int, *, level: int | None = None, index: str | None = None) -> Generator[None]:
        """Repeat the instructions written meanwhile ``count`` times; no loop instructions if that is once.

        ``level`` is the number of the hardware loop to use where there are any: ``counter`` is then lost at the
        set-up only. Otherwise it counts down and must be left alone by the body. ``index`` names the iteration for
        the predicates of :meth:`select`; a loop containing any needs one.
        """
        if count > 1 and level is not None and self._hardware_loops:
            self.li(counter, count)
            with self._hardware_body(count, "lp.setup", (level, counter), index):
                yield
            return
        if count > 1:
            self.li(counter, count)
        start = _Label()
        with self._scope() as nodes:
            start.position = self.here
            yield
            if count > 1:
                self("addi", counter, counter, -1)
                self._append("bne", (counter, ZERO), start)
        self._scopes[-1].append(Repeat(tuple(nodes), count, index))

    @contextmanager
    def _hardware_body(
        self, count: int, setup: str, operands: tuple[int, ...], index: str | None = None
    ) -> Generator[None]:
        end = _Label()
        self._append(setup, operands, end)
        with self._scope() as nodes:
            yield
            end.position = self.here - 1
            self._loop_ends.add(end.position)
        self._scopes[-1].append(Repeat(tuple(nodes), count, index))

    @contextmanager
    def inner_loop(self, count: int, length: int, counter: int) -> Generator[None]:
        """The innermost MatMul loop on hardware loop 0, counted for the operand efficiency.

        Parameters
        ----------
        count, length : int
            Iterations and instructions of the body.
        counter : int
            Register that already holds ``count`` where :func:`needs_counter` says so.
        """
        first = self.here + 1
        if needs_counter(count, length):
            with self._hardware_body(count, "lp.setup", (0, counter)):
                yield
        else:
            with self._hardware_body(count, "lp.setupi", (0, count)):
                yield
        self._inner |= set(range(first, self.here))

    @contextmanager
    def branch_loop(self, count: int, pointer: int, end: int) -> Generator[None]:
        """The innermost MatMul loop without hardware loops: repeats while ``pointer`` is not ``end``."""
        first = self.here
        start = _Label(first)
        with self._scope() as nodes:
            yield
            self._append("bne", (pointer, end), start)
        self._inner |= set(range(first, self.here))
        self._scopes[-1].append(Repeat(tuple(nodes), count))

    def select(
        self,
        branch: tuple[str, int, int],
        taken: Callable[[Env], bool],
        when_taken: Callable[[], None],
        otherwise: Callable[[], None],
    ) -> None:
        """Branch (mnemonic, rs1, rs2) to what ``when_taken`` writes, fall through to what ``otherwise`` writes.

        ``taken`` tells for the iterations in its Env whether the branch is taken; the registers must agree.
        """
        there, end = _Label(), _Label()
        self._append(branch[0], branch[1:], there)
        with self._scope() as fall_nodes:
            otherwise()
            jump = self.here
            self._append("jal", (ZERO,), end)
        there.position = self.here
        with self._scope() as taken_nodes:
            when_taken()
        if self.here == there.position:
            # nothing to jump over
            self._lines.pop()
            there.position = self._run_start = jump
            last = fall_nodes.pop()
            if isinstance(last, Run) and last.stop - last.start > 1:
                fall_nodes.append(Run(last.start, jump))
        end.position = self.here
        self._scopes[-1].append(Select(taken, tuple(taken_nodes), tuple(fall_nodes)))

    # -- result

    def finish(self) -> Stream:
        """The program and its executed sequence."""
        self._close_run()
        words = np.zeros(self.here, dtype=np.uint32)
        for position, line in enumerate(self._lines):
            operands = line.operands
            if line.target is not None:
                assert line.target.position is not None
                operands = (*operands, (line.target.position - position) * WORD)
            names = (token.field.name for token in line.insn.tokens)
            words[position] = line.insn.encode(**dict(zip(names, operands, strict=True)))
        positions = np.arange(self.here, dtype=np.uint32)
        program = Program(
            words=words,
            pcs=positions * np.uint32(WORD) + np.uint32(self._text_base),
            insns=tuple(line.insn for line in self._lines),
            regions=tuple(line.region for line in self._lines),
            hwloop_end=np.isin(positions, list(self._loop_ends)),
            inner=np.isin(positions, list(self._inner)),
        )
        return Stream(program, tuple(self._scopes[0]))

    @property
    def relocations(self) -> dict[int, Relocation]:
        """The addresses in the text by position; both instructions of a pair have the same."""
        lines = enumerate(self._lines)
        return {position: line.relocation for position, line in lines if line.relocation is not None}


def needs_counter(count: int, length: int) -> bool:
    """Whether an inner loop takes its count from a register: too long or too often repeated for ``lp.setupi``."""
    return count > MAX_COUNT_IMMEDIATE or length > MAX_SHORT_BODY
