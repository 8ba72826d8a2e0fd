from amaranth.hdl import Const, Module, Signal

from xpulpnn.cells.memory import MemoryPortSignature
from xpulpnn.component import Component, In, Out, connect, flipped
from xpulpnn.isa.machine import XLEN


class TestAndSet(Component):
    """Writes all ones to the word that a load has just read.

    In the cycle after an access with ``start`` the bank is written with the address and the byte enables of that
    access, and no other access may be made. In all other cycles accesses pass through. Reset drops the write.
    """

    def __init__(self, words: int):
        self.words = words  # number of words of the bank
        ports = {
            "access": In(MemoryPortSignature(words)),  #: Access to the bank.
            "start": In(1),  #: The access is the load of a test-and-set.
            "busy": Out(1),  #: The bank is being written: ``access`` must not request.
            "bank": Out(MemoryPortSignature(words)),  #: The bank.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        access, bank = self.access, self.bank
        addr = Signal.like(access.addr)
        be = Signal.like(access.be)
        connect(m, flipped(access), flipped(bank))
        m.d.sync += self.busy.eq(access.req & self.start)
        with m.If(access.req & self.start):
            m.d.sync += [addr.eq(access.addr), be.eq(access.be)]
        with m.If(self.busy):
            m.d.comb += [
                bank.req.eq(1),
                bank.we.eq(1),
                bank.addr.eq(addr),
                bank.be.eq(be),
                bank.wdata.eq(Const(-1, XLEN)),
            ]
        return m
