"""Arrays of a set-associative cache."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from xpulpnn.cluster.choice import chosen
from xpulpnn.cluster.icache.ports import LINE_BITS, LINE_NUMBER_BITS, CacheControlSignature


class CacheWays(wiring.Component):
    """Tags, valid bits and lines of a set-associative cache that replaces the oldest line of a set.

    A lookup made in cycle t is answered in t + 1, and the answer stays until the next one. It does not see a line that
    is written in t. The ways of a set are filled in turn, whether or not they are empty. What is forgotten by
    ``control.flush_line`` is the whole set of the line. Reset empties the cache; tags and lines are not reset.

    Parameters
    ----------
    sets : int
        Sets, a power of two of at least 2.
    ways : int
        Lines of a set, a power of two.
    common : int
        Low bits of the line number that are the same for all lines of this cache.
    ahead : bool
        Whether each lookup also tells about the next line; needs ``common`` 0.

    Members
    -------
    lookup : In(1)
        Look for ``line``.
    line : In(28)
        Number of a line.
    hit : Out(1)
        The line looked for is there.
    data : Out(128)
        The line; 0 if it is not there.
    looked : Out(28)
        Number of the line looked for.
    next_line : Out(28)
        Number of the line behind it; on request.
    next_absent : Out(1)
        That is not there; on request.
    write : In(1)
        Keep the line ``write_line``.
    write_line : In(28)
        Its number.
    write_data : In(128)
        The line.
    same_set : Out(1)
        ``line`` and ``write_line`` belong to one set.
    control : In(CacheControlSignature)
        Clearing ``enable`` empties the cache; ``prefetch`` does not matter here.
    """

    def __init__(self, sets: int, ways: int, *, common: int = 0, ahead: bool = False):
        self.sets = sets
        self.ways = ways
        self.common = common
        self.ahead = ahead
        ports = {
            "lookup": In(1),
            "line": In(LINE_NUMBER_BITS),
            "hit": Out(1),
            "data": Out(LINE_BITS),
            "looked": Out(LINE_NUMBER_BITS),
            "write": In(1),
            "write_line": In(LINE_NUMBER_BITS),
            "write_data": In(LINE_BITS),
            "same_set": Out(1),
            "control": In(CacheControlSignature()),
        }
        if ahead:
            ports |= {"next_line": Out(LINE_NUMBER_BITS), "next_absent": Out(1)}
        super().__init__(ports)

    def _split(self, line):
        """Set and tag of a line number."""
        index = self.common + exact_log2(self.sets)
        return line[self.common : index], line[index:]

    def elaborate(self, platform):
        """Build the ways."""
        m = Module()
        write_index, _ = self._split(self.write_line)
        with m.If(self.lookup):
            m.d.sync += self.looked.eq(self.line)
        lines = [(self.looked, self._split(self.line)[0])]
        if self.ahead:
            # the number of the set alone, which comes late, is incremented before the lookup
            m.d.comb += self.next_line.eq(self.looked + 1)
            lines.append((self.next_line, (lines[0][1] + 1)[: exact_log2(self.sets)]))
        hits, data = [], []
        for way, turn in enumerate(self._turns(m, write_index)):
            write = Signal(name=f"write{way}")
            m.d.comb += write.eq(self.write & turn)
            hits.append(self._way(m, way, write, lines))
            data.append(self._lines(m, way, write, lines[0][1]))
        here, *ahead = (Cat(found) for found in zip(*hits, strict=True))
        m.d.comb += [self.same_set.eq(lines[0][1] == write_index), self.hit.eq(here.any()), self.data.eq(chosen(here, data))]
        if self.ahead:
            m.d.comb += self.next_absent.eq(~ahead[0].any())
        return m

    def _turns(self, m, write_index):
        """Whether a line that is written goes to each of the ways: those of a set take turns."""
        if self.ways == 1:
            return [Const(1)]
        width = exact_log2(self.ways)
        oldest = Signal(self.sets * width)
        turn = Signal(width)
        m.d.comb += turn.eq(oldest.word_select(write_index, width))
        with m.If(self.write):
            m.d.sync += oldest.word_select(write_index, width).eq(turn + 1)
        return [turn == way for way in range(self.ways)]

    def _way(self, m, way, write, lines):
        """Tags and valid bits of a way; whether it has each of ``lines``, pairs of a line looked for in the last cycle
        and the set to look in in this one."""
        write_index, write_tag = self._split(self.write_line)
        valid = Signal(self.sets, name=f"valid{way}")
        m.submodules[f"tags{way}"] = tags = Memory(shape=len(write_tag), depth=self.sets, init=[])
        port = tags.write_port()
        m.d.comb += [port.en.eq(write), port.addr.eq(write_index), port.data.eq(write_tag)]
        with m.If(write):
            m.d.sync += valid.bit_select(write_index, 1).eq(1)
        with m.If(self.control.flush_line):
            m.d.sync += valid.bit_select(self._split(self.control.line)[0], 1).eq(0)
        with m.If(self.control.flush | ~self.control.enable):
            m.d.sync += valid.eq(0)
        hits = []
        for name, (line, index) in zip(("hit", "next_hit"), lines, strict=False):
            hit = Signal(name=f"{name}{way}")
            present = Signal(name=f"{name}{way}_valid")
            port = tags.read_port()
            with m.If(self.lookup):
                m.d.sync += present.eq(valid.bit_select(index, 1))
            m.d.comb += [
                port.en.eq(self.lookup),
                port.addr.eq(index),
                hit.eq(present & (port.data == self._split(line)[1])),
            ]
            hits.append(hit)
        return hits

    def _lines(self, m, way, write, index):
        """Lines of a way; that of the set ``index`` in the next cycle."""
        m.submodules[f"lines{way}"] = lines = Memory(shape=LINE_BITS, depth=self.sets, init=[])
        write_port, read_port = lines.write_port(), lines.read_port()
        m.d.comb += [
            write_port.en.eq(write),
            write_port.addr.eq(self._split(self.write_line)[0]),
            write_port.data.eq(self.write_data),
            read_port.en.eq(self.lookup),
            read_port.addr.eq(index),
        ]
        return read_port.data
