from amaranth.hdl import Module, Signal
from amaranth.lib import enum

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.core.obi import ObiSignature
from xpulpnn.debug.dmi import AccessSignature
from xpulpnn.debug.hart_control import flag
from xpulpnn.isa import debug as isa
from xpulpnn.isa.machine import BYTE_BITS, HALF_BYTES, WORD_BYTES, XLEN

_KEPT = (isa.Sbcs.READONADDR, isa.Sbcs.AUTOINCREMENT, isa.Sbcs.READONDATA)


class BusState(enum.Enum, shape=2):
    IDLE, REQUESTED, GRANTED = range(3)


class AccessSize(enum.Enum, shape=isa.SBCS_ACCESS_BITS):
    """Size of a system bus access; larger codes are sizes that are not supported."""

    BYTE, HALF, WORD = range(3)


class SystemBus(Component):
    """Registers sbcs, sbaddress0 and sbdata0, and the accesses that they start.

    One access of 8, 16 or 32 bits at a time. Read data are in the low bits of sbdata0, zeros above. An illegal or
    failed access, and a request during an access, set an error that blocks further accesses until it is cleared. The
    settings cannot be changed during an access. Reset, and ``active`` low, clear settings and errors, the latter when
    no access is outstanding.
    """

    access: In(AccessSignature())  #: Accesses of the debugger to the registers.
    active: In(1)  #: The module is active.
    reset: In(1)  #: Reset of the bus, which drops the outstanding access.
    bus: Out(ObiSignature())  #: The system's bus.

    def elaborate(self, platform):
        m = Module()
        access, bus = self.access, self.bus
        state = Signal(BusState)
        size = Signal(AccessSize, init=AccessSize.WORD)
        error = Signal(isa.SBERROR_BITS)
        settings = {bit: Signal(name=bit.name.lower()) for bit in _KEPT}
        busy_error, busy, write, starts = signals(1, "busy_error busy write starts")
        address, word = signals(XLEN, "address word")
        at = {name: access.addr == isa.DmReg[name] for name in ("SBCS", "SBADDRESS0", "SBDATA0")}
        places = at["SBADDRESS0"] & access.writes, at["SBDATA0"] & (access.writes | access.reads)
        m.d.comb += busy.eq(state != BusState.IDLE)
        with m.If(busy & (at["SBCS"] & access.writes | places[0] | places[1])):
            m.d.sync += busy_error.eq(1)
        with m.If(access.writes & at["SBCS"] & ~busy):
            m.d.sync += [
                *(bit.eq(flag(access.wdata, place)) for place, bit in settings.items()),
                size.eq(access.wdata[isa.SBCS_ACCESS_LSB :]),
                error.eq(error & ~access.wdata[isa.SBCS_ERROR_LSB :][: isa.SBERROR_BITS]),
                busy_error.eq(busy_error & ~flag(access.wdata, isa.Sbcs.BUSYERROR)),
            ]
        with m.If(access.writes & at["SBADDRESS0"] & ~busy):
            m.d.sync += address.eq(access.wdata)
            m.d.comb += starts.eq(settings[isa.Sbcs.READONADDR])
        with m.If(access.writes & at["SBDATA0"] & ~busy):
            m.d.sync += word.eq(access.wdata)
            m.d.comb += [starts.eq(1), write.eq(1)]
        with m.If(access.reads & at["SBDATA0"]):
            m.d.comb += starts.eq(settings[isa.Sbcs.READONDATA])
        with m.If(starts & ~busy & ~busy_error & (error == isa.SbError.NONE)):
            m.d.sync += [state.eq(BusState.REQUESTED), bus.we.eq(write)]
        self._access(m, state, size, error, address, word)
        with m.If(state == BusState.GRANTED), m.If(bus.rvalid & ~bus.err & settings[isa.Sbcs.AUTOINCREMENT]):
            m.d.sync += address.eq(address + (1 << size.as_value()))
        with m.If(self.reset):
            m.d.sync += state.eq(BusState.IDLE)
        with m.If(~self.active & ~busy):
            m.d.sync += [*(bit.eq(0) for bit in settings.values()), size.eq(AccessSize.WORD)]
            m.d.sync += [error.eq(isa.SbError.NONE), busy_error.eq(0)]
        self._read(m, settings, size, error, (busy_error, busy), (address, word))
        return m

    def _access(self, m, state, size, error, address, word):
        bus = self.bus
        lane = Signal(range(WORD_BYTES))
        ill_sized, ill_aligned = signals(1, "ill_sized ill_aligned")
        read = bus.rdata >> (lane << BYTE_BITS.bit_length() - 1)
        m.d.comb += [
            lane.eq(address),
            ill_sized.eq(size.as_value() > AccessSize.WORD.value),
            bus.addr.eq(address & ~(WORD_BYTES - 1)),
            bus.wdata.eq(word << (lane << BYTE_BITS.bit_length() - 1)),
        ]
        with m.Switch(size):
            with m.Case(AccessSize.BYTE):
                m.d.comb += bus.be.eq(1 << lane)
            with m.Case(AccessSize.HALF):
                m.d.comb += [bus.be.eq(((1 << HALF_BYTES) - 1) << lane), ill_aligned.eq(lane[0])]
            with m.Default():
                m.d.comb += [bus.be.eq((1 << WORD_BYTES) - 1), ill_aligned.eq(lane.any())]
        with m.Switch(state):
            with m.Case(BusState.REQUESTED):
                m.d.comb += bus.req.eq(~ill_sized & ~ill_aligned)
                with m.If(ill_sized):
                    m.d.sync += [error.eq(isa.SbError.SIZE), state.eq(BusState.IDLE)]
                with m.Elif(ill_aligned):
                    m.d.sync += [error.eq(isa.SbError.ALIGNMENT), state.eq(BusState.IDLE)]
                with m.Elif(bus.gnt):
                    m.d.sync += state.eq(BusState.GRANTED)
            with m.Case(BusState.GRANTED):
                with m.If(bus.rvalid):
                    m.d.sync += state.eq(BusState.IDLE)
                with m.If(bus.rvalid & bus.err):
                    m.d.sync += error.eq(isa.SbError.BAD_ADDRESS)
                with m.Elif(bus.rvalid & ~bus.we), m.Switch(size):
                    with m.Case(AccessSize.BYTE):
                        m.d.sync += word.eq(read[:BYTE_BITS])
                    with m.Case(AccessSize.HALF):
                        m.d.sync += word.eq(read[: HALF_BYTES * BYTE_BITS])
                    with m.Default():
                        m.d.sync += word.eq(bus.rdata)

    def _read(self, m, settings, size, error, flags, words):
        access, (busy_error, busy), (address, word) = self.access, flags, words
        sbcs = Signal(XLEN)
        m.d.comb += [
            sbcs.eq(
                isa.SBCS_VERSION
                | isa.SBCS_SIZES
                | XLEN << isa.SBCS_ASIZE_LSB
                | error << isa.SBCS_ERROR_LSB
                | size.as_value() << isa.SBCS_ACCESS_LSB
                | sum((bit << place.bit_length() - 1 for place, bit in settings.items()), start=0)
                | busy_error << isa.Sbcs.BUSYERROR.bit_length() - 1
                | busy << isa.Sbcs.BUSY.bit_length() - 1
            )
        ]
        with m.Switch(access.addr):
            with m.Case(isa.DmReg.SBCS):
                m.d.comb += access.rdata.eq(sbcs)
            with m.Case(isa.DmReg.SBADDRESS0):
                m.d.comb += access.rdata.eq(address)
            with m.Case(isa.DmReg.SBDATA0):
                m.d.comb += access.rdata.eq(word)
