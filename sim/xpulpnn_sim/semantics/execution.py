"""The statements of a row of the instruction table, executed on gates (guide, "Notation of the operations").

It knows the notation and nothing of any instruction. All words that a row has are executed at once: operand fields,
registers and immediates are variables.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xpulpnn.errors import InputError
from xpulpnn.isa.fields import FieldKind, Token
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.notation import LOOPS, MEMORY, beyond_notation, definition, is_lane, lane_width, width_read
from xpulpnn_sim.formal.gate_graph import FALSE, TRUE
from xpulpnn_sim.semantics.integers import Integers, Number, constant, known, low, trimmed, unsigned

_BEYOND = frozenset({"CSR", "trap", "wait", "MIE", "mepc"})
_SYSTEM = frozenset({"fence.i"})
"""Names of what is not executed here, and operations that only the controller knows."""

_READ_AS = {"rs3": "rd"}
"""Register fields that are read through the port of another."""

_BITWISE: Mapping[type[ast.operator], str] = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}

Word = Sequence[int]
"""Literals, lowest bit first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What an instruction finds, as literals."""

    word: Word
    compressed: int  # it stands for one of 16 bits
    pc: Word
    registers: Mapping[str, Word]  # values of the registers in the fields `rs1`, `rs2` and `rd`
    entries: Sequence[Word]  # the NN-RF: activations, weights, parameters of the requantisation
    loaded: Word  # what memory answers, lowest byte first


@dataclass(slots=True)
class Effects:
    """What an instruction does, each effect with the literal of its condition, in the order of the statements."""

    # field of the register written, condition, value
    registers: list[tuple[str, int, list[int]]] = field(default_factory=list[tuple[str, int, list[int]]])
    # where the next instruction is, if not behind
    pc: list[tuple[int, list[int]]] = field(default_factory=list[tuple[int, list[int]]])
    # Condition, address, bytes
    loads: list[tuple[int, list[int], int]] = field(default_factory=list[tuple[int, list[int], int]])
    stores: list[tuple[int, list[int], int, list[int]]] = field(
        default_factory=list[tuple[int, list[int], int, list[int]]]
    )  # Condition, address, bytes, data
    # Condition, number and new value of entries of the NN-RF
    entries: list[tuple[int, Number, list[int]]] = field(default_factory=list[tuple[int, Number, list[int]]])
    # register of a hardware loop, literal of the loop's number, value
    loops: list[tuple[str, int, list[int]]] = field(default_factory=list[tuple[str, int, list[int]]])


def understood(insn: Insn) -> bool:
    """Whether the statements of a row are of the part of the notation that is executed here.

    It leaves out CSRs, traps and what the controller does, and searches in memory.
    """
    names = {node.id for statement in definition(insn) for node in ast.walk(statement) if isinstance(node, ast.Name)}
    loops = any(isinstance(node, ast.For) for node in definition(insn))
    return not (names & _BEYOND or loops) and insn.op not in _SYSTEM


def execute(insn: Insn, body: Sequence[ast.stmt], before: Before, integers: Integers) -> Effects:
    """Effects of statements, those of ``insn`` or others with its operands.

    Raises :class:`InputError` for a statement that is not understood.
    """
    run = _Execution(insn, before, integers)
    for statement in body:
        run.run(statement)
    return run.effects


def field_value(token: Token, word: Word) -> Number:
    """Value of an operand field of a word."""
    where = token.field
    bits = [FALSE] * (max(value + width for _, value, width in where.parts))
    for lowest, value, width in where.parts:
        bits[value : value + width] = word[lowest : lowest + width]
    for place in range(where.base.bit_length()):
        if where.base >> place & 1:
            bits[place : place + 1] = [TRUE]
    return trimmed(bits) if where.signed else unsigned(bits)


class _Execution:
    def __init__(self, insn: Insn, before: Before, integers: Integers) -> None:
        self._insn = insn
        self._before = before
        self._z = integers
        self._graph = integers.graph
        self._guard = TRUE
        self._immediates: dict[str, Number] = {}
        self._registers: dict[str, Number] = {}
        for token in insn.tokens:
            name = token.field.name
            if token.field.kind is FieldKind.REGISTER:
                self._registers[name] = unsigned(before.registers[_READ_AS.get(name, name)])
            else:
                self._immediates[name] = field_value(token, before.word)
        self._names: dict[str, Number] = {
            "ones": constant(-1),
            "pc": unsigned(before.pc),
            "size": self._z.choose(before.compressed, constant(2), constant(4)),
        }
        self.effects = Effects()

    # ---- statements ----

    def run(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[target], value=value):
                self._assign(target, value)
            case ast.If(test=test, body=body, orelse=[]):
                outside = self._guard
                self._guard = self._graph.and_(outside, self._z.is_true(self.value(test)))
                for inner in body:
                    self.run(inner)
                self._guard = outside
            case _:
                raise beyond_notation(statement)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self._assign_name(name, self.value(value))
            case ast.Subscript(value=ast.Name(id="rd"), slice=ast.Name(id="i")):
                for lane in range(self._lanes()):
                    self._names["i"] = constant(lane)
                    self._write_lane(constant(lane), self.value(value))
                del self._names["i"]
            case ast.Subscript(value=ast.Name(id="rd"), slice=lane):
                self._write_lane(self.value(lane), self.value(value))
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                self._assign_element(name, self.value(index), self.value(value))
            case _:
                raise beyond_notation(target)

    def _assign_name(self, name: str, value: Number) -> None:
        if name in self._registers:
            self.effects.registers.append((name, self._guard, low(value, XLEN)))
        elif name == "pc":
            self.effects.pc.append((self._guard, low(value, XLEN)))
        elif self._guard != TRUE:
            raise InputError(f"what is assigned on a condition must be a register, not {name}")
        else:
            self._names[name] = value

    def _write_lane(self, lane: Number, value: Number) -> None:
        written = self.effects.registers
        word = written.pop()[2] if written and written[-1][0] == "rd" else low(self._registers["rd"], XLEN)
        width = lane_width(self._insn)
        new = list(word)
        for index in range(self._lanes()):
            here = self._z.equal(lane, constant(index))
            for place in range(width):
                bit = index * width + place
                new[bit] = self._graph.mux(here, word[bit], low(value, width)[place])
        written.append(("rd", self._guard, new))

    def _assign_element(self, name: str, index: Number, value: Number) -> None:
        word = low(value, XLEN)
        if name in MEMORY:
            self.effects.stores.append((self._guard, low(index, XLEN), MEMORY[name] // 8, word))
        elif name == "NN":
            self.effects.entries.append((self._guard, index, word))
        elif name in LOOPS:
            self.effects.loops.append((name, index[0], word))
        else:
            raise InputError(f"element assigned to must be one of the notation, not {name}")

    # ---- values ----

    def value(self, node: ast.expr) -> Number:
        z = self._z
        match node:
            case ast.Constant(value=int(number)):
                return constant(number)
            case ast.Name(id=name):
                return self._value_of(name)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, left, right)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return z.subtract(constant(0), self.value(operand))
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return z.invert(self.value(operand))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return unsigned([self._compare(op, self.value(left), self.value(right))])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return z.choose(z.is_true(self.value(test)), self.value(body), self.value(orelse))
            case ast.Call(func=ast.Name(id="s"), args=[operand], keywords=[]):
                return trimmed(low(self.value(operand), width_read(self._insn, operand)))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords):
                return self._call(name, arguments, keywords)
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                return self._element(name, index)
            case _:
                raise beyond_notation(node)

    def _binary(self, op: ast.operator, left: ast.expr, right: ast.expr) -> Number:
        z, x, y = self._z, self.value(left), self.value(right)
        if type(op) in _BITWISE:
            return z.bitwise(_BITWISE[type(op)], x, y)
        match op:
            case ast.Add():
                return z.add(x, y)
            case ast.Sub():
                return z.subtract(x, y)
            case ast.Mult():
                return z.multiply(x, y)
            case ast.LShift():
                return z.left(x, y)
            case ast.RShift():
                return z.right(x, y)
            case ast.Pow() if known(x) == 2:
                return z.power(y)
            case ast.Mod():
                modulus = known(y) or 0
                if modulus.bit_count() == 1:
                    return unsigned(low(x, modulus.bit_length() - 1))
        raise beyond_notation(left)

    def _compare(self, op: ast.cmpop, x: Number, y: Number) -> int:
        match op:
            case ast.Eq() | ast.NotEq():
                found = self._z.equal(x, y)
            case ast.Lt() | ast.GtE():
                found = self._z.less(x, y)
            case ast.Gt() | ast.LtE():
                found = self._z.less(y, x)
            case _:
                raise beyond_notation(op)
        return found ^ isinstance(op, ast.NotEq | ast.GtE | ast.LtE)

    def _call(self, name: str, arguments: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> Number:
        z = self._z
        match name, arguments:
            case "sum", [ast.GeneratorExp() as terms]:
                total = constant(0)
                for _, term in self._generated(terms):
                    total = z.add(total, term)
                return total
            case (("min" | "max"), [ast.GeneratorExp() as terms]):
                found = self.value(keywords[0].value)
                for condition, term in sorted(self._generated(terms), key=lambda each: known(each[1]) or 0):
                    found = z.choose(condition, term, found)
                if name == "max":
                    return found
                found = self.value(keywords[0].value)
                for condition, term in sorted(self._generated(terms), key=lambda each: -(known(each[1]) or 0)):
                    found = z.choose(condition, term, found)
                return found
            case _:
                pass
        match name, [self.value(argument) for argument in arguments]:
            case "min", [x, y]:
                return z.least(x, y)
            case "max", [x, y]:
                return z.greatest(x, y)
            case "abs", [x]:
                return z.magnitude(x)
            case "sx", [x, width]:
                return z.sign_extended(x, width)
            case "zx", [x, width]:
                return z.zero_extended(x, width)
            case (("quotient" | "remainder"), [x, y]):
                return z.opaque(name, x, y)
            case _:
                raise InputError(f"function must be one of the notation, not {name}")

    def _generated(self, terms: ast.GeneratorExp) -> list[tuple[int, Number]]:
        """Condition and value of each term, for the values of the one variable."""
        found: list[tuple[int, Number]] = []
        match terms.generators:
            case [ast.comprehension(target=ast.Name(id=name), iter=values, ifs=tests)]:
                for number in self._range(values):
                    self._names[name] = constant(number)
                    condition = TRUE
                    for test in tests:
                        condition = self._graph.and_(condition, self._z.is_true(self.value(test)))
                    found.append((condition, self.value(terms.elt)))
                del self._names[name]
                return found
            case _:
                raise beyond_notation(terms)

    def _range(self, node: ast.expr) -> range:
        match node:
            case ast.Name(id="bits"):
                return range(XLEN)
            case ast.Name(id="lanes"):
                return range(self._lanes())
            case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))]):
                return range(count)
            case _:
                raise beyond_notation(node)

    def _value_of(self, name: str) -> Number:
        for names in (self._registers, self._immediates, self._names):
            if name in names:
                return names[name]
        raise InputError(f"name must be one of the notation, not {name}")

    def _lanes(self) -> int:
        assert self._insn.fmt is not None
        return self._insn.fmt.lanes

    def _element(self, name: str, index: ast.expr) -> Number:
        z = self._z
        match index:
            case ast.Slice(lower=ast.Constant(value=int(high)), upper=ast.Constant(value=int(lowest))):
                return unsigned(low(self._value_of(name), high + 1)[lowest:])
            case _:
                position = self.value(index)
        if name in MEMORY:
            self.effects.loads.append((self._guard, low(position, XLEN), MEMORY[name] // 8))
            return unsigned(self._before.loaded[: MEMORY[name]])
        if name == "NN":
            return self._entry(position)
        word, width = self._value_of(name), lane_width(self._insn) if is_lane(self._insn, name) else 1
        number = known(position)
        if number is None:
            word, number = z.right(word, [FALSE] * (width.bit_length() - 1) + position), 0
        return unsigned(low(word, (number + 1) * width)[number * width :])

    def _entry(self, index: Number) -> Number:
        entries = self._before.entries
        found = unsigned(entries[0])
        for number in range(1, len(entries)):
            found = self._z.choose(self._z.equal(index, constant(number)), unsigned(entries[number]), found)
        return found
