"""Programs for all cores of a cluster: phases with code for every hart, shared blocks, and the memory map."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from random import Random

from xpulpnn.config import ClusterConfig
from xpulpnn.isa import cluster as isa
from xpulpnn.isa.cluster import Barrier, Dma, DmaCommand, EventLine, EventRegister
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.reference.bare.draw import Draw
from xpulpnn_sim.reference.bare.layout import BASE, MASK, SAVE, SLOT_COUNT, SLOTS, SP, WINDOW_MASK
from xpulpnn_sim.reference.bare.program import (
    PLAIN,
    BareProgram,
    Handlers,
    ProgramBlock,
    block_of,
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
"""Address of counters that programs increment: one word for each test&set lock, then one for each mutex."""
START = isa.TCDM_BASE + 0x7100  # set by hart 0 when the others may begin
_FRAMES, _FRAME_BYTES = isa.TCDM_BASE + 0x8000, 0x400
_SAVE_AREAS, _SAVE_BYTES = isa.TCDM_BASE + 0xC000, 0x40
ARENA = (isa.TCDM_BASE + 0xD000, 0x2000)
"""First address and size of the TCDM memory that DMA transfers use, besides the shared windows."""
TCDM_TOHOST = isa.TCDM_BASE + 0xF800
L2_DATA, L2_SIZE = isa.L2_BASE + 0x10_0000, 0x8000  # Behind the code
_L2_SHARED, _L2_PRIVATE = L2_DATA + 0x1000, L2_DATA + 0x2000
L2_ARENA = (L2_DATA + 0x5000, 0x2000)
L2_TOHOST = L2_DATA + 0x7800
L2_FAILING = (L2_DATA + 0x7C00, 0x100)  # what the bus answers with an error
SHARED_PIECE = (isa.TCDM_BASE + SHARED_WINDOW - 0x100, 0x300)
L2_SHARED_PIECE = (_L2_SHARED - 0x100, 0x300)  # of the shared windows, what DMA transfers meet other accesses in
SLOT = SLOTS + WORD_BYTES * SLOT_COUNT  # offset from sp of two words that no random instruction touches


def _windows(hart: int) -> dict[str, int]:
    """Return the start of each address range that a hart uses; harts share some ranges, and some ranges overlap."""
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
    kind: str
    parts: tuple[tuple[ProgramBlock, ...], ...]  # the code of each hart; as a whole the phase can be left out


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterProgram(BareProgram):
    harts: int  # cores that run it
    phases: tuple[Phase, ...]
    functions: tuple[ProgramBlock, ...] = ()  # functions that may be called
    handlers: Handlers = PLAIN  # vector tables and handlers
    data_seed: int = 0
    l2_tohost: bool = False  # whether `tohost` is outside the cluster
    name: str = "program"  # where the program came from, for people

    @property
    def tohost(self) -> int:
        return L2_TOHOST if self.l2_tohost else TCDM_TOHOST

    def text(self) -> str:
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
        """Return code that sets the constant registers; hart 0 sets up a barrier for all harts and starts them."""
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
        """Return code for hart 0 that compares the shared counters with their expected values."""
        lines: list[str] = []
        for counter, count in sorted(self.counts().items()):
            lines += [f"li t1, 0x{COUNTERS + WORD_BYTES * counter:x}", "lw s0, 0(t1)", f"li s1, {count}"]
            lines += ["bne s0, s1, wrong"]
        lines += ["addi s0, zero, 1", "jal zero, finish", "wrong: addi s0, zero, 3"]
        return [*lines, "finish:", f"li t1, 0x{self.tohost:x}", "sw s0, 0(t1)", "rest0: jal zero, rest0"]

    def counts(self) -> Counter[int]:
        blocks = _all(block for phase in self.phases for part in phase.parts for block in part)
        return Counter(int(block.kind.removeprefix(COUNTS)) for block in blocks if block.kind.startswith(COUNTS))

    def executable(self) -> Executable:
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
    """Return code that stores words at offsets from ``base``; it leaves ``base`` in t1 and the last word in s0."""
    lines = [f"li t1, 0x{base:x}"]
    for at, word in stores:
        lines += [f"li s0, 0x{word:x}", f"sw s0, 0x{at:x}(t1)"]
    return lines


def set_barrier_lines(number: int, harts: int) -> list[str]:
    """Return code that sets up barrier ``number`` for the mask ``harts``; it leaves the mask in s0."""
    at = EventRegister.BARRIER + isa.BARRIER_BYTES * number
    mask = store_lines(isa.PRIVATE_EVENT_UNIT, (at + Barrier.TRIGGER_MASK, harts))
    return [*mask, f"sw s0, 0x{at + Barrier.TARGET_MASK:x}(t1)"]


def barrier_lines(number: int) -> list[str]:
    at = EventRegister.BARRIER + isa.BARRIER_BYTES * number
    mask = store_lines(isa.PRIVATE_EVENT_UNIT, (EventRegister.MASK, 1 << EventLine.BARRIER))
    return [*mask, f"p.elw s0, 0x{at + Barrier.TRIGGER_WAIT_CLEAR:x}(t1)"]


@cache
def _initial_data(seed: int) -> tuple[bytes, bytes]:
    """Return random contents of TCDM and L2; words that the program relies on start as zero."""
    rng = Random(f"data {seed}")
    tcdm, outside = bytearray(rng.randbytes(LEAST_TCDM)), bytearray(rng.randbytes(L2_SIZE))
    first, last = LOCKS - isa.TCDM_BASE, START - isa.TCDM_BASE + WORD_BYTES
    tcdm[first:last] = bytes(last - first)
    for image, base, tohost in ((tcdm, isa.TCDM_BASE, TCDM_TOHOST), (outside, L2_DATA, L2_TOHOST)):
        image[tohost - base : tohost - base + 2 * WORD_BYTES] = bytes(2 * WORD_BYTES)
    return bytes(tcdm), bytes(outside)


_LONGEST = 300
_STATUS = f"0x{Dma.STATUS:x}"
Piece = tuple[int, int]

TEST_SET_LOCKS = 3  # the last is taken by its lowest byte
_BASE = ABI_NAMES[BASE]
_READ_EVENTS = (
    *(EventRegister.MASK, EventRegister.BUFFER, EventRegister.BUFFER_MASKED, EventRegister.BUFFER_IRQ_MASKED),
    *(EventRegister.DISPATCH_TEAM, EventRegister.SW_EVENTS_MASK),
)
_READ_BARRIER = (Barrier.TRIGGER_MASK, Barrier.STATUS, Barrier.SUMMARY, Barrier.TARGET_MASK)
_READ_TIMER = (isa.Timer.COUNT_LOW, isa.Timer.COUNT_HIGH, isa.Timer.CONFIG_LOW, isa.Timer.COMPARE_HIGH)
_READ_CONTROL = (isa.Control.EOC, isa.Control.FETCH_ENABLE, isa.Control.CLOCK_GATE, isa.Control.RETURN)
_READ_CACHE = (isa.Icache.ENABLE, isa.Icache.PREFETCH, isa.Icache.COUNT)
_READ_BLOCKS = {isa.TIMER: _READ_TIMER, isa.CONTROL: _READ_CONTROL, isa.ICACHE_CONTROL: _READ_CACHE}


class SharedBlocks:
    """Writes blocks of code that use the memory and units that all harts of a cluster share."""

    def __init__(self, draw: Draw, config: ClusterConfig) -> None:
        self._draw, self._rng, self._config = draw, draw.rng, config
        # software events that phases use; the others come and go at any time
        self.signals = range(max(1, config.sw_events // 2))
        self.others = range(self.signals.stop, config.sw_events)

    def window(self, hart: int) -> ProgramBlock:
        windows = _windows(hart)
        name = self._rng.choice([*windows, "shared", "shared test&set"])
        return ProgramBlock(f"window: {name}", (f"li {_BASE}, 0x{windows[name]:x}",))

    def lock(self) -> ProgramBlock:
        """Return code that increments a counter under a lock, which is taken by test&set."""
        rng, number = self._rng, self._rng.randrange(TEST_SET_LOCKS)
        load, store = ("lw", "sw") if number < TEST_SET_LOCKS - 1 else ("lbu", "sb")
        again, word = self._draw.label("lock"), LOCKS + WORD_BYTES * number
        text = f"""
        li t1, 0x{word | 1 << isa.TEST_SET_BIT:x}; {again}: {load} s0, 0(t1); bne s0, zero, {again}
        {self._count(number)}
        li t1, 0x{word | rng.randrange(2) << isa.TEST_SET_BIT:x}; {store} zero, 0(t1)"""
        return block_of(f"{COUNTS}{number}", text)

    def mutex(self) -> ProgramBlock:
        """Return code that increments a counter under a mutex of the event unit, and changes the mutex's message."""
        number = self._rng.randrange(self._config.mutexes)
        at = EventRegister.MUTEX + WORD_BYTES * number
        text = f"""
        li t1, 0x{isa.PRIVATE_EVENT_UNIT:x}; p.elw s2, 0x{at:x}(t1)
        {self._count(TEST_SET_LOCKS + number)}
        li t1, 0x{isa.PRIVATE_EVENT_UNIT:x}; addi s2, s2, 3; sw s2, 0x{at:x}(t1)"""
        return block_of(f"{COUNTS}{TEST_SET_LOCKS + number}", text)

    def _count(self, counter: int) -> str:
        between = "addi s3, s3, 1; " * self._rng.randrange(4)
        at = COUNTERS + WORD_BYTES * counter
        return f"li t1, 0x{at:x}; lw s0, 0(t1); {between}addi s0, s0, 1; sw s0, 0(t1)"

    def noise(self) -> ProgramBlock:
        """Return code that sends and clears software events that nobody waits for, and reads the event unit."""
        rng, config = self._rng, self._config
        events = self.others
        lines = [f"li t1, 0x{isa.PRIVATE_EVENT_UNIT:x}"]
        for _ in range(rng.randrange(1, 4)):
            match rng.randrange(4):
                case 0 if events:
                    at = EventRegister.SW_TRIGGER + WORD_BYTES * rng.choice(events)
                    lines += [f"li s0, 0x{rng.getrandbits(config.cores):x}", f"sw s0, 0x{at:x}(t1)"]
                case 1 if events:
                    cleared = sum(1 << event for event in events if rng.randrange(2))
                    lines += [f"li s0, 0x{cleared:x}", f"sw s0, 0x{EventRegister.BUFFER_CLEAR:x}(t1)"]
                case 2:
                    barrier = EventRegister.BARRIER + isa.BARRIER_BYTES * rng.randrange(config.barriers)
                    lines.append(f"lw s{rng.randrange(2, 8)}, 0x{barrier + rng.choice(_READ_BARRIER):x}(t1)")
                case _:
                    lines.append(f"lw s{rng.randrange(2, 8)}, 0x{rng.choice(_READ_EVENTS):x}(t1)")
        return ProgramBlock("event unit", tuple(lines))

    def shared_view(self) -> ProgramBlock:
        """Return code that, through the shared registers, sends events nobody waits for and reads the event unit."""
        rng, config = self._rng, self._config
        lines = [f"li t1, 0x{isa.EVENT_UNIT:x}"]
        core = isa.SHARED_CORE_BYTES * rng.randrange(config.cores)
        barrier = isa.SHARED_BARRIERS + isa.BARRIER_BYTES * rng.randrange(config.barriers)
        events = self.others
        if events and rng.randrange(2):
            at = isa.SHARED_SW_TRIGGERS + WORD_BYTES * rng.choice(events)
            lines += [f"li s0, 0x{rng.getrandbits(config.cores):x}", f"sw s0, 0x{at:x}(t1)"]
        lines.append(f"lw s{rng.randrange(2, 8)}, 0x{core + rng.choice(_READ_EVENTS[:4]):x}(t1)")
        lines.append(f"lw s{rng.randrange(2, 8)}, 0x{barrier + rng.choice(_READ_BARRIER):x}(t1)")
        return ProgramBlock("shared view", tuple(lines))

    def own_event(self) -> ProgramBlock:
        """Return code with which a hart triggers an event for itself and waits for that event, in a single load."""
        rng = self._rng
        event = rng.choice(self.others)
        group = rng.choice((EventRegister.SW_TRIGGER_WAIT, EventRegister.SW_TRIGGER_WAIT_CLEAR))
        clear = f"sw s0, 0x{EventRegister.BUFFER_CLEAR:x}(t1)" if group == EventRegister.SW_TRIGGER_WAIT else ""
        text = f"""
        csrrs s0, mhartid, zero; andi s0, s0, 15; addi s1, zero, 1; sll s1, s1, s0
        li t1, 0x{isa.PRIVATE_EVENT_UNIT:x}; sw s1, 0x{EventRegister.SW_EVENTS_MASK:x}(t1)
        li s0, 0x{1 << event:x}; sw s0, {EventRegister.MASK}(t1)
        p.elw s2, 0x{group + WORD_BYTES * event:x}(t1); {clear}"""
        return block_of("own event", text)

    def registers(self) -> ProgramBlock:
        """Return code that reads timer and control registers, and now and then flushes the caches."""
        rng = self._rng
        lines: list[str] = []
        for _ in range(rng.randrange(1, 4)):
            block, registers = rng.choice([*_READ_BLOCKS.items()])
            if block == isa.ICACHE_CONTROL and not self._config.icache_private:
                continue
            lines += [f"li t1, 0x{block:x}", f"lw s{rng.randrange(2, 8)}, 0x{rng.choice(registers):x}(t1)"]
            if block == isa.ICACHE_CONTROL and rng.randrange(2):
                lines.append(f"sw t1, 0x{rng.choice((isa.Icache.FLUSH, isa.Icache.FLUSH_PRIVATE)):x}(t1)")
        return ProgramBlock("registers", tuple(lines))

    def transfer(self, meanwhile: tuple[ProgramBlock, ...] = (), slot: int = SLOT) -> ProgramBlock:
        """Return code that starts one or two DMA commands, executes ``meanwhile``, and waits for the transfers' end."""
        rng = self._rng
        by_event = bool(rng.randrange(2))
        commands = [self._command(event=by_event) for _ in range(rng.choice((1, 1, 1, 2)))]
        words = "; ".join(f"li s1, 0x{word:x}; sw s1, 0(t1)" for words in commands for word in words)
        again, done = self._draw.label("transfer"), self._draw.label("moved")
        head = f"li t1, 0x{isa.PRIVATE_DMA:x}; lw s0, 0(t1); sw s0, 0x{slot:x}(sp); {words}"
        tail = f"""
        lw s0, 0x{slot:x}(sp); addi s3, zero, 1; sll s3, s3, s0; li t1, 0x{isa.PRIVATE_DMA:x}
        li s4, 0x{isa.PRIVATE_EVENT_UNIT:x}
        {f"li s1, 0x{1 << EventLine.DMA:x}; sw s1, {EventRegister.MASK}(s4)" * by_event}
        {again}: lw s1, {_STATUS}(t1); and s1, s1, s3; beq s1, zero, {done}
        {f"p.elw s1, 0x{EventRegister.WAIT_CLEAR:x}(s4)" * by_event}
        jal zero, {again}; {done}: sw s3, {_STATUS}(t1)"""
        return ProgramBlock("transfer", block_of("", head).head, meanwhile, block_of("", tail).head)

    def _command(self, *, event: bool) -> list[int]:
        rng = self._rng
        length = rng.choice((rng.randrange(1, 9), rng.randrange(1, 40), rng.randrange(1, _LONGEST)))
        to_tcdm = bool(rng.randrange(2))
        inside = rng.choice((ARENA, ARENA, SHARED_PIECE))
        outside = rng.choice((L2_ARENA, L2_ARENA, L2_SHARED_PIECE))
        if rng.randrange(6) == 0:
            # within the TCDM; the halves of the arena do not overlap
            base, size = ARENA
            inside, outside = (base, size // 2), (base + size // 2, size // 2)
        command = length | DmaCommand.INCREMENT
        command |= DmaCommand.FROM_EXTERNAL if to_tcdm else 0
        command |= DmaCommand.EVENT if event else 0
        command |= DmaCommand.BROADCAST if event and rng.randrange(4) == 0 else 0
        addresses, lines = [], list[int]()
        sides = (DmaCommand.EXTERNAL_2D, outside, not to_tcdm), (DmaCommand.TCDM_2D, inside, to_tcdm)
        for flag, piece, written in sides:
            two = self._two_dimensions(length, piece, written=written) if rng.randrange(3) == 0 else None
            extent = length
            if two is not None:
                count, stride, extent = two
                command |= flag
                lines += [count, stride]
            addresses.append(piece[0] + rng.randrange(piece[1] - extent))
        return [command, addresses[1], addresses[0], *lines]

    def _two_dimensions(self, length: int, piece: Piece, *, written: bool) -> tuple[int, int, int] | None:
        """Return random line length, stride and total bytes of a 2D transfer; None if they do not fit."""
        rng = self._rng
        count = rng.randrange(1, length + 1)
        count = max(count, length // 8, 1)
        stride = rng.randrange(count if written else 1, count + 40)
        extent = (length - 1) // count * stride + count
        return (count, stride, extent) if extent < piece[1] else None
