from amaranth.hdl import Module, Signal
from amaranth.lib.memory import Memory

from xpulpnn.cluster.ports import LINE_BITS
from xpulpnn.component import Component, In, Out


class CacheWay(Component):
    """Tags and lines of one way of a cache, one of each for every set.

    A lookup in cycle t is answered in t + 1, and the answer stays until the next lookup. It ignores a write in t.
    Nothing is reset.
    """

    def __init__(self, sets: int, tag_bits: int, *, ahead: bool):
        self.sets = sets  # number of sets, a power of two of at least 2
        self.module_variant = f"{sets}_sets"
        self.tag_bits = tag_bits  # width of a tag
        self.ahead = ahead  # a lookup looks in a second set too
        index_bits = (sets - 1).bit_length()
        ports = {
            "lookup": In(1),  #: Look in the sets ``index`` and ``next_index``.
            #: index, next_index: Numbers of sets; the second is optional.
            "index": In(index_bits),
            #: tag, next_tag: Tags to compare, in the cycle after the lookup; the second is optional.
            "tag": In(tag_bits),
            #: valid, next_valid: The set holds a line, in the cycle after the lookup; the second is optional.
            "valid": In(1),
            #: hit, next_hit: The set holds the line looked up; the second is optional.
            "hit": Out(1),
            "line": Out(LINE_BITS),  #: The line of the set ``index``.
            "write": In(1),  #: A line is stored.
            "write_index": In(index_bits),  #: Set of the stored line.
            "write_tag": In(tag_bits),  #: Tag of the stored line.
            "write_line": In(LINE_BITS),  #: The stored line.
        }
        if ahead:
            ports |= {"next_index": In(index_bits), "next_tag": In(tag_bits), "next_valid": In(1), "next_hit": Out(1)}
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.tags = tags = Memory(shape=self.tag_bits, depth=self.sets, init=[])
        m.submodules.lines = lines = Memory(shape=LINE_BITS, depth=self.sets, init=[])
        for memory, value in ((tags, self.write_tag), (lines, self.write_line)):
            port = memory.write_port()
            m.d.comb += [port.en.eq(self.write), port.addr.eq(self.write_index), port.data.eq(value)]
        read_line = lines.read_port()
        m.d.comb += [read_line.en.eq(self.lookup), read_line.addr.eq(self.index), self.line.eq(read_line.data)]
        looks = [("read", self.index, self.tag, self.valid, self.hit)]
        if self.ahead:
            looks.append(("next_read", self.next_index, self.next_tag, self.next_valid, self.next_hit))
        for name, index, tag, valid, hit in looks:
            read_tag = tags.read_port()
            stored_tag = Signal(self.tag_bits, name=f"{name}_tag")
            m.d.comb += [
                read_tag.en.eq(self.lookup),
                read_tag.addr.eq(index),
                stored_tag.eq(read_tag.data),
                hit.eq(valid & (stored_tag == tag)),
            ]
        return m
