"""Programs for all cores of a cluster: phases, in each a piece of code for every hart, and their memory map."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from random import Random

from xpulpnn.isa import cluster as isa
from xpulpnn.isa.cluster import Barrier, EventLine, EventRegister
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.reference.bare.layout import BASE, MASK, SAVE, SP, WINDOW_MASK
from xpulpnn_sim.reference.bare.program import (
    PLAIN,
    BareProgram,
    Handlers,
    ProgramBlock,
    names_of,
    random_executable,
)
from xpulpnn_sim.reference.programs.elf import Executable, Segment
from xpulpnn_sw.assembly.disasm import ABI_NAMES

LEAST_TCDM = 0x1_0000  # bytes of the TCDM that the programs use
SHARED_WINDOW = 0x2000  # offset in the TCDM of the window that all harts race in
_PRIVATE_WINDOWS, _WINDOW_DISTANCE = 0x4000, 0x200
LOCKS = isa.TCDM_BASE + 0x7000  # words that are taken by test&set
COUNTERS = isa.TCDM_BASE + 0x7080
"""Words that are counted up under locks and mutexes: one for each lock, then one for each mutex."""
START = isa.TCDM_BASE + 0x7100  # set by hart 0 when the others may begin
_FRAMES, _FRAME_BYTES = isa.TCDM_BASE + 0x8000, 0x400
_SAVE_AREAS, _SAVE_BYTES = isa.TCDM_BASE + 0xC000, 0x40
ARENA = (isa.TCDM_BASE + 0xD000, 0x2000)
"""First address and size of what the DMA engine copies from and to, beside the shared windows."""
TCDM_TOHOST = isa.TCDM_BASE + 0xF800
L2_DATA, L2_SIZE = isa.L2_BASE + 0x10_0000, 0x8000  # Behind the code
_L2_SHARED, _L2_PRIVATE = L2_DATA + 0x1000, L2_DATA + 0x2000
L2_ARENA = (L2_DATA + 0x5000, 0x2000)
L2_TOHOST = L2_DATA + 0x7800
SHARED_PIECE = (isa.TCDM_BASE + SHARED_WINDOW - 0x100, 0x300)
L2_SHARED_PIECE = (_L2_SHARED - 0x100, 0x300)  # of the shared windows, what DMA transfers meet other accesses in
SLOT = 0x1A0  # offset from sp of a word that no random instruction touches


def _windows(hart: int) -> dict[str, int]:
    """The windows of a hart; some are the same for all, and some of these the same memory."""
    return {
        "shared": isa.TCDM_BASE + SHARED_WINDOW,
        "shared alias": isa.TCDM_ALIAS + SHARED_WINDOW,
        "shared test&set": (isa.TCDM_BASE | 1 << isa.TEST_SET_BIT) + SHARED_WINDOW,
        "private": isa.TCDM_BASE + _PRIVATE_WINDOWS + _WINDOW_DISTANCE * hart,
        "shared L2": _L2_SHARED,
        "private L2": _L2_PRIVATE + _WINDOW_DISTANCE * hart,
    }


COUNTS = "counts "  # start of the kind of a block that counts up once the counter whose number follows


@dataclass(frozen=True, slots=True)
class Phase:
    """The code between two barriers of all harts."""

    kind: str
    parts: tuple[tuple[ProgramBlock, ...], ...]  # the code of each hart; as a whole the phase can be left out


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterProgram(BareProgram):
    """A program that ends with a store to ``tohost`` by hart 0."""

    harts: int  # cores that run it
    phases: tuple[Phase, ...]
    functions: tuple[ProgramBlock, ...] = ()  # functions that may be called
    handlers: Handlers = PLAIN  # vector tables and handlers
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
        constants = {
            SP: _FRAMES + _FRAME_BYTES * hart + _FRAME_BYTES // 4,
            MASK: WINDOW_MASK,
            BASE: _windows(hart)["shared"],
            SAVE: _SAVE_AREAS + _SAVE_BYTES * hart,
        }
        lines = [f"li {ABI_NAMES[register]}, 0x{value:x}" for register, value in constants.items()]
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

    def counts(self) -> Counter[int]:
        """Each counter and how often it is counted up."""
        blocks = _all(block for phase in self.phases for part in phase.parts for block in part)
        return Counter(int(block.kind.removeprefix(COUNTS)) for block in blocks if block.kind.startswith(COUNTS))

    def executable(self) -> Executable:
        """The memory image with the symbols of the text."""
        tcdm, outside = _initial_data(self.data_seed)
        return random_executable(
            self.name,
            self.assembled(),
            tohost=self.tohost,
            functions={"_start", "exception", *(f"hart{hart}" for hart in range(self.harts)), "finish"}
            | names_of(self.functions),
            data=(Segment(isa.TCDM_BASE, tcdm, LEAST_TCDM), Segment(L2_DATA, outside, L2_SIZE)),
        )


def _all(blocks: Iterator[ProgramBlock]) -> Iterator[ProgramBlock]:
    for block in blocks:
        yield block
        yield from _all(iter(block.children))


def store_lines(base: int, *stores: tuple[int, int]) -> list[str]:
    """Store words at offsets from ``base``, which is in t1 then; the last word stays in s0."""
    lines = [f"li t1, 0x{base:x}"]
    for at, word in stores:
        lines += [f"li s0, 0x{word:x}", f"sw s0, 0x{at:x}(t1)"]
    return lines


def set_barrier_lines(number: int, harts: int) -> list[str]:
    """Barrier ``number`` becomes one of ``harts``, a bit each; leaves them in s0."""
    at = EventRegister.BARRIER + isa.BARRIER_BYTES * number
    mask = store_lines(isa.PRIVATE_EVENT_UNIT, (at + Barrier.TRIGGER_MASK, harts))
    return [*mask, f"sw s0, 0x{at + Barrier.TARGET_MASK:x}(t1)"]


def barrier_lines(number: int) -> list[str]:
    """Meet the others at barrier ``number``."""
    at = EventRegister.BARRIER + isa.BARRIER_BYTES * number
    mask = store_lines(isa.PRIVATE_EVENT_UNIT, (EventRegister.MASK, 1 << EventLine.BARRIER))
    return [*mask, f"p.elw s0, 0x{at + Barrier.TRIGGER_WAIT_CLEAR:x}(t1)"]


@cache
def _initial_data(seed: int) -> tuple[bytes, bytes]:
    """Random contents of TCDM and L2; what the program depends on starts as zero."""
    rng = Random(f"data {seed}")
    tcdm, outside = bytearray(rng.randbytes(LEAST_TCDM)), bytearray(rng.randbytes(L2_SIZE))
    first, last = LOCKS - isa.TCDM_BASE, START - isa.TCDM_BASE + WORD_BYTES
    tcdm[first:last] = bytes(last - first)
    for image, base, tohost in ((tcdm, isa.TCDM_BASE, TCDM_TOHOST), (outside, L2_DATA, L2_TOHOST)):
        image[tohost - base : tohost - base + 2 * WORD_BYTES] = bytes(2 * WORD_BYTES)
    return bytes(tcdm), bytes(outside)
