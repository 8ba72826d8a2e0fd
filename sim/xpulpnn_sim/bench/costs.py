"""Cycle costs of the back end with a memory that grants at once and answers in the next cycle.

The figures of the original core: one cycle per instruction; mulh* 5; division by operand; misaligned access 2; a value
that arrives in WB (loaded word, base and entry of a Mac&Load) one cycle later than a result of EX; jalr one cycle later
than other readers; one fetch bubble after a jump, two after a taken branch. fence.i and wfi wait until EX and WB are
empty.
"""

from collections.abc import Sequence

from xpulpnn.isa.insn import Insn
from xpulpnn_sim.bench.stream import Executed
from xpulpnn_sim.golden.dotp import FIRST_WEIGHT, RELOADS_ACTIVATION, RELOADS_WEIGHT

WORD_WIDTH = 32
WORD_BYTES = 4
HIGH_WORD_OPS = ("mulh", "mulhsu", "mulhu")
HIGH_WORD_CYCLES = 5
DIVISION_OPS = ("div", "divu", "rem", "remu")
SIGNED_DIVISION_OPS = ("div", "rem")
SHORTEST_DIVISION = 3
MISALIGNED_CYCLES = 2
DRAINING_OPS = ("fence.i", "wfi")
"""They enter EX when everything older is complete."""
_HALF_OPS = ("lh", "lhu", "sh")
_BYTE_OPS = ("lb", "lbu", "sb")


def division_cycles(divisor: int, *, signed: bool) -> int:
    """3 plus the places the divisor can move up without changing its sign: 3 to 35, 35 for 0."""
    if signed and divisor >> (WORD_WIDTH - 1):
        significant = (divisor ^ ((1 << WORD_WIDTH) - 1)).bit_length() + 1
    else:
        significant = divisor.bit_length()
    return SHORTEST_DIVISION + WORD_WIDTH - significant


def arithmetic_cycles(insn: Insn, operand_b: int) -> int:
    """Cycles in EX of an instruction that does not access memory."""
    if insn.op in DIVISION_OPS:
        return division_cycles(operand_b, signed=insn.op in SIGNED_DIVISION_OPS)
    return HIGH_WORD_CYCLES if insn.op in HIGH_WORD_OPS else 1


def _reloads(item: Executed) -> bool:
    """Whether a Mac&Load accesses memory."""
    assert item.insn is not None
    selector = item.word >> 20 & 31
    return item.insn.op == "pv.cusdot" or bool(selector & (RELOADS_ACTIVATION | RELOADS_WEIGHT))


def execution_cycles(item: Executed) -> int:
    """Cycles the instruction occupies EX; of one that raises an exception, ID."""
    insn = item.insn
    if insn is None or item.cause is not None:
        return 1
    if item.address is None:
        return arithmetic_cycles(insn, item.operands[1])
    size = 2 if insn.op in _HALF_OPS else 1 if insn.op in _BYTE_OPS else WORD_BYTES
    return MISALIGNED_CYCLES if item.address % WORD_BYTES + size > WORD_BYTES else 1


def _register(item: Executed, field: str) -> int:
    return item.word >> {"rd": 7, "rs1": 15, "rs2": 20}[field] & 31


def _entries(item: Executed) -> tuple[int, ...]:
    """NN-RF entries read."""
    insn = item.insn
    if insn is None or not insn.is_mac_load:
        return ()
    if insn.entry is not None:
        return (FIRST_WEIGHT + insn.entry,)
    selector = item.word >> 20 & 31
    return (selector & 1, FIRST_WEIGHT + (selector >> 1 & 3))


class PipelineTiming:
    """Cycle in which each instruction of a stream is taken by ID."""

    def __init__(self) -> None:
        self.forwarded: dict[int, int] = {}
        self.stored: dict[int, int] = {}
        self.entries: dict[int, int] = {}
        self.drained = 0

    def accept_cycles(self, stream: Sequence[Executed]) -> list[int]:
        """Cycles of all instructions, the first in cycle 0."""
        cycles: list[int] = []
        free = 0
        for item in stream:
            cycle = max(free, self._sources_ready(item))
            cycles.append(cycle)
            leaves = cycle + execution_cycles(item)
            self._results(item, leaves)
            self.drained = max(self.drained, self._empties(item, leaves))
            free = leaves
            if item.redirect is not None:
                free = leaves + (2 if item.is_branch else 1)
        return cycles

    def _sources_ready(self, item: Executed) -> int:
        if item.insn is None:
            return 0
        is_jalr = item.insn.op == "jalr"
        ready = [self.drained if item.insn.op in DRAINING_OPS else 0]
        for field in item.insn.reads:
            times = self.stored if is_jalr else self.forwarded
            ready.append(times.get(_register(item, field), 0))
        ready += [self.entries.get(entry, 0) for entry in _entries(item)]
        return max(ready)

    @staticmethod
    def _empties(item: Executed, leaves: int) -> int:
        """First cycle in which the instruction is no longer in EX, nor in WB with a register to write."""
        insn = item.insn
        if insn is None or item.cause is not None:
            return leaves
        rd, rs1 = _register(item, "rd"), _register(item, "rs1")
        writes_late = insn.is_load and rd
        if insn.is_mac_load:
            writes_late = _reloads(item) and rs1 and rs1 != rd
        return leaves + (2 if writes_late else 1)

    def _write(self, register: int, forwarded: int) -> None:
        if register:
            self.forwarded[register] = forwarded
            self.stored[register] = forwarded + 1

    def _results(self, item: Executed, leaves: int) -> None:
        """Note when the results can be read: those of EX in its last cycle, those of WB one cycle later."""
        insn = item.insn
        if insn is None or item.cause is not None:
            return
        late = leaves + 1
        if insn.writes_base and (not insn.is_mac_load or _reloads(item)):
            self._write(_register(item, "rs1"), late if insn.is_mac_load else leaves)
        if insn.writes_rd:
            self._write(_register(item, "rd"), late if insn.is_load else leaves)
        if insn.is_mac_load and _reloads(item):
            selector = item.word >> 20 & 31
            reloads_activation = insn.entry is None and selector & RELOADS_ACTIVATION
            read = _entries(item)
            self.entries[read[0] if reloads_activation else read[-1]] = late
