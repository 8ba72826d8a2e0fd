"""Pieces of code by which a hart meets others at any time: windows, locks, events, peripherals, DMA transfers."""

from xpulpnn.config import ClusterConfig
from xpulpnn.isa import cluster as isa
from xpulpnn.isa.cluster import Barrier, Dma, DmaCommand, EventLine, EventRegister
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.reference.bare.draw import Draw
from xpulpnn_sim.reference.bare.layout import BASE
from xpulpnn_sim.reference.bare.program import ProgramBlock, block_of
from xpulpnn_sim.verification.clusters import program as layout
from xpulpnn_sw.assembly.disasm import ABI_NAMES

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
    """Writes the blocks."""

    def __init__(self, draw: Draw, config: ClusterConfig) -> None:
        self._draw, self._rng, self._config = draw, draw.rng, config
        # software events that phases use; the others come and go at any time
        self.signals = range(max(1, config.sw_events // 2))
        self.others = range(self.signals.stop, config.sw_events)

    def window(self, hart: int) -> ProgramBlock:
        """From here on base registers point into another window."""
        found = layout._windows(hart)
        name = self._rng.choice([*found, "shared", "shared test&set"])
        return ProgramBlock(f"window: {name}", (f"li {_BASE}, 0x{found[name]:x}",))

    def lock(self) -> ProgramBlock:
        """A counter counted up under a lock that is taken by test&set."""
        rng, number = self._rng, self._rng.randrange(TEST_SET_LOCKS)
        load, store = ("lw", "sw") if number < TEST_SET_LOCKS - 1 else ("lbu", "sb")
        again, word = self._draw.label("lock"), layout.LOCKS + WORD_BYTES * number
        text = f"""
        li t1, 0x{word | 1 << isa.TEST_SET_BIT:x}; {again}: {load} s0, 0(t1); bne s0, zero, {again}
        {self._count(number)}
        li t1, 0x{word | rng.randrange(2) << isa.TEST_SET_BIT:x}; {store} zero, 0(t1)"""
        return block_of(f"{layout.COUNTS}{number}", text)

    def mutex(self) -> ProgramBlock:
        """A counter counted up under a mutex of the event unit, whose message changes."""
        number = self._rng.randrange(self._config.mutexes)
        at = EventRegister.MUTEX + WORD_BYTES * number
        text = f"""
        li t1, 0x{isa.PRIVATE_EVENT_UNIT:x}; p.elw s2, 0x{at:x}(t1)
        {self._count(TEST_SET_LOCKS + number)}
        li t1, 0x{isa.PRIVATE_EVENT_UNIT:x}; addi s2, s2, 3; sw s2, 0x{at:x}(t1)"""
        return block_of(f"{layout.COUNTS}{TEST_SET_LOCKS + number}", text)

    def _count(self, counter: int) -> str:
        between = "addi s3, s3, 1; " * self._rng.randrange(4)
        at = layout.COUNTERS + WORD_BYTES * counter
        return f"li t1, 0x{at:x}; lw s0, 0(t1); {between}addi s0, s0, 1; sw s0, 0(t1)"

    def noise(self) -> ProgramBlock:
        """Software events that nobody waits for, sent and cleared, and looks at the event unit."""
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
        """The same through the view that all harts share."""
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
        """An event triggered and waited for by one load."""
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
        """Loads of timer and control registers; now and then the caches are emptied."""
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

    def transfer(self, meanwhile: tuple[ProgramBlock, ...]) -> ProgramBlock:
        """One or two commands with one identifier, other work, and the wait for their end."""
        rng = self._rng
        by_event = rng.randrange(2)
        commands = [self._command(event=bool(by_event)) for _ in range(rng.choice((1, 1, 1, 2)))]
        head = [f"li t1, 0x{isa.PRIVATE_DMA:x}", "lw s0, 0(t1)", f"sw s0, 0x{layout.SLOT:x}(sp)"]
        for words in commands:
            for word in words:
                head += [f"li s1, 0x{word:x}", "sw s1, 0(t1)"]
        again, done = self._draw.label("transfer"), self._draw.label("moved")
        tail = [f"lw s0, 0x{layout.SLOT:x}(sp)", "addi s3, zero, 1", "sll s3, s3, s0", f"li t1, 0x{isa.PRIVATE_DMA:x}"]
        tail += [f"li s4, 0x{isa.PRIVATE_EVENT_UNIT:x}"]
        if by_event:
            tail += [f"li s1, 0x{1 << EventLine.DMA:x}", f"sw s1, {EventRegister.MASK}(s4)"]
        tail += [f"{again}: lw s1, {_STATUS}(t1)", "and s1, s1, s3", f"beq s1, zero, {done}"]
        if by_event:
            tail.append(f"p.elw s1, 0x{EventRegister.WAIT_CLEAR:x}(s4)")
        tail += [f"jal zero, {again}", f"{done}: sw s3, {_STATUS}(t1)"]
        return ProgramBlock("transfer", tuple(head), meanwhile, tuple(tail))

    def _command(self, *, event: bool) -> list[int]:
        rng = self._rng
        length = rng.choice((rng.randrange(1, 9), rng.randrange(1, 40), rng.randrange(1, _LONGEST)))
        to_tcdm = bool(rng.randrange(2))
        inside = rng.choice((layout.ARENA, layout.ARENA, layout.SHARED_PIECE))
        outside = rng.choice((layout.L2_ARENA, layout.L2_ARENA, layout.L2_SHARED_PIECE))
        if rng.randrange(6) == 0:
            # within the TCDM; the halves of the arena do not overlap
            base, size = layout.ARENA
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
        """Bytes of a line, of the distance between two, and of all; None if they do not fit. Written lines do not
        overlap."""
        rng = self._rng
        count = rng.randrange(1, length + 1)
        count = max(count, length // 8, 1)
        stride = rng.randrange(count if written else 1, count + 40)
        extent = (length - 1) // count * stride + count
        return (count, stride, extent) if extent < piece[1] else None
