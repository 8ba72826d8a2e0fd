"""A program for all cores of a cluster: phases, in each a piece of code for every hart."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from random import Random

from xpulpnn.isa.cluster import BARRIER_BYTES, PRIVATE_EVENT_UNIT, TCDM_BASE, Barrier, EventLine, EventRegister
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.reference.programs.elf import Executable, Segment
from xpulpnn_sim.verification.clusters.layout import (
    COUNTERS,
    L2_DATA,
    L2_SIZE,
    L2_TOHOST,
    LEAST_TCDM,
    LOCKS,
    START,
    TCDM_TOHOST,
    frame,
    save_area,
    windows,
)
from xpulpnn_sim.verification.random.blocks import Block
from xpulpnn_sim.verification.random.handlers import PLAIN, Handlers
from xpulpnn_sim.verification.random.layout import BASE, MASK, SAVE, SP, WINDOW_MASK
from xpulpnn_sim.verification.random.program import BareProgram, executable_of, names_of
from xpulpnn_sw.assembly.registers import ABI_NAMES

COUNTS = "counts "  # start of the kind of a block that counts up once the counter whose number follows

_SP, _MASK, _BASE, _SAVE = (ABI_NAMES[register] for register in (SP, MASK, BASE, SAVE))


@dataclass(frozen=True, slots=True)
class Phase:
    """The code between two barriers of all harts."""

    kind: str
    parts: tuple[tuple[Block, ...], ...]  # the code of each hart; as a whole the phase can be left out


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterProgram(BareProgram):
    """A program that ends with a store to ``tohost`` by hart 0."""

    harts: int  # cores that run it
    phases: tuple[Phase, ...]
    functions: tuple[Block, ...] = ()  # functions that may be called
    handlers: Handlers = field(default_factory=lambda: PLAIN)  # vector tables and handlers
    data_seed: int = 0
    l2_tohost: bool = False  # whether `tohost` is outside the cluster
    name: str = "program"  # where the program came from, for people

    @property
    def tohost(self) -> int:
        """Address of the word that tells the end."""
        return L2_TOHOST if self.l2_tohost else TCDM_TOHOST

    def text(self) -> str:
        """The whole program in assembly for :data:`TEXT_BASE`."""
        harts = range(self.harts)
        lines = [self.handlers.text("start"), "start:", "csrrs t1, mhartid, zero", "andi t1, t1, 31"]
        for hart in harts[1:]:
            lines += [f"addi s0, zero, {hart}", f"bne t1, s0, not{hart}", f"jal zero, hart{hart}", f"not{hart}:"]
        for hart in harts:
            lines += [f"hart{hart}:", *self._prologue(hart)]
            for number, phase in enumerate(self.phases):
                lines += [f"# phase {number}: {phase.kind}"]
                lines += [line for block in phase.parts[hart] for line in block.lines()]
                lines += barrier_lines(0)
            lines += self._end() if hart == 0 else [f"rest{hart}: jal zero, rest{hart}"]
        lines += [line for block in self.functions for line in block.lines()]
        return "\n".join(lines) + "\n"

    def _prologue(self, hart: int) -> list[str]:
        """Constant registers; hart 0 makes the barrier of all before the others begin."""
        constants = (
            (_SP, frame(hart)),
            (_MASK, WINDOW_MASK),
            (_BASE, windows(hart)["shared"]),
            (_SAVE, save_area(hart)),
        )
        lines = [f"li {register}, 0x{value:x}" for register, value in constants]
        if hart:
            return [*lines, f"li t1, 0x{START:x}", f"begin{hart}: lw s0, 0(t1)", f"beq s0, zero, begin{hart}"]
        return [*lines, *set_barrier_lines(0, (1 << self.harts) - 1), f"li t1, 0x{START:x}", "sw s0, 0(t1)"]

    def _end(self) -> list[str]:
        """Hart 0 has met all others: what they have counted must be right."""
        lines: list[str] = []
        for counter, count in sorted(self.counts().items()):
            lines += [f"li t1, 0x{COUNTERS + WORD_BYTES * counter:x}", "lw s0, 0(t1)", f"li s1, {count}"]
            lines += ["bne s0, s1, wrong"]
        lines += ["addi s0, zero, 1", "jal zero, finish", "wrong: addi s0, zero, 3"]
        return [*lines, "finish:", f"li t1, 0x{self.tohost:x}", "sw s0, 0(t1)", "rest0: jal zero, rest0"]

    def counts(self) -> dict[int, int]:
        """Each counter and how often it is counted up."""
        found: dict[int, int] = {}
        for block in _all(block for phase in self.phases for part in phase.parts for block in part):
            if block.kind.startswith(COUNTS):
                counter = int(block.kind.removeprefix(COUNTS))
                found[counter] = found.get(counter, 0) + 1
        return found

    def executable(self) -> Executable:
        """The memory image with the symbols of the text."""
        tcdm, outside = _initial_data(self.data_seed)
        return executable_of(
            self.name,
            self.assembled(),
            tohost=self.tohost,
            functions={"_start", "exception", *(f"hart{hart}" for hart in range(self.harts)), "finish"}
            | names_of(self.functions),
            data=(Segment(TCDM_BASE, tcdm, LEAST_TCDM), Segment(L2_DATA, outside, L2_SIZE)),
        )


def _all(blocks: Iterator[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        yield from _all(iter(block.children))


def set_barrier_lines(number: int, harts: int) -> list[str]:
    """Barrier ``number`` becomes one of ``harts``, a bit each; leaves them in s0."""
    at = EventRegister.BARRIER + BARRIER_BYTES * number
    return [
        f"li t1, 0x{PRIVATE_EVENT_UNIT:x}",
        f"li s0, 0x{harts:x}",
        f"sw s0, 0x{at + Barrier.TRIGGER_MASK:x}(t1)",
        f"sw s0, 0x{at + Barrier.TARGET_MASK:x}(t1)",
    ]


def barrier_lines(number: int) -> list[str]:
    """Meet the others at barrier ``number``."""
    at = EventRegister.BARRIER + BARRIER_BYTES * number
    return [
        f"li t1, 0x{PRIVATE_EVENT_UNIT:x}",
        f"li s0, 0x{1 << EventLine.BARRIER:x}",
        f"sw s0, {EventRegister.MASK}(t1)",
        f"p.elw s0, 0x{at + Barrier.TRIGGER_WAIT_CLEAR:x}(t1)",
    ]


@cache
def _initial_data(seed: int) -> tuple[bytes, bytes]:
    """Random contents of TCDM and L2; what the program depends on starts as zero."""
    rng = Random(f"data {seed}")
    tcdm, outside = bytearray(rng.randbytes(LEAST_TCDM)), bytearray(rng.randbytes(L2_SIZE))
    first, last = LOCKS - TCDM_BASE, START - TCDM_BASE + WORD_BYTES
    tcdm[first:last] = bytes(last - first)
    for image, base, tohost in ((tcdm, TCDM_BASE, TCDM_TOHOST), (outside, L2_DATA, L2_TOHOST)):
        image[tohost - base : tohost - base + 2 * WORD_BYTES] = bytes(2 * WORD_BYTES)
    return bytes(tcdm), bytes(outside)
