"""Dispatch queue of the event unit (guide, "The event unit")."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Module, Signal
from amaranth.utils import ceil_log2

from xpulpnn.cluster.event_unit.access import AccessSignature, lowest
from xpulpnn.component import Component, In, Out, signals
from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import EventRegister
from xpulpnn.isa.machine import XLEN


class Dispatch(Component):
    """Queue of words for teams of cores: every core of a word's team gets the word once, in the order of the pushes.

    A word belongs to the team that is set when the word is pushed. Every core has its own position in the queue and
    skips, one per cycle, words for other cores. The entry of a word is free when all cores have read or skipped the
    word. One push per cycle, from the lowest waiting core; a push waits while there is no room. A word pushed in cycle
    t is available in t+1. Reset empties the queue and puts all cores into the team. If several cores set the team in
    the same cycle, the lowest core wins.
    """

    def __init__(self, config: ClusterConfig):
        self.cores = config.cores
        self.depth = config.dispatch_depth
        ports = {
            "accesses": In(AccessSignature()).array(self.cores),  #: Accesses of the cores, which set the team.
            "team": Out(self.cores, init=-1),  #: Cores that the next pushed word is for.
            "pushing": In(self.cores),  #: Cores that wait to push.
            "words": In(XLEN).array(self.cores),  #: Words to push.
            "pushed": Out(self.cores),  #: The core whose push is accepted in this cycle.
            "popping": In(self.cores),  #: Cores that wait for a word.
            "popped": Out(self.cores),  #: Cores that get a word in this cycle.
            "found": Out(XLEN).array(self.cores),  #: Word for each core, valid with ``popped``.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        # the last assignment wins
        for access in reversed(list(self.accesses)):
            with m.If(access.write & (access.offset == EventRegister.DISPATCH_TEAM)):
                m.d.sync += self.team.eq(access.data)

        words = [Signal(XLEN, name=f"stored{entry}") for entry in range(self.depth)]
        teams = [Signal(self.cores, name=f"teams{entry}") for entry in range(self.depth)]
        # one bit more than an index tells a full queue from an empty one
        tail = Signal(ceil_log2(self.depth) + 1)
        places = [Signal.like(tail, name=f"place_{core}") for core in range(self.cores)]
        full = Signal()
        for place in places:
            with m.If(place ^ tail == self.depth):
                m.d.comb += full.eq(1)
        m.d.comb += self.pushed.eq(lowest(self.pushing) & (~full).replicate(self.cores))

        word = Signal(XLEN)
        offered = (value & self.pushed[core].replicate(XLEN) for core, value in enumerate(self.words))
        m.d.comb += word.eq(reduce(or_, offered, 0))
        with m.If(self.pushed.any()):
            m.d.sync += [self._at(words, tail).eq(word), self._at(teams, tail).eq(self.team), tail.eq(tail + 1)]

        for core, place in enumerate(places):
            has_word, in_team = signals(1, f"has_word_{core} in_team_{core}")
            m.d.comb += [
                has_word.eq(place != tail),
                in_team.eq(self._at(teams, place).bit_select(core, 1)),
                self.popped[core].eq(self.popping[core] & has_word & in_team),
                self.found[core].eq(self._at(words, place)),
            ]
            with m.If(has_word & (self.popping[core] | ~in_team)):
                m.d.sync += place.eq(place + 1)
        return m

    def _at(self, entries, place):
        return Array(entries)[place[: ceil_log2(self.depth)]] if self.depth > 1 else entries[0]
