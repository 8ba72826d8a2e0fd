from amaranth.hdl import Cat, DomainRenamer, Module, Mux, Signal

from xpulpnn.cells.sync import Sync
from xpulpnn.component import Component, In, Out, assign_by_name, signals
from xpulpnn.debug.dmi import DmiSignature
from xpulpnn.debug.fpga_tap import FpgaTap
from xpulpnn.debug.hart_control import flag
from xpulpnn.debug.tap import Tap
from xpulpnn.isa import debug as isa
from xpulpnn.isa.machine import XLEN

_OP_BITS = 2
_SHIFTED_BITS = _OP_BITS + XLEN + isa.DMI_ADDRESS_BITS


class _Dtm(Component):
    """Registers behind a test access port, and the clock domain crossing to the debug module."""

    SHIFTS_AHEAD = False  # the port takes the next bit instead of the lowest bit of the register

    def _registers(self, m, tap, tdi):
        shifted = Signal(_SHIFTED_BITS)
        # the module may be reading these registers while the port is reset
        address = Signal(isa.DMI_ADDRESS_BITS, reset_less=True)
        word = Signal(XLEN, reset_less=True)
        write, (request, answered, sticky) = Signal(reset_less=True), signals(1, "request answered sticky")
        lowest = shifted[0]
        status = Mux(sticky, isa.DmiOp.BUSY, isa.DmiOp.SUCCESS)
        is_dmi, is_dtmcs = tap.instruction == isa.TapRegister.DMI, tap.instruction == isa.TapRegister.DTMCS
        dtmcs = isa.DTMCS_VERSION | isa.DMI_ADDRESS_BITS << isa.DTMCS_ABITS_LSB | isa.IDLE_CYCLES << isa.DTMCS_IDLE_LSB
        if self.SHIFTS_AHEAD:
            captured = Mux(is_dmi, Mux(request, isa.DmiOp.BUSY, status)[0], dtmcs & 1)
            lowest = Mux(tap.capture, captured, Mux(tap.shift, shifted[1], shifted[0]))
        m.d.comb += tap.data_out.eq(lowest)
        with m.If(tap.capture):
            with m.If(is_dmi):
                m.d.tck += [
                    shifted.eq(Cat(Mux(request, isa.DmiOp.BUSY, status), self.dmi.rdata, address)),
                    sticky.eq(sticky | request),
                ]
            with m.Elif(is_dtmcs):
                m.d.tck += shifted.eq(dtmcs | status << isa.DTMCS_STAT_LSB)
            with m.Else():
                m.d.tck += shifted.eq(self.config.idcode)
        with m.If(tap.shift):
            m.d.tck += shifted.eq(Cat(shifted[1:], tdi))
            with m.If(~is_dmi):
                m.d.tck += shifted[XLEN - 1].eq(tdi)
        op = shifted[:_OP_BITS]
        with m.If(tap.update & is_dtmcs & (flag(shifted, isa.DTMCS_DMIRESET) | flag(shifted, isa.DTMCS_DMIHARDRESET))):
            m.d.tck += sticky.eq(0)
        accessed = tap.update & is_dmi & ((op == isa.DmiOp.READ) | (op == isa.DmiOp.WRITE)) & ~sticky
        with m.If(accessed & (request | answered)):
            m.d.tck += sticky.eq(1)
        with m.Elif(accessed):
            m.d.tck += [request.eq(1), write.eq(op == isa.DmiOp.WRITE), Cat(word, address).eq(shifted[_OP_BITS:])]
        with m.Elif(answered):
            m.d.tck += request.eq(0)
        self._cross(m, request, answered)
        m.d.comb += [self.dmi.write.eq(write), self.dmi.addr.eq(address), self.dmi.wdata.eq(word)]

    def _cross(self, m, request, answered):
        """Build the handshake: the module sees a request for one cycle; its answer stays until the request falls."""
        done = Signal()
        m.submodules.request_sync = request_sync = Sync()
        m.submodules.done_sync = DomainRenamer("tck")(done_sync := Sync())
        m.d.sync += done.eq(request_sync.value)
        m.d.comb += [request_sync.data.eq(request), done_sync.data.eq(done), answered.eq(done_sync.value)]
        m.d.comb += self.dmi.valid.eq(request_sync.value & ~done)


class JtagDtm(_Dtm):
    """Transfers accesses from a test access port to the debug module (RISC-V Debug Specification 0.13.2, chapter 6).

    An access crosses from the clock TCK, domain ``tck``, to the module's clock by a four-phase handshake: request and
    answer rise, then both fall, each through two registers; address and data are stable meanwhile. A reset of either
    side during an access is harmless: at most the access is repeated. A request for an access, or for its outcome,
    before it has ended sets the sticky error ``BUSY``. dmihardreset equals dmireset, as every access is answered while
    the module has a clock.
    """

    #: tms: Mode select of the test access port; its clock TCK and reset TRST are those of the domain ``tck``.
    tms: In(1)
    tdi: In(1)  #: Serial data into the test access port.
    tdo: Out(1)  #: Serial data out of the test access port, which changes at falling edges of TCK.
    tdo_enable: Out(1)  #: Drive ``tdo``, else another device may; changes with it, and has no reset either.
    dmi: Out(DmiSignature())  #: Accesses to the debug module.

    def elaborate(self, platform):
        m = Module()
        m.submodules.tap = tap = Tap()
        m.d.comb += [tap.tms.eq(self.tms), tap.tdi.eq(self.tdi)]
        m.d.comb += [self.tdo.eq(tap.tdo), self.tdo_enable.eq(tap.tdo_enable)]
        self._registers(m, tap, self.tdi)
        return m


class FpgaDtm(_Dtm):
    """Transfers accesses from JTAGG, the test access port primitive of an ECP5, to the debug module.

    dtmcs is ER1 (0x32), dmi is ER2 (0x38). The clock of the domain ``tck`` is JTCK inverted; the clock domain crossing
    is as in :class:`JtagDtm`.
    """

    SHIFTS_AHEAD = True

    jtdi: In(1)  #: JTDI, serial data in, behind a register of the primitive.
    jshift: In(1)  #: JSHIFT, data registers are shifted.
    jupdate: In(1)  #: JUPDATE, the shifted data take effect.
    jce: In(2)  #: JCE1 and JCE2, register ER1 or ER2 captures or is shifted.
    jtdo: Out(1)  #: JTDO1 and JTDO2, serial data out, which the primitive registers at the falling edge.
    dmi: Out(DmiSignature())  #: Accesses to the debug module.

    def elaborate(self, platform):
        m = Module()
        m.submodules.tap = tap = FpgaTap()
        m.d.comb += [*assign_by_name(tap, self, "jshift", "jupdate", "jce"), self.jtdo.eq(tap.jtdo)]
        self._registers(m, tap, self.jtdi)
        return m
