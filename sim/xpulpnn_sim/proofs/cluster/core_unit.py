# amaranth: UnusedElaboratable=no
"""Claims about a core's part of the event unit."""

from amaranth.hdl import Cat, Const, Mux, Signal
from amaranth.utils import ceil_log2

from xpulpnn.cluster.event_unit.core_unit import CoreUnit, Wait, event_lines
from xpulpnn.isa.cluster import BARRIER_BYTES, BLOCK_BYTES, Barrier, EventRegister
from xpulpnn.isa.machine import WORD_BYTES, XLEN
from xpulpnn_sim.proofs.cluster.obligation import Obligation

_CLAIMS = {
    "kept": "an event is in the buffer until a store clears it or a load that clears tells it",
    "genuine": "nothing else is in the buffer",
    "masked": "the event mask is what stores made of it",
    "waits": "a load that waits for events is answered in the cycle after one is in buffer and mask, with them",
    "patient": "it is not answered before",
    "prompt": "a load that does not wait is answered in the next cycle",
    "honest": "what it waits for is what the last access asked for",
    "willing": "a request is granted unless an access waits",
    "orderly": "nothing is granted while an access waits, and nothing answered that was not granted",
}


class CoreUnitClaims(Obligation):
    """A core's part of the event unit, and a record of its events, its mask and its access."""

    def __init__(self, config):
        self.config = config
        registers = {"buffer": ("event_buffer", XLEN), "mask": ("event_mask", XLEN), "waits_for": ("waits_for", 3)}
        super().__init__(f"core's part of the event unit, {config.cores} cores", CoreUnit(config), _CLAIMS, registers)

    def claim(self, m):
        """Build the records and the claims."""
        port = self.unit.port
        granted = Signal()
        open_ = Signal(name="is_open")
        events_asked, clears, plain = Signal(), Signal(), Signal()
        loads = Signal()
        m.d.comb += [granted.eq(port.req & port.gnt), loads.eq(granted & ~port.we)]
        offset = _offset(port)
        # of the access that was granted last
        with m.If(granted):
            m.d.sync += [
                events_asked.eq(loads & (self._waiting(offset) | self._clearing(offset))),
                clears.eq(loads & self._clearing(offset)),
                plain.eq(loads & ~self._waiting(offset) & ~self._clearing(offset) & ~self._others(offset)),
                open_.eq(1),
            ]
        with m.Elif(port.rvalid):
            m.d.sync += open_.eq(0)
        m.d.comb += self.orderly.eq((~port.rvalid | open_) & (~granted | ~open_ | port.rvalid))
        new = Signal()
        m.d.sync += new.eq(granted)
        m.d.comb += self.prompt.eq(~(new & plain) | port.rvalid)

        waits = open_ & ~port.rvalid
        m.d.comb += self.willing.eq(~port.req | port.gnt | waits)
        asked = (self.waits_for == Wait.EVENT) | (self.waits_for == Wait.EVENT_CLEAR)
        m.d.comb += self.honest.eq(
            ((self.waits_for != Wait.NONE) == waits)
            & (asked == (waits & events_asked))
            & ((self.waits_for == Wait.EVENT_CLEAR) == (waits & events_asked & clears))
        )
        self._events(m, open_ & events_asked, clears)

    def _events(self, m, waiting, clears):
        """The events that came and were neither cleared nor told, one cycle later, when it is known what is told."""
        port = self.unit.port
        arrived, cleared, before, mask = (Signal(XLEN, name=name) for name in ("arrived", "cleared", "before", "model"))
        active = Signal(XLEN)
        could = Signal()
        now = Signal(XLEN)
        told = Mux(port.rvalid & waiting & clears, port.rdata, 0)
        m.d.comb += now.eq(before & ~cleared & ~told | arrived)
        implemented = event_lines(self.config)
        clear_store, wdata = self._store(m, EventRegister.BUFFER_CLEAR)
        m.d.sync += [
            arrived.eq(self.unit.events & implemented),
            cleared.eq(Mux(clear_store, wdata, 0)),
            before.eq(now),
            active.eq(now & mask),
            could.eq(waiting & ~port.rvalid),
        ]
        for register, changed in (
            (EventRegister.MASK, wdata),
            (EventRegister.MASK_AND, mask & ~wdata),
            (EventRegister.MASK_OR, mask | wdata),
        ):
            stored, _ = self._store(m, register)
            with m.If(stored):
                m.d.sync += mask.eq(changed & implemented)
        answered = port.rvalid & waiting
        m.d.comb += [
            self.kept.eq((now & ~self.buffer) == 0),
            self.genuine.eq((self.buffer & ~now) == 0),
            self.masked.eq((self.mask == mask) & ((mask & ~Const(implemented, XLEN)) == 0)),
            self.waits.eq(~(could & (active != 0)) | answered & (port.rdata == active)),
            self.patient.eq(~answered | could & (active != 0)),
        ]

    def _store(self, m, register):
        port, shared = self.unit.port, self.unit.shared
        own = port.req & port.gnt
        offset = Mux(own, _offset(port), shared.offset)
        stores = Mux(own, port.we, shared.valid & shared.write)
        return stores & (offset == register), Mux(own, port.wdata, shared.wdata)

    def _waiting(self, offset):
        return self._any(offset, EventRegister.WAIT, EventRegister.SW_TRIGGER_WAIT, Barrier.TRIGGER_WAIT)

    def _clearing(self, offset):
        return self._any(
            offset, EventRegister.WAIT_CLEAR, EventRegister.SW_TRIGGER_WAIT_CLEAR, Barrier.TRIGGER_WAIT_CLEAR
        )

    def _any(self, offset, register, triggers, barrier):
        found = offset == register
        found |= (offset >= triggers) & (offset < triggers + WORD_BYTES * self.config.sw_events)
        for number in range(self.config.barriers):
            found |= offset == EventRegister.BARRIER + BARRIER_BYTES * number + barrier
        return found

    def _others(self, offset):
        """Loads that wait for something else."""
        mutexes = (offset >= EventRegister.MUTEX) & (offset < EventRegister.MUTEX + WORD_BYTES * self.config.mutexes)
        return mutexes | (offset == EventRegister.DISPATCH_FIFO)


def _offset(port):
    """Within the private view, of an aligned address."""
    return Cat(Const(0, ceil_log2(WORD_BYTES)), port.addr[ceil_log2(WORD_BYTES) : ceil_log2(BLOCK_BYTES)])
