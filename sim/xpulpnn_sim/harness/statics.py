"""Static instructions as the compiled driver and the checker see them, derived from the instruction table alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.insn import Insn
from xpulpnn_sim.golden.dotp import (
    ACTIVATION_SELECT,
    FIRST_WEIGHT,
    RELOADS_ACTIVATION,
    RELOADS_WEIGHT,
    WEIGHT_SELECT,
    WEIGHT_SELECT_LSB,
)
from xpulpnn_sim.harness.abi import STATIC_INSN, Property

_ACCESS_BYTES = {"lb": 1, "lbu": 1, "sb": 1, "lh": 2, "lhu": 2, "sh": 2, "lw": 4, "elw": 4, "sw": 4}
_MULTICYCLE = frozenset({"mulh", "mulhsu", "mulhu", "div", "divu", "rem", "remu", "pv.qnt"})
_WORD_BYTES = 4
_REGISTERS = 32
_FIELD_LSB = {"rs1": 15, "rs2": 20, "rd": 7}


class ProgramText(Protocol):
    """What the engine needs of a program; :class:`xpulpnn_sw.stream.Program` provides it."""

    @property
    def words(self) -> NDArray[np.uint32]:
        """Instruction words, expanded to 32 bits."""
        ...

    @property
    def pcs(self) -> NDArray[np.uint32]:
        """Their addresses."""
        ...

    @property
    def insns(self) -> tuple[Insn, ...]:
        """Their table rows."""
        ...

    @property
    def regions(self) -> Sequence[str]:
        """Part of the program each belongs to."""
        ...

    @property
    def hwloop_end(self) -> NDArray[np.bool_]:
        """Set for the last instruction of a hardware-loop body."""
        ...


@dataclass(frozen=True, eq=False)
class VectorProgram:
    """Program text put together outside the kernels."""

    words: NDArray[np.uint32]
    pcs: NDArray[np.uint32]
    insns: tuple[Insn, ...]
    regions: Sequence[str]
    hwloop_end: NDArray[np.bool_]


def register(word: int, name: str) -> int:
    """Number in the register field ``name`` of a 32-bit word."""
    return word >> _FIELD_LSB[name] & (_REGISTERS - 1)


def _memory(insn: Insn) -> tuple[Property, int]:
    size = _ACCESS_BYTES.get(insn.op, 0)
    return Property.LOADS if insn.is_load else Property.STORES if insn.is_store else Property(0), size


def _describe(insn: Insn, word: int) -> dict[str, int]:
    """Fields of :data:`STATIC_INSN` that follow from the row and the word."""
    properties, access = _memory(insn)
    entries = {"act": 0, "wgt": 0, "reloaded": 0}
    reads_rs1 = "rs1" in insn.reads
    if insn.is_mac_load:
        reload, access = Property.LOADS | Property.WRITES_NN | Property.WRITES_BASE, _WORD_BYTES
        properties |= Property.READS_WGT
        if insn.entry is None:
            selector = register(word, "rs2")
            entries["act"] = selector & ACTIVATION_SELECT
            entries["wgt"] = FIRST_WEIGHT + (selector >> WEIGHT_SELECT_LSB & WEIGHT_SELECT)
            entries["reloaded"] = entries["act" if selector & RELOADS_ACTIVATION else "wgt"]
            reads_rs1 = bool(selector & (RELOADS_ACTIVATION | RELOADS_WEIGHT))
            properties |= Property.READS_ACT | (reload if reads_rs1 else Property(0))
            access = access if reads_rs1 else 0
        else:
            entries["wgt"] = entries["reloaded"] = FIRST_WEIGHT + insn.entry
            properties |= reload
    elif insn.writes_base:
        properties |= Property.WRITES_BASE
    flags = {
        Property.READS_RS1: reads_rs1,
        Property.READS_RS2: "rs2" in insn.reads,
        Property.READS_RD: "rd" in insn.reads,
        Property.WRITES_RD: insn.writes_rd,
        Property.BRANCHES: insn.is_branch,
        Property.JUMPS: insn.is_jump,
        Property.MULTICYCLE: insn.op in _MULTICYCLE,
    }
    for flag, present in flags.items():
        properties |= flag if present else Property(0)
    registers = {name: register(word, name) for name in _FIELD_LSB}
    return {"properties": int(properties), "access": access, "length": insn.size, **registers, **entries}


def static_table(program: ProgramText) -> NDArray[Any]:
    """Array of :data:`STATIC_INSN`, one element per static instruction."""
    table = np.zeros(len(program.insns), STATIC_INSN)
    table["word"] = program.words
    table["pc"] = program.pcs
    known: dict[tuple[Insn, int], dict[str, int]] = {}
    for i, (insn, word) in enumerate(zip(program.insns, program.words.tolist(), strict=True)):
        described = known.get((insn, word))
        if described is None:
            described = known[insn, word] = _describe(insn, word)
        for name, value in described.items():
            table[name][i] = value
    table["properties"] |= np.where(program.hwloop_end, np.uint32(Property.LOOP_END), np.uint32(0))
    return table
