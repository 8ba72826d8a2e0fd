from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.utils import exact_log2

from xpulpnn.component import Component, In, Out, signals


class CacheFill(Component):
    """Tracks the valid ways of each set.

    The ways of a set are written in turn, starting with the first after the set is invalidated. The number of the next
    way and a bit that says that all were written therefore determine the valid ways: those before the next way, or all.

    A lookup in cycle t is answered in t + 1, and the answer stays until the next lookup. It ignores a write or
    invalidation in t. Reset invalidates all sets.
    """

    def __init__(self, sets: int, ways: int, *, ahead: bool):
        self.sets = sets  # number of sets, a power of two of at least 2
        self.module_variant = f"{sets}_sets"
        self.ways = ways  # lines of a set, a power of two
        self.ahead = ahead  # a lookup looks in a second set too
        index_bits = (sets - 1).bit_length()
        ports = {
            "lookup": In(1),  #: Look in the sets ``index`` and ``next_index``.
            #: index, next_index: Numbers of sets; the second is optional.
            "index": In(index_bits),
            #: valid, next_valid: Valid ways of the two sets; the second is optional.
            "valid": Out(ways),
            "write": In(1),  #: A line is stored in the set ``write_index``.
            "write_index": In(index_bits),  #: Number of a set.
            "turn": Out(ways),  #: The way to be written, one-hot; also without ``write``.
            "forget": In(sets),  #: Sets to invalidate, even if one is written in the same cycle.
        }
        if ahead:
            ports |= {"next_index": In(index_bits), "next_valid": Out(ways)}
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        width = exact_log2(self.ways)
        states = Array(Signal(width + 1, name=f"set{number}") for number in range(self.sets))
        looks = [("read_state", self.index, self.valid)]
        if self.ahead:
            looks.append(("next_read_state", self.next_index, self.next_valid))
        for name, index, valid in looks:
            read_state = Signal(width + 1, name=name)
            with m.If(self.lookup):
                m.d.sync += read_state.eq(states[index])
            m.d.comb += valid.eq(Cat(read_state[width] | (read_state[:width] > way) for way in range(self.ways)))
        now, behind = signals(width + 1, "now behind")
        m.d.comb += [
            now.eq(states[self.write_index]),
            self.turn.eq(1 << now[:width]),
            behind.eq(Cat((now[:width] + 1)[:width], now[width] | now[:width].all())),
        ]
        for number, state in enumerate(states):
            with m.If(self.forget[number]):
                m.d.sync += state.eq(0)
            with m.Elif(self.write & (self.write_index == number)):
                m.d.sync += state.eq(behind)
        return m
