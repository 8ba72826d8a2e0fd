from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.utils import exact_log2

from xpulpnn.cluster.dma.chunk import BEATS, WINDOW_BYTES, window
from xpulpnn.cluster.ports import DmaPortSignature
from xpulpnn.component import Component, In, Out
from xpulpnn.config import EXT_DATA_BITS, TCDM_SPACE
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn.isa.machine import WORD_BYTES, XLEN

OUTSTANDING = 16  # largest number of outstanding accesses per port
PLACES = 3  # largest number of accesses that wait for grants
HALVES = WINDOW_BYTES // WORD_BYTES  # ports to the TCDM, one per word of a window


def _access_layout(writes):
    fields = {"external": 1, "address": XLEN, "be": WINDOW_BYTES, "beats": BEATS}
    return data.StructLayout(fields | ({"wdata": EXT_DATA_BITS} if writes else {}))


class AccessQueue(Component):
    """Queue of accesses that wait for their grants.

    An access goes to the external port, or word by word to the two ports of the TCDM. A port whose word is granted goes
    on to its word of the next access, so a port that loses arbitration stops the other one only when the queue is full.
    Up to one access per cycle; an access is requested from the cycle after it enters the queue.
    """

    def __init__(self, writes: bool):
        # writes: Accesses write the enabled bytes, and skip a word without any; else they read both words.
        self.writes = writes
        self.module_variant = "writes" if writes else "reads"
        ports = {
            "access": In(stream.Signature(_access_layout(writes))),  #: Accesses, which stay in order at each port.
            "idle": Out(1),  #: The queue is empty and every access is answered.
            "tcdm": Out(ObiSignature()).array(HALVES),  #: Ports of the even and of the odd words of the TCDM.
            "ext": Out(DmaPortSignature()),  #: External port.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        layout = _access_layout(self.writes)
        ports = [*self.tcdm, self.ext]
        places = [Signal(layout, name=f"place{place}") for place in range(PLACES)]
        # ports that must still grant the access in each place, before and after the grants of this cycle
        needs, left = (
            [Signal(len(ports), name=f"{name}{place}") for place in range(PLACES)] for name in ("needs", "left")
        )
        granted = Signal(len(ports))
        occupied = Signal(range(PLACES + 1))
        new = self.access.payload
        words = [new.be.word_select(half, WORD_BYTES).any() if self.writes else 1 for half in range(HALVES)]
        new_needs = Signal(len(ports))
        m.d.comb += [new_needs.eq(Mux(new.external, 1 << HALVES, Cat(words))), self.access.ready.eq(occupied != PLACES)]
        earlier = Const(0, len(ports))
        for still, need in zip(left, needs, strict=True):
            m.d.comb += still.eq(need & ~(granted & ~earlier))
            earlier = earlier | need
        waiting = [Signal(range(OUTSTANDING + 1), name=f"under_way{number}") for number in range(len(ports))]
        for count, port, served in zip(waiting, ports, granted, strict=True):
            m.d.sync += count.eq(count + served - port.rvalid)
        m.d.comb += self.idle.eq(~Cat(occupied, *waiting).any())
        taken = Signal()
        leaves = Signal()
        behind = Signal.like(occupied)
        m.d.comb += [
            taken.eq(self.access.valid & self.access.ready),
            leaves.eq((occupied != 0) & ~left[0].any()),
            behind.eq(occupied - leaves),
        ]
        m.d.sync += occupied.eq(behind + taken)
        for place in range(PLACES):
            m.d.sync += needs[place].eq(left[place])
            with m.If(leaves):
                is_last = place == PLACES - 1
                m.d.sync += needs[place].eq(0 if is_last else left[place + 1])
                if not is_last:
                    m.d.sync += places[place].eq(places[place + 1])
            with m.If(taken & (behind == place)):
                m.d.sync += [places[place].eq(new), needs[place].eq(new_needs)]

        for number, (port, under_way) in enumerate(zip(ports, waiting, strict=True)):
            shown = Signal(layout, name=f"shown{number}")
            flags_of_port = [flags[number] for flags in needs]
            m.d.comb += shown.eq(places[-1])
            for place, wants in reversed(list(zip(places[:-1], flags_of_port[:-1], strict=True))):
                with m.If(wants):
                    m.d.comb += shown.eq(place)
            m.d.comb += [
                port.req.eq(Cat(flags_of_port).any() & (under_way != OUTSTANDING)),
                port.we.eq(int(self.writes)),
                granted[number].eq(port.req & port.gnt),
            ]
            if number < HALVES:
                self._word(m, port, shown, number)
            else:
                m.d.comb += [port.addr.eq(window(shown.address)), port.be.eq(shown.be), port.beats.eq(shown.beats)]
                if self.writes:
                    m.d.comb += port.wdata.eq(shown.wdata)
        return m

    def _word(self, m, port, shown, half):
        space = exact_log2(TCDM_SPACE)
        low = exact_log2(WINDOW_BYTES)
        m.d.comb += [
            port.addr.eq(
                Cat(Const(half * WORD_BYTES, low), shown.address[low:space], Const(TCDM_BASE >> space, XLEN - space))
            ),
            port.be.eq(shown.be.word_select(half, WORD_BYTES)),
        ]
        if self.writes:
            m.d.comb += port.wdata.eq(shown.wdata.word_select(half, XLEN))
