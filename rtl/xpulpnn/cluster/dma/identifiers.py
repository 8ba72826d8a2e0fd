from amaranth.hdl import Module, Signal

from xpulpnn.cluster.dma.queue import DEPTH
from xpulpnn.component import Component, In, Out, signals

STATUS_IDS = 16  # identifiers that fit into the status register


def number_shape(count: int) -> range:
    return range(max(count, 2))


class Identifiers(Component):
    """Tracks which identifiers of transfers are allocated, and how many transfers of each are outstanding."""

    def __init__(self, count: int):
        self.count = count  # number of identifiers, 1 to 16
        number = number_shape(count)
        ports = {
            "available": Out(1),  #: Some identifier is neither allocated nor in use.
            "number": Out(number),  #: The lowest available identifier.
            "allocate": In(1),  #: Allocate ``number``; only while ``available``.
            "free": In(count),  #: Identifiers to free; their transfers continue.
            #: begins, ends: A command begins; a transfer has ended.
            "begins": In(1),
            #: begin_number, end_number: Identifier of the command that begins, of the transfer that has ended.
            "begin_number": In(number),
            "ends": In(1),
            "end_number": In(number),
            "status": Out(2 * STATUS_IDS),  #: Bits 15:0: in use; bits 31:16: allocated; one cycle old.
            "busy": Out(1),  #: An identifier is in use.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        allocated, active, chosen, unused = signals(self.count, "allocated active chosen unused")
        m.d.comb += unused.eq(~(allocated | active))
        for number in reversed(range(self.count)):
            with m.If(unused[number]):
                m.d.comb += [self.number.eq(number), chosen.eq(1 << number)]
            under_way = Signal(range(DEPTH + 2), name=f"under_way{number}")
            begins = self.begins & (self.begin_number == number)
            ends = self.ends & (self.end_number == number)
            m.d.sync += under_way.eq(under_way + begins - ends)
            m.d.comb += active[number].eq(under_way.any())
        m.d.comb += [self.available.eq(unused.any()), self.busy.eq(active.any())]
        m.d.sync += [
            allocated.eq(allocated & ~self.free | chosen & self.allocate.replicate(self.count)),
            self.status.eq(active | allocated << STATUS_IDS),
        ]
        return m
