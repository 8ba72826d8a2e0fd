"""State before an instruction, values of its operand fields, and which instructions can be executed, on gates."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xpulpnn.isa.fields import Token
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.semantics import definition
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE
from xpulpnn_sim.proofs.engine.integers import Integers, Number, constant, low, trimmed, unsigned

_BEYOND = frozenset({"CSR", "trap", "wait", "MIE", "mepc", "dpc"})
_SYSTEM = frozenset({"fence.i"})  # names that are not executed here, and operations of the controller

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
