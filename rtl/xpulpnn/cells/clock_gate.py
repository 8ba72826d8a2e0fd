from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Signal

from xpulpnn.component import Component, In, Out

UNGATED = "ungated"  # domain of registers in a gated component whose clock never stops


class ClockGate(Component):
    """Clock gate: a latch that is open while the clock is low, and an AND; a cell of the technology may replace it."""

    enable: In(1)  #: The next high phase of the clock comes through.
    test_en: In(1)  #: Scan test: every high phase comes through.
    gated: Out(1)  #: The gated clock.

    VERILOG = """ (
    // Clock, which is gated.
    input wire clk,
    // The next high phase of the clock comes through.
    input wire enable,
    // Scan test: every high phase comes through.
    input wire test_en,
    // The gated clock.
    output wire gated
);
    reg held;
    /* verilator lint_off LATCH */
    always @(clk or enable or test_en)
        if (!clk) held <= enable | test_en;
    /* verilator lint_on LATCH */
    assign gated = clk & held;
endmodule
"""

    def elaborate(self, platform):
        m = Module()
        held = Signal()
        # Amaranth has no latches: this register is equal to the latch while the clock is high
        m.domains += ClockDomain("low", clk_edge="neg", reset_less=True, local=True)
        m.d["low"] += held.eq(self.enable | self.test_en)
        m.d.comb += [ClockSignal("low").eq(ClockSignal()), self.gated.eq(ClockSignal() & held)]
        return m


def add_ungated_clock(m):
    m.domains += ClockDomain(UNGATED, local=True)
    m.d.comb += [ClockSignal(UNGATED).eq(ClockSignal()), ResetSignal(UNGATED).eq(ResetSignal())]


def add_gated(m, name, component, enable, test_en):
    """Add a component behind a clock gate of its own; the clock also runs while the component is reset."""
    gate, domain = ClockGate(), f"{name}_gated"
    m.submodules[f"{name}_gate"] = gate
    m.submodules[name] = DomainRenamer(domain)(component)
    m.domains += ClockDomain(domain, local=True)
    m.d.comb += [gate.enable.eq(enable | ResetSignal()), gate.test_en.eq(test_en)]
    m.d.comb += [ClockSignal(domain).eq(gate.gated), ResetSignal(domain).eq(ResetSignal())]
