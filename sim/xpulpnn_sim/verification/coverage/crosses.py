"""The crosses that random programs should reach, derived from the instruction table.

A cross is a combination of values, such as an instruction, one of its operands, and the producer of the operand. A
family of crosses is an array with one axis for each kind of value. Each of its elements is a cross to reach, no cross
at all, or unreachable for a reason; if programs do reach such an element, the collector reports it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.isa.csr import CSRS
from xpulpnn.isa.insn import Insn, InsnClass
from xpulpnn.isa.machine import IRQ_PRIORITY
from xpulpnn.isa.retirement import WaitCause
from xpulpnn.isa.table import Decoder, enabled
from xpulpnn_sim.verification.coverage.kinds import (
    ENTRIES,
    MEMORY,
    SLOTS,
    Producer,
    RegisterReads,
    producers_of,
    reads_of,
    reserved_words,
    text_of,
)

DISTANCES = 3  # instructions between which values are forwarded or waited for, at most
OVERWRITES = 2  # the same for a register that is written again
NO_CROSS, REACHABLE = -1, 0
"""States of an array element; a positive state is the number, from 1, of the reason why the element is unreachable."""

CAUSES = tuple(cause for cause in WaitCause if cause not in (WaitCause.NONE, WaitCause.START))
"""Causes of waits, except the wait for the very first instruction."""

SLOW = frozenset({InsnClass.MULTIPLY_HIGH, InsnClass.DIVISION, InsnClass.QUANTISE})  # compute for several cycles
_MEMORY_WAITS = frozenset({WaitCause.GRANT, WaitCause.RESPONSE})
_BESIDE_MEMORY = frozenset({Producer.BASE, Producer.MAC_LOAD})  # written by an access before its memory has answered
_LATE = frozenset({Producer.LOAD, Producer.MAC_LOAD_BASE, Producer.REQUANTISE, Producer.PAIR})  # Written behind EX
_NEEDS = {WaitCause.MAC_LOAD: InsnClass.MAC_LOAD, WaitCause.LOOP: InsnClass.LOOP}  # kinds that cause a wait
_EXCEPTIONS = frozenset({"ecall", "ebreak"})
_WRITTEN = "an operand written by the last instruction"
_MEANINGS = {
    "instruction": "retired, or trapped where it always does",
    "operand": "read from a register that one of the three instructions before has written",
    "overwrite": "writes a register that one of the two instructions before has written, without reading it",
    "NN-RF": "reads an entry that one of the three instructions before has loaded",
    "wait": "what it waited for",
    "interrupt": "interrupted right behind it or right before it",
    "loop end": "at a jump back of a hardware loop",
    "access fault": "around a data access that the bus answers with an error",
    "timing": "kind of instruction, where an operand comes from, and whether there was a cycle in between",
    "across an interrupt": f"{_WRITTEN} before an interrupt, read by the first behind it",
    "across a loop end": f"{_WRITTEN} of a body, read by its first behind the jump back",
    "interrupt in a loop": "right behind or before the last instruction of a hardware loop that jumps back",
    "interrupt and wait": "what was waited for when it came",
    "CSR": "read only, or written; one that cannot be written traps",
    "reserved word": "fits an instruction but for an operand that it does not take, and traps",
    "interrupt line": "taken",
}
"""Description of each family of crosses for reports."""

Axis = tuple[Sequence[Any], Callable[[Any], str]]  # values, and how to show one
Judge = Callable[..., str | None]
"""Function of one value per axis. It returns an empty text for a cross, None for no cross, or the reason why the
combination is unreachable."""


@dataclass(frozen=True, eq=False, slots=True)
class Family:
    """A family of crosses: an array with the states of all combinations of the values on its axes."""

    name: str  # for people
    meaning: str  # what it is about, for people
    values: tuple[tuple[Any, ...], ...]
    axes: tuple[tuple[str, ...], ...]  # their names for people
    states: NDArray[np.int8]
    reasons: list[str] = field(default_factory=list[str])  # why places are out of reach

    def label(self, place: int) -> str:
        return ", ".join(axis[at] for axis, at in zip(self.axes, self.at(place), strict=True))

    def at(self, place: int) -> tuple[int, ...]:
        return tuple(map(int, np.unravel_index(place, self.states.shape)))


def _family(name: str, meaning: str, axes: Sequence[Axis], judge: Judge) -> Family:
    shape = tuple(len(values) for values, _ in axes)
    states, reasons = np.zeros(shape, np.int8), list[str]()
    for place in product(*map(range, shape)):
        said = judge(*(values[at] for (values, _), at in zip(axes, place, strict=True)))
        if said is None:
            states[place] = NO_CROSS
        elif said:
            if said not in reasons:
                reasons.append(said)
            states[place] = reasons.index(said) + 1
    names = tuple(tuple(map(show, values)) for values, show in axes)
    return Family(name, meaning, tuple(tuple(values) for values, _ in axes), names, states, reasons)


def row_name(row: Insn) -> str:
    return f"{row.mnemonic} {row.operands}".strip()


class Crosses:
    def __init__(self, config: CoreConfig) -> None:
        self.rows = enabled(config.extensions, config.widths)
        # kinds that compute for several cycles
        self.slow = SLOW - {InsnClass.MULTIPLY_HIGH} if config.has_whole_products else SLOW
        self._late = _LATE | {Producer.MULTIPLY_HIGH} if config.multiplies_by_dotp else _LATE
        self._decoder = Decoder(self.rows)
        self._reads = {row.key: reads_of(row) for row in self.rows}
        self._made = {producer for row in self.rows for producer in producers_of(row)}
        self._present = {row.insn_class for row in self.rows}
        self._reading = {row.insn_class for row in self.rows if self.reads(row).slots}
        self.families = {family.name: family for family in self._all(config)}
        self.starts: dict[str, int] = {}
        self.count = 0
        for name, family in self.families.items():
            self.starts[name] = self.count
            self.count += family.states.size
        self._grids, self._firsts = tuple(self.families.values()), tuple(self.starts.values())
        self.states = np.concatenate([family.states.ravel() for family in self.families.values()])

    def place(self, number: int) -> tuple[Family, int]:
        """Return the family of the cross ``number``, and the flattened index of the cross in the family."""
        at = bisect_right(self._firsts, number) - 1
        return self._grids[at], number - self._firsts[at]

    def label(self, number: int) -> str:
        family, place = self.place(number)
        return f"{family.name}: {family.label(place)}"

    def part(self, name: str, counts: NDArray[Any]) -> NDArray[Any]:
        return counts[self.starts[name] :][: self.families[name].states.size]

    def reads(self, row: Insn) -> RegisterReads:
        return self._reads[row.key]

    def _all(self, config: CoreConfig) -> Iterator[Family]:
        rows, kinds = (self.rows, row_name), (tuple(InsnClass), _text)
        producers, causes = (tuple(Producer), _text), (CAUSES, _text)
        back, twice = (((*range(1, most + 1),), "{} before".format) for most in (DISTANCES, OVERWRITES))
        csrs = tuple(csr for csr in CSRS if csr.group in config.csr_groups), _text

        def sides(*names: str) -> Axis:
            return names, str

        families: dict[str, tuple[tuple[Axis, ...], Judge]] = {
            "instruction": ((rows,), lambda *values: ""),
            "operand": (
                (rows, sides(*SLOTS), producers, back),
                lambda row, slot, producer, _: "" if slot in self.reads(row).slots and producer in self._made else None,
            ),
            "overwrite": ((rows, producers, twice), self._overwrite),
            "NN-RF": ((rows, sides(*ENTRIES), back), lambda row, nn, _: "" if nn in self.reads(row).entries else None),
            "wait": ((rows, causes), self._wait),
            "interrupt": ((rows, sides("last retired", "first not retired")), self._interrupt),
            "loop end": ((rows, sides("last of the body", "first of the body")), self._loop),
            "access fault": (
                (rows, sides("fails", "behind what fails")),
                lambda row, place: "" if place != "fails" or row.insn_class in MEMORY else None,
            ),
            "timing": ((kinds, producers, back, sides("at once", "after a wait")), self._timing),
            "across an interrupt": ((kinds, producers), self._across_interrupt),
            "across a loop end": ((kinds, producers), self._across_loop),
            "interrupt in a loop": ((kinds, sides("behind it", "before it")), self._interrupted_loop),
            "interrupt and wait": ((causes,), self._interrupt_wait),
            "CSR": ((csrs, sides("read", "written")), lambda *values: ""),
            "reserved word": ((rows,), lambda row: "" if reserved_words(row, self._decoder) else None),
            "interrupt line": (((IRQ_PRIORITY, str),), lambda *values: ""),
        }
        return (_family(name, _MEANINGS[name], *shape) for name, shape in families.items())

    def _overwrite(self, row: Insn, producer: Producer, distance: int) -> str | None:
        writes = row.writes_rd or (row.insn_class is InsnClass.JUMP and row.mnemonic in ("c.jal", "c.jalr"))
        reads = "rd" in self.reads(row).slots or "~" in row.operands or row.mnemonic == "c.addi16sp"
        return "" if writes and not reads and producer in self._made else None

    def _wait(self, row: Insn, cause: WaitCause) -> str | None:
        kind, reads = row.insn_class, self.reads(row)
        if _NEEDS.get(cause, InsnClass.ALU) not in self._present:
            return None
        waits = reads.slots or (cause is WaitCause.MAC_LOAD and reads.entries)
        if cause in (WaitCause.LOAD_USE, WaitCause.MAC_LOAD) and not waits:
            return "an instruction that reads no register waits for none"
        if cause is WaitCause.JUMP_REGISTER and not (kind is InsnClass.JUMP and reads.slots):
            return "only jalr waits for its base apart from others"
        if cause is WaitCause.MULTICYCLE and kind not in self.slow:
            return "the instruction computes for a single cycle"
        if cause in _MEMORY_WAITS and kind not in MEMORY | {InsnClass.QUANTISE}:
            return "the instruction does not access memory"
        if cause is WaitCause.MISALIGNED and (kind not in MEMORY or row.is_byte_access):
            return "the instruction does not access memory across words"
        return ""

    def _interrupt(self, row: Insn, side: str) -> str | None:
        if side == "last retired" and row.op in _EXCEPTIONS:
            return "an exception clears mstatus.MIE, so that its handler comes first"
        return ""

    def _loop(self, row: Insn, place: str) -> str | None:
        if InsnClass.LOOP not in self._present:
            return None
        if place == "last of the body" and (row.is_jump or row.op == "mret"):
            return "it goes to its own target"
        if place == "last of the body" and row.op in _EXCEPTIONS:
            return "it does not retire, and its handler comes next"
        return ""

    def _timing(self, kind: InsnClass, producer: Producer, distance: int, when: str) -> str | None:
        if kind not in self._reading or producer not in self._made:
            return None
        if when == "after a wait":
            return ""
        if kind in self.slow and not (distance == 1 and producer in _BESIDE_MEMORY):
            return "the instruction takes several cycles, which pass unseen only while the one before waits for memory"
        if kind is InsnClass.JUMP and distance == 1:
            return "jalr waits for its base"
        if producer in self._late and distance == 1:
            return "the value is late by a cycle"
        if producer in self._late and kind is InsnClass.JUMP and distance == 2:
            return "jalr takes its base from the register file, which is written a cycle later"
        if kind is InsnClass.LOOP and producer in _BESIDE_MEMORY and distance == 1:
            return "what acts in ID waits until the access before it cannot fail any more"
        return ""

    def _across_interrupt(self, kind: InsnClass, producer: Producer) -> str | None:
        return "" if kind in self._reading and producer in self._made else None

    def _across_loop(self, kind: InsnClass, producer: Producer) -> str | None:
        if InsnClass.LOOP not in self._present or self._across_interrupt(kind, producer) is None:
            return None
        return "a jump as the last instruction goes to its own target" if producer is Producer.LINK else ""

    def _interrupted_loop(self, kind: InsnClass, side: str) -> str | None:
        if InsnClass.LOOP not in self._present or kind not in self._present:
            return None
        return "it goes to its own target" if kind is InsnClass.JUMP else ""

    def _interrupt_wait(self, cause: WaitCause) -> str | None:
        if _NEEDS.get(cause, InsnClass.ALU) not in self._present:
            return None
        if cause in _MEMORY_WAITS | {WaitCause.MULTICYCLE, WaitCause.MISALIGNED}:
            return "interrupts are taken when nothing is left behind ID, and what waited there has retired"
        return ""


@cache
def crosses_of(config: CoreConfig) -> Crosses:
    return Crosses(config)


def _text(value: object) -> str:
    return text_of(value) if isinstance(value, InsnClass | Producer) else str(getattr(value, "name", value)).lower()
