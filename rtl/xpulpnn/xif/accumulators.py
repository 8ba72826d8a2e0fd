"""Accumulators of a block of four pixels and four filters."""

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import data

from xpulpnn.component import Component, In, Out
from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.xif import ACCUMULATORS, FILTERS, PIXELS
from xpulpnn.xif.config import XifConfig


class Accumulators(Component):
    """Sixteen sums, ``4 * pixel + filter``; as many at a time as there are dot-product units.

    With two dot-product units the first has the even and the second the odd pixels. Reads are combinational, writes
    are at the end of the cycle; no two of ``we``, ``clear`` and ``packed_we`` together.
    """

    def __init__(self, config: XifConfig) -> None:
        self.units = int(config.dots)
        words = data.ArrayLayout(XLEN, self.units)
        ports = {
            #: addr: Pixel, without its lowest bit for two units, above the filter.
            "addr": In(range(ACCUMULATORS // self.units)),
            "rdata": Out(words),  #: Sums of the units at the address.
            "we": In(self.units),  #: The sum of a unit is written.
            "wdata": In(words),  #: Sums to write.
            "clear": In(1),  #: All sums become 0.
        }
        if config.requantise != "none":
            #: pixel: Pixel whose accumulator of filter 0 holds its requantised elements; only with requantisation.
            #: packed: That accumulator; only with requantisation.
            #: packed_we, packed_wdata: The accumulator is written, and the word; only with requantisation.
            ports |= {"pixel": In(range(PIXELS)), "packed": Out(XLEN), "packed_we": In(1), "packed_wdata": In(XLEN)}
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        sums = [
            Signal(XLEN, name=f"sum_{pixel}_{of_filter}") for pixel in range(PIXELS) for of_filter in range(FILTERS)
        ]
        with m.If(self.clear):
            m.d.sync += [word.eq(0) for word in sums]
        for unit in range(self.units):
            rows = [sums[FILTERS * pixel : FILTERS * (pixel + 1)] for pixel in range(unit, PIXELS, self.units)]
            words = [word for row in rows for word in row]
            m.d.comb += self.rdata[unit].eq(Array(words)[self.addr])
            with m.If(self.we[unit]):
                m.d.sync += Array(words)[self.addr].eq(self.wdata[unit])
        if self.config.requantise != "none":
            packed = Array(sums[::FILTERS])
            m.d.comb += self.packed.eq(packed[self.pixel])
            with m.If(self.packed_we):
                m.d.sync += packed[self.pixel].eq(self.packed_wdata)
        return m
