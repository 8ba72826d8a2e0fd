from amaranth.hdl import Module, Mux, Signal

from xpulpnn.component import Component, In, Out, assign_by_name
from xpulpnn.core.obi import InstructionPortSignature, ObiSignature


class MemoryShare(Component):
    """Arbitrates fetches and data accesses for a memory that answers in the next cycle; data accesses win."""

    instr: In(InstructionPortSignature())  #: Fetches.
    data: In(ObiSignature())  #: Data accesses.
    memory: Out(ObiSignature())  #: The memory.

    def elaborate(self, platform):
        m = Module()
        instr, accesses, memory = self.instr, self.data, self.memory
        last = Signal()
        m.d.comb += [
            memory.req.eq(instr.req | accesses.req),
            memory.addr.eq(Mux(accesses.req, accesses.addr, instr.addr)),
            memory.we.eq(accesses.req & accesses.we),
            memory.be.eq(Mux(accesses.req, accesses.be, -1)),
            memory.wdata.eq(accesses.wdata),
            accesses.gnt.eq(memory.gnt),
            instr.gnt.eq(memory.gnt & ~accesses.req),
            accesses.rvalid.eq(memory.rvalid & last),
            instr.rvalid.eq(memory.rvalid & ~last),
            *assign_by_name(accesses, memory, "rdata", "err"),
            *assign_by_name(instr, memory, "rdata", "err"),
        ]
        with m.If(memory.req & memory.gnt):
            m.d.sync += last.eq(accesses.req)
        return m
