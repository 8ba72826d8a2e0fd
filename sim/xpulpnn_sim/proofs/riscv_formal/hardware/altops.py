# amaranth: UnusedElaboratable=no
"""The core with ports for CSR accesses, and simple replacements of its slow units."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from xpulpnn.core.core import Core
from xpulpnn.core.div import Divider
from xpulpnn.core.mult import Mult, MultOp
from xpulpnn.isa.machine import XLEN

_HIGH_STEPS = 4
_DIVIDER_STEPS = 2  # cycles before the result's cycle


class CsrTapCore(Core):
    """The core with additional ports for the CSR accesses in EX."""

    def __init__(self, config):
        self.config = config
        ports = dict(Core(config).signature.members.items())
        ports |= {"tap_valid": Out(1), "tap_addr": Out(12), "tap_write": Out(1)}
        ports |= {"tap_rdata": Out(XLEN), "tap_wdata": Out(XLEN)}
        wiring.Component.__init__(self, ports)

    def _observe(self, m, if_stage, backend, csr_file, controller):
        super()._observe(m, if_stage, backend, csr_file, controller)
        m.d.comb += [
            self.tap_valid.eq(backend.csr.valid),
            self.tap_addr.eq(backend.csr.addr),
            self.tap_write.eq(backend.csr.write),
            self.tap_rdata.eq(backend.csr.rdata),
            self.tap_wdata.eq(csr_file.wdata),
        ]


class AltopsMult(wiring.Component):
    """A multiplier that computes the sums and differences which riscv-formal expects in place of RV32M products.

    Instructions outside RV32M get a different sum. The latency is that of the real multiplier.
    """

    def __init__(self, masks, *, requantises):
        self.masks = masks
        super().__init__(dict(Mult(requantises=requantises).signature.members.items()))

    def elaborate(self, platform):
        m = Module()
        high = self.ctrl.op == MultOp.HIGH
        step = Signal(range(_HIGH_STEPS + 1))
        with m.If(~self.start | ~high | (self.done & self.take)):
            m.d.sync += step.eq(0)
        with m.Elif(~self.done):
            m.d.sync += step.eq(step + 1)
        m.d.comb += self.done.eq(self.start & (~high | (step == _HIGH_STEPS)))
        total, difference = self.op_a + self.op_b, self.op_a - self.op_b
        mixed = self.ctrl.a_signed & ~self.ctrl.b_signed
        same = Mux(self.ctrl.a_signed, total ^ self.masks["mulh"], total ^ self.masks["mulhu"])
        other = Mux(self.ctrl.accumulate, total + self.op_c, total ^ self.masks["mul"])
        m.d.comb += self.result.eq(Mux(high, Mux(mixed, difference ^ self.masks["mulhsu"], same), other))
        return m


class AltopsDivider(wiring.Component):
    """A divider that computes the differences which riscv-formal expects in place of quotients and remainders.

    The latency is the shortest latency of the real divider.
    """

    def __init__(self, masks):
        self.masks = masks
        super().__init__(dict(Divider().signature.members.items()))

    def elaborate(self, platform):
        m = Module()
        step = Signal(range(_DIVIDER_STEPS + 1))
        with m.If(~self.start | (self.done & self.take)):
            m.d.sync += step.eq(0)
        with m.Elif(~self.done):
            m.d.sync += step.eq(step + 1)
        m.d.comb += self.done.eq(self.start & (step == _DIVIDER_STEPS))
        signs = [Mux(self.ctrl.signed, self.masks[s], self.masks[u]) for s, u in (("div", "divu"), ("rem", "remu"))]
        mask = Mux(self.ctrl.remainder, signs[1], signs[0])
        m.d.comb += self.result.eq((self.op_a - self.op_b) ^ mask)
        return m
