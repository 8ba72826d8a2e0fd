"""Event buffer and private port of one core in the event unit (guide, "The event unit")."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import enum

from xpulpnn.cluster.event_unit.access import AccessSignature, BarrierStateSignature, SlotSignature, aligned_offset
from xpulpnn.component import Component, In, Out, follow_case, signals
from xpulpnn.config import ClusterConfig
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.cluster import BARRIER_BYTES, Barrier, EventLine, EventRegister
from xpulpnn.isa.machine import WORD_BYTES, XLEN


class Wait(enum.Enum, shape=3):
    """Condition that ends a waiting access of the core."""

    NONE = 0
    EVENT = 1
    EVENT_CLEAR = 2  # an event; the events in the answer are cleared
    MUTEX = 3
    WORD = 4  # word of the dispatch queue
    ROOM = 5  # room in the dispatch queue


def event_lines(config: ClusterConfig) -> int:
    lines = [*range(config.sw_events), EventLine.TIMER_LOW, EventLine.TIMER_HIGH, EventLine.BARRIER]
    lines += [EventLine.CLUSTER, EventLine.CLUSTER + 1]
    lines += [EventLine.DMA, EventLine.DMA_INTERRUPT] if config.dma else []
    return sum(1 << line for line in lines)


class CoreUnit(Component):
    """Event buffer and masks of a core, and its private port, at which it waits.

    Accesses are granted at once. Stores and ordinary loads are answered in the next cycle. A waiting access is answered
    when its condition holds: an event in buffer and mask, a mutex, a word or room in the dispatch queue, two cycles
    after the request at the earliest. Loads that wait for events return buffer and mask at that time. An event that
    arrives in the cycle in which it is cleared stays. Mask and buffer have bits for the lines that exist. Byte enables
    are ignored. Where there is no register the answer is an error. The shared view uses cycles without an access of the
    core. Reset clears everything.

    With debug mode of the cores, a halt request ends a waiting access with an error; the core repeats the access when
    it resumes. If that is a load that waits for events, its repetition triggers no second event. In debug
    mode no access waits.
    """

    def __init__(self, config: ClusterConfig):
        ports = {
            "port": In(ObiSignature()),  #: Private view; bits 9:0 of the address count.
            "shared": In(SlotSignature()),  #: Access of the shared view.
            "events": In(XLEN),  #: Event lines.
            "access": Out(AccessSignature()),  #: Access of the core, for barriers, mutexes, queue and software events.
            "barriers": In(BarrierStateSignature(config.cores)).array(config.barriers),  #: Registers of the barriers.
            "summary": In(config.cores),  #: Cores that have triggered any barrier.
            "team": In(config.cores),  #: Team of the dispatch queue.
            #: locking, granted: Mutex that the core waits for; mutex that it gets in this cycle.
            "locking": Out(config.mutexes),
            "granted": In(config.mutexes),
            "messages": In(XLEN).array(config.mutexes),  #: Messages of the mutexes.
            #: popping, popped: The core waits for a word; it gets the word in this cycle.
            "popping": Out(1),
            "popped": In(1),
            "found": In(XLEN),  #: Word of the dispatch queue that the core gets, valid with ``popped``.
            #: pushing, pushed: The core waits to push a word; the word is accepted in this cycle.
            "pushing": Out(1),
            "pushed": In(1),
            "word": Out(XLEN),  #: Word that the core pushes into the dispatch queue.
            "irq": Out(1),  #: An event is in buffer and interrupt mask.
            "fetch_idle": In(1),  #: No instruction fetch of the core is outstanding.
            #: core_clock_en: The core needs its clock: it does not wait, or fetches, or its wait ends.
            "core_clock_en": Out(1),
        }
        if config.core.debug:
            #: halt: The core must halt, or is in debug mode; only with debug mode.
            #: debug_mode: The core is in debug mode.
            ports |= {"halt": In(1), "debug_mode": In(1)}
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        wait = Signal(Wait, name="waits_for")
        done = Signal(name="wait_over")
        mask, irq_mask, buffer = signals(XLEN, "event_mask irq_mask event_buffer")
        targets = Signal(self.config.cores, name="sw_events_mask")
        active, wdata = signals(XLEN, "active wdata")
        own, write = signals(1, "own write")
        offset = self.access.offset
        m.d.comb += [
            self.port.gnt.eq(wait == Wait.NONE),
            own.eq(self.port.req & self.port.gnt),
            self.shared.taken.eq(self.shared.valid & ~own),
            offset.eq(Mux(own, aligned_offset(self.port.addr), self.shared.offset)),
            write.eq(Mux(own, self.port.we, self.shared.valid & self.shared.write)),
            wdata.eq(Mux(own, self.port.wdata, self.shared.wdata)),
            self.access.read.eq(own & ~self.port.we),
            self.access.write.eq(write),
            self.access.data.eq(Mux(write, wdata, targets)),
            active.eq(buffer & mask),
            self.irq.eq((buffer & irq_mask).any()),
            self.core_clock_en.eq((wait == Wait.NONE) | ~self.fetch_idle | done),
        ]
        readable = {
            EventRegister.MASK: mask,
            EventRegister.IRQ_MASK: irq_mask,
            EventRegister.STATUS: self.core_clock_en,
            EventRegister.BUFFER: buffer,
            EventRegister.BUFFER_MASKED: active,
            EventRegister.BUFFER_IRQ_MASKED: buffer & irq_mask,
            EventRegister.SW_EVENTS_MASK: targets,
            EventRegister.DISPATCH_TEAM: self.team,
            **self._barrier_registers(active),
        }
        follow_case(m, self.shared.rdata, offset, readable)
        self._masks(m, write, wdata, mask, irq_mask, targets)
        self._buffer(m, write, wdata, buffer, active, done & (wait == Wait.EVENT_CLEAR))
        begins = self._waiting(m, own, wait, done, active)
        if self.config.core.debug:
            self._halting(m, own, wait, begins, done)
        return m

    def _halting(self, m, own, wait, begins, done):
        aborted, wait_aborted, repeats = signals(1, "aborted wait_aborted repeats")
        waited_at = Signal.like(self.access.offset, name="waited_at")

        def for_events(cause):
            return (cause == Wait.EVENT) | (cause == Wait.EVENT_CLEAR)

        m.d.comb += [
            aborted.eq((wait != Wait.NONE) & self.halt & ~done),
            repeats.eq(own & wait_aborted & for_events(begins) & (self.access.offset == waited_at) & ~self.debug_mode),
        ]
        with m.If(aborted):
            m.d.comb += self.core_clock_en.eq(1)
            m.d.sync += [wait.eq(Wait.NONE), self.locking.eq(0), self.port.rvalid.eq(1), self.port.err.eq(1)]
        with m.If(repeats):
            m.d.comb += self.access.read.eq(0)
        with m.If(~self.debug_mode):
            with m.If(own & for_events(begins)):
                m.d.sync += [waited_at.eq(self.access.offset), wait_aborted.eq(0)]
            with m.Elif(aborted & for_events(wait)):
                m.d.sync += wait_aborted.eq(1)

    def _barrier_registers(self, active):
        registers = {}
        for number, barrier in enumerate(self.barriers):
            base = EventRegister.BARRIER + BARRIER_BYTES * number
            registers |= {
                base + Barrier.TRIGGER_MASK: barrier.trigger_mask,
                base + Barrier.STATUS: barrier.status,
                base + Barrier.SUMMARY: self.summary,
                base + Barrier.TARGET_MASK: barrier.target_mask,
                base + Barrier.TRIGGER_SELF: active,
            }
        return registers

    def _masks(self, m, write, wdata, mask, irq_mask, targets):
        lines = Const(event_lines(self.config), XLEN)
        for register, held, bits in (
            (EventRegister.MASK, mask, lines),
            (EventRegister.IRQ_MASK, irq_mask, lines),
            (EventRegister.SW_EVENTS_MASK, targets, Const(-1, len(targets))),
        ):
            given = wdata & bits
            with m.If(write), m.Switch(self.access.offset):
                with m.Case(register):
                    m.d.sync += held.eq(given)
                with m.Case(register + WORD_BYTES):
                    m.d.sync += held.eq(held & ~given)
                with m.Case(register + 2 * WORD_BYTES):
                    m.d.sync += held.eq(held | given)

    def _buffer(self, m, write, wdata, buffer, active, answer):
        """Build the event buffer. An event that arrives in the cycle in which it is cleared stays."""
        cleared = Signal(XLEN)
        with m.If(write & (self.access.offset == EventRegister.BUFFER_CLEAR)):
            m.d.comb += cleared.eq(wdata)
        arriving = self.events & Const(event_lines(self.config), XLEN)
        m.d.sync += buffer.eq(buffer & ~cleared & ~(active & answer.replicate(XLEN)) | arriving)

    def _waiting(self, m, own, wait, done, active):
        config = self.config
        begins = Signal(Wait)
        answer = Signal(XLEN)
        for cause, offsets in self._waiting_loads().items():
            with m.Switch(self.access.offset), m.Case(*offsets), m.If(~self.port.we):
                m.d.comb += begins.eq(cause)
        with m.If(self.port.we & (self.access.offset == EventRegister.DISPATCH_FIFO)):
            m.d.comb += begins.eq(Wait.ROOM)

        with m.Switch(wait):
            with m.Case(Wait.EVENT, Wait.EVENT_CLEAR):
                m.d.comb += [done.eq(active.any()), answer.eq(active)]
            with m.Case(Wait.MUTEX):
                m.d.comb += done.eq(self.granted.any())
                for number, message in enumerate(self.messages):
                    with m.If(self.granted[number]):
                        m.d.comb += answer.eq(message)
            with m.Case(Wait.WORD):
                m.d.comb += [done.eq(self.popped), answer.eq(self.found)]
            with m.Case(Wait.ROOM):
                m.d.comb += done.eq(self.pushed)
        # remembers the mutex that the core waits for; 0 if it waits for none
        mutex_selected = Signal(config.mutexes)
        for number in range(config.mutexes):
            offset = EventRegister.MUTEX + WORD_BYTES * number
            m.d.comb += mutex_selected[number].eq(~self.port.we & (self.access.offset == offset))
        m.d.comb += [
            self.popping.eq(wait == Wait.WORD),
            self.pushing.eq(wait == Wait.ROOM),
            self.word.eq(self.port.rdata),
        ]

        exists = Signal()
        with m.Switch(self.access.offset), m.Case(*self._registers()):
            m.d.comb += exists.eq(1)
        with m.If(own):
            # a word to push is stored in the register of the answer
            m.d.sync += [
                wait.eq(begins),
                self.locking.eq(mutex_selected),
                self.port.rvalid.eq(begins == Wait.NONE),
                self.port.err.eq(~exists),
                self.port.rdata.eq(Mux(self.port.we, self.port.wdata, self.shared.rdata)),
            ]
        with m.Else():
            m.d.sync += self.port.rvalid.eq(done)
            with m.If(done):
                m.d.sync += [wait.eq(Wait.NONE), self.locking.eq(0), self.port.rdata.eq(answer), self.port.err.eq(0)]
        return begins

    def _registers(self):
        waiting = [offset for offsets in self._waiting_loads().values() for offset in offsets]
        own = range(EventRegister.MASK, EventRegister.WAIT, WORD_BYTES)
        triggers = [EventRegister.SW_TRIGGER + WORD_BYTES * number for number in range(self.config.sw_events)]
        barriers = range(
            EventRegister.BARRIER, EventRegister.BARRIER + BARRIER_BYTES * self.config.barriers, WORD_BYTES
        )
        return sorted({*waiting, *own, *triggers, *barriers, EventRegister.DISPATCH_TEAM})

    def _waiting_loads(self):
        config = self.config
        barriers = [EventRegister.BARRIER + BARRIER_BYTES * number for number in range(config.barriers)]
        events = [WORD_BYTES * number for number in range(config.sw_events)]
        return {
            Wait.EVENT: [
                EventRegister.WAIT,
                *(EventRegister.SW_TRIGGER_WAIT + at for at in events),
                *(base + Barrier.TRIGGER_WAIT for base in barriers),
            ],
            Wait.EVENT_CLEAR: [
                EventRegister.WAIT_CLEAR,
                *(EventRegister.SW_TRIGGER_WAIT_CLEAR + at for at in events),
                *(base + Barrier.TRIGGER_WAIT_CLEAR for base in barriers),
            ],
            Wait.MUTEX: [EventRegister.MUTEX + WORD_BYTES * number for number in range(config.mutexes)],
            Wait.WORD: [EventRegister.DISPATCH_FIFO],
        }
