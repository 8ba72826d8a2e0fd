# amaranth: UnusedElaboratable=no
"""Properties of debugging: routing to the debug module's memory, system bus accesses, and halts of waiting cores."""

from amaranth.hdl import Mux, Signal
from amaranth.lib.wiring import In

from xpulpnn.cluster.event_unit.core_unit import CoreUnit, Wait
from xpulpnn.component import signals
from xpulpnn.core.obi import InstructionPortSignature
from xpulpnn.debug.config import DebugConfig
from xpulpnn.debug.hart_control import flag
from xpulpnn.debug.port_demux import PortDemux
from xpulpnn.debug.system_bus import BusState, SystemBus
from xpulpnn.isa.debug import DEBUG_BYTES, SBCS_ERROR_LSB, SBERROR_BITS, DmReg, Sbcs, SbError
from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.proofs.cluster.event_unit import CoreUnitClaims, offset_of
from xpulpnn_sim.proofs.cluster.obligation import Obligation

_PLACES = 2
_MOST = 7  # maximum of outstanding accesses

_WAY_CLAIMS = {
    "one": "at most one target gets a request, and only while the hart requests",
    "right": "a request goes to the target of its address",
    "ordered": "a target gets a request only if the other has no outstanding response",
    "counted": "outstanding accesses are those granted and not answered, of one target; those before a reset are known",
    "passed": "the hart gets every response to what it requested since its reset, and no other",
}


class WayClaims(Obligation):
    """Properties of a demultiplexer to the debug module and other targets, with counts of outstanding transfers."""

    def __init__(self):
        ports = {"req": In(1), "addr": In(XLEN), "gnt": In(_PLACES), "rvalid": In(_PLACES), "hart_reset": In(1)}
        registers = {"under_way": ("under_way", 3), "last": ("last", 1), "stale": ("stale", 1)}
        unit = PortDemux(DebugConfig(), InstructionPortSignature(), hart_reset=True)
        super().__init__("way to the debug module's memory", unit, _WAY_CLAIMS, registers, ports=ports)

    def claim(self, m):
        hart, places = self.unit.hart, (self.unit.debug, self.unit.others)
        owed = [Signal(range(_MOST + 1), name=f"owed_{number}") for number in range(_PLACES)]
        m.d.comb += [hart.req.eq(self.req), hart.addr.eq(self.addr), self.unit.hart_reset.eq(self.hart_reset)]
        for number, (place, count) in enumerate(zip(places, owed, strict=True)):
            m.d.comb += [place.gnt.eq(self.gnt[number]), place.rvalid.eq(self.rvalid[number] & (count != 0))]
            m.d.sync += count.eq(count + (place.req & place.gnt) - place.rvalid)
        (debug, others), (first, second) = places, owed
        # accesses from before the last reset of the hart
        old = Signal(range(_MOST + 1))
        granted, answered = hart.req & hart.gnt, debug.rvalid | others.rvalid
        m.d.sync += old.eq(
            Mux(self.hart_reset, first + second + granted, old) - (answered & (self.hart_reset | (old != 0)))
        )
        inside = self.addr[DEBUG_BYTES.bit_length() - 1 :] == self.unit.config.base // DEBUG_BYTES
        m.d.comb += [
            self.one.eq(~(debug.req & others.req) & (hart.req | ~(debug.req | others.req))),
            self.right.eq((~debug.req | inside) & (~others.req | ~inside)),
            self.ordered.eq((~debug.req | (second == 0)) & (~others.req | (first == 0))),
            self.counted.eq(
                (self.under_way == first + second)
                & (Mux(self.last, second, first) == 0)
                & (old == Mux(self.stale, first + second, 0))
            ),
            self.passed.eq(hart.rvalid == answered & (old == 0)),
        ]


_BUS_CLAIMS = {
    "steady": "a request stays as it is until it is granted",
    "alone": "nothing is requested while a response is outstanding",
    "busy": "an access is busy until it is answered",
    "silent": "nothing is requested while the error is set",
    "told": "a failing access sets the error",
    "read": "sbcs shows whether an access is busy, and the error",
}


class SystemBusClaims(Obligation):
    """Properties of the debug module's system bus access, with a record of the request and its outstanding response."""

    def __init__(self):
        registers = {"state": ("state", 2), "error": ("error", SBERROR_BITS)}
        super().__init__("system bus of the debug module", SystemBus(), _BUS_CLAIMS, registers)

    def claim(self, m):
        bus = self.unit.bus
        owed, waits, failed = signals(1, "owed request_waits has_failed")
        steady = ~waits | bus.req
        for name in ("addr", "we", "be", "wdata"):
            port = getattr(bus, name)
            before = Signal.like(port, name=f"before_{name}")
            m.d.sync += before.eq(port)
            steady &= ~waits | (port == before)
        granted, access = bus.req & bus.gnt, self.unit.access
        read = flag(access.rdata, Sbcs.BUSY) == (self.state != BusState.IDLE)
        read &= access.rdata[SBCS_ERROR_LSB:][:SBERROR_BITS] == self.error
        m.d.sync += [
            waits.eq(bus.req & ~bus.gnt & ~self.unit.reset),
            owed.eq((granted | owed & ~bus.rvalid) & ~self.unit.reset),
            failed.eq(owed & bus.rvalid & bus.err),
        ]
        m.d.comb += [
            self.steady.eq(steady),
            self.alone.eq(~(bus.req & owed)),
            self.busy.eq(((self.state == BusState.GRANTED) == owed) & (self.state <= BusState.GRANTED.value)),
            self.silent.eq((self.state == BusState.IDLE) | (self.error == SbError.NONE)),
            self.told.eq(~failed | (self.error == SbError.BAD_ADDRESS)),
            self.read.eq((access.addr != DmReg.SBCS) | read),
        ]


_HALT_CLAIMS = {
    "ends": "a waiting access is answered in the cycle after the halt request",
    "remembered": "an aborted load that waited for events is remembered until the next such load",
    "once": "the same load triggers nothing again",
    "all": "every other load triggers what it addresses",
    "willing": "a request is granted unless an access waits",
}


class HaltClaims(CoreUnitClaims):
    """Properties of a core's event unit port in debug mode, with a record of the load that a halt aborted."""

    def __init__(self, config):
        self.config = config
        registers = {"waits_for": ("waits_for", 3), "kept": ("wait_aborted", 1), "waited_at": ("waited_at", 10)}
        title = f"halts of a core in the event unit, {config.cores} cores"
        Obligation.__init__(self, title, CoreUnit(config), _HALT_CLAIMS, registers)

    def claim(self, m):
        unit, port = self.unit, self.unit.port
        offset = offset_of(port)
        loads, asks, must_end, breaks, again, stays = signals(1, "loads asks must_end breaks again stays")
        where = Signal.like(offset, name="where")
        m.d.comb += [
            loads.eq(port.req & port.gnt & ~port.we),
            asks.eq(loads & (self._waiting(offset) | self._clearing(offset)) & ~unit.debug_mode),
            again.eq(stays | breaks & port.rvalid & port.err),
        ]
        for_events = (self.waits_for == Wait.EVENT) | (self.waits_for == Wait.EVENT_CLEAR)
        m.d.sync += [
            must_end.eq((self.waits_for != Wait.NONE) & unit.halt),
            breaks.eq(for_events & unit.halt & ~unit.debug_mode),
            stays.eq(again & ~asks),
        ]
        with m.If(asks):
            m.d.sync += where.eq(offset)
        repeats = asks & again & (offset == where)
        m.d.comb += [
            self.ends.eq(~must_end | port.rvalid),
            self.remembered.eq((self.kept == again) & (self.waited_at == where)),
            self.once.eq(~(repeats & unit.access.read)),
            self.all.eq(~loads | repeats | unit.access.read),
            self.willing.eq(port.gnt == (self.waits_for == Wait.NONE)),
        ]
