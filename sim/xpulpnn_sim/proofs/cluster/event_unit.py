# amaranth: UnusedElaboratable=no
"""Properties of the event unit of a cluster: its port for each core, barriers, mutexes and the dispatch queue."""

from amaranth.hdl import Cat, Const, Mux, Signal
from amaranth.utils import ceil_log2

from xpulpnn.cluster.event_unit.barrier import BarrierUnit
from xpulpnn.cluster.event_unit.core_unit import CoreUnit, Wait, event_lines
from xpulpnn.cluster.event_unit.dispatch import Dispatch
from xpulpnn.cluster.event_unit.mutex import MutexUnit
from xpulpnn.component import signals
from xpulpnn.isa.cluster import BARRIER_BYTES, BLOCK_BYTES, Barrier, EventRegister
from xpulpnn.isa.machine import WORD_BYTES, XLEN
from xpulpnn_sim.proofs.cluster.obligation import Obligation

_CORE_CLAIMS = {
    "kept": "an event stays in the buffer until a store clears it or a clearing load reads it",
    "genuine": "the buffer has no other events",
    "masked": "the event mask is the result of the stores to it",
    "waits": "a load that waits for events gets them in the cycle after one is buffered and enabled",
    "patient": "a load that waits for events is not answered earlier",
    "prompt": "a load that does not wait is answered in the next cycle",
    "honest": "the event unit waits for what the last access requested",
    "willing": "a request is granted unless an access waits",
    "orderly": "nothing is granted while an access waits, and only granted accesses are answered",
}


class CoreUnitClaims(Obligation):
    """Properties of a core's port of the event unit, with a record of its events, mask and access."""

    def __init__(self, config):
        self.config = config
        registers = {"buffer": ("event_buffer", XLEN), "mask": ("event_mask", XLEN), "waits_for": ("waits_for", 3)}
        title = f"core's part of the event unit, {config.cores} cores"
        super().__init__(title, CoreUnit(config), _CORE_CLAIMS, registers)

    def claim(self, m):
        port = self.unit.port
        granted, loads, new, open_ = signals(1, "granted loads new is_open")
        events_asked, clears, plain = signals(1, "events_asked clears plain")
        m.d.comb += [granted.eq(port.req & port.gnt), loads.eq(granted & ~port.we)]
        offset = offset_of(port)
        # fields of the last granted access
        waiting, clearing = self._waiting(offset), self._clearing(offset)
        with m.If(granted):
            m.d.sync += [
                events_asked.eq(loads & (waiting | clearing)),
                clears.eq(loads & clearing),
                plain.eq(loads & ~waiting & ~clearing & ~self._others(offset)),
            ]
        waits = open_ & ~port.rvalid
        m.d.sync += [open_.eq(granted | waits), new.eq(granted)]
        for_events = (self.waits_for == Wait.EVENT) | (self.waits_for == Wait.EVENT_CLEAR)
        m.d.comb += [
            self.orderly.eq((~port.rvalid | open_) & (~granted | ~open_ | port.rvalid)),
            self.prompt.eq(~(new & plain) | port.rvalid),
            self.willing.eq(~port.req | port.gnt | waits),
            self.honest.eq(
                ((self.waits_for != Wait.NONE) == waits)
                & (for_events == (waits & events_asked))
                & ((self.waits_for == Wait.EVENT_CLEAR) == (waits & events_asked & clears))
            ),
        ]
        self._events(m, open_ & events_asked, clears)

    def _events(self, m, waiting, clears):
        port = self.unit.port
        arrived, cleared, before, mask, active, now = signals(XLEN, "arrived cleared before model active now")
        could = Signal()
        answered_events = Mux(port.rvalid & waiting & clears, port.rdata, 0)
        m.d.comb += now.eq(before & ~cleared & ~answered_events | arrived)
        implemented = event_lines(self.config)
        clear_store, wdata = self._store(m, EventRegister.BUFFER_CLEAR)
        m.d.sync += [
            arrived.eq(self.unit.events & implemented),
            cleared.eq(Mux(clear_store, wdata, 0)),
            before.eq(now),
            active.eq(now & mask),
            could.eq(waiting & ~port.rvalid),
        ]
        masks = {EventRegister.MASK: wdata, EventRegister.MASK_AND: mask & ~wdata, EventRegister.MASK_OR: mask | wdata}
        for register, changed in masks.items():
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
        offset = Mux(own, offset_of(port), shared.offset)
        stores = Mux(own, port.we, shared.valid & shared.write)
        return stores & (offset == register), Mux(own, port.wdata, shared.wdata)

    def _waiting(self, offset):
        return self._matches_any(offset, EventRegister.WAIT, EventRegister.SW_TRIGGER_WAIT, Barrier.TRIGGER_WAIT)

    def _clearing(self, offset):
        triggers = EventRegister.SW_TRIGGER_WAIT_CLEAR
        return self._matches_any(offset, EventRegister.WAIT_CLEAR, triggers, Barrier.TRIGGER_WAIT_CLEAR)

    def _matches_any(self, offset, register, triggers, barrier):
        matches = offset == register
        matches |= (offset >= triggers) & (offset < triggers + WORD_BYTES * self.config.sw_events)
        for number in range(self.config.barriers):
            matches |= offset == EventRegister.BARRIER + BARRIER_BYTES * number + barrier
        return matches

    def _others(self, offset):
        mutexes = (offset >= EventRegister.MUTEX) & (offset < EventRegister.MUTEX + WORD_BYTES * self.config.mutexes)
        return mutexes | (offset == EventRegister.DISPATCH_FIFO)


def offset_of(port):
    return Cat(Const(0, ceil_log2(WORD_BYTES)), port.addr[ceil_log2(WORD_BYTES) : ceil_log2(BLOCK_BYTES)])


_DISPATCH_CLAIMS = {
    "room": "no core has more unread words than the queue holds",
    "one": "the lowest waiting core pushes, if there is room, and no other",
    "waits": "a core gets only a pushed word that it waits for and has not passed",
    "passes": "a core passes the word it gets, and at most one per cycle",
}


class DispatchClaims(Obligation):
    """Properties of a dispatch queue, with a count of the words that each core has not read."""

    def __init__(self, config):
        self.cores, self.entries = config.cores, config.dispatch_depth
        names = ("tail", *(f"place_{core}" for core in range(config.cores)))
        registers = {name: (name, ceil_log2(self.entries) + 1) for name in names}
        super().__init__(f"dispatch queue, {config.cores} cores", Dispatch(config), _DISPATCH_CLAIMS, registers)

    def claim(self, m):
        unit, depth = self.unit, self.entries
        left = [Signal(range(depth + 2), name=f"left_{core}") for core in range(self.cores)]
        lowest = (unit.pushing & ~(unit.pushing - 1))[: self.cores]
        waits, passes, agree, full = [], [], [], []
        for core, count in enumerate(left):
            place = getattr(self, f"place_{core}")
            before = Signal.like(place, name=f"before_{core}")
            got, known = signals(1, f"got_{core} known_{core}")
            moved = (place - before)[: len(place)]
            m.d.sync += [before.eq(place), got.eq(unit.popped[core]), known.eq(1)]
            # subtract the word that was passed in the last cycle
            now = Signal.like(count, name=f"now_{core}")
            m.d.comb += now.eq(Mux(known, count - moved, 0))
            m.d.sync += count.eq(now + unit.pushed.any())
            waits.append(~unit.popped[core] | unit.popping[core] & (now != 0))
            passes.append(~known | (moved == got) | (moved == 1))
            full.append(now == depth)
            agree.append((now <= depth) & ((self.tail - place)[: len(place)] == now[: len(place)]))
        m.d.comb += [
            self.room.eq(Cat(agree).all()),
            self.waits.eq(Cat(waits).all()),
            self.passes.eq(Cat(passes).all()),
            self.one.eq(unit.pushed == Mux(Cat(full).any(), 0, lowest)),
        ]


_BARRIER_CLAIMS = {
    "not_early": "an event occurs only when all cores of the trigger mask have triggered since the last one",
    "not_twice": "no trigger counts for two events",
    "not_late": "when all have triggered, the event goes to the whole target mask in that cycle",
    "status": "the status names the cores that have triggered",
}


class BarrierClaims(Obligation):
    def __init__(self, config):
        super().__init__(f"barrier, {config.cores} cores", BarrierUnit(config), _BARRIER_CLAIMS, {})

    def claim(self, m):
        state, events = self.unit.state, self.unit.events
        cores = self.unit.cores
        came, triggers, complete = Signal(cores), Signal(cores), Signal()
        # cores whose last trigger has completed a barrier; after reset no core has triggered
        spent = Signal(cores, init=-1)
        m.d.comb += [
            triggers.eq(self._triggers(cores)),
            complete.eq((state.trigger_mask != 0) & (came == state.trigger_mask)),
            self.not_early.eq((events == 0) | ((state.trigger_mask & ~came) == 0) & (state.trigger_mask != 0)),
            self.not_twice.eq(((events == 0) | ((state.trigger_mask & spent) == 0)) & ((came & spent) == 0)),
            self.not_late.eq(~complete | (events == state.target_mask)),
            self.status.eq(state.status == came),
        ]
        used = Mux(events != 0, state.trigger_mask, 0)
        m.d.sync += [came.eq(Mux(complete, 0, came) | triggers), spent.eq((spent | used) & ~triggers)]

    def _triggers(self, cores):
        requests = 0
        base = EventRegister.BARRIER + BARRIER_BYTES * self.unit.number
        for core, access in enumerate(self.unit.accesses):
            loads = (Barrier.TRIGGER_SELF, Barrier.TRIGGER_WAIT, Barrier.TRIGGER_WAIT_CLEAR)
            own = Cat(access.offset == base + register for register in loads).any()
            stored = access.write & (access.offset == base + Barrier.TRIGGER)
            requests |= Mux(own & access.read, 1 << core, 0) | Mux(stored, access.data[:cores], 0)
        return requests


_MUTEX_CLAIMS = {
    "exclusive": "between two grants, a store unlocks the mutex",
    "one": "at most one core is granted, which waits",
    "served": "while the mutex is free, the lowest waiting core is granted",
    "free": "the mutex is free until a grant, and again from the unlocking store on",
}


class MutexClaims(Obligation):
    def __init__(self, config):
        registers = {"locked": ("locked", 1)}
        super().__init__(f"mutex, {config.cores} cores", MutexUnit(config), _MUTEX_CLAIMS, registers)

    def claim(self, m):
        waiting, granted = self.unit.waiting, self.unit.granted
        owned, unlocks = Signal(), Signal()
        offset = EventRegister.MUTEX + WORD_BYTES * self.unit.number
        for access in self.unit.accesses:
            with m.If(access.write & (access.offset == offset)):
                m.d.comb += unlocks.eq(1)
        m.d.sync += owned.eq(Mux(owned, ~unlocks, granted != 0))
        served = (waiting == 0) | owned
        for core, request in enumerate(waiting):
            first = request & ~waiting[:core].any() if core else request
            served |= first & granted[core]
        m.d.comb += [
            self.exclusive.eq(~owned | (granted == 0)),
            self.one.eq(((granted & (granted - 1)[: len(granted)]) == 0) & ((granted & ~waiting) == 0)),
            self.served.eq(served),
            self.free.eq(self.locked == owned),
        ]
