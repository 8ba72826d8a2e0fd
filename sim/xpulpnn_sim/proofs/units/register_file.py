"""Prove for each storage that every read of the register file returns the last written value."""

from typing import Any

from amaranth.hdl import Signal

from xpulpnn.core.regfile import RegFile
from xpulpnn.isa.machine import REGISTERS
from xpulpnn_sim.proofs.cluster.obligation import Obligation

_READS = "rs1", "rs2", "rs3"
_CLAIMS = {
    name: f"{name} is what was written last, of two writes in one cycle that of port B, and 0 before and of x0"
    for name in _READS
}


class RegFileClaims(Obligation):
    def __init__(self, storage, *, pairs):
        title = f"register file, {storage}{', pairs' if pairs else ''}"
        super().__init__(title, RegFile(storage, pairs=pairs), _CLAIMS, {}, number=("watched", REGISTERS))

    def claim(self, m):
        ports: Any = self
        unit, watched, value = ports.unit, ports.watched, Signal.like(ports.unit.rs1)
        m.d.comb += [getattr(unit, f"{name}_addr").eq(watched) for name in _READS]
        pair, odd = 0, unit.data_a
        if unit.pairs:
            # pairs begin with an even register
            m.d.comb += unit.pair.eq(ports.io.pair & ~ports.io.addr_a[0])
            pair = unit.pair & (unit.addr_a != 0) & (watched == (unit.addr_a | 1))
            odd = unit.odd_a
        with m.If(watched != 0):
            with m.If(unit.we_b & (unit.addr_b == watched)):
                m.d.sync += value.eq(unit.data_b)
            with m.Elif(unit.we_a & (unit.addr_a == watched)):
                m.d.sync += value.eq(unit.data_a)
            with m.Elif(unit.we_a & pair):
                m.d.sync += value.eq(odd)
        m.d.comb += [getattr(ports, name).eq(getattr(unit, name) == value) for name in _READS]
