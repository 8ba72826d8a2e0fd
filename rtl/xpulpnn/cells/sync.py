from amaranth.hdl import Cat, Module, Signal

from xpulpnn.component import Component, In, Out

STAGES = 2
ASYNC_REG = {"ASYNC_REG": "TRUE"}  # attribute of Vivado: adjacent flip-flops, which may become metastable


class Sync(Component):
    """Two flip-flops that bring a bit of another clock into this one; a cell of the technology may replace the module.

    ``value`` is ``data`` two rising edges later.
    """

    data: In(1)  #: A register of another clock.
    value: Out(1)  #: The same in this clock.

    def elaborate(self, platform):
        m = Module()
        stages = Signal(STAGES, attrs=ASYNC_REG)
        m.d.sync += stages.eq(Cat(self.data, stages))
        m.d.comb += self.value.eq(stages[-1])
        return m
