from amaranth.hdl import Cat, ClockDomain, ClockSignal, Module, Mux, Signal
from amaranth.lib import enum

from xpulpnn.component import Component, In, Out
from xpulpnn.isa.debug import IR_BITS, TapRegister


class TapState(enum.Enum, shape=4):
    RESET, IDLE = range(2)
    SELECT_DR, CAPTURE_DR, SHIFT_DR, EXIT1_DR, PAUSE_DR, EXIT2_DR, UPDATE_DR = range(2, 9)
    SELECT_IR, CAPTURE_IR, SHIFT_IR, EXIT1_IR, PAUSE_IR, EXIT2_IR, UPDATE_IR = range(9, 16)


_S = TapState
NEXT = {
    _S.RESET: (_S.IDLE, _S.RESET),
    _S.IDLE: (_S.IDLE, _S.SELECT_DR),
    _S.SELECT_DR: (_S.CAPTURE_DR, _S.SELECT_IR),
    _S.CAPTURE_DR: (_S.SHIFT_DR, _S.EXIT1_DR),
    _S.SHIFT_DR: (_S.SHIFT_DR, _S.EXIT1_DR),
    _S.EXIT1_DR: (_S.PAUSE_DR, _S.UPDATE_DR),
    _S.PAUSE_DR: (_S.PAUSE_DR, _S.EXIT2_DR),
    _S.EXIT2_DR: (_S.SHIFT_DR, _S.UPDATE_DR),
    _S.UPDATE_DR: (_S.IDLE, _S.SELECT_DR),
    _S.SELECT_IR: (_S.CAPTURE_IR, _S.RESET),
    _S.CAPTURE_IR: (_S.SHIFT_IR, _S.EXIT1_IR),
    _S.SHIFT_IR: (_S.SHIFT_IR, _S.EXIT1_IR),
    _S.EXIT1_IR: (_S.PAUSE_IR, _S.UPDATE_IR),
    _S.PAUSE_IR: (_S.PAUSE_IR, _S.EXIT2_IR),
    _S.EXIT2_IR: (_S.SHIFT_IR, _S.UPDATE_IR),
    _S.UPDATE_IR: (_S.IDLE, _S.SELECT_DR),
}
"""Next state of the TAP controller by its current state, for ``tms`` low and for ``tms`` high."""

_CAPTURED_IR = 0b01  # pattern of the standard that reveals a broken scan chain


class Tap(Component):
    """Controller, instruction register and bypass of a test access port; the data registers are outside.

    The clock domain ``tck`` has TCK as clock and TRST as reset. Mode select and data are sampled at rising edges;
    ``tdo`` changes at falling edges.
    """

    tms: In(1)  #: Mode select.
    tdi: In(1)  #: Serial data in.
    tdo: Out(1)  #: Serial data out, which changes at falling edges of TCK.
    tdo_enable: Out(1)  #: Drive ``tdo``, else another device may; changes with it, and has no reset either.
    instruction: Out(TapRegister)  #: Current instruction.
    capture: Out(1)  #: The selected data register captures its value at the next edge.
    shift: Out(1)  #: The selected data register shifts, with ``tdi`` as new top bit.
    update: Out(1)  #: The shifted data take effect.
    data_out: In(1)  #: Lowest bit of the selected data register.

    def elaborate(self, platform):
        m = Module()
        # the falling edge of the same clock
        m.domains += ClockDomain("tdo", clk_edge="neg", reset_less=True, local=True)
        m.d.comb += ClockSignal("tdo").eq(ClockSignal("tck"))
        state = Signal(TapState)
        bypass = Signal()
        shifted = Signal(IR_BITS)
        instruction = Signal(IR_BITS, init=TapRegister.IDCODE)
        with m.Switch(state):
            for now, (low, high) in NEXT.items():
                with m.Case(now):
                    m.d.tck += state.eq(Mux(self.tms, high, low))
        m.d.comb += [
            self.instruction.eq(instruction),
            self.capture.eq(state == TapState.CAPTURE_DR),
            self.shift.eq(state == TapState.SHIFT_DR),
            self.update.eq(state == TapState.UPDATE_DR),
        ]
        with m.Switch(state):
            with m.Case(TapState.RESET):
                m.d.tck += instruction.eq(TapRegister.IDCODE)
            with m.Case(TapState.CAPTURE_IR):
                m.d.tck += shifted.eq(_CAPTURED_IR)
            with m.Case(TapState.SHIFT_IR):
                m.d.tck += shifted.eq(Cat(shifted[1:], self.tdi))
            with m.Case(TapState.UPDATE_IR):
                m.d.tck += instruction.eq(shifted)
            with m.Case(TapState.CAPTURE_DR):
                m.d.tck += bypass.eq(0)
            with m.Case(TapState.SHIFT_DR):
                m.d.tck += bypass.eq(self.tdi)
        known = [TapRegister.IDCODE, TapRegister.DTMCS, TapRegister.DMI]
        shifts_instruction = state == TapState.SHIFT_IR
        m.d["tdo"] += self.tdo_enable.eq(shifts_instruction | self.shift)
        with m.If(shifts_instruction):
            m.d["tdo"] += self.tdo.eq(shifted[0])
        with m.Elif(instruction.matches(*known)):
            m.d["tdo"] += self.tdo.eq(self.data_out)
        with m.Else():
            m.d["tdo"] += self.tdo.eq(bypass)
        return m
