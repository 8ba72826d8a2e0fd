from amaranth.hdl import Module, Signal

from xpulpnn.cluster.peripherals.registers import serve, written_value
from xpulpnn.component import Component, In, Out
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.machine import CLINT_SPACE, WORD_BYTES, XLEN, Clint

_REGISTER = 2 * XLEN  # bits of the time


class CoreLocalInterruptor(Component):
    """Timer and software interrupts of all harts, with the registers of a CLINT.

    ``MTIME`` counts cycles; a software write wins over a step. ``timer`` of a hart is high in the cycle after one in
    which the time was at least its ``MTIMECMP``, all ones after reset, and low in the cycle after a write of that.
    Answers in the next cycle. The clock must not stop while cores sleep.
    """

    def __init__(self, harts: int):
        self.harts = harts
        ports = {
            "port": In(ObiSignature()),  #: Access to the registers; bits 15 to 2 of the address count.
            "timer": Out(harts),  #: Timer interrupt of each hart.
            "software": Out(harts),  #: Software interrupt of each hart, bit 0 of its ``MSIP``.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        time = Signal(_REGISTER)
        compares = [Signal(_REGISTER, init=-1, name=f"compare{hart}") for hart in range(self.harts)]
        registers = {Clint.MSIP + WORD_BYTES * hart: self.software[hart] for hart in range(self.harts)}
        values = {Clint.MTIME: time}
        values |= {Clint.MTIMECMP + 2 * WORD_BYTES * hart: compare for hart, compare in enumerate(compares)}
        for address, value in values.items():
            registers |= {address: value[:XLEN], address + WORD_BYTES: value[XLEN:]}
        written = serve(m, self.port, registers, CLINT_SPACE)
        m.d.sync += time.eq(time + 1)
        for hart, compare in enumerate(compares):
            first = Clint.MTIMECMP + 2 * WORD_BYTES * hart
            m.d.sync += self.timer[hart].eq((time >= compare) & ~(written[first] | written[first + WORD_BYTES]))
        for address, value in registers.items():
            with m.If(written[address]):
                m.d.sync += value.eq(written_value(self.port, value))
        return m
