"""Results on their way to the core."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data

from xpulpnn.component import Component, In, Out, assign_by_name
from xpulpnn.isa.machine import XLEN
from xpulpnn.xif.config import XifConfig
from xpulpnn.xif.ports import ResultSignature


def result_layout(config: XifConfig) -> data.StructLayout:
    return data.StructLayout({"id": config.id_bits, "data": XLEN, "rd": 5, "we": 1, "exc": 1, "exccode": 6})


class Results(Component):
    """Two results, the older one at the interface. Latency 1."""

    def __init__(self, config: XifConfig) -> None:
        self.layout = result_layout(config)
        ports = {
            "push": In(1),  #: A result comes; only with ``space``.
            "pushed": In(self.layout),  #: That result.
            "space": Out(1),  #: There is room for a result.
            "empty": Out(1),  #: No result is there.
            "result": Out(ResultSignature(config)),  #: Result interface.
        }
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        older, younger = (Signal(self.layout, name=name) for name in ("older", "younger"))
        used = Signal(2)
        taken = Signal()
        m.d.comb += [
            taken.eq(used[0] & self.result.ready),
            self.space.eq(~used[1]),
            self.empty.eq(~used[0]),
            self.result.valid.eq(used[0]),
            *assign_by_name(self.result, older, *self.layout.members),
        ]
        rest = Signal(2)
        m.d.comb += rest.eq(Mux(taken, used >> 1, used))
        with m.If(taken):
            m.d.sync += older.eq(younger)
        with m.If(self.push):
            with m.If(rest[0]):
                m.d.sync += younger.eq(self.pushed)
            with m.Else():
                m.d.sync += older.eq(self.pushed)
        m.d.sync += used.eq(rest | Cat(self.push & ~rest[0], self.push & rest[0]))
        return m
