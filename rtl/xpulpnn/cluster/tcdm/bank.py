from amaranth.hdl import Module
from amaranth.lib.memory import Memory

from xpulpnn.cluster.ports import BankSignature
from xpulpnn.component import Component, In
from xpulpnn.isa.machine import BYTE_BITS, XLEN


class Bank(Component):
    """Single-port memory of 32-bit words as an array, a placeholder for a memory macro.

    One access per cycle; the word read appears in the next cycle and stays until the next read. Not reset.
    """

    def __init__(self, words: int):
        self.words = words  # size in words, a power of two
        #: port: Access.
        super().__init__(ports={"port": In(BankSignature(words))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = Memory(shape=XLEN, depth=self.words, init=[])
        write = words.write_port(granularity=BYTE_BITS)
        read = words.read_port()
        port = self.port
        m.d.comb += [
            write.addr.eq(port.addr),
            write.data.eq(port.wdata),
            write.en.eq(port.be & (port.req & port.we).replicate(len(port.be))),
            read.addr.eq(port.addr),
            read.en.eq(port.req & ~port.we),
            port.rdata.eq(read.data),
        ]
        return m
