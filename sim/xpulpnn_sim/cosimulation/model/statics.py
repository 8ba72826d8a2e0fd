"""Instructions as the compiled driver and checker see them, derived from the instruction table alone."""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.compressed import EXPANSIONS
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import FIRST_PARAMETER, FIRST_WEIGHT, REGISTERS, WORD_BYTES, WORD_MASK, ExceptionCause
from xpulpnn.isa.table import INSNS, Decoder
from xpulpnn_sim.cosimulation.model.schema import CHECK_INSN, NO_GROUP, STREAM_INSN, Action, InsnKind, Property
from xpulpnn_sim.reference.golden.dotp import (
    ACTIVATION_SELECT,
    RELOADS_ACTIVATION,
    RELOADS_WEIGHT,
    WEIGHT_SELECT,
    WEIGHT_SELECT_LSB,
)
from xpulpnn_sim.reference.golden.execute import HANDLERS, SEQUENCER_OPS

_ACCESS_BYTES = {"lb": 1, "lbu": 1, "sb": 1, "lh": 2, "lhu": 2, "sh": 2, "lw": 4, "elw": 4, "sw": 4}
_FIELD_LSB = {"rs1": 15, "rs2": 20, "rd": 7}
_MAJOR = 0x7F
_EXCEPTIONS = {"ecall": ExceptionCause.ENVIRONMENT_CALL, "ebreak": ExceptionCause.BREAKPOINT}
_CSR_OPS = {"csrrw": Action.CSR_WRITE, "csrrs": Action.CSR_SET, "csrrc": Action.CSR_CLEAR}
_LOOP_OPS = {
    "lp.starti": Action.SET_LOOP_START,
    "lp.endi": Action.SET_LOOP_END,
    "lp.count": Action.SET_LOOP_COUNT,
    "lp.setup": Action.SET_LOOP,
}
_UPDATE = Property.READS_RS1 | Property.WRITES_BASE | Property.LOADS | Property.WRITES_NN
"""Effects that a Mac&Load of the nn form has only with an update bit."""

_RD_IS_BASE, _RD_IS_X0 = 1, 2

_REDIRECTS = {
    insn.match & _MAJOR: InsnKind.BRANCH_INSN if insn.is_branch else InsnKind.JUMP_INSN
    for insn in INSNS
    if insn.size == WORD_BYTES and (insn.is_branch or insn.is_jump)
}
"""Major opcodes of branches and jumps."""


def register(word: int, name: str) -> int:
    """Number in the register field ``name`` of a 32-bit word."""
    return word >> _FIELD_LSB[name] & (REGISTERS - 1)


def stream_text(words: NDArray[np.uint32], pcs: NDArray[np.uint32]) -> NDArray[Any]:
    """Array of STREAM_INSN of 32-bit words at addresses."""
    text = np.zeros(len(words), STREAM_INSN)
    text["word"], text["pc"] = words, pcs
    majors = text["word"] & _MAJOR
    for major, kind in _REDIRECTS.items():
        text["kind"][majors == major] = kind
    return text


def expanded_statics(row: Insn, raw: int) -> tuple[Insn, int]:
    """The 32-bit row and word that do what the word ``raw`` of a row does."""
    if row.size == WORD_BYTES:
        return row, raw
    expansion = EXPANSIONS[row.mnemonic]
    return expansion.insn, expansion.word(row.decode(raw))


class ResultGroup:
    """Instructions whose results are computed together: one row, one length, one set of results that count."""

    def __init__(self, insn: Insn, registers: int, length: int) -> None:
        self.insn, self.length = insn, length
        self.rd_is_x0, self.rd_is_base = bool(registers & _RD_IS_X0), bool(registers & _RD_IS_BASE)


class Describer:
    """Describes words in memory for the checker."""

    def __init__(self, insns: Sequence[Insn]) -> None:
        self._decoder = Decoder(insns)
        self.groups: list[ResultGroup] = []
        self._numbers: dict[tuple[int, int, int], int] = {}

    def describe(self, raws: NDArray[np.uint32]) -> NDArray[Any]:
        """Array of CHECK_INSN; illegal words raise an exception."""
        table = np.zeros(len(raws), CHECK_INSN)
        table["raw"], table["group"] = raws, NO_GROUP
        legal: list[int] = []
        rows: list[Insn] = []
        for at, raw in enumerate(raws.tolist()):
            row = self._decoder.decode(raw)
            if row is None:
                table[at]["action"], table[at]["number"] = Action.RAISE, ExceptionCause.ILLEGAL_INSTRUCTION
                continue
            table[at]["length"] = row.size
            row, word = expanded_statics(row, raw)
            table[at]["word"] = word
            for name, value in _action_of(row, word).items():
                table[name][at] = value & WORD_MASK
            legal.append(at)
            rows.append(row)
        if legal:
            chosen = table[legal]
            _fill(chosen, rows)
            chosen["group"] = self._groups_of(chosen, rows)
            table[legal] = chosen
        return table

    def _groups_of(self, table: NDArray[Any], rows: Sequence[Insn]) -> list[int]:
        registers = (table["rd"] == 0) * _RD_IS_X0 + (table["rd"] == table["rs1"]) * _RD_IS_BASE
        groups: list[int] = []
        for row, kind, length in zip(rows, registers.tolist(), table["length"].tolist(), strict=True):
            if row.op in SEQUENCER_OPS or row.op not in HANDLERS:
                groups.append(NO_GROUP)
                continue
            number = self._numbers.setdefault((id(row), kind, length), len(self.groups))
            if number == len(self.groups):
                self.groups.append(ResultGroup(row, kind, length))
            groups.append(number)
        return groups


def _fill(table: NDArray[Any], rows: Sequence[Insn]) -> None:
    for name, lsb in _FIELD_LSB.items():
        table[name] = table["word"] >> lsb & (REGISTERS - 1)

    def of_rows(values: Iterable[int]) -> NDArray[np.uint32]:
        return np.array(list(values), np.uint32)

    access = of_rows(
        WORD_BYTES if row.is_mac_load or row.loads_parameter else _ACCESS_BYTES.get(row.op, 0) for row in rows
    )
    properties = of_rows(int(_properties(row)) for row in rows)
    selector = table["rs2"].astype(np.uint32)
    nn_form = (properties & Property.READS_ACT) != 0
    idle = nn_form & ((selector & (RELOADS_ACTIVATION | RELOADS_WEIGHT)) == 0)
    # C&U rows name their entry in the mnemonic, others have none
    entries = of_rows(row.entry or 0 for row in rows)
    weight = np.where(nn_form, selector >> WEIGHT_SELECT_LSB & WEIGHT_SELECT, 0) + FIRST_WEIGHT + entries
    table["act"], table["wgt"] = selector & ACTIVATION_SELECT, weight
    other = of_rows(row.reloads_other for row in rows)
    reloaded = np.where(nn_form & ((selector & RELOADS_ACTIVATION) != 0), table["act"] ^ other, weight)
    table["reloaded"] = np.where(of_rows(row.loads_parameter for row in rows), FIRST_PARAMETER + selector, reloaded)
    table["access"] = np.where(idle, 0, access)
    table["properties"] = np.where(idle, properties & ~np.uint32(_UPDATE), properties)


def _properties(insn: Insn) -> Property:
    flags = {
        Property.READS_RS1: "rs1" in insn.reads,
        Property.READS_RS2: "rs2" in insn.reads,
        Property.READS_RD: "rd" in insn.reads,
        Property.WRITES_RD: insn.writes_rd,
        Property.WRITES_BASE: insn.writes_base,
        Property.LOADS: insn.is_load or insn.is_mac_load or insn.loads_parameter,
        Property.STORES: insn.is_store,
        Property.READS_ACT: insn.is_nn_form,
        Property.READS_WGT: insn.is_mac_load,
        Property.WRITES_NN: insn.is_mac_load or insn.loads_parameter,
        Property.READS_PARAMETERS: insn.requantises,
    }
    return reduce(or_, (flag for flag, present in flags.items() if present), Property(0))


def _action_of(row: Insn, word: int) -> dict[str, int]:
    """Fields of CHECK_INSN for what an instruction does to pc, CSRs and loops."""
    if row.is_branch or row.is_jump:
        return {"action": Action.TRANSFER}
    if row.op == "mret":
        return {"action": Action.RETURN}
    if row.op == "pv.qnt" and row.fmt is not None:
        return {"action": Action.QUANTISE, "number": row.fmt.width}
    if row.op in _EXCEPTIONS:
        return {"action": Action.RAISE, "number": _EXCEPTIONS[row.op]}
    if row.op in _CSR_OPS:
        values = row.decode(word)
        # csrrs and csrrc of x0 or of the immediate 0 do not write
        writes = row.op == "csrrw" or values.get("rs1", values.get("zimm5"))
        fields = {"action": _CSR_OPS[row.op] if writes else Action.CSR_READ, "number": values["csr"]}
        return fields | _constant(values.get("zimm5"))
    if row.op in _LOOP_OPS:
        values = row.decode(word)
        offset = values.get("lpoff12", values.get("lpoff5", 0))
        fields = {"action": _LOOP_OPS[row.op], "number": values["L"], "offset": offset}
        return fields | _constant(values.get("lpcnt12"))
    return {}


def _constant(value: int | None) -> dict[str, int]:
    return {} if value is None else {"is_constant": 1, "constant": value}
