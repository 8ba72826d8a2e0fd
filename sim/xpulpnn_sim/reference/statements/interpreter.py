"""Executes the statements of instructions over any representation of values: Python source, numbers or gates.

All state is read as it was before the instruction. The effects are collected in :class:`StatementEffects`, each with
its condition, in the order of the statements.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from xpulpnn.errors import InputError
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_BITS, XLEN
from xpulpnn.isa.semantics import LOOPS, MEMORY, STATE, beyond_notation, is_lane, lane_width, width_read

V = TypeVar("V")
C = TypeVar("C")

FLAGS = ("MIE", "MPIE")  # bits of mstatus that statements name


class _Arithmetic(Protocol[V, C]):
    """Operations on exact integers ``V`` and on conditions ``C``."""

    true: C

    def number(self, value: int) -> V: ...  # a constant
    def named(self, value: V) -> V: ...  # a value that is used several times under a name
    def unary(self, op: ast.unaryop, x: V) -> V: ...  # ``-x`` or ``~x``
    def binary(self, op: ast.operator, x: V, y: V) -> V: ...  # the result of a Python operator
    # ``abs``, ``min``, ``max``, ``sx``, ``zx``, ``quotient`` or ``remainder`` of values
    def call(self, name: str, arguments: Sequence[V]) -> V: ...
    def total(self, terms: Sequence[V]) -> V: ...  # the sum of the terms
    # the ``min`` or ``max`` of the numbers whose conditions hold, or the default
    def chosen(self, name: str, terms: Sequence[tuple[C, int]], default: V) -> V: ...
    def compare(self, op: ast.cmpop, x: V, y: V) -> C: ...  # a comparison
    def holds(self, value: V) -> C: ...  # the condition that a value is not 0
    def both(self, first: C, second: C) -> C: ...  # the condition that two conditions hold
    def decided(self, condition: C) -> bool | None: ...  # whether a condition holds, None if unknown
    def truth(self, condition: C) -> V: ...  # 1 if a condition holds, else 0
    def choose(self, condition: C, x: V, y: V) -> V: ...  # ``x if condition else y``
    def word(self, value: V) -> V: ...  # the low 32 bits
    def bits(self, value: V, high: int, lowest: int) -> V: ...  # bits ``high`` to ``lowest``, unsigned
    # element ``index`` of a word, unsigned; ``turn``: every element is used in turn
    def element(self, word: V, index: V, width: int, *, turn: bool) -> V: ...
    def inserted(self, word: V, index: V, width: int, value: V) -> V: ...  # the word with one element replaced
    def joined(self, elements: Sequence[V], width: int) -> V: ...  # the word of the low bits of elements, lane 0 first


class _InitialState(Protocol[V, C]):
    """The state before an instruction."""

    # the register in a field, or a fixed one such as ``x2``; ``rd1`` is the register after the one in field rd
    def register(self, name: str) -> V: ...
    def differ(self, first: str, second: str) -> C: ...  # the condition that two fields name different registers
    def immediate(self, name: str) -> V: ...  # the value of an immediate field
    def state(self, name: str) -> V: ...  # ``pc``, ``size``, a CSR or a flag
    def entry(self, index: V) -> V: ...  # an entry of the NN-RF
    def csr(self, address: V) -> V: ...  # a CSR by its address
    def load(self, condition: C, address: V, size: int) -> V: ...  # bytes of memory as an unsigned number


@dataclass(slots=True)
class StatementEffects(Generic[V, C]):
    """Effects of an instruction, each with its condition, in the order of the statements."""

    registers: list[tuple[str, C, V]] = field(default_factory=list[tuple[str, C, V]])  # field, condition, word
    pc: list[tuple[C, V]] = field(default_factory=list[tuple[C, V]])
    loads: list[tuple[C, V, int]] = field(default_factory=list[tuple[C, V, int]])  # condition, address, bytes
    # condition, address, bytes, data
    stores: list[tuple[C, V, int, V]] = field(default_factory=list[tuple[C, V, int, V]])
    entries: list[tuple[C, V, V]] = field(default_factory=list[tuple[C, V, V]])  # condition, number, word
    loops: list[tuple[str, V, V]] = field(default_factory=list[tuple[str, V, V]])  # register, loop, word
    csrs: list[tuple[C, V, V]] = field(default_factory=list[tuple[C, V, V]])  # condition, address, value
    flags: list[tuple[str, V]] = field(default_factory=list[tuple[str, V]])
    traps: list[V] = field(default_factory=list[V])  # causes


def interpret(
    insn: Insn, body: Sequence[ast.stmt], arithmetic: _Arithmetic[V, C], before: _InitialState[V, C]
) -> StatementEffects[V, C]:
    """Return the effects of statements. Raises :class:`InputError` for one outside the notation."""
    run = _Execution(insn, arithmetic, before)
    for statement in body:
        run.run(statement)
    return run.finished()


class _Execution(Generic[V, C]):
    def __init__(self, insn: Insn, arithmetic: _Arithmetic[V, C], before: _InitialState[V, C]) -> None:
        self._insn, self._z, self._before = insn, arithmetic, before
        self._guard = arithmetic.true
        kinds = {token.field.name: token.field.kind for token in insn.tokens}
        self._registers = {name for name, kind in kinds.items() if kind is FieldKind.REGISTER}
        self._immediates = kinds.keys() - self._registers
        self._registers |= {"rd1"} if insn.is_pair else set()
        self._names: dict[str, V] = {"ones": arithmetic.number(-1)}
        self._turns: set[str] = set()
        self._lanes: dict[int, V] = {}
        self._effects = StatementEffects[V, C]()

    def finished(self) -> StatementEffects[V, C]:
        """Return all effects; elements of rd without an assignment keep their values."""
        if self._lanes:
            z, width, old = self._z, lane_width(self._insn), self._before.register("rd")
            elements = [
                self._lanes[lane] if lane in self._lanes else z.element(old, z.number(lane), width, turn=False)
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
            case ast.For(target=ast.Name(id=name), iter=values, body=body, orelse=[]):
                for number in self._range(values):
                    self._names[name] = self._z.number(number)
                    for inner in body:
                        self.run(inner)
            case ast.Expr(value=ast.Call(func=ast.Name(id="trap"), args=[cause])):
                self._effects.traps.append(self.value(cause))
            case ast.Expr(value=ast.Call(func=ast.Name(id="wait"), args=[condition])):
                self.value(condition)
            case _:
                raise beyond_notation(statement)

    def _conditional(self, condition: C, body: Sequence[ast.stmt]) -> None:
        if self._z.decided(condition) is False:
            return
        outside = self._guard
        self._guard = self._z.both(outside, condition)
        for inner in body:
            self.run(inner)
        self._guard = outside

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self._assign_name(name, self.value(value))
            case ast.Subscript(value=ast.Name(id="rd"), slice=ast.Name(id="i")):
                self._turns.add("i")
                for lane in self._range(ast.Name("lanes")):
                    self._names["i"] = self._z.number(lane)
                    self._lanes[lane] = self.value(value)
                self._turns.discard("i")
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

    def _assign_name(self, name: str, value: V) -> None:
        if self._is_register(name):
            self._effects.registers.append((name, self._guard, self._z.word(value)))
        elif name == "pc":
            self._effects.pc.append((self._guard, self._z.word(value)))
        elif name in STATE:
            self._assign_element(name, self._z.number(0), value)
        elif name in FLAGS:
            self._effects.flags.append((name, value))
        elif self._guard != self._z.true:
            raise InputError(f"what is assigned on a condition must be a register, not {name}")
        else:
            self._names[name] = self._z.named(value)

    def _assign_element(self, name: str, index: V, value: V) -> None:
        word = self._z.word(value)
        if name in MEMORY:
            self._effects.stores.append((self._guard, self._z.word(index), MEMORY[name] // BYTE_BITS, word))
        elif name in STATE:
            self._effects.entries.append((self._guard, self._place(name, index), word))
        elif name == "CSR":
            self._effects.csrs.append((self._guard, index, value))
        elif name in LOOPS:
            self._effects.loops.append((name, index, word))
        else:
            raise InputError(f"element assigned to must be one of the notation, not {name}")

    def _place(self, name: str, index: V) -> V:
        """Return the place of a word in the list that holds the NN-RF and the state of the coprocessor."""
        return self._z.binary(ast.Add(), index, self._z.number(STATE[name])) if STATE[name] else index

    # ---- values ----

    def value(self, node: ast.expr) -> V:
        z = self._z
        match node:
            case ast.Constant(value=int(number)):
                return z.number(number)
            case ast.Name(id=name):
                return self._value_of(name)
            case ast.BinOp(left=left, op=op, right=right):
                return z.binary(op, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.USub() | ast.Invert() as op, operand=operand):
                return z.unary(op, self.value(operand))
            case ast.Compare():
                return z.truth(self._condition(node))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._either(self._condition(test), body, orelse)
            case ast.Call(func=ast.Name(id="s"), args=[operand], keywords=[]):
                return z.call("sx", [self.value(operand), z.number(width_read(self._insn, operand))])
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

    def _condition(self, node: ast.expr) -> C:
        match node:
            case ast.Compare(left=ast.Name(id=first), ops=[ast.IsNot()], comparators=[ast.Name(id=second)]):
                return self._before.differ(first, second)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._z.compare(op, self.value(left), self.value(right))
            case _:
                return self._z.holds(self.value(node))

    def _either(self, condition: C, body: ast.expr, orelse: ast.expr) -> V:
        decided = self._z.decided(condition)
        if decided is not None:
            return self.value(body if decided else orelse)
        return self._z.choose(condition, self.value(body), self.value(orelse))

    def _generated(self, terms: ast.GeneratorExp) -> list[tuple[C, V]]:
        """Return condition and value of each term of a generator expression."""
        generated: list[tuple[C, V]] = []
        match terms.generators:
            case [ast.comprehension(target=ast.Name(id=name), iter=values, ifs=tests)]:
                self._turns.add(name)
                for number in self._range(values):
                    self._names[name] = self._z.number(number)
                    condition = self._z.true
                    for test in tests:
                        condition = self._z.both(condition, self._condition(test))
                    generated.append((condition, self.value(terms.elt)))
                self._turns.discard(name)
                return generated
            case _:
                raise beyond_notation(terms)

    def _range(self, node: ast.expr) -> range:
        match node:
            case ast.Name(id="bits"):
                return range(XLEN)
            case ast.Name(id="lanes") if self._insn.fmt is not None:
                return range(self._insn.fmt.lanes)
            case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))]):
                return range(count)
            case _:
                raise beyond_notation(node)

    def _is_register(self, name: str) -> bool:
        return name in self._registers or (name.startswith("x") and name[1:].isdecimal())

    def _value_of(self, name: str) -> V:
        if self._is_register(name):
            return self._before.register(name)
        if name in self._immediates:
            return self._before.immediate(name)
        if name in STATE:
            return self._before.entry(self._place(name, self._z.number(0)))
        return self._names[name] if name in self._names else self._before.state(name)

    def _element(self, name: str, index: ast.expr) -> V:
        z = self._z
        match index:
            case ast.Slice(lower=ast.Constant(value=int(high)), upper=ast.Constant(value=int(low))):
                return z.bits(self._value_of(name), high, low)
            case _:
                position = self.value(index)
        if name in MEMORY:
            access = self._guard, z.word(position), MEMORY[name] // BYTE_BITS
            self._effects.loads.append(access)
            return self._before.load(*access)
        if name in STATE:
            return self._before.entry(self._place(name, position))
        if name == "CSR":
            return self._before.csr(position)
        width = lane_width(self._insn) if is_lane(self._insn, name) else 1
        turn = isinstance(index, ast.Name) and index.id in self._turns
        return z.element(self._value_of(name), position, width, turn=turn)
