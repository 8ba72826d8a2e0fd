"""Compiles instructions of the instruction table to Python.

The statements of an instruction become a function that takes the registers, the memory and the fields of an instruction
word, and returns an operation: a function without arguments that executes the instruction. So the statements are
compiled once, and each word is executed by a call, without decoding.
"""

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from operator import mul
from typing import Any

from xpulpnn.errors import InputError
from xpulpnn.isa.csr import CSR_BY_NAME
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, WORD_MASK
from xpulpnn.isa.semantics import LOOPS, definition
from xpulpnn_sim.reference.statements.interpreter import FLAGS, StatementEffects, interpret
from xpulpnn_sim.reference.statements.text import (
    ELEMENT_NAMES,
    FUNCTIONS,
    PythonArithmetic,
    PythonValue,
    literal_value,
    undecided,
)

HartOperation = Callable[[], int]  # executes an instruction; returns the address of the next, without hardware loops

WRITTEN = ("rd", "rs1")  # register fields that statements write
SELECTORS = ("nnimm5", "r", "e")  # immediates that select words of the state; at most one in an instruction
NOT_TAKEN = -1  # stands for the address after a branch that is not taken

_Effects = StatementEffects[PythonValue, PythonValue]

_SLOW = frozenset({"CSR", "trap", "wait", "MIE", "dpc"})  # names in statements that must be executed step by step
_LEADING = frozenset({"CSR", "MIE", *LOOPS})  # names in statements that may change hardware loops

_NAMESPACE = {"mul": mul, **ELEMENT_NAMES, **{name: FUNCTIONS[name] for name in ("quotient", "remainder", "sx", "zx")}}


@cache
def _names(insn: Insn) -> frozenset[str]:
    nodes = (node for statement in definition(insn) for node in ast.walk(statement))
    return frozenset(node.id for node in nodes if isinstance(node, ast.Name))


def is_slow(insn: Insn) -> bool:
    return not _SLOW.isdisjoint(_names(insn))


def leads(insn: Insn) -> bool:
    return not _LEADING.isdisjoint(_names(insn))


@cache
def maker(
    insn: Insn, zeros: frozenset[str], selector: int | None, errors: tuple[type[Exception], ...], *, products: bool
) -> Callable[..., HartOperation]:
    """Return the function that makes operations of an instruction.

    ``zeros`` are the register fields that hold x0, ``selector`` is the immediate out of ``SELECTORS``, ``errors`` are
    the exceptions of a store without effect. Without ``products`` a dot product only increments its base. The arguments
    of the function are ``regs``, ``nn``, ``read``, ``write``, ``system``, ``pc``, ``size`` and ``following``, then the
    fields of the instruction. ``system`` has CSRs, flags and hardware loops, whose ends are handled before all writes.
    """
    texts = PythonArithmetic()
    body = definition(insn)
    if not products and insn.uses_dotp:
        body = [statement for statement in body if _moves_base(statement)]
    effects = interpret(insn, body, texts, _SymbolicState(insn, texts, selector, zeros))
    written = [*_system(texts, effects), *_writes(texts, effects, zeros), *_stores(texts, effects, zeros)]
    if leads(insn) and not effects.pc:
        written = ["next_pc = system.next_pc(pc, following)", *written, "return next_pc"]
    else:
        written.append(_return(texts, effects))
    parameters = ["regs", "nn", "read", "write", "system", "pc", "size", "following"]
    parameters += (token.field.name for token in insn.tokens)
    source = "\n".join(
        [
            f"def make({', '.join(parameters)}):",
            *(f"    {line}" for line in texts.constants),
            "    def operate():",
            *(f"        {line}" for line in [*_needed_lines(texts.lines, written), *written]),
            "    return operate",
        ]
    )
    namespace: dict[str, Any] = {**_NAMESPACE, "errors": errors}
    exec(compile(source, f"<{insn.mnemonic} {insn.operands}>", "exec"), namespace)
    return namespace["make"]


def _moves_base(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id="rs1")]) | ast.If(body=[ast.Assign(targets=[ast.Name(id="rs1")])]):
            return True
        case _:
            return False


def _system(texts: PythonArithmetic, effects: _Effects) -> list[str]:
    lines: list[str] = []
    for test, address, value in effects.csrs:
        condition = "" if texts.decided(test) else f"if {texts.expression(test)}: "
        lines.append(f"{condition}system.write_csr({texts.expression(address)}, {texts.expression(value)})")
    for name, loop, word in effects.loops:
        lines.append(f"system[f'{name}{{{loop.text}}}'] = {texts.expression(word)}")
    lines += [f"system.set_flag('{name}', {texts.expression(value)})" for name, value in effects.flags]
    return lines + [f"system.trap({texts.expression(cause)})" for cause in effects.traps]


def _writes(texts: PythonArithmetic, effects: _Effects, zeros: frozenset[str]) -> list[str]:
    assert all(texts.decided(test) for test, *_ in (*effects.entries, *(row[1:] for row in effects.registers)))
    return [
        *(f"nn[{texts.expression(number)}] = {texts.expression(word)}" for _, number, word in effects.entries),
        *(
            f"regs[{_number(name)}] = {texts.expression(word)}"
            for name, _, word in effects.registers
            # x0 as the first of two registers drops both
            if ("rd" if name == "rd1" else name) not in zeros
        ),
    ]


def _stores(texts: PythonArithmetic, effects: _Effects, zeros: frozenset[str]) -> list[str]:
    """Emit the stores last, so that watchers see the final state; a failing store undoes the register writes."""
    moved = [_number(name) for name, _, _ in effects.registers if name not in zeros]
    lines: list[str] = []
    for _, address, size, word in effects.stores:
        call = f"write({texts.expression(address)}, {size}, {texts.expression(word)})"
        undone = [f"    regs[{name}] = {texts.bound[f'regs[{name}]']}" for name in moved]
        lines += ["try:", f"    {call}", "except errors:", *undone, "    raise"] if moved else [call]
    return lines


def _return(texts: PythonArithmetic, effects: _Effects) -> str:
    if not effects.pc:
        return "return following"
    ((test, target),) = effects.pc
    if texts.decided(test):
        return f"return {texts.expression(target)}"
    return f"return {texts.expression(target)} if {test.text} else following"


def _number(name: str) -> str:
    """Return source for the number of a register: a field of the instruction, or fixed such as ``x2``."""
    if name == "rd1":
        return "rd + 1"
    return name[1:] if re.fullmatch(r"x\d+", name) else name


_WORD = re.compile(r"\w+")


def _needed_lines(lines: Sequence[str], written: Sequence[str]) -> list[str]:
    """Return the lines that compute values used in ``written``, or that read memory, since a read may fail."""
    used = set(_WORD.findall("\n".join(written)))
    needed: list[str] = []
    for line in reversed(lines):
        words = _WORD.findall(line)
        if words[0] in used or "read" in words:
            used.update(words)
            needed.append(line)
    return needed[::-1]


@dataclass(frozen=True, slots=True)
class _SymbolicState:
    """The state before an instruction, as Python source in the arguments of the function from :func:`maker`."""

    insn: Insn
    texts: PythonArithmetic
    selector: int | None
    zeros: frozenset[str]

    def register(self, name: str) -> PythonValue:
        return self.texts.named(PythonValue(f"regs[{_number(name)}]", 0, WORD_MASK))

    def differ(self, first: str, second: str) -> PythonValue:
        if second == "x0":
            return literal_value(int(first not in self.zeros))
        return undecided(f"({_number(first)} != {_number(second)})", is_static=True)

    def immediate(self, name: str) -> PythonValue:
        if name in SELECTORS and self.selector is not None:
            return literal_value(self.selector)
        place = next(token.field for token in self.insn.tokens if token.field.name == name)
        return PythonValue(name, place.low, place.high, is_static=True)

    def state(self, name: str) -> PythonValue:
        if name in ("pc", "size"):
            return PythonValue(name, 0, WORD_BYTES if name == "size" else WORD_MASK, is_static=True)
        if name in FLAGS:
            return self.texts.named(PythonValue(f"system.flag('{name}')", 0, 1))
        if name not in CSR_BY_NAME:
            raise InputError(f"name must be one of the notation, not {name}")
        return self.texts.named(PythonValue(f"system['{name}']", 0, WORD_MASK))

    def entry(self, index: PythonValue) -> PythonValue:
        return self.texts.named(PythonValue(f"nn[{self.texts.expression(index)}]", 0, WORD_MASK))

    def csr(self, address: PythonValue) -> PythonValue:
        return self.texts.named(PythonValue(f"system.read_csr({address.text})", 0, WORD_MASK))

    def load(self, condition: PythonValue, address: PythonValue, size: int) -> PythonValue:
        assert self.texts.decided(condition)
        read = PythonValue(f"read({self.texts.expression(address)}, {size})", 0, (1 << BYTE_BITS * size) - 1)
        return self.texts.named(read)
