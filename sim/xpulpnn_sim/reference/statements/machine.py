"""Instructions on integers: the state of a hart, changed as the statements say."""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xpulpnn.errors import InputError
from xpulpnn.isa.csr import CSR_BY_ADDRESS, MSTATUS_MIE_BIT, MSTATUS_MPIE_BIT, MTVEC_BASE, CsrAccess
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_BITS, WORD_MASK
from xpulpnn.isa.semantics import definition
from xpulpnn_sim.reference.statements.interpreter import interpret

_FLAGS = {"MIE": MSTATUS_MIE_BIT, "MPIE": MSTATUS_MPIE_BIT}


def _quotient(a: int, b: int) -> int:
    """Return the quotient rounded toward zero."""
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


def zx(value: int, width: int) -> int:
    """Return the low ``width`` bits as an unsigned integer."""
    return value & ((1 << width) - 1)


def sx(value: int, width: int) -> int:
    """Return the low ``width`` bits as a signed integer."""
    low = zx(value, width)
    return low - (1 << width) if low >> (width - 1) else low


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "max": max,
    "min": min,
    "quotient": _quotient,
    "remainder": lambda a, b: a - b * _quotient(a, b),  # with the sign of a
    "sx": sx,
    "zx": zx,
}
"""Functions of the notation."""

INTEGER_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.BitAnd: operator.and_,
}

INTEGER_COMPARISONS: Mapping[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class _Integers:
    """The arithmetic of Python."""

    true = True

    def number(self, value: int) -> int:
        return value

    def named(self, value: int) -> int:
        return value

    def unary(self, op: ast.unaryop, x: int) -> int:
        return -x if isinstance(op, ast.USub) else ~x

    def binary(self, op: ast.operator, x: int, y: int) -> int:
        return INTEGER_OPERATORS[type(op)](x, y)

    def call(self, name: str, arguments: Sequence[int]) -> int:
        if name not in FUNCTIONS:
            raise InputError(f"function must be one of the notation, not {name}")
        return FUNCTIONS[name](*arguments)

    def total(self, terms: Sequence[int]) -> int:
        return sum(terms)

    def chosen(self, name: str, terms: Sequence[tuple[bool, int]], default: int) -> int:
        numbers = [number for condition, number in terms if condition]
        return (min if name == "min" else max)(numbers, default=default)

    def compare(self, op: ast.cmpop, x: int, y: int) -> bool:
        return INTEGER_COMPARISONS[type(op)](x, y)

    def holds(self, value: int) -> bool:
        return bool(value)

    def both(self, first: bool, second: bool) -> bool:
        return first and second

    def decided(self, condition: bool) -> bool:
        return condition

    def truth(self, condition: bool) -> int:
        return int(condition)

    def choose(self, condition: bool, x: int, y: int) -> int:
        return x if condition else y

    def word(self, value: int) -> int:
        return value & WORD_MASK

    def bits(self, value: int, high: int, lowest: int) -> int:
        return zx(value >> lowest, high - lowest + 1)

    def element(self, word: int, index: int, width: int, *, turn: bool) -> int:
        return zx(word >> index * width, width)

    def inserted(self, word: int, index: int, width: int, value: int) -> int:
        lsb = index * width
        return word & ~(zx(-1, width) << lsb) | zx(value, width) << lsb

    def joined(self, elements: Sequence[int], width: int) -> int:
        return sum(zx(value, width) << lane * width for lane, value in enumerate(elements))


@dataclass(slots=True, kw_only=True)
class Hart:
    """State of a hart that instructions are executed on."""

    regs: list[int]  # x0 to x31
    nn: list[int]  # NN-RF: activations, then weights
    csrs: dict[str, int]  # values by name
    pc: int  # address of the instruction, afterwards of the next
    read: Callable[[int], int]  # the byte at an address
    stored: dict[int, int] = field(default_factory=dict[int, int])  # bytes that were stored, by address


class Statements:
    """The statements of one row, ready to be executed."""

    def __init__(self, insn: Insn) -> None:
        self.insn = insn
        self._body = definition(insn)

    def execute(self, word: int, hart: Hart) -> None:
        """Do on ``hart`` what the instruction ``word``, one of the row, does; raises :class:`InputError` for a
        statement outside the notation."""
        before = _Found(self.insn, self.insn.decode(word), hart)
        effects = interpret(self.insn, self._body, _Integers(), before)
        csrs, following = hart.csrs, (hart.pc + self.insn.size) & WORD_MASK
        for _, first, size, value in effects.stores:
            for byte in range(size):
                hart.stored[(first + byte) & WORD_MASK] = value >> BYTE_BITS * byte & 0xFF
        for _, number, value in effects.entries:
            hart.nn[number] = value
        for _, address, value in effects.csrs:
            csr = CSR_BY_ADDRESS[address]
            if csr.access is not CsrAccess.WO:
                csrs[csr.name] = csrs[csr.name] & ~csr.writable | value & csr.writable
        for name, loop, value in effects.loops:
            csrs[f"{name}{loop}"] = value
        for name, value in effects.flags:
            _set_flag(csrs, name, value)
        for _, target in effects.pc:
            following = target
        for cause in effects.traps:
            following = _trap(hart, cause)
        for name, _, value in effects.registers:
            number = before.number(name)
            if number:
                hart.regs[number] = value
        hart.pc = following


def result(insn: Insn, immediates: Mapping[str, int], rs1: int, rs2: int, rd: int) -> int:
    """Return the word that an instruction without memory access or jump computes; of a branch whether it is taken."""
    fields = {token.field.name: 0 for token in insn.tokens} | dict(immediates) | {"rs1": 1, "rs2": 2, "rd": 3}
    hart = Hart(regs=[0, rs1, rs2, rd], nn=[], csrs={}, pc=0, read=lambda address: 0)
    effects = interpret(insn, definition(insn), _Integers(), _Found(insn, fields, hart))
    return len(effects.pc) if insn.is_branch else effects.registers[-1][2]


def _set_flag(csrs: dict[str, int], name: str, value: int) -> None:
    bit = _FLAGS[name]
    csrs["mstatus"] = csrs["mstatus"] & ~(1 << bit) | (value & 1) << bit


def _trap(hart: Hart, cause: int) -> int:
    csrs = hart.csrs
    enabled = csrs["mstatus"] >> MSTATUS_MIE_BIT & 1
    csrs["mepc"], csrs["mcause"] = hart.pc, cause
    _set_flag(csrs, "MPIE", enabled)
    _set_flag(csrs, "MIE", 0)
    return csrs["mtvec"] & MTVEC_BASE


@dataclass(frozen=True, slots=True)
class _Found:
    """A hart as one instruction finds it."""

    insn: Insn
    fields: Mapping[str, int]
    hart: Hart

    def number(self, name: str) -> int:
        return int(name[1:]) if name not in self.fields else self.fields[name]

    def register(self, name: str) -> int:
        number = self.number(name)
        return self.hart.regs[number] if number else 0

    def differ(self, first: str, second: str) -> bool:
        return self.number(first) != self.number(second)

    def immediate(self, name: str) -> int:
        return self.fields[name]

    def state(self, name: str) -> int:
        csrs = self.hart.csrs
        if name in _FLAGS:
            return csrs["mstatus"] >> _FLAGS[name] & 1
        if name in csrs:
            return csrs[name]
        values = {"pc": self.hart.pc, "size": self.insn.size}
        if name not in values:
            raise InputError(f"name must be one of the notation, not {name}")
        return values[name]

    def entry(self, index: int) -> int:
        return self.hart.nn[index]

    def csr(self, address: int) -> int:
        csr, csrs = CSR_BY_ADDRESS[address], self.hart.csrs
        if csr.access is CsrAccess.WO:
            return 0
        # the user's counters show those of the hart
        return csrs.get(f"m{csr.name}", csrs[csr.name]) if csr.access is CsrAccess.RO else csrs[csr.name]

    def load(self, condition: bool, address: int, size: int) -> int:
        read = self.hart.read
        return sum(read((address + byte) & WORD_MASK) << BYTE_BITS * byte for byte in range(size))
