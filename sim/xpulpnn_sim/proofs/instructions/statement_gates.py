"""Execute statements of the instruction table on gates (see "Notation of the operations" in the guide).

Operand fields, registers and immediates are variables, so that all encodings of an instruction are executed at once.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xpulpnn.errors import InputError, require
from xpulpnn.isa.fields import Token
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_BITS, XLEN
from xpulpnn.isa.semantics import beyond_notation, definition
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE
from xpulpnn_sim.proofs.engine.integers import Integers, Number, constant, known, low, trimmed, unsigned

_BEYOND = frozenset({"CSR", "trap", "wait", "MIE", "mepc", "dpc"})
_SYSTEM = frozenset({"fence.i"})  # names that are not executed here, and operations of the controller

_READ_AS = {"rs3": "rd", "rd1": "rs2"}  # registers read through another register's port

_OPERATIONS: Mapping[type[ast.operator], Callable[[Integers, Number, Number], Number]] = {
    ast.BitAnd: lambda z, x, y: z.bitwise("&", x, y),
    ast.BitOr: lambda z, x, y: z.bitwise("|", x, y),
    ast.BitXor: lambda z, x, y: z.bitwise("^", x, y),
    ast.Add: Integers.add,
    ast.Sub: Integers.subtract,
    ast.Mult: lambda z, x, y: z.multiply(x, y),
    ast.LShift: Integers.shift_left,
    ast.RShift: Integers.shift_right,
}
_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "min": Integers.least,
    "max": Integers.greatest,
    "abs": Integers.magnitude,
    "sx": Integers.sign_extended,
    "zx": Integers.zero_extended,
}

Word = Sequence[int]  # literals, lowest bit first


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorState:
    word: Word
    compressed: int  # expanded from a 16-bit instruction
    pc: Word
    registers: Mapping[str, Word]  # by field: `rs1`, `rs2` and `rd`
    entries: Sequence[Word]  # NN-RF: activations, weights, requantisation parameters
    loaded: Word  # memory response, lowest byte first


def is_executable(insn: Insn) -> bool:
    """Return whether statements can be executed on gates: no CSRs, traps, loops or effects on the controller."""
    names = {node.id for statement in definition(insn) for node in ast.walk(statement) if isinstance(node, ast.Name)}
    loops = any(isinstance(node, ast.For) for node in definition(insn))
    return not (names & _BEYOND or loops) and insn.op not in _SYSTEM


def field_value(token: Token, word: Word) -> Number:
    where = token.field
    bits = [FALSE] * (max(value + width for _, value, width in where.parts))
    for lowest, value, width in where.parts:
        bits[value : value + width] = word[lowest : lowest + width]
    for place in range(where.base.bit_length()):
        if where.base >> place & 1:
            bits[place : place + 1] = [TRUE]
    return trimmed(bits) if where.signed else unsigned(bits)


def _fits(value: Number, text: str, z: Integers) -> int:
    """Return a literal that is 1 if the value matches a bit pattern with the highest bit first."""
    bits = low(value, len(text))[::-1]
    return z.graph.all(bit ^ (mark == "0") for bit, mark in zip(bits, text, strict=True) if mark != "-")


def allowed_fields(insn: Insn, word: Word, z: Integers) -> list[int]:
    conditions: list[int] = []
    for token in insn.restricted:
        value = field_value(token, word)
        if token.excluded is not None:
            conditions.append(z.equal(value, constant(token.excluded)) ^ 1)
        if token.field.legal:
            conditions.append(z.graph.any(_fits(value, text, z) for text in token.field.legal))
    return conditions


@dataclass(slots=True)
class Gates:
    z: Integers

    def unary(self, op: ast.unaryop, x: Number) -> Number:
        return self.z.invert(x) if isinstance(op, ast.Invert) else self.z.subtract(constant(0), x)

    def binary(self, op: ast.operator, x: Number, y: Number) -> Number:
        if operation := _OPERATIONS.get(type(op)):
            return operation(self.z, x, y)
        modulus = known(y) or 0
        if isinstance(op, ast.Pow) and known(x) == 2:
            return self.z.power(y)
        if isinstance(op, ast.Mod) and modulus.bit_count() == 1:
            return unsigned(low(x, modulus.bit_length() - 1))
        raise beyond_notation(op)

    def call(self, name: str, arguments: Sequence[Number]) -> Number:
        if name in ("quotient", "remainder"):
            x, y = arguments
            return self.z.opaque(name, x, y)
        require(name in _FUNCTIONS, f"function must be one of the notation, not {name}")
        return _FUNCTIONS[name](self.z, *arguments)

    def total(self, terms: Sequence[Number]) -> Number:
        total = constant(0)
        for term in terms:
            total = self.z.add(total, term)
        return total

    def chosen(self, name: str, terms: Sequence[tuple[int, int]], default: Number) -> Number:
        number_chosen = default
        for condition, number in reversed(terms) if name == "min" else terms:
            number_chosen = self.z.choose(condition, constant(number), number_chosen)
        return number_chosen

    def compare(self, op: ast.cmpop, x: Number, y: Number) -> int:
        match op:
            case ast.Eq() | ast.NotEq():
                holds = self.z.equal(x, y)
            case ast.Lt() | ast.GtE():
                holds = self.z.less(x, y)
            case ast.Gt() | ast.LtE():
                holds = self.z.less(y, x)
            case _:
                raise beyond_notation(op)
        return holds ^ isinstance(op, ast.NotEq | ast.GtE | ast.LtE)

    def decided(self, condition: int) -> bool | None:
        return None if condition > TRUE else condition == TRUE

    def bits(self, value: Number, high: int, lowest: int) -> Number:
        return unsigned(low(value, high + 1)[lowest:])

    def element(self, word: Number, index: Number, width: int) -> Number:
        number = known(index)
        if number is None:
            word, number = self.z.shift_right(word, [FALSE] * (width.bit_length() - 1) + index), 0
        return unsigned(low(word, (number + 1) * width)[number * width :])

    def inserted(self, word: Number, index: Number, width: int, value: Number) -> Number:
        new = low(word, XLEN)
        for lane in range(XLEN // width):
            is_lane = self.z.equal(index, constant(lane))
            for place, bit in enumerate(low(value, width), start=lane * width):
                new[place] = self.z.graph.mux(is_lane, new[place], bit)
        return new

    def joined(self, elements: Sequence[Number], width: int) -> Number:
        return [literal for element in elements for literal in low(element, width)]


@dataclass(frozen=True, slots=True)
class PriorOperands:
    insn: Insn
    before: PriorState
    integers: Integers

    def register(self, name: str) -> Number:
        return unsigned(self.before.registers[_READ_AS.get(name, name)])

    def immediate(self, name: str) -> Number:
        return field_value(next(token for token in self.insn.tokens if token.field.name == name), self.before.word)

    def state(self, name: str) -> Number:
        match name:
            case "pc":
                return unsigned(self.before.pc)
            case "size":
                return self.integers.choose(self.before.compressed, constant(2), constant(4))
            case _:
                raise InputError(f"name must be one of the notation, not {name}")

    def entry(self, index: Number) -> Number:
        entries = self.before.entries
        entry = unsigned(entries[0])
        for number in range(1, len(entries)):
            entry = self.integers.choose(self.integers.equal(index, constant(number)), unsigned(entries[number]), entry)
        return entry

    def load(self, size: int) -> Number:
        return unsigned(self.before.loaded[: size * BYTE_BITS])
