"""Checks every retirement of any number of harts, block by block, fast enough for long programs.

The compiled checker (``native/hart.hpp``) follows registers, CSRs, hardware loops and the next address of each hart
from one retirement to the next, and memory in the order of the bus grants. The golden models compute the results of all
executions of an instruction in a block at once, from the operands in the records.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.isa.csr import CSRS, PERFORMANCE_EVENTS, TRIGGER_STATE, CsrAccess, CsrGroup
from xpulpnn.isa.fields import WORD_FIELDS
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_MASK, HALF_BYTES, HALF_MASK, REGISTERS, WORD_BYTES, WORD_MASK
from xpulpnn_sim.cosimulation.model.model import U32, Block, RetirementChain, Windows
from xpulpnn_sim.cosimulation.model.schema import CSR_STATE, KEPT_ERRORS, BusField, CsrFlag
from xpulpnn_sim.cosimulation.model.statics import Describer, ResultGroup
from xpulpnn_sim.reference.golden.dotp import unpack
from xpulpnn_sim.reference.golden.effects import Effects, Sources
from xpulpnn_sim.reference.golden.execute import execute
from xpulpnn_sim.reference.iss.csrs import SimulatedCsrs
from xpulpnn_sim.reference.iss.fetched import decoding
from xpulpnn_sim.reference.programs import trace
from xpulpnn_sim.reference.programs.elf import Window
from xpulpnn_sim.reference.programs.exits import DifferenceError, NameOf, place
from xpulpnn_sim.reference.programs.trace import RETIREMENT, Records, decode


def lanes(word: int, insn: Insn, *, signed: bool) -> list[int]:
    return unpack(np.array([word], np.uint32), insn.elements, signed=signed)[:, 0].tolist()


def result_lines(raw: int, expected: int, got: int) -> list[str]:
    insn = decode(raw)
    if insn is None or insn.fmt is None or insn.uses_dotp or "extract" in insn.op:
        return []
    return [f"  {name} lanes {lanes(word, insn, signed=False)}" for name, word in (("must be", expected), ("are", got))]


def factor_lines(raw: int, operands: dict[str, int]) -> list[str]:
    insn = decode(raw)
    if insn is None or insn.fmt is None or not insn.uses_dotp:
        return []
    names = (
        ("wgt", "act") if insn.is_nn_form or insn.is_pair else ("wgt", "rs2") if insn.is_mac_load else ("rs1", "rs2")
    )
    signs = zip(names, (insn.a_signed, insn.b_signed), strict=True)
    return [f"  {name} lanes {lanes(operands[name], insn, signed=signed)}" for name, signed in signs]


_HISTORY = 8  # Retirements shown before the one that differs

Values = dict[str, U32]

_COUNTERS = frozenset(f"{mode}{name}" for mode in ("", "m") for name in ("cycle", "cycleh", "instret", "instreth"))
_FREE_CSRS = _COUNTERS | {"mip", *TRIGGER_STATE} | {f"pccr{event}" for event in range(len(PERFORMANCE_EVENTS))}
_STORE_MASK = {1: BYTE_MASK, HALF_BYTES: HALF_MASK, WORD_BYTES: WORD_MASK}
_RS1_FIELD = np.uint32(WORD_FIELDS["rs1"].insert(REGISTERS - 1))
_RECORD_FIELD = {
    "rd": "rd_wdata",
    "rd2": "rd2_wdata",
    "base": "base_wdata",
    "address": "mem_addr",
    "store": "mem_wdata",
}
_OPERANDS = {
    "rs1": "rs1_rdata",
    "rs2": "rs2_rdata",
    "rd": "rd_rdata",
    "act": "nn_act_rdata",
    "wgt": "nn_wgt_rdata",
    "loaded": "mem_rdata",
}
_CONSEQUENCES = ("mem_rdata", "mem_wdata", "bus_wdata", "nn_wdata", "rd_wdata", "rd2_wdata", "base_wdata", "pc_wdata")
"""Record fields that follow from operands, address and instruction."""

_NAMES = RETIREMENT.names or ()
_FIELD_AT = {offset: name for name, (_, offset, *_) in (RETIREMENT.fields or {}).items()} | {
    field.value: field.name.lower() for field in BusField
}


@dataclass(frozen=True, slots=True)
class Discrepancy:
    hart: int
    position: int
    field: str
    expected: int
    got: int

    @property
    def rank(self) -> int:
        """Sort key of the discrepancies of a retirement, by which causes precede their consequences."""
        return _CONSEQUENCES.index(self.field) + 1 if self.field in _CONSEQUENCES else 0


class Checker(ABC):
    """Receives the blocks of a run in program order and compares them with a reference."""

    @abstractmethod
    def __call__(self, block: Block) -> None: ...

    def finish(self, memory: Windows, retired: Sequence[int]) -> None:
        """Check the memory and the number of retirements of each hart at the end of a run that passed."""
        return


class RetirementCheck(Checker):
    """Checks the retirements of a run from the first one on. Values read from mip, from tohost and fromhost, and from
    counters, which have a separate check, are not compared. ``own_csrs`` are CSRs of a core of somebody else that may
    have any value; of such a core interrupts are only checked to be enabled."""

    def __init__(
        self,
        library: Path,
        config: CoreConfig,
        memory: Windows,
        *,
        entry: int,
        host_words: Sequence[int] = (),
        hart_ids: Sequence[int | None] = (0,),
        has_front_end: bool = True,
        sparse: bool = False,
        name_of: NameOf = lambda pc: "",
        errors: Sequence[Window] = (),
        tcdm_bytes: int = 0,
        own_csrs: frozenset[str] = frozenset(),
    ) -> None:
        self._lines_are_known = not tcdm_bytes and not own_csrs
        self._name_of, self._harts = name_of, range(len(hart_ids))
        self._describer = Describer(decoding(config.extensions, config.widths))
        self._before = [np.zeros(0, RETIREMENT) for _ in hart_ids]
        self._checked = [0 for _ in hart_ids]
        self.memory = memory
        # an odd address, which no word has, if there is no such word
        tohost, fromhost = (*host_words, 1, 1)[:2]
        settings = {"harts": len(hart_ids), "entry": entry, "tohost": tohost, "fromhost": fromhost}
        settings |= {"has_front_end": has_front_end, "sparse": sparse, "tcdm_bytes": tcdm_bytes}
        csrs = [_csr_table(config, entry, hart_id, _FREE_CSRS | own_csrs) for hart_id in hart_ids]
        self._chain = RetirementChain(library, settings, memory, csrs, errors)
        self._host_words = {address // WORD_BYTES * WORD_BYTES for address in host_words}

    def __call__(self, block: Block) -> None:
        lines = [*map(block.lines, self._harts)] if self._lines_are_known else None
        self.check([block.records(hart) for hart in self._harts], block.grants, lines)

    def check(self, records: Sequence[Records], grants: NDArray[Any], lines: Sequence[U32] | None = None) -> None:
        total, discrepancies = 0, list[Discrepancy]()
        for hart in self._harts:
            unknown = self._chain.find(hart, records[hart])
            if len(unknown):
                self._chain.add(self._describer.describe(unknown))
                self._chain.find(hart, records[hart])
            count = len(records[hart])
            self._checked[hart] += count
            taken, targets = np.zeros(count, np.bool_), np.zeros(count, np.uint32)
            wrong, results = self._replay(hart, count, taken, targets)
            total += wrong
            discrepancies += results
            self._chain.transfers(hart, None if lines is None else lines[hart], taken, targets)
        chained, errors = self._chain.check(grants)
        if total + chained:
            discrepancies += [
                Discrepancy(hart, at, _FIELD_AT[field], want, got) for hart, at, field, want, got in errors.tolist()
            ]
            first = min(
                discrepancies,
                key=lambda discrepancy: (records[discrepancy.hart]["cycle"][discrepancy.position], discrepancy.rank),
            )
            order = int(records[first.hart]["order"][first.position])
            raise DifferenceError(self._described(records[first.hart], first), order, count=total + chained)
        for hart in self._harts:
            self._before[hart] = records[hart][-_HISTORY:].copy()

    def finish(self, memory: Windows, retired: Sequence[int]) -> None:
        self._chain.finish()
        if list(retired) != self._checked:
            raise DifferenceError(f"retirements checked must be {list(retired)}, not {self._checked}")
        wrong: list[str] = []
        for base, content in self.memory.items():
            want, got = (array.view(np.uint32) for array in (content, memory[base]))
            wrong += [
                f"memory word at 0x{address:08x} must be 0x{want[at]:x} after the run, not 0x{got[at]:x}"
                for at in np.flatnonzero(want != got).tolist()
                if (address := base + WORD_BYTES * at) not in self._host_words
            ]
        if wrong:
            raise DifferenceError(wrong[0], count=len(wrong))

    def _replay(self, hart: int, count: int, taken: NDArray[np.bool_], targets: U32) -> tuple[int, list[Discrepancy]]:
        groups = self._describer.groups
        starts, values = self._chain.distribute(hart, count, len(groups))
        bounds = starts.tolist()
        total, recorded = 0, list[Discrepancy]()
        for group, start, stop in zip(groups, bounds[:-1], bounds[1:], strict=True):
            if start == stop:
                continue
            part = {name: array[start:stop] for name, array in values.items()}
            expected = execute(group.insn, _sources(group, part))
            if expected.taken is not None and expected.target is not None:
                taken[part["position"]], targets[part["position"]] = expected.taken, expected.target
            for name, at, want, got in _differences(group, expected, part):
                total += len(at)
                places = part["position"]
                recorded += [
                    Discrepancy(hart, int(places[i]), _RECORD_FIELD[name], int(want[i]), int(got[i]))
                    for i in at[:KEPT_ERRORS].tolist()
                ]
        return total, recorded

    def _described(self, records: Records, discrepancy: Discrepancy) -> str:
        position = discrepancy.position
        record = dict(zip(_NAMES, records[position].tolist(), strict=True))
        pc, raw = record["pc_rdata"], record["insn"]
        operands = "  ".join(f"{name}=0x{record[name]:08x}" for name in _OPERANDS.values())
        hart = f"hart {discrepancy.hart}, " if len(self._harts) > 1 else ""
        where = f", address 0x{record['mem_addr']:08x}" if discrepancy.field.startswith(("mem_", "bus_")) else ""
        lines = [
            f"difference at {hart}retirement {record['order']}, cycle {record['cycle']}, pc {place(pc, self._name_of)}",
            f"  instruction: {trace.digits_of(raw)}  {trace.text_of(raw, pc)}",
            f"  {discrepancy.field} must be 0x{discrepancy.expected:x}, not 0x{discrepancy.got:x}{where}",
            *(result_lines(raw, discrepancy.expected, discrepancy.got) if discrepancy.field == "rd_wdata" else ()),
            f"  operands: {operands}",
            *factor_lines(raw, {name: record[field] for name, field in _OPERANDS.items()}),
            "before it, and as the design reports it:",
        ]
        before = self._before[discrepancy.hart]
        shown = np.concatenate([before, records[max(0, position - _HISTORY) : position + 1]])[-_HISTORY - 1 :]
        lines += [f"  {line}" for line in trace.lines(shown)]
        return "\n".join(lines)


def _sources(group: ResultGroup, values: Values) -> Sources:
    absent = np.zeros(0, np.uint32)
    registers = {
        name: values["rd_old" if name == "rd" else name]
        if name in group.insn.reads or (group.insn.is_pair and group.insn.accumulates)
        else absent
        for name in ("rs1", "rs2", "rd")
    }
    return Sources(length=group.length, **registers, **{name: values[name] for name in _GIVEN})


_GIVEN = ("word", "pc", "loaded", "act", "act2", "wgt")  # operands that are no registers


def _differences(group: ResultGroup, expected: Effects, values: Values) -> Iterator[tuple[str, NDArray[Any], U32, U32]]:
    compared: list[tuple[str, U32, U32, NDArray[np.bool_] | bool]] = []
    if expected.rd is not None and not group.rd_is_x0:
        compared.append(("rd", expected.rd, values["rd"], True))
        if expected.rd2 is not None:
            compared.append(("rd2", expected.rd2, values["rd2"], True))
    base_counts = group.rd_is_x0 or not group.rd_is_base or expected.rd is None
    if expected.base is not None and expected.accessed is not None and base_counts:
        named = (values["word"] & _RS1_FIELD) != 0
        compared.append(("base", expected.base, values["base"], named & expected.accessed))
    if expected.address is not None:
        accessed = True if expected.accessed is None else expected.accessed
        compared.append(("address", expected.address, values["address"], accessed))
    if expected.store is not None and expected.size is not None:
        stored = values["store"] & np.uint32(_STORE_MASK[expected.size])
        compared.append(("store", expected.store, stored, True))
    for name, want, got, counts in compared:
        wrong = (want != got) & counts
        if wrong.any():
            yield name, np.flatnonzero(wrong), want, got


def _csr_table(config: CoreConfig, boot_address: int, hart_id: int | None, free: frozenset[str]) -> NDArray[Any]:
    csrs = SimulatedCsrs(boot_address, hart_id or 0, config.csr_groups, is_xpulp=config.xpulpv2)
    rows: list[tuple[int, ...]] = []
    for csr in (csr for csr in CSRS if csr.group in config.csr_groups - {CsrGroup.DEBUG}):
        flags = CsrFlag.PRESENT
        flags |= CsrFlag.READ_ONLY if csr.access is CsrAccess.RO else 0
        flags |= CsrFlag.FREE if csr.name in free or (csr.name == "mhartid" and hart_id is None) else 0
        # only registers that can be written and read back change
        rows.append((csr.address, flags, csrs[csr.name], csr.writable if csr.access is CsrAccess.RW else 0))
    return np.array(rows, CSR_STATE)


class Checks:
    """The checkers of a run and their findings. They check one block while the next one is simulated."""

    def __init__(self, checkers: Sequence[Checker]) -> None:
        self.checkers = [*checkers]
        self._pool = ThreadPoolExecutor(1)
        self._pending: Future[None] | None = None
        self.mismatches = 0
        self.first: str | None = None
        self.position: int | None = None

    def feed(self, block: Block) -> None:
        """Start to check a block, which must not change until the next call or :meth:`wait`."""
        self.wait()
        if self.checkers and any(block.filled):
            self._pending = self._pool.submit(self._check, block)

    def note(self, text: str, position: int | None = None, count: int = 1) -> None:
        if not self.mismatches:
            self.first, self.position = text, position
        self.mismatches += count

    def _check(self, block: Block) -> None:
        for checker in [*self.checkers]:
            self._run(checker, checker, block)

    def _run(self, checker: Checker, method: Callable[..., None], *arguments: Any) -> None:
        try:
            method(*arguments)
        except DifferenceError as wrong:
            # later differences could be consequences of this one
            self.checkers.remove(checker)
            self.note(wrong.text, wrong.order, wrong.count)

    def wait(self) -> None:
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def finish(self, memory: Windows, retired: Sequence[int]) -> None:
        for checker in [*self.checkers]:
            if not self.mismatches:
                self._run(checker, checker.finish, memory, retired)

    def close(self) -> None:
        self._pool.shutdown()
