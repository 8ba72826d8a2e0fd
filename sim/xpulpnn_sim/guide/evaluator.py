"""Executes the statements of the instruction reference (guide, "Notation of the operations").

It knows the notation and nothing of any instruction, so that executing a row shows whether its statements are right.
"""

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from xpulpnn.errors import InputError
from xpulpnn.isa.csr import CSR_BY_ADDRESS, CsrAccess
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import (
    BYTE_BITS,
    MSTATUS_MIE_BIT,
    MSTATUS_MPIE_BIT,
    MTVEC_BASE,
    WORD_MASK,
    XLEN,
)
from xpulpnn.isa.notation import LOOPS, MEMORY, beyond_notation, definition, is_lane, lane_width, width_read

_FLAGS = {"MIE": MSTATUS_MIE_BIT, "MPIE": MSTATUS_MPIE_BIT}
_CONSTANTS: dict[str, Any] = {"bits": range(XLEN), "ones": -1}


@dataclass(slots=True, kw_only=True)
class Machine:
    """State of a hart that instructions are executed on."""

    regs: list[int]  # x0 to x31
    nn: list[int]  # NN-RF: activations, then weights
    csrs: dict[str, int]  # values by name
    pc: int  # address of the instruction, afterwards of the next
    read: Callable[[int], int]  # the byte at an address
    stored: dict[int, int] = field(default_factory=dict[int, int])  # bytes that were stored, by address


def quotient(a: int, b: int) -> int:
    """The quotient rounded toward zero."""
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


def remainder(a: int, b: int) -> int:
    """What :func:`quotient` leaves, with the sign of ``a``."""
    return a - b * quotient(a, b)


def sx(value: int, width: int) -> int:
    """The low ``width`` bits as a signed integer."""
    low = zx(value, width)
    return low - (1 << width) if low >> (width - 1) else low


def zx(value: int, width: int) -> int:
    """The low ``width`` bits as an unsigned integer."""
    return value & ((1 << width) - 1)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "max": max,
    "min": min,
    "quotient": quotient,
    "range": range,
    "remainder": remainder,
    "sum": sum,
    "sx": sx,
    "zx": zx,
}

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b,
    ast.LShift: lambda a, b: a << b,
    ast.RShift: lambda a, b: a >> b,
    ast.BitOr: lambda a, b: a | b,
    ast.BitXor: lambda a, b: a ^ b,
    ast.BitAnd: lambda a, b: a & b,
}

_COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}

_UNARY: dict[type[ast.unaryop], Callable[[int], int]] = {ast.USub: lambda a: -a, ast.Invert: lambda a: ~a}


class Reference:
    """The statements of one row, ready to be executed."""

    def __init__(self, insn: Insn) -> None:
        self.insn = insn
        self._body = definition(insn)

    def execute(self, word: int, machine: Machine) -> None:
        """Do on ``machine`` what the instruction ``word``, one of the row, does; raises :class:`InputError` for a
        statement outside the notation."""
        execution = _Execution(self.insn, word, machine)
        for statement in self._body:
            execution.run(statement)
        execution.finish()


class _Execution:
    """One execution: everything is read from the state before, and written when all is known."""

    def __init__(self, insn: Insn, word: int, machine: Machine) -> None:
        self._insn = insn
        self._machine = machine
        self._fields = insn.decode(word)
        self._immediates = {token.field.name for token in insn.tokens if token.field.kind is not FieldKind.REGISTER}
        self._names: dict[str, Any] = dict(_CONSTANTS)
        self._names |= {"lanes": range(insn.fmt.lanes)} if insn.fmt is not None else {}
        # low words of registers, later ones win; lanes change what is there
        self._registers: dict[int, int] = {}
        self._writes: list[Callable[[], None]] = []
        self._following = (machine.pc + insn.size) & WORD_MASK

    def finish(self) -> None:
        for write in self._writes:
            write()
        for number, value in self._registers.items():
            if number:
                self._machine.regs[number] = value
        self._machine.pc = self._following

    # ---- statements ----

    def run(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[target], value=value):
                self._assign(target, value)
            case ast.If(test=test, body=body, orelse=[]):
                if self.value(test):
                    for inner in body:
                        self.run(inner)
            case ast.For(target=ast.Name(id=name), iter=values, body=body, orelse=[]):
                for value in self.value(values):
                    self._names[name] = value
                    for inner in body:
                        self.run(inner)
            case ast.Expr(value=ast.Call(func=ast.Name(id="trap"), args=[cause])):
                self._trap(self.value(cause))
            case ast.Expr(value=ast.Call(func=ast.Name(id="wait"), args=[condition])):
                self.value(condition)
            case _:
                raise beyond_notation(statement)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self._assign_name(name, self.value(value))
            case ast.Subscript(value=ast.Name(id="rd"), slice=ast.Name(id="i")):
                for lane in self._names["lanes"]:
                    self._names["i"] = lane
                    self._write_lane(lane, self.value(value))
                del self._names["i"]
            case ast.Subscript(value=ast.Name(id="rd"), slice=lane):
                self._write_lane(self.value(lane), self.value(value))
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                self._assign_element(name, self.value(index), self.value(value))
            case _:
                raise beyond_notation(target)

    def _assign_name(self, name: str, value: int) -> None:
        number = self._register(name)
        if number is not None:
            self._registers[number] = zx(value, XLEN)
        elif name == "pc":
            self._following = value & WORD_MASK
        elif name in _FLAGS:
            bit = _FLAGS[name]
            self._writes.append(lambda: self._set_bit(bit, value))
        else:
            self._names[name] = value

    def _set_bit(self, bit: int, value: int) -> None:
        csrs = self._machine.csrs
        csrs["mstatus"] = csrs["mstatus"] & ~(1 << bit) | (value & 1) << bit

    def _write_lane(self, lane: int, value: int) -> None:
        number, width = self._fields["rd"], lane_width(self._insn)
        low = lane * width
        word = self._registers.get(number, self._machine.regs[number])
        self._registers[number] = word & ~(((1 << width) - 1) << low) | zx(value, width) << low

    def _assign_element(self, name: str, index: int, value: int) -> None:
        machine = self._machine
        if name in MEMORY:
            for byte in range(MEMORY[name] // BYTE_BITS):
                machine.stored[(index + byte) & WORD_MASK] = value >> BYTE_BITS * byte & 0xFF
        elif name == "NN":
            self._writes.append(lambda: machine.nn.__setitem__(index, value))
        elif name == "CSR":
            self._writes.append(lambda: self._write_csr(index, value))
        elif name in LOOPS:
            self._writes.append(lambda: machine.csrs.__setitem__(f"{name}{index}", value & WORD_MASK))
        else:
            raise InputError(f"element assigned to must be one of the notation, not {name}")

    def _write_csr(self, address: int, value: int) -> None:
        csr, csrs = CSR_BY_ADDRESS[address], self._machine.csrs
        if csr.access is not CsrAccess.WO:
            csrs[csr.name] = csrs[csr.name] & ~csr.writable | value & csr.writable

    def _trap(self, cause: int) -> None:
        csrs = self._machine.csrs
        enabled = csrs["mstatus"] >> MSTATUS_MIE_BIT & 1
        csrs["mepc"], csrs["mcause"] = self._machine.pc, cause
        self._set_bit(MSTATUS_MPIE_BIT, enabled)
        self._set_bit(MSTATUS_MIE_BIT, 0)
        self._following = csrs["mtvec"] & MTVEC_BASE

    # ---- values ----

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name):
                return self._value_of(name)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return _BINARY[type(op)](self.value(left), self.value(right))
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                return _UNARY[type(op)](self.value(operand))
            case ast.Compare(left=ast.Name(id=first), ops=[ast.IsNot()], comparators=[ast.Name(id=second)]):
                return self._register(first) != self._register(second)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                return _COMPARE[type(op)](self.value(left), self.value(right))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.value(body) if self.value(test) else self.value(orelse)
            case ast.Call(func=ast.Name(id="s"), args=[operand], keywords=[]):
                return sx(self.value(operand), width_read(self._insn, operand))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords) if name in _FUNCTIONS:
                named = {str(keyword.arg): self.value(keyword.value) for keyword in keywords}
                return _FUNCTIONS[name](*map(self.value, arguments), **named)
            case ast.GeneratorExp(elt=element, generators=[ast.comprehension(target=ast.Name(id=name)) as source]):
                return self._generated(element, name, source)
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                return self._element(name, index)
            case _:
                raise beyond_notation(node)

    def _generated(self, element: ast.expr, name: str, source: ast.comprehension) -> list[int]:
        found: list[int] = []
        for value in self.value(source.iter):
            self._names[name] = value
            if all(self.value(test) for test in source.ifs):
                found.append(self.value(element))
        del self._names[name]
        return found

    def _register(self, name: str) -> int | None:
        """Number of the register called ``name``: a field, or its own number."""
        if name.startswith("x") and name[1:].isdecimal():
            return int(name[1:])
        return self._fields[name] if name in self._fields and name not in self._immediates else None

    def _value_of(self, name: str) -> Any:
        number, csrs = self._register(name), self._machine.csrs
        if number is not None:
            return self._machine.regs[number] if number else 0
        if name in self._fields:
            return self._fields[name]
        if name in self._names:
            return self._names[name]
        if name in _FLAGS:
            return csrs["mstatus"] >> _FLAGS[name] & 1
        if name in csrs:
            return csrs[name]
        if name == "pc":
            return self._machine.pc
        if name == "size":
            return self._insn.size
        raise InputError(f"name must be one of the notation, not {name}")

    def _element(self, name: str, index: ast.expr) -> int:
        machine = self._machine
        if isinstance(index, ast.Slice):
            assert index.lower is not None
            assert index.upper is not None
            high, low = self.value(index.lower), self.value(index.upper)
            return zx(self._value_of(name) >> low, high - low + 1)
        position = self.value(index)
        if name in MEMORY:
            size = MEMORY[name] // BYTE_BITS
            return sum(machine.read((position + byte) & WORD_MASK) << BYTE_BITS * byte for byte in range(size))
        if name == "NN":
            return machine.nn[position]
        if name == "CSR":
            return self._read_csr(position)
        if is_lane(self._insn, name):
            width = lane_width(self._insn)
            return zx(self._value_of(name) >> position * width, width)
        return self._value_of(name) >> position & 1

    def _read_csr(self, address: int) -> int:
        csr, csrs = CSR_BY_ADDRESS[address], self._machine.csrs
        if csr.access is CsrAccess.WO:
            return 0
        # the user's counters show those of the machine
        return csrs.get(f"m{csr.name}", csrs[csr.name]) if csr.access is CsrAccess.RO else csrs[csr.name]
