"""Executes the statements of instructions on gates.

All state is read as it was before the instruction. The effects are collected in :class:`GateEffects`, each with its
condition, in the order of the statements.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from xpulpnn.errors import InputError
from xpulpnn.isa import semantics
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_BITS, XLEN
from xpulpnn.isa.semantics import LOOPS, MEMORY, STATE, beyond_notation, is_lane, lane_width, width_read
from xpulpnn_sim.proofs.engine.gate_graph import TRUE
from xpulpnn_sim.proofs.engine.integers import Integers, Number, constant, low, unsigned
from xpulpnn_sim.proofs.instructions.statement_gates import Gates, PriorOperands, PriorState


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
    run = _Execution(insn, Gates(integers), PriorOperands(insn, before, integers))
    for statement in body:
        run.run(statement)
    return run.finished()


class _Execution:
    def __init__(self, insn: Insn, arithmetic: Gates, before: PriorOperands) -> None:
        self._insn, self._z, self._before = insn, arithmetic, before
        self._guard = TRUE
        kinds = {token.field.name: token.field.kind for token in insn.tokens}
        self._registers = {name for name, kind in kinds.items() if kind is FieldKind.REGISTER}
        self._immediates = kinds.keys() - self._registers
        self._registers |= {"rd1"} if insn.is_pair else set()
        self._names: dict[str, Number] = {"ones": constant(-1)}
        self._lanes: dict[int, Number] = {}
        self._effects = GateEffects()

    def finished(self) -> GateEffects:
        """Return all effects; elements of rd without an assignment keep their values."""
        if self._lanes:
            z, width, old = self._z, lane_width(self._insn), self._before.register("rd")
            elements = [
                self._lanes[lane] if lane in self._lanes else z.element(old, constant(lane), width)
                for lane in self._range(ast.Name("lanes"))
            ]
            self._effects.registers.append(("rd", self._guard, z.joined(elements, width)))
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
        if self._z.decided(condition) is False:
            return
        outside = self._guard
        self._guard = self._z.z.graph.and_(outside, condition)
        for inner in body:
            self.run(inner)
        self._guard = outside

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self._assign_name(name, self.value(value))
            case ast.Subscript(value=ast.Name(id="rd"), slice=ast.Name(id="i")):
                for lane in self._range(ast.Name("lanes")):
                    self._names["i"] = constant(lane)
                    self._lanes[lane] = self.value(value)
            case ast.Subscript(value=ast.Name(id="rd"), slice=ast.Constant(value=int(lane))):
                self._lanes[lane] = self.value(value)
            case ast.Subscript(value=ast.Name(id="rd"), slice=lane):
                word, width = self._before.register("rd"), lane_width(self._insn)
                new = self._z.inserted(word, self.value(lane), width, self.value(value))
                self._effects.registers.append(("rd", self._guard, new))
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                self._assign_element(name, self.value(index), self.value(value))
            case _:
                raise beyond_notation(target)

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
        return self._z.binary(ast.Add(), index, constant(STATE[name])) if STATE[name] else index

    # ---- values ----

    def value(self, node: ast.expr) -> Number:
        z = self._z
        match node:
            case ast.Constant(value=int(number)):
                return constant(number)
            case ast.Name(id=name):
                return self._value_of(name)
            case ast.BinOp(left=left, op=op, right=right):
                return z.binary(op, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.USub() | ast.Invert() as op, operand=operand):
                return z.unary(op, self.value(operand))
            case ast.Compare():
                return unsigned([self._condition(node)])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._either(self._condition(test), body, orelse)
            case ast.Call(func=ast.Name(id="s"), args=[operand], keywords=[]):
                return z.call("sx", [self.value(operand), constant(width_read(self._insn, operand))])
            case ast.Call(func=ast.Name(id="sum"), args=[ast.GeneratorExp() as terms]):
                return z.total([term for _, term in self._generated(terms)])
            case ast.Call(func=ast.Name(id=name), args=[ast.GeneratorExp() as terms], keywords=[default]):
                # the generator yields its numbers, each with a condition
                pairs = zip(self._generated(terms), self._range(terms.generators[0].iter), strict=True)
                choices = [(test, number) for (test, _), number in pairs]
                return z.chosen(name, choices, self.value(default.value))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return z.call(name, [self.value(argument) for argument in arguments])
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                return self._element(name, index)
            case _:
                raise beyond_notation(node)

    def _condition(self, node: ast.expr) -> int:
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._z.compare(op, self.value(left), self.value(right))
            case _:
                return self._z.z.is_true(self.value(node))

    def _either(self, condition: int, body: ast.expr, orelse: ast.expr) -> Number:
        decided = self._z.decided(condition)
        if decided is not None:
            return self.value(body if decided else orelse)
        return self._z.z.choose(condition, self.value(body), self.value(orelse))

    def _generated(self, terms: ast.GeneratorExp) -> list[tuple[int, Number]]:
        generated: list[tuple[int, Number]] = []
        name, values, tests = semantics.generator(terms)
        for number in self._range(values):
            self._names[name] = constant(number)
            condition = TRUE
            for test in tests:
                condition = self._z.z.graph.and_(condition, self._condition(test))
            generated.append((condition, self.value(terms.elt)))
        return generated

    def _range(self, node: ast.expr) -> range:
        return range(semantics.times(self._insn, node))

    def _is_register(self, name: str) -> bool:
        return name in self._registers or (name.startswith("x") and name[1:].isdecimal())

    def _value_of(self, name: str) -> Number:
        if self._is_register(name):
            return self._before.register(name)
        if name in self._immediates:
            return self._before.immediate(name)
        if name in STATE:
            return self._before.entry(self._place(name, constant(0)))
        return self._names[name] if name in self._names else self._before.state(name)

    def _element(self, name: str, index: ast.expr) -> Number:
        z = self._z
        match index:
            case ast.Slice(lower=ast.Constant(value=int(high)), upper=ast.Constant(value=int(lowest))):
                return z.bits(self._value_of(name), high, lowest)
            case _:
                position = self.value(index)
        if name in MEMORY:
            access = self._guard, low(position, XLEN), MEMORY[name] // BYTE_BITS
            self._effects.loads.append(access)
            return self._before.load(access[2])
        if name in STATE:
            return self._before.entry(self._place(name, position))
        width = lane_width(self._insn) if is_lane(self._insn, name) else 1
        return z.element(self._value_of(name), position, width)
