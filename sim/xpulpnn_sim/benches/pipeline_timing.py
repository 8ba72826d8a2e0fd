"""Cycle in which the back end accepts each instruction of a stream, by the documented costs.

Costs (:class:`xpulpnn.isa.machine.Cost`) occur as follows, with a memory that grants at once and answers in the next
cycle. A value that arrives in WB (loaded word, base and entry of a Mac&Load, parameter and result of a requantisation)
can be used one cycle later than a result of EX, and jalr uses both one cycle later than other readers. fence.i and wfi
wait until EX and WB are empty. Instructions that act in ID wait until no access is in EX.
"""

from collections.abc import Sequence

from xpulpnn.config import CoreConfig
from xpulpnn.core.mult import mult_control
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import FIRST_PARAMETER, WORD_BYTES, Cost, division_cycles
from xpulpnn_sim.benches.agents.instruction_stream import is_branch, redirect_of
from xpulpnn_sim.reference.iss.core import Retired
from xpulpnn_sim.reference.iss.fetched import Fetched

_DIVISIONS = {"div": True, "divu": False, "rem": True, "remu": False}  # signedness by operation
_DRAINING = ("fence.i", "wfi")  # instructions that enter EX when all older instructions are complete
_ACTING = (*_DRAINING, "fence", "mret", "lp.starti", "lp.endi", "lp.count", "lp.setup")
"""Instructions that have their effect when they leave ID."""


def arithmetic_cycles(insn: Insn, operand_b: int, config: CoreConfig) -> int:
    if insn.op in _DIVISIONS:
        return division_cycles(operand_b, signed=_DIVISIONS[insn.op])
    # a multiplier with 64-bit products has the upper word at once
    slow = insn.multiplies_high and not config.has_whole_products
    registered = config.late_results and mult_control(insn) is not None
    return 1 + (Cost.MULTIPLY_HIGH.cycles if slow else 0) + registered


def execution_cycles(item: Retired, config: CoreConfig) -> int:
    """Return the cycles that the instruction spends in EX, or in ID if it raises an exception."""
    if item.fetched is None or item.cause is not None:
        return 1
    size = item.fetched.size
    if not size:
        return arithmetic_cycles(item.fetched.insn, item.record.get("rs2_rdata", 0), config)
    crosses = item.record["mem_addr"] % WORD_BYTES + size > WORD_BYTES
    return 1 + (Cost.MISALIGNED_ACCESS.cycles if crosses else 0)


def _writes_late(insn: Insn, config: CoreConfig) -> bool:
    late = insn.multiplies_late and config.multiplies_by_dotp
    return insn.is_load or insn.requantises or insn.is_pair or late


def _moves_base_late(insn: Insn) -> bool:
    """Return whether WB, not EX, writes the incremented base, as for a Mac&Load of one product."""
    return insn.is_mac_load and not insn.is_pair


class PipelineTiming:
    def __init__(self, config: CoreConfig) -> None:
        self._config = config
        self._forwarded: dict[int, int] = {}
        self._stored: dict[int, int] = {}
        self._entries: dict[int, int] = {}
        self._parameters = self._summand = 0
        self._drained = 0
        self._accessed = 0

    def accept_cycles(self, stream: Sequence[Retired]) -> list[int]:
        cycles: list[int] = []
        free = 0
        for item in stream:
            fetched = item.fetched
            cycle = free if fetched is None else max(free, self._sources_ready(fetched))
            if fetched is None or item.cause is not None or fetched.insn.op in _ACTING:
                cycle = max(cycle, self._accessed)
            cycles.append(cycle)
            free = left_ex = cycle + execution_cycles(item, self._config)
            if "mem_addr" in item.record:
                self._accessed = left_ex + 1
            if fetched is None or item.cause is not None:
                self._drained = max(self._drained, left_ex)
                continue
            self._results(fetched, left_ex)
            # WB writes loaded registers, the bases of Mac&Loads, two sums and the results of pv.rq*, EX everything else
            writes_late = fetched.destination if _writes_late(fetched.insn, self._config) else 0
            if _moves_base_late(fetched.insn):
                writes_late = fetched.base if fetched.base != fetched.rd else 0
            self._drained = max(self._drained, left_ex + (2 if writes_late else 1))
            if redirect_of(item) is not None:
                free += (Cost.TAKEN_BRANCH if is_branch(item) else Cost.JUMP).cycles
        return cycles

    def _sources_ready(self, fetched: Fetched) -> int:
        insn = fetched.insn
        times = self._stored if insn.op == "jalr" else self._forwarded
        registers = {"rs1": fetched.rs1, "rs2": fetched.read_as_rs2, "rd": fetched.rd}
        ready = [times.get(registers[name], 0) for name in fetched.reads | insn.reads]
        entries = [entry for entry in (fetched.nn_activation, fetched.nn_weight) if entry is not None]
        entries += [entries[0] + 1] if insn.is_pair else []
        ready += [self._entries.get(entry, 0) for entry in entries]
        if insn.requantises:
            ready.append(self._parameters)
        if insn.is_exact:
            # the exact form reads rs1 and the summand without forwarding
            ready += [self._stored.get(fetched.rs1, 0), self._summand]
        if _moves_base_late(insn):
            # it also waits for the register that it only writes, whose value an access fault restores
            ready.append(times.get(fetched.rd, 0))
        return max([self._drained if insn.op in _DRAINING else 0, *ready])

    def _write(self, register: int, forwarded: int) -> None:
        if register:
            self._forwarded[register] = forwarded
            self._stored[register] = forwarded + 1

    def _results(self, fetched: Fetched, left_ex: int) -> None:
        """Record when the results of an instruction can be read: from EX in its last cycle, from WB a cycle later."""
        insn, late = fetched.insn, left_ex + 1
        self._write(fetched.base, late if _moves_base_late(insn) else left_ex)
        self._write(fetched.destination, late if _writes_late(insn, self._config) else left_ex)
        if insn.is_pair and fetched.destination:
            self._write(fetched.destination + 1, late)
        if insn.loads_parameter:
            self._parameters = late
            self._summand = late + 1 if fetched.nn_loaded == FIRST_PARAMETER + 1 else self._summand
        if fetched.nn_loaded is not None:
            self._entries[fetched.nn_loaded] = late
