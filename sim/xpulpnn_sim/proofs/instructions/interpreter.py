"""Executes the statements of instructions on gates (see "Notation of the operations" in the guide).

Operand fields, registers and immediates are variables, so that all encodings of an instruction are executed at once.
All state is read as it was before the instruction. The effects are collected in :class:`GateEffects`, each with its
condition, in the order of the statements.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from xpulpnn.errors import InputError
from xpulpnn.isa import semantics
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_BITS, XLEN
from xpulpnn.isa.semantics import LOOPS, MEMORY, STATE, beyond_notation, is_lane, lane_width, width_read
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE
from xpulpnn_sim.proofs.engine.integers import Integers, Number, constant, known, low, unsigned
from xpulpnn_sim.proofs.instructions.statement_gates import PriorState, field_value

_READ_AS = {"rs3": "rd", "rd1": "rs2"}  # registers read through another register's port

_OPERATIONS: Mapping[type[ast.operator], Callable[[Integers, Number, Number], Number]] = {
    ast.BitAnd: lambda z, x, y: z.bitwise("&", x, y),
    ast.BitOr: lambda z, x, y: z.bitwise("|", x, y),
    ast.BitXor: lambda z, x, y: z.bitwise("^", x, y),
    ast.Add: Integers.add,
    ast.Sub: Integers.subtract,
    ast.Mult: Integers.multiply,
    ast.LShift: Integers.shift_left,
    ast.RShift: Integers.shift_right,
}
_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "min": Integers.least,
    "max": Integers.greatest,
    "abs": Integers.magnitude,
    "sx": Integers.sign_extended,
    "zx": Integers.zero_extended,
    "quotient": lambda z, x, y: z.opaque("quotient", x, y),
    "remainder": lambda z, x, y: z.opaque("remainder", x, y),
}


@dataclass(slots=True)
class GateEffects:
    """Effects of an instruction with conditions that are literals, in the order of the statements; words have 32
    literals without a sign."""

    registers: list[tuple[str, int, Number]] = field(default_factory=list[tuple[str, int, Number]])  # field, condition
    pc: list[tuple[int, Number]] = field(default_factory=list[tuple[int, Number]])
    loads: list[tuple[int, Number, int]] = field(default_factory=list[tuple[int, Number, int]])  # address, bytes
    # condition, address, bytes, data
    stores: list[tuple[int, Number, int, Number]] = field(default_factory=list[tuple[int, Number, int, Number]])
    entries: list[tuple[int, Number, Number]] = field(default_factory=list[tuple[int, Number, Number]])  # number, word
    loops: list[tuple[str, Number, Number]] = field(default_factory=list[tuple[str, Number, Number]])


def execute_statements(insn: Insn, body: Sequence[ast.stmt], before: PriorState, integers: Integers) -> GateEffects:
    """Return the effects of statements. Raises :class:`InputError` for one outside the notation."""
    run = _Execution(insn, before, integers)
    for statement in body:
        run.run(statement)
    return run.finished()


class _Execution:
    def __init__(self, insn: Insn, before: PriorState, z: Integers) -> None:
        self._insn, self._before, self._z = insn, before, z
        self._guard = TRUE
        kinds = {token.field.name: token.field.kind for token in insn.tokens}
        self._registers = {name for name, kind in kinds.items() if kind is FieldKind.REGISTER}
        self._registers |= {"rd1"} if insn.is_pair else set()
        #: Values of local names, of immediates and of the program counter.
        self._names: dict[str, Number] = {"ones": constant(-1), "pc": unsigned(before.pc)}
        self._names["size"] = z.choose(before.compressed, constant(2), constant(4))
        self._names |= {token.field.name: field_value(token, before.word) for token in insn.tokens}
        self._lanes: dict[int, Number] = {}
        self._effects = GateEffects()

    def finished(self) -> GateEffects:
        """Return all effects; elements of rd without an assignment keep their values."""
        if self._lanes:
            width, old = lane_width(self._insn), self._register("rd")
            elements = [self._lanes.get(lane) or _bits(old, width, lane * width) for lane in self._range(_LANES)]
            word = [literal for element in elements for literal in low(element, width)]
            self._effects.registers.append(("rd", self._guard, word))
        return self._effects

    # ---- statements ----

    def run(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[target], value=value):
                self._assign(target, value)
            case ast.If(test=test, body=body, orelse=[]):
                self._conditional(self._condition(test), body)
            case _:
                raise beyond_notation(statement)

    def _conditional(self, condition: int, body: Sequence[ast.stmt]) -> None:
        if condition == FALSE:
            return
        outside = self._guard
        self._guard = self._z.graph.and_(outside, condition)
        for inner in body:
            self.run(inner)
        self._guard = outside

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self._assign_name(name, self.value(value))
            case ast.Subscript(value=ast.Name(id="rd"), slice=ast.Name(id="i")):
                for lane in self._range(_LANES):
                    self._names["i"] = constant(lane)
                    self._lanes[lane] = self.value(value)
            case ast.Subscript(value=ast.Name(id="rd"), slice=ast.Constant(value=int(lane))):
                self._lanes[lane] = self.value(value)
            case ast.Subscript(value=ast.Name(id="rd"), slice=lane):
                self._insert(self.value(lane), self.value(value))
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                self._assign_element(name, self.value(index), self.value(value))
            case _:
                raise beyond_notation(target)

    def _insert(self, index: Number, value: Number) -> None:
        """Replace one element of rd."""
        word, width = low(self._register("rd"), XLEN), lane_width(self._insn)
        for lane in range(XLEN // width):
            place = slice(lane * width, (lane + 1) * width)
            is_lane = self._z.equal(index, constant(lane))
            word[place] = self._z.graph.choose(is_lane, low(value, width), word[place])
        self._effects.registers.append(("rd", self._guard, word))

    def _assign_name(self, name: str, value: Number) -> None:
        if self._is_register(name):
            self._effects.registers.append((name, self._guard, low(value, XLEN)))
        elif name == "pc":
            self._effects.pc.append((self._guard, low(value, XLEN)))
        elif name in STATE:
            self._assign_element(name, constant(0), value)
        elif self._guard != TRUE:
            raise InputError(f"what is assigned on a condition must be a register, not {name}")
        else:
            self._names[name] = value

    def _assign_element(self, name: str, index: Number, value: Number) -> None:
        word = low(value, XLEN)
        if name in MEMORY:
            self._effects.stores.append((self._guard, low(index, XLEN), MEMORY[name] // BYTE_BITS, word))
        elif name in STATE:
            self._effects.entries.append((self._guard, self._place(name, index), word))
        elif name in LOOPS:
            self._effects.loops.append((name, index, word))
        else:
            raise InputError(f"element assigned to must be one of the notation, not {name}")

    def _place(self, name: str, index: Number) -> Number:
        """Return the place of a word in the list that holds the NN-RF and the state of the coprocessor."""
        return self._z.add(index, constant(STATE[name])) if STATE[name] else index

    # ---- values ----

    def value(self, node: ast.expr) -> Number:
        z = self._z
        match node:
            case ast.Constant(value=int(number)):
                return constant(number)
            case ast.Name(id=name):
                return self._value_of(name)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return z.subtract(constant(0), self.value(operand))
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return z.invert(self.value(operand))
            case ast.Compare():
                return unsigned([self._condition(node)])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._either(self._condition(test), body, orelse)
            case ast.Call(func=ast.Name(id="s"), args=[operand], keywords=[]):
                return z.sign_extended(self.value(operand), constant(width_read(self._insn, operand)))
            case ast.Call(func=ast.Name(id="sum"), args=[ast.GeneratorExp() as terms]):
                return reduce(z.add, (term for _, term in self._generated(terms)), constant(0))
            case ast.Call(func=ast.Name(id=name), args=[ast.GeneratorExp() as terms], keywords=[default]):
                # the least or the greatest number whose condition holds, or the default
                chosen, numbers = self.value(default.value), self._generated(terms)
                for condition, number in reversed(numbers) if name == "min" else numbers:
                    chosen = z.choose(condition, number, chosen)
                return chosen
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
                return _FUNCTIONS[name](z, *map(self.value, arguments))
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                return self._element(name, index)
            case _:
                raise beyond_notation(node)

    def _binary(self, op: ast.operator, x: Number, y: Number) -> Number:
        if operation := _OPERATIONS.get(type(op)):
            return operation(self._z, x, y)
        modulus = known(y) or 0
        if isinstance(op, ast.Pow) and known(x) == 2:
            return self._z.power(y)
        if isinstance(op, ast.Mod) and modulus.bit_count() == 1:
            return unsigned(low(x, modulus.bit_length() - 1))
        raise beyond_notation(op)

    def _condition(self, node: ast.expr) -> int:
        z = self._z
        match node:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=[right]):
                holds = z.equal(self.value(left), self.value(right))
            case ast.Compare(left=left, ops=[ast.Lt() | ast.GtE() as op], comparators=[right]):
                holds = z.less(self.value(left), self.value(right))
            case ast.Compare(left=left, ops=[ast.Gt() | ast.LtE() as op], comparators=[right]):
                holds = z.less(self.value(right), self.value(left))
            case ast.Compare():
                raise beyond_notation(node)
            case _:
                return z.is_true(self.value(node))
        return holds ^ isinstance(op, ast.NotEq | ast.GtE | ast.LtE)

    def _either(self, condition: int, body: ast.expr, orelse: ast.expr) -> Number:
        if condition <= TRUE:
            return self.value(body if condition else orelse)
        return self._z.choose(condition, self.value(body), self.value(orelse))

    def _generated(self, terms: ast.GeneratorExp) -> list[tuple[int, Number]]:
        generated: list[tuple[int, Number]] = []
        name, values, tests = semantics.generator(terms)
        for number in self._range(values):
            self._names[name] = constant(number)
            generated.append((self._z.graph.all(map(self._condition, tests)), self.value(terms.elt)))
        return generated

    def _range(self, node: ast.expr) -> range:
        return range(semantics.times(self._insn, node))

    def _is_register(self, name: str) -> bool:
        return name in self._registers or (name.startswith("x") and name[1:].isdecimal())

    def _register(self, name: str) -> Number:
        return unsigned(self._before.registers[_READ_AS.get(name, name)])

    def _value_of(self, name: str) -> Number:
        if self._is_register(name):
            return self._register(name)
        if name in STATE:
            return self._entry(self._place(name, constant(0)))
        if name not in self._names:
            raise InputError(f"name must be one of the notation, not {name}")
        return self._names[name]

    def _entry(self, index: Number) -> Number:
        first, *others = map(unsigned, self._before.entries)
        for number, word in enumerate(others, 1):
            first = self._z.choose(self._z.equal(index, constant(number)), word, first)
        return first

    def _element(self, name: str, index: ast.expr) -> Number:
        z = self._z
        match index:
            case ast.Slice(lower=ast.Constant(value=int(high)), upper=ast.Constant(value=int(lowest))):
                return _bits(self._value_of(name), high + 1 - lowest, lowest)
            case _:
                position = self.value(index)
        if name in MEMORY:
            self._effects.loads.append((self._guard, low(position, XLEN), MEMORY[name] // BYTE_BITS))
            return unsigned(self._before.loaded[: MEMORY[name]])
        if name in STATE:
            return self._entry(self._place(name, position))
        width, word = lane_width(self._insn) if is_lane(self._insn, name) else 1, self._value_of(name)
        number = known(position)
        if number is not None:
            return _bits(word, width, number * width)
        return _bits(z.shift_right(word, [FALSE] * (width.bit_length() - 1) + position), width, 0)


_LANES = ast.Name("lanes")


def _bits(word: Number, width: int, lowest: int) -> Number:
    return unsigned(low(word, lowest + width)[lowest:])
