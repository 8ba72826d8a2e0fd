from amaranth.hdl import Module, Mux

from xpulpnn.cells.memory import SinglePortMemory, TwoPortMemory
from xpulpnn.cluster.ports import LINE_BITS
from xpulpnn.component import Component, In, Out


class CacheWay(Component):
    """Tags and lines of one way of a cache, one of each for every set.

    A lookup in cycle t is answered in t + 1, and the answer stays until the next lookup. It ignores a write in t.
    Nothing is reset.
    """

    def __init__(self, sets: int, tag_bits: int, *, ahead: bool, single_port: bool):
        self.sets = sets  # number of sets, a power of two of at least 2
        self.module_variant = f"{sets}_sets"
        self.tag_bits = tag_bits  # width of a tag
        self.ahead = ahead  # a lookup looks in a second set too
        self.single_port = single_port  # no lookup comes with a write; a lookup looks in one set only
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
        stored = {"tags": (self.tag_bits, self.write_tag), "lines": (LINE_BITS, self.write_line)}
        read = {name: self._memory(m, name, width, value) for name, (width, value) in stored.items()}
        tag, *next_tag = read["tags"]
        m.d.comb += [self.line.eq(read["lines"][0]), self.hit.eq(self.valid & (tag == self.tag))]
        if self.ahead:
            m.d.comb += self.next_hit.eq(self.next_valid & (next_tag[0] == self.next_tag))
        return m

    def _memory(self, m, name, width, value):
        """Add a memory with a word for each set; return the words that it read."""
        if self.single_port:
            m.submodules[name] = memory = SinglePortMemory(self.sets, width, byte_enables=False)
            m.d.comb += [
                memory.port.req.eq(self.lookup | self.write),
                memory.port.we.eq(self.write),
                memory.port.addr.eq(Mux(self.write, self.write_index, self.index)),
                memory.port.wdata.eq(value),
            ]
            return [memory.port.rdata]
        indices = [self.index, self.next_index] if self.ahead and name == "tags" else [self.index]
        m.submodules[name] = memory = TwoPortMemory(self.sets, width, reads=len(indices))
        m.d.comb += [
            *(memory.write.eq(self.write), memory.waddr.eq(self.write_index), memory.wdata.eq(value)),
            memory.read.eq(self.lookup),
            *(addr.eq(index) for addr, index in zip(memory.raddr, indices, strict=True)),
        ]
        return list(memory.rdata)
