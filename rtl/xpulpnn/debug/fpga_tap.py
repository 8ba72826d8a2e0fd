from amaranth.hdl import ClockDomain, ClockSignal, Module, Mux, Signal

from xpulpnn.component import Component, In, Out
from xpulpnn.isa.debug import TapRegister


class FpgaTap(Component):
    """Replaces :class:`~xpulpnn.debug.tap.Tap` on an ECP5: converts the signals of its primitive JTAGG.

    JTAGG shows the state that its TAP controller entered at a rising edge of JTCK, and the data sampled at that edge.
    The outputs follow half a cycle later, at falling edges of JTCK, which are the rising edges of the domain ``tck``.
    Only ``jtdo`` changes at rising edges of JTCK, as JTAGG registers it once more. Scans of registers other than ER1
    and ER2 have no effect.
    """

    jshift: In(1)  #: The state is Shift-DR.
    jupdate: In(1)  #: The state is Update-DR.
    jce: In(2)  #: The state is Capture-DR or Shift-DR and the instruction selects ER1 (bit 0) or ER2 (bit 1).
    jtdo: Out(1)  #: Serial data out.
    instruction: Out(TapRegister)  #: DTMCS for ER1, DMI for ER2.
    capture: Out(1)  #: The selected data register captures its value at the next edge.
    shift: Out(1)  #: The selected data register shifts, from the top down.
    update: Out(1)  #: The shifted data take effect.
    data_out: In(1)  #: Lowest bit of the selected data register after the next edge.

    def elaborate(self, platform):
        m = Module()
        m.domains += ClockDomain("jtdo", clk_edge="neg", reset_less=True, local=True)
        m.d.comb += ClockSignal("jtdo").eq(ClockSignal("tck"))
        m.d["jtdo"] += self.jtdo.eq(self.data_out)
        is_dmi = Signal()
        is_selected = Signal()
        with m.If(self.jce.any()):
            m.d.tck += [is_dmi.eq(self.jce[1]), is_selected.eq(1)]
        with m.Elif(self.jupdate):
            m.d.tck += is_selected.eq(0)
        m.d.comb += self.instruction.eq(Mux(is_dmi, TapRegister.DMI, TapRegister.DTMCS))
        m.d.tck += [
            self.capture.eq(self.jce.any() & ~self.jshift),
            self.shift.eq(self.jshift),
            self.update.eq(self.jupdate & is_selected),
        ]
        return m
