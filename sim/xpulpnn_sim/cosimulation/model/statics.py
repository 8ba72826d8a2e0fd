"""Describes instructions for the compiled driver and checker, from the instruction table."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.fields import WORD_FIELDS
from xpulpnn.isa.insn import Insn, InsnClass
from xpulpnn.isa.machine import REGISTERS, WORD_BYTES, WORD_MASK, ExceptionCause
from xpulpnn.isa.table import INSNS
from xpulpnn_sim.cosimulation.model.schema import CHECK_INSN, NO_GROUP, STREAM_INSN, Action, Property
from xpulpnn_sim.reference.golden.execute import HANDLERS, SEQUENCER_OPS
from xpulpnn_sim.reference.iss.fetched import Fetched

_FIELD_LSB = {name: WORD_FIELDS[name].parts[0][0] for name in ("rs1", "rs2", "rd")}
_MAJOR = 0x7F
_EXCEPTIONS = {
    "ecall": ExceptionCause.ENVIRONMENT_CALL,
    "ebreak": ExceptionCause.BREAKPOINT,
    "dret": ExceptionCause.ILLEGAL_INSTRUCTION,  # outside of debug mode, in which nothing is checked
}
_CSR_OPS = {"csrrw": Action.CSR_WRITE, "csrrs": Action.CSR_SET, "csrrc": Action.CSR_CLEAR}
_LOOP_OPS = {
    "lp.starti": Action.SET_LOOP_START,
    "lp.endi": Action.SET_LOOP_END,
    "lp.count": Action.SET_LOOP_COUNT,
    "lp.setup": Action.SET_LOOP,
}
_TRANSFERS = {
    insn.match & _MAJOR: insn.insn_class
    for insn in INSNS
    if insn.size == WORD_BYTES and insn.insn_class in (InsnClass.BRANCH, InsnClass.JUMP)
}


def register(word: int, name: str) -> int:
    return word >> _FIELD_LSB[name] & (REGISTERS - 1)


def stream_text(words: NDArray[np.uint32], pcs: NDArray[np.uint32]) -> NDArray[Any]:
    text = np.zeros(len(words), STREAM_INSN)
    text["word"], text["pc"] = words, pcs
    majors = text["word"] & _MAJOR
    for major, insn_class in _TRANSFERS.items():
        text["insn_class"][majors == major] = insn_class
    return text


class ResultGroup(NamedTuple):
    """Instructions whose results are computed in one call: equal table row and length, and equal use of ``rd``."""

    insn: Insn
    length: int
    rd_is_x0: bool
    rd_is_base: bool


class Describer:
    """Converts instruction words to the entries of ``CHECK_INSN`` that the compiled checker needs, and numbers the
    groups of instructions whose results are computed together."""

    def __init__(self, decode: Callable[[int], Fetched | None]) -> None:
        self._decode = decode
        self.groups: list[ResultGroup] = []
        self._numbers: dict[tuple[int, ...], int] = {}

    def describe(self, raws: NDArray[np.uint32]) -> NDArray[Any]:
        rows = [{"raw": raw} | self._described(self._decode(raw)) for raw in raws.tolist()]
        return np.array([tuple(row.get(name, 0) for name in CHECK_INSN.names or ()) for row in rows], CHECK_INSN)

    def _described(self, fetched: Fetched | None) -> dict[str, int]:
        if fetched is None:
            return {"action": Action.RAISE, "number": ExceptionCause.ILLEGAL_INSTRUCTION, "group": NO_GROUP}
        row, access = fetched.insn, fetched.access
        return {
            "word": fetched.word,
            "length": fetched.length,
            "rs1": fetched.rs1,
            "rs2": fetched.read_as_rs2,
            "rd": fetched.rd,
            "properties": _properties(fetched),
            "access": 0 if access is None else access.size,
            "act": fetched.nn_activation or 0,
            "wgt": fetched.nn_weight or 0,
            "reloaded": fetched.nn_loaded or 0,
            "group": self._group(fetched),
            **{name: value & WORD_MASK for name, value in _action_of(row, fetched.word).items()},
        }

    def _group(self, fetched: Fetched) -> int:
        row = fetched.insn
        if row.op in SEQUENCER_OPS or row.op not in HANDLERS:
            return NO_GROUP
        overwritten = fetched.rs1 in ((fetched.rd, fetched.rd + 1) if row.is_pair else (fetched.rd,))
        group = ResultGroup(row, fetched.length, fetched.rd == 0, overwritten)
        number = self._numbers.setdefault((id(row), *group[1:]), len(self.groups))
        if number == len(self.groups):
            self.groups.append(group)
        return number


def _properties(fetched: Fetched) -> int:
    insn, access = fetched.insn, fetched.access
    flags = {
        Property.READS_RS1: "rs1" in fetched.reads,
        Property.READS_RS2: "rs2" in fetched.reads,
        Property.READS_RD: "rd" in fetched.reads,
        Property.WRITES_RD: insn.writes_rd,
        Property.WRITES_BASE: access is not None and access.updates_base,
        Property.LOADS: access is not None and not insn.is_store,
        Property.STORES: insn.is_store,
        Property.READS_ACT: insn.is_nn_form or insn.is_pair,
        Property.READS_WGT: insn.is_mac_load,
        Property.WRITES_NN: fetched.nn_loaded is not None,
        Property.READS_PARAMETERS: insn.requantises,
        Property.WRITES_RD2: insn.is_pair,
    }
    return sum(flag for flag, present in flags.items() if present)


def _action_of(row: Insn, word: int) -> dict[str, int]:
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
