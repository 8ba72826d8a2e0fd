from amaranth.hdl import Module, Mux, Signal

from xpulpnn.component import Component, In, Out
from xpulpnn.core.pipeline import WbSignature


class OperandRead(Component):
    """Value of a register as seen by the instruction in ID.

    The result of EX is forwarded in its own cycle, the value that WB writes in the cycle of its arrival. A register
    whose value the instruction in EX will only deliver in WB (load data, the base of a Mac&Load) is not ready.
    Combinational.
    """

    def __init__(self, *, pairs: bool = False):
        ports = {
            "addr": In(5),  #: Register read.
            "stored": In(32),  #: Value of the register in the register file.
            "ex_we": In(1),  #: The instruction in EX writes a register through port B.
            "ex_addr": In(5),  #: Register that port B writes.
            "ex_result": In(32),  #: Value that port B writes.
            "ex_late_we": In(1),  #: The instruction in EX will write a register from WB.
            "ex_late_addr": In(5),  #: Register that the instruction in EX will write from WB.
            "wb": In(WbSignature(pairs=pairs)),  #: Register written from WB.
            "from_ex": Out(1),  #: The value of the register is ``ex_result``, the latest signal of the cycle.
            "other": Out(32),  #: Value of the register unless it is ``ex_result``; known early.
            "value": Out(32),  #: Forwarded value, valid if EX and WB are done in this cycle and ``ready``.
            "ready": Out(1),  #: The value of the register is available in the pipeline.
        }
        if pairs:
            #: ex_late_pair: The instruction in EX will write an even-odd register pair; with Mac&Load of two products.
            ports["ex_late_pair"] = In(1)
        self.pairs = pairs
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        late, arrives = self.ex_late_addr == self.addr, self.wb.we & (self.wb.addr == self.addr)
        early = self.stored
        if self.pairs:
            # the odd register of a pair shares all but the lowest bit of its number, and its value is early
            late |= self.ex_late_pair & (self.ex_late_addr[1:] == self.addr[1:])
            is_second = self.wb.we & self.wb.pair & self.addr[0] & (self.wb.addr[1:] == self.addr[1:])
            early = Signal(32, name="early")
            m.d.comb += early.eq(Mux(is_second, self.wb.odd, self.stored))
        m.d.comb += [
            self.from_ex.eq(self.ex_we & (self.ex_addr == self.addr)),
            self.other.eq(Mux(arrives, self.wb.data, early)),
            self.value.eq(Mux(self.from_ex, self.ex_result, self.other)),
        ]
        m.d.comb += self.ready.eq(~(self.ex_late_we & late))
        return m
