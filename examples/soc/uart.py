"""The sending half of a UART."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

_DATA_BITS = 8
_FRAME_BITS = _DATA_BITS + 2


class UartTransmitter(wiring.Component):
    """Sends bytes, lowest bit first, with one start and one stop bit.

    Parameters
    ----------
    bit_cycles : int
        Clock cycles of a bit.

    Members
    -------
    send : In(1)
        Take ``byte``, unless ``busy``.
    byte : In(8)
        What to send.
    busy : Out(1)
        A byte is on the line.
    tx : Out(1)
        The line; 1 when idle.
    """

    send: In(1)
    byte: In(8)
    busy: Out(1)
    tx: Out(1, init=1)

    def __init__(self, bit_cycles: int):
        self._bit_cycles = bit_cycles
        super().__init__()

    def elaborate(self, platform):
        """A shift register that holds the frame, and a count of the cycles of its lowest bit."""
        m = Module()
        frame = Signal(_FRAME_BITS, init=1)
        left = Signal(range(_FRAME_BITS + 1))
        cycles = Signal(range(self._bit_cycles))
        m.d.comb += [self.tx.eq(frame[0]), self.busy.eq(left != 0)]
        with m.If(~self.busy), m.If(self.send):
            m.d.sync += [frame.eq(Cat(Const(0, 1), self.byte, Const(1, 1))), left.eq(_FRAME_BITS)]
        with m.Elif(cycles == self._bit_cycles - 1):
            m.d.sync += [cycles.eq(0), frame.eq(Cat(frame[1:], Const(1, 1))), left.eq(left - 1)]
        with m.Else():
            m.d.sync += cycles.eq(cycles + 1)
        return m
