"""WB stage: results that arrive after EX."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.config import CoreConfig
from xpulpnn.core.pipeline import IdExSignature, WbSignature


class WbStage(wiring.Component):
    """Keeps the destinations of the instruction whose memory response is awaited.

    A loaded value goes to rd through port A. With a Mac&Load the word goes to the NN-RF instead, and port A writes the
    incremented base, registered here. Reset drops what is under way.

    Parameters
    ----------
    config : CoreConfig
        Mac&Load forms present.

    Members
    -------
    id_ex : In(IdExSignature)
        The instruction in EX.
    ex_ready : In(1)
        EX hands on what it holds, possibly a bubble.
    ex_base : In(32)
        Incremented base made in EX.
    lsu_done : In(1)
        Response received, or none awaited.
    lsu_rdata : In(32)
        Loaded value.
    wb : Out(WbSignature)
        Write under way, for forwarding.
    wb_write : Out(1)
        The write happens at the end of this cycle.
    wb_is_base : Out(1)
        It is a Mac&Load base.
    elw_stall : Out(1)
        p.elw waits for its answer; only with performance counters.
    nn_we, nn_addr : Out
        NN-RF write of ``lsu_rdata`` at the end of this cycle; only with Mac&Load.
    """

    def __init__(self, config: CoreConfig):
        self.config = config
        ports = {
            "id_ex": In(IdExSignature(config)),
            "ex_ready": In(1),
            "ex_base": In(32),
            "lsu_done": In(1),
            "lsu_rdata": In(32),
            "wb": Out(WbSignature()),
            "wb_write": Out(1),
            "wb_is_base": Out(1),
        }
        if config.performance_counters:
            ports["elw_stall"] = Out(1)
        if config.mac_load:
            ports |= {"nn_we": Out(1), "nn_addr": Out(config.nn_addr_bits)}
        super().__init__(ports)

    def elaborate(self, platform):
        """Build the destination registers and the multiplexer of port A."""
        m = Module()
        id_ex, wb = self.id_ex, self.wb
        with m.If(self.ex_ready):
            m.d.sync += [wb.we.eq(id_ex.valid & id_ex.wb_we), wb.addr.eq(id_ex.wb_addr)]
        with m.Elif(self.lsu_done):
            m.d.sync += wb.we.eq(0)
        m.d.comb += self.wb_write.eq(wb.we & self.lsu_done)
        if self.config.performance_counters:
            elw = Signal()
            with m.If(self.ex_ready):
                m.d.sync += elw.eq(id_ex.valid & id_ex.elw)
            m.d.comb += self.elw_stall.eq(elw & ~self.lsu_done)
        if not self.config.mac_load:
            m.d.comb += wb.data.eq(self.lsu_rdata)
            return m

        base = Signal(32)
        # keeps the register's inputs quiet while other results pass
        new_base = Signal(32)
        m.d.comb += new_base.eq(self.ex_base & id_ex.wb_base.replicate(32))
        nn_pending = Signal()
        with m.If(self.ex_ready):
            m.d.sync += [self.wb_is_base.eq(id_ex.wb_base), nn_pending.eq(id_ex.valid & id_ex.nn_we)]
            with m.If(id_ex.valid & id_ex.wb_base):
                m.d.sync += [base.eq(new_base), self.nn_addr.eq(id_ex.nn_addr)]
        with m.Elif(self.lsu_done):
            m.d.sync += nn_pending.eq(0)
        m.d.comb += [
            wb.data.eq(Mux(self.wb_is_base, base, self.lsu_rdata)),
            self.nn_we.eq(nn_pending & self.lsu_done),
        ]
        return m
