# amaranth: UnusedElaboratable=no
"""The core with ports for CSR accesses, and simple replacements of its slow units."""

from amaranth.hdl import Const, Module, Mux, Signal
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


class _Substitute(wiring.Component):
    """A unit whose operations need the constants ``masks`` of riscv-formal."""

    def __init__(self, masks, unit):
        self.masks = masks
        super().__init__(dict(unit.signature.members.items()))

    def finish(self, m, steps, slow):
        """Finish an operation in its first cycle or, with ``slow``, ``steps`` cycles later."""
        step = Signal(range(steps + 1))
        with m.If(~self.start | ~slow | (self.done & self.take)):
            m.d.sync += step.eq(0)
        with m.Elif(~self.done):
            m.d.sync += step.eq(step + 1)
        m.d.comb += self.done.eq(self.start & (~slow | (step == steps)))


class AltopsMult(_Substitute):
    """A multiplier that computes the sums and differences which riscv-formal expects in place of RV32M products.

    Instructions outside RV32M get a different sum. The latency is that of the real multiplier.
    """

    def __init__(self, masks):
        super().__init__(masks, Mult(requantises=False))

    def elaborate(self, platform):
        m = Module()
        high = self.ctrl.op == MultOp.HIGH
        self.finish(m, _HIGH_STEPS, high)
        total, difference = self.op_a + self.op_b, self.op_a - self.op_b
        mixed = self.ctrl.a_signed & ~self.ctrl.b_signed
        same = Mux(self.ctrl.a_signed, total ^ self.masks["mulh"], total ^ self.masks["mulhu"])
        other = Mux(self.ctrl.accumulate, total + self.op_c, total ^ self.masks["mul"])
        m.d.comb += self.result.eq(Mux(high, Mux(mixed, difference ^ self.masks["mulhsu"], same), other))
        return m


class AltopsDivider(_Substitute):
    """A divider that computes the differences which riscv-formal expects in place of quotients and remainders.

    The latency is the shortest latency of the real divider.
    """

    def __init__(self, masks):
        super().__init__(masks, Divider())

    def elaborate(self, platform):
        m = Module()
        self.finish(m, _DIVIDER_STEPS, Const(1))
        signs = [Mux(self.ctrl.signed, self.masks[s], self.masks[u]) for s, u in (("div", "divu"), ("rem", "remu"))]
        m.d.comb += self.result.eq((self.op_a - self.op_b) ^ Mux(self.ctrl.remainder, signs[1], signs[0]))
        return m
