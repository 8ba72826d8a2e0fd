from amaranth.hdl import Cat, Module
from amaranth.utils import exact_log2

from xpulpnn.cluster.icache.fill import CacheFill
from xpulpnn.cluster.icache.way import CacheWay
from xpulpnn.cluster.ports import LINE_BITS, LINE_NUMBER_BITS, CacheControlSignature
from xpulpnn.component import Component, In, Out, signals


class CacheWays(Component):
    """Tags, valid bits and lines of a set-associative cache that replaces the oldest line of a set.

    A lookup in cycle t is answered in t + 1, and the answer stays until the next lookup. It ignores a line that is
    written in t. The ways of a set are filled in turn. ``control.flush_line`` invalidates the whole set of the line.
    Reset empties the cache; tags and lines are not reset.
    """

    def __init__(self, sets: int, ways: int, *, common: int = 0, ahead: bool = False, single_port: bool = False):
        self.sets = sets  # number of sets, a power of two of at least 2
        self.module_variant = f"{sets}_sets"
        self.ways = ways  # lines of a set, a power of two
        self.common = common  # low bits of the line number that are equal for all lines of this cache
        self.ahead = ahead  # each lookup also looks for the next line; needs ``common`` 0
        self.single_port = single_port  # memories with one port: no lookup comes with a write
        ports = {
            "lookup": In(1),  #: Look for ``line``.
            "line": In(LINE_NUMBER_BITS),  #: Number of a line.
            "hit": Out(1),  #: The cache has the line looked up.
            "found": Out(ways),  #: Way of the line looked up, one-hot; 0 if the cache does not have it.
            "lines": Out(LINE_BITS).array(ways),  #: Line of each way in the set looked up.
            "looked": Out(LINE_NUMBER_BITS),  #: Number of the line looked up.
            "write": In(1),  #: Store the line ``write_line``.
            "write_line": In(LINE_NUMBER_BITS),  #: Number of the line to store.
            "write_data": In(LINE_BITS),  #: Line to store.
            "same_set": Out(1),  #: ``line`` and ``write_line`` belong to one set.
            #: control: Clearing ``enable`` empties the cache; ``prefetch`` is ignored.
            "control": In(CacheControlSignature()),
        }
        if ahead:
            #: next_line: Number of the next line; optional.
            #: next_absent: The cache does not have the next line; optional.
            ports |= {"next_line": Out(LINE_NUMBER_BITS), "next_absent": Out(1)}
        super().__init__(ports=ports)

    def _split(self, line):
        index = self.common + exact_log2(self.sets)
        return line[self.common : index], line[index:]

    def elaborate(self, platform):
        m = Module()
        index, _ = self._split(self.line)
        write_index, write_tag = self._split(self.write_line)
        forgets, line_forgotten = signals(self.sets, "forgets line_forgotten")
        m.d.comb += [
            self.same_set.eq(index == write_index),
            line_forgotten.eq(self.control.flush_line << self._split(self.control.line)[0]),
            forgets.eq(line_forgotten | (self.control.flush | ~self.control.enable).replicate(self.sets)),
        ]
        with m.If(self.lookup):
            m.d.sync += self.looked.eq(self.line)
        if self.ahead:
            m.d.comb += self.next_line.eq(self.looked + 1)
        m.submodules.fill = fill = CacheFill(self.sets, self.ways, ahead=self.ahead)
        m.d.comb += [
            fill.lookup.eq(self.lookup),
            fill.index.eq(index),
            fill.write.eq(self.write),
            fill.write_index.eq(write_index),
            fill.forget.eq(forgets),
        ]
        if self.ahead:
            # the set number arrives late: only it is incremented before the lookup
            m.d.comb += fill.next_index.eq(index + 1)
        ways = [
            CacheWay(self.sets, len(write_tag), ahead=self.ahead, single_port=self.single_port)
            for _ in range(self.ways)
        ]
        for number, way in enumerate(ways):
            m.submodules[f"way{number}"] = way
            m.d.comb += [
                way.lookup.eq(self.lookup),
                way.index.eq(index),
                way.tag.eq(self._split(self.looked)[1]),
                way.valid.eq(fill.valid[number]),
                way.write.eq(self.write & fill.turn[number]),
                way.write_index.eq(write_index),
                way.write_tag.eq(write_tag),
                way.write_line.eq(self.write_data),
                self.lines[number].eq(way.line),
            ]
            if self.ahead:
                m.d.comb += [
                    way.next_index.eq(fill.next_index),
                    way.next_tag.eq(self._split(self.next_line)[1]),
                    way.next_valid.eq(fill.next_valid[number]),
                ]
        m.d.comb += [self.found.eq(Cat(way.hit for way in ways)), self.hit.eq(self.found.any())]
        if self.ahead:
            m.d.comb += self.next_absent.eq(~Cat(way.next_hit for way in ways).any())
        return m
