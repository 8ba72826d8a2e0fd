"""Static instructions as the compiled driver and the checker see them, derived from the instruction table alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
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
    """What the engine needs of a program; :class:`xpulpnn_sw.kernels.program.Program` provides it."""

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


def _row_properties(insn: Insn) -> Property:
    """Properties that all words of a row share."""
    flags = {
        Property.READS_RS1: "rs1" in insn.reads,
        Property.READS_RS2: "rs2" in insn.reads,
        Property.READS_RD: "rd" in insn.reads,
        Property.WRITES_RD: insn.writes_rd,
        Property.WRITES_BASE: insn.writes_base,
        Property.LOADS: insn.is_load or insn.is_mac_load,
        Property.STORES: insn.is_store,
        Property.BRANCHES: insn.is_branch,
        Property.JUMPS: insn.is_jump,
        Property.READS_ACT: insn.op == "pv.mlsdot",
        Property.READS_WGT: insn.is_mac_load,
        Property.WRITES_NN: insn.is_mac_load,
        Property.MULTICYCLE: insn.op in _MULTICYCLE,
    }
    return reduce(or_, (flag for flag, present in flags.items() if present), Property(0))


_UPDATE = Property.READS_RS1 | Property.WRITES_BASE | Property.LOADS | Property.WRITES_NN
"""What a Mac&Load of the nn form does only with an update bit."""


def static_table(program: ProgramText) -> NDArray[Any]:
    """Array of :data:`STATIC_INSN`, one element per static instruction."""
    rows: dict[int, int] = {}
    number = np.array([rows.setdefault(id(insn), len(rows)) for insn in program.insns], np.int64)
    first = np.zeros(len(rows), np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]
    distinct = [program.insns[i] for i in first.tolist()]

    def per_row(values: Iterable[int], kind: type[np.unsignedinteger[Any]]) -> NDArray[Any]:
        return np.array(list(values), kind)[number]

    table = np.zeros(len(program.insns), STATIC_INSN)
    table["word"], table["pc"] = program.words, program.pcs
    for name, lsb in _FIELD_LSB.items():
        table[name] = table["word"] >> lsb & (_REGISTERS - 1)
    table["length"] = per_row((insn.size for insn in distinct), np.uint8)
    access = per_row(
        (_WORD_BYTES if insn.is_mac_load else _ACCESS_BYTES.get(insn.op, 0) for insn in distinct), np.uint8
    )
    properties = per_row((int(_row_properties(insn)) for insn in distinct), np.uint32)

    selector = table["rs2"]
    nn_form = (properties & Property.READS_ACT) != 0
    idle = nn_form & ((selector & (RELOADS_ACTIVATION | RELOADS_WEIGHT)) == 0)
    weight = np.where(nn_form, selector >> WEIGHT_SELECT_LSB & WEIGHT_SELECT, 0) + FIRST_WEIGHT
    # C&U rows name their entry in the mnemonic, others have none
    weight += per_row((insn.entry or 0 for insn in distinct), np.uint8)
    table["act"], table["wgt"] = selector & ACTIVATION_SELECT, weight
    table["reloaded"] = np.where(nn_form & ((selector & RELOADS_ACTIVATION) != 0), table["act"], weight)
    table["access"] = np.where(idle, 0, access)
    properties &= np.where(idle, ~np.uint32(_UPDATE), ~np.uint32(0))
    table["properties"] = properties | np.where(program.hwloop_end, np.uint32(Property.LOOP_END), np.uint32(0))
    return table
