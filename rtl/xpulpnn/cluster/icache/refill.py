from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.fifo import SyncFIFO

from xpulpnn.cluster.ports import LINE_BEATS, LINE_NUMBER_BITS, LINE_OFFSET_BITS, RefillSignature, one_hot_mux
from xpulpnn.cluster.tcdm.arbiter import Arbiter
from xpulpnn.component import Component, In, Out, signals


class RefillPort(Component):
    """Reads, in parts, the lines that miss in the banks of the shared cache.

    The request of a line is accepted when the parts of no other line are being requested; its parts are requested one
    after the other from the next cycle on. The lines of several banks may be outstanding together; answers come in the
    order of the requests. Reset drops outstanding reads: the memory must be reset too.
    """

    def __init__(self, banks: int):
        self.banks = banks  # number of banks, each with at most one line requested
        ports = {
            "req": In(banks),  #: Requests.
            "gnt": Out(banks),  #: The request that is accepted.
            #: lines: Numbers of the lines requested; each stays until the last part of the line has come.
            "lines": In(LINE_NUMBER_BITS).array(banks),
            "part_valid": Out(banks),  #: The bank whose line a part has arrived of.
            "refill": Out(RefillSignature()),  #: Memory.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        refill = self.refill
        m.submodules.arbiter = arbiter = Arbiter(self.banks, "counter")
        # Verilog has no memory of one row, which needs no address
        m.submodules.order = order = SyncFIFO(width=self.banks, depth=max(self.banks, 2))
        # the bank whose line is being requested
        owner = Signal(self.banks)
        requested, answered = signals(range(LINE_BEATS), "requested answered")
        m.d.comb += [
            arbiter.req.eq(Mux(owner.any(), 0, self.req)),
            self.gnt.eq(arbiter.gnt),
            order.w_data.eq(arbiter.gnt),
            order.w_en.eq(arbiter.gnt.any()),
            order.r_en.eq(refill.rvalid & answered.all()),
            self.part_valid.eq(order.r_data & refill.rvalid.replicate(self.banks)),
            refill.req.eq(owner.any()),
            refill.addr.eq(Cat(Const(0, LINE_OFFSET_BITS - len(requested)), requested, one_hot_mux(owner, self.lines))),
        ]
        with m.If(arbiter.gnt.any()):
            m.d.sync += owner.eq(arbiter.gnt)
        with m.Elif(refill.gnt & requested.all()):
            m.d.sync += owner.eq(0)
        with m.If(refill.req & refill.gnt):
            m.d.sync += requested.eq(requested + 1)
        with m.If(refill.rvalid):
            m.d.sync += answered.eq(answered + 1)
        return m
