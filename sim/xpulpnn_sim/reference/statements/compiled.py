"""Rows of the instruction table compiled to Python.

The statements of a row become a function that makes operations: given the registers, the memory and the fields of one
instruction word, it returns a function without arguments that executes the instruction. A row is compiled once; an
instruction costs a call then, and nothing is decoded.
"""

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from operator import mul
from typing import Any

from xpulpnn.errors import InputError
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn.isa.semantics import LOOPS, definition
from xpulpnn_sim.reference.statements.interpreter import StatementEffects, interpret
from xpulpnn_sim.reference.statements.machine import FUNCTIONS
from xpulpnn_sim.reference.statements.text import ELEMENT_NAMES, PythonArithmetic, PythonValue, literal_value, undecided

HartOperation = Callable[[], int]  # Executes one instruction and returns the address of the next, hardware loops aside

_Effects = StatementEffects[PythonValue, PythonValue]

_SYSTEM = frozenset({"CSR", "trap", "wait", "MIE", *LOOPS})  # names in statements of instructions that are not compiled

_NAMESPACE = {"mul": mul, **ELEMENT_NAMES, **{name: FUNCTIONS[name] for name in ("quotient", "remainder", "sx", "zx")}}


@cache
def is_compiled(insn: Insn) -> bool:
    """Return whether a row can be compiled: it does not concern CSRs, traps, hardware loops or sleep."""
    nodes = (node for statement in definition(insn) for node in ast.walk(statement))
    return _SYSTEM.isdisjoint(node.id for node in nodes if isinstance(node, ast.Name))


@cache
def maker(
    insn: Insn, zeros: frozenset[str], selector: int | None, errors: tuple[type[Exception], ...], *, products: bool
) -> Callable[..., HartOperation]:
    """Return the function that makes operations of a row.

    ``zeros`` are the register fields that hold x0, ``selector`` is the immediate of a Mac&Load, ``errors`` are what a
    store may raise instead of happening. Without ``products`` a dot product only moves its base. The arguments are
    ``regs``, ``nn``, ``read``, ``write``, ``pc``, ``size`` and ``following``, then the fields of the instruction.
    """
    texts = PythonArithmetic()
    body = definition(insn)
    if not products and insn.uses_dotp:
        body = [statement for statement in body if _moves_base(statement)]
    effects = interpret(insn, body, texts, _Found(insn, texts, selector))
    written = [*_writes(texts, effects, zeros), *_stores(texts, effects, zeros), _return(texts, effects)]
    parameters = [
        "regs",
        "nn",
        "read",
        "write",
        "pc",
        "size",
        "following",
        *(token.field.name for token in insn.tokens),
    ]
    source = "\n".join(
        [
            f"def make({', '.join(parameters)}):",
            *(f"    {line}" for line in texts.constants),
            "    def operate():",
            *(f"        {line}" for line in [*_needed(texts.lines, written), *written]),
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


def _writes(texts: PythonArithmetic, effects: _Effects, zeros: frozenset[str]) -> list[str]:
    assert all(texts.decided(test) for test, *_ in (*effects.entries, *(row[1:] for row in effects.registers)))
    return [
        *(f"nn[{texts.expression(number)}] = {texts.expression(word)}" for _, number, word in effects.entries),
        *(f"regs[{name}] = {texts.expression(word)}" for name, _, word in effects.registers if name not in zeros),
    ]


def _stores(texts: PythonArithmetic, effects: _Effects, zeros: frozenset[str]) -> list[str]:
    """Store last, so that whoever watches memory sees the state after the instruction; a store that fails undoes it."""
    moved = [name for name, _, _ in effects.registers if name not in zeros]
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


_WORD = re.compile(r"\w+")


def _needed(lines: Sequence[str], written: Sequence[str]) -> list[str]:
    """Return the lines that compute what is written, and all that read memory, which may fail."""
    used = set(_WORD.findall("\n".join(written)))
    needed: list[str] = []
    for line in reversed(lines):
        words = _WORD.findall(line)
        if words[0] in used or "read" in words:
            used.update(words)
            needed.append(line)
    return needed[::-1]


@dataclass(frozen=True, slots=True)
class _Found:
    """The state that an instruction finds, as expressions in the arguments of the maker."""

    insn: Insn
    texts: PythonArithmetic
    selector: int | None

    def register(self, name: str) -> PythonValue:
        return self.texts.bind(PythonValue(f"regs[{name}]", 0, WORD_MASK))

    def differ(self, first: str, second: str) -> PythonValue:
        return undecided(f"({first} != {second})", is_static=True)

    def immediate(self, name: str) -> PythonValue:
        if name == "nnimm5" and self.selector is not None:
            return literal_value(self.selector)
        place = next(token.field for token in self.insn.tokens if token.field.name == name)
        return PythonValue(name, place.low, place.high, is_static=True)

    def state(self, name: str) -> PythonValue:
        if name not in ("pc", "size"):
            raise InputError(f"name must be one of the notation, not {name}")
        return PythonValue(name, 0, WORD_BYTES if name == "size" else WORD_MASK, is_static=True)

    def entry(self, index: PythonValue) -> PythonValue:
        return PythonValue(f"nn[{self.texts.expression(index)}]", 0, WORD_MASK)

    def csr(self, address: PythonValue) -> PythonValue:
        raise InputError(f"{self.insn.mnemonic} must access no CSR to be compiled")

    def load(self, condition: PythonValue, address: PythonValue, size: int) -> PythonValue:
        assert self.texts.decided(condition)
        read = PythonValue(f"read({self.texts.expression(address)}, {size})", 0, (1 << 8 * size) - 1)
        return self.texts.bind(read)
