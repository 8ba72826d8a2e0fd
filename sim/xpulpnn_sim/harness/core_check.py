"""Checks every retirement of a core, block by block, fast enough for long programs.

Three things together leave nothing unchecked: the compiled chain (``native/core_checker.hpp``) follows registers,
memory, CSRs, hardware loops and the next address from one retirement to the next; the reference models compute the
results of all instructions of a row at once from the operands that the records claim; the instruction table says what
each word is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.isa.csr import CSRS, MISA_X, PERFORMANCE_EVENTS, Csr, CsrAccess, ResetSource
from xpulpnn.isa.formats import BASE_EXTENSIONS
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import Decoder, enabled, expand_compressed
from xpulpnn_sim import trace
from xpulpnn_sim.elf import Executable
from xpulpnn_sim.exits import place
from xpulpnn_sim.golden.execute import HANDLERS, SEQUENCER_OPS, execute
from xpulpnn_sim.harness.check import KEPT, Values, differences, kinds_of, sources_of
from xpulpnn_sim.harness.core_abi import CORE_CSR, CORE_INSN, NO_GROUP, Action, CoreChain, CsrFlag, Lines
from xpulpnn_sim.harness.statics import VectorProgram, static_table
from xpulpnn_sim.retirement import RETIREMENT, Records

U32 = NDArray[np.uint32]

HISTORY = 8
"""Retirements shown before the one that differs."""

_ILLEGAL_INSTRUCTION = 2
_EXCEPTIONS = {"ecall": 11, "ebreak": 3}
_BOOT_MASK = 0xFFFF_FF00
_WORD_MASK = 0xFFFF_FFFF
_HALF_MASK = 0xFFFF
_COMPRESSED_BYTES = 2

_CSR_OPS = {"csrrw": Action.CSR_WRITE, "csrrs": Action.CSR_SET, "csrrc": Action.CSR_CLEAR}
_LOOP_OPS = {
    "lp.starti": Action.SET_LOOP_START,
    "lp.endi": Action.SET_LOOP_END,
    "lp.count": Action.SET_LOOP_COUNT,
    "lp.setup": Action.SET_LOOP,
}
_COUNTERS = frozenset(f"{mode}{name}" for mode in ("", "m") for name in ("cycle", "cycleh", "instret", "instreth"))
_FREE_CSRS = _COUNTERS | {"mip"} | {f"pccr{event}" for event in range(len(PERFORMANCE_EVENTS))}
_RECORD_FIELD = {"rd": "rd_wdata", "base": "base_wdata", "address": "mem_addr", "store": "mem_wdata"}
_CONSEQUENCES = ("mem_rdata", "mem_wdata", "nn_wdata", "rd_wdata", "base_wdata", "pc_wdata")
"""Fields that are wrong if an operand, the address or the instruction is."""

_OPERANDS = ("rs1_rdata", "rs2_rdata", "rd_rdata", "nn_act_rdata", "nn_wgt_rdata", "mem_rdata")

_NAMES = RETIREMENT.names or ()
_FIELD_AT = {offset: name for name, (_, offset, *_) in (RETIREMENT.fields or {}).items()}


@dataclass(frozen=True, slots=True)
class _Group:
    """Instructions whose results are computed together.

    Members
    -------
    insn : Insn
        Their 32-bit row.
    kind : int
        From :func:`~xpulpnn_sim.harness.check.kinds_of`.
    length : int
        Bytes in memory.
    """

    insn: Insn
    kind: int
    length: int


@dataclass(frozen=True, slots=True)
class _Difference:
    """A field of a retirement that is not what it must be; ``position`` counts in the block."""

    position: int
    field: str
    expected: int
    got: int

    @property
    def rank(self) -> int:
        """Place among the differences of one retirement: causes before consequences."""
        return _CONSEQUENCES.index(self.field) + 1 if self.field in _CONSEQUENCES else 0


class CoreCheck:
    """Checks the retirements of one run, from the first one on.

    The cycle and instruction counters, the performance counters and mip may read as anything; so may the words through
    which program and host talk.

    Parameters
    ----------
    executable : Executable
        The program.
    config : CoreConfig
        Configuration of the core.
    memory : dict of int to numpy array of uint8
        Initial memory by base address; becomes the checker's own.
    library : Path
        Compiled core model.
    hart_id : int or None
        Value of mhartid; None: any.
    """

    def __init__(
        self,
        executable: Executable,
        config: CoreConfig,
        memory: dict[int, NDArray[np.uint8]],
        library: Path,
        *,
        hart_id: int | None = None,
    ) -> None:
        self._name_of = executable.symbol_at
        self._decoder = Decoder(enabled(config.extensions, config.widths))
        self._groups: list[_Group] = []
        self._group_numbers: dict[tuple[int, int, int], int] = {}
        self._before = np.zeros(0, RETIREMENT)
        self._chain = CoreChain(
            library,
            entry=executable.entry,
            tohost=executable.tohost,
            fromhost=executable.fromhost,
            memory=memory,
            csrs=_csr_table(config, executable.entry, hart_id),
        )

    def __call__(self, records: Records, lines: Lines | None = None) -> tuple[int, str | None]:
        """Check the next block; returns the number of differences and a report of the first.

        With the interrupt ``lines``, as :meth:`~xpulpnn_sim.harness.core_abi.CoreModel.advance` gives them, it is also
        checked that the most urgent interrupt is taken, and soon.
        """
        unknown = self._chain.find(records)
        if len(unknown):
            self._chain.add(self._decoded(unknown))
            self._chain.find(records)
        taken, targets = np.zeros(len(records), np.bool_), np.zeros(len(records), np.uint32)
        total, results = self._replay(records, taken, targets)
        chained, errors = self._chain.check(records, lines, taken, targets)
        total += chained
        text = None
        if total:
            found = [_Difference(at, _FIELD_AT[field], want, got) for at, field, want, got in errors.tolist()]
            first = min([*found, *results], key=lambda difference: (difference.position, difference.rank))
            text = self._described(records, first)
        self._before = records[-HISTORY:].copy()
        return total, text

    def _replay(self, records: Records, taken: NDArray[np.bool_], targets: U32) -> tuple[int, list[_Difference]]:
        """Compute all results again; also fills in where control is transferred."""
        starts, values = self._chain.distribute(records, len(self._groups))
        bounds = starts.tolist()
        total, kept = 0, []
        for group, start, stop in zip(self._groups, bounds[:-1], bounds[1:], strict=True):
            if start == stop:
                continue
            part = {name: array[start:stop] for name, array in values.items()}
            expected = execute(group.insn, sources_of(group.insn, part["word"], part["pc"], part, group.length))
            if expected.taken is not None and expected.target is not None:
                taken[part["position"]], targets[part["position"]] = expected.taken, expected.target
            for name, at, want, got in differences(group.kind, expected, part["word"], part):
                total += len(at)
                kept += _listed(_RECORD_FIELD[name], at[:KEPT], want, got, part)
        return total, kept

    def _decoded(self, raws: U32) -> NDArray[Any]:
        """Static properties of words, as the chain takes them."""
        table = np.zeros(len(raws), CORE_INSN)
        table["raw"], table["group"] = raws, NO_GROUP
        legal: list[tuple[int, Insn, int, int]] = []
        for at, raw in enumerate(raws.tolist()):
            row, word = self._decoder.decode(raw), raw
            if row is None:
                table[at]["action"], table[at]["number"] = Action.RAISE, _ILLEGAL_INSTRUCTION
                continue
            size = row.size
            if size == _COMPRESSED_BYTES:
                word = expand_compressed(raw & _HALF_MASK)
                row = self._decoder.decode(word)
                assert row is not None
            legal.append((at, row, word, size))
        if not legal:
            return table
        places, rows, words, sizes = zip(*legal, strict=True)
        program = VectorProgram(
            words=np.array(words, np.uint32),
            pcs=np.zeros(len(words), np.uint32),
            insns=rows,
            regions=(),
            hwloop_end=np.zeros(len(words), np.bool_),
        )
        statics = static_table(program)
        statics["length"] = sizes
        table["insn"][list(places)] = statics
        kinds = kinds_of(statics).tolist()
        for at, row, word, size, kind in zip(places, rows, words, sizes, kinds, strict=True):
            table["group"][at] = self._group_of(row, kind, size)
            for name, value in _action_of(row, word).items():
                table[name][at] = value & _WORD_MASK
        return table

    def _group_of(self, row: Insn, kind: int, length: int) -> int:
        if row.op in SEQUENCER_OPS or row.op not in HANDLERS:
            return NO_GROUP
        number = self._group_numbers.setdefault((id(row), kind, length), len(self._groups))
        if number == len(self._groups):
            self._groups.append(_Group(row, kind, length))
        return number

    def _described(self, records: Records, difference: _Difference) -> str:
        """The difference with what led to it."""
        position = difference.position
        record = dict(zip(_NAMES, records[position].tolist(), strict=True))
        pc, raw = record["pc_rdata"], record["insn"]
        operands = "  ".join(f"{name}=0x{record[name]:08x}" for name in _OPERANDS)
        lines = [
            f"difference at retirement {record['order']}, cycle {record['cycle']}, pc {place(pc, self._name_of)}",
            f"  instruction: {trace.digits_of(raw)}  {trace.text_of(raw, pc)}",
            f"  {difference.field} must be 0x{difference.expected:x}, not 0x{difference.got:x}",
            f"  operands: {operands}",
            "before it, and as the design reports it:",
        ]
        shown = np.concatenate([self._before, records[max(0, position - HISTORY) : position + 1]])[-HISTORY - 1 :]
        lines += [f"  {line}" for line in trace.lines(shown)]
        return "\n".join(lines)


def _listed(field: str, at: NDArray[Any], want: U32, got: U32, part: Values) -> Iterator[_Difference]:
    return (_Difference(int(part["position"][i]), field, int(want[i]), int(got[i])) for i in at.tolist())


def _action_of(row: Insn, word: int) -> dict[str, int]:
    """Fields of :data:`CORE_INSN` for what an instruction does to pc, CSRs and loops."""
    if row.is_branch or row.is_jump:
        return {"action": Action.TRANSFER}
    if row.op == "mret":
        return {"action": Action.RETURN}
    if row.op in _EXCEPTIONS:
        return {"action": Action.RAISE, "number": _EXCEPTIONS[row.op]}
    values = row.decode(word)
    if row.op in _CSR_OPS:
        # csrrs and csrrc of x0 or of the immediate 0 do not write
        writes = row.op == "csrrw" or values.get("rs1", values.get("zimm5"))
        fields = {"action": _CSR_OPS[row.op] if writes else Action.CSR_READ, "number": values["csr"]}
        return fields | _constant(values.get("zimm5"))
    if row.op in _LOOP_OPS:
        offset = values.get("lpoff12", values.get("lpoff5", 0))
        fields = {"action": _LOOP_OPS[row.op], "number": values["L"], "offset": offset}
        return fields | _constant(values.get("lpcnt12"))
    return {}


def _constant(value: int | None) -> dict[str, int]:
    return {} if value is None else {"is_constant": 1, "constant": value}


def _csr_table(config: CoreConfig, boot_address: int, hart_id: int | None) -> NDArray[Any]:
    """The registers of a configuration as an array of :data:`CORE_CSR`."""
    rows = [_csr_row(csr, config, boot_address, hart_id) for csr in CSRS if csr.group in config.csr_groups]
    return np.array(rows, CORE_CSR)


def _csr_row(csr: Csr, config: CoreConfig, boot_address: int, hart_id: int | None) -> tuple[int, ...]:
    value = csr.reset
    if csr.source is ResetSource.BOOT_ADDRESS:
        value |= boot_address & _BOOT_MASK
    if csr.name == "misa" and config.extensions == BASE_EXTENSIONS:
        value &= ~MISA_X
    is_hart_id = csr.source is ResetSource.HART_ID
    free = csr.name in _FREE_CSRS or (is_hart_id and hart_id is None)
    flags = CsrFlag.PRESENT
    flags |= CsrFlag.READ_ONLY if csr.access is CsrAccess.RO else 0
    flags |= CsrFlag.FREE if free else 0
    # what cannot be written, or cannot be read back, keeps its value
    writable = csr.writable if csr.access is CsrAccess.RW else 0
    return csr.address, flags, (hart_id or 0) if is_hart_id else value, writable
