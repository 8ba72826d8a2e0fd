"""Arbiter with the policies ``counter``, ``strict`` and ``fixed``."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.config import Arbiter as ArbiterKind


class Arbiter(Component):
    """Grants one of several requests.

    Combinational; every cycle with a request has a grant. With ``counter`` the inputs are the leaves of a binary tree,
    and a counter of grants selects one leaf. Where both branches of a node have requests, the branch with the selected
    leaf wins. With ``strict`` the next requesting input after the last winner wins, in circular order. In both a
    request waits for at most ``inputs - 1`` grants. With ``fixed`` the lowest number wins, and others may starve. After
    reset input 0 is preferred.
    """

    def __init__(self, inputs: int, kind: ArbiterKind):
        self.inputs = inputs  # number of requests, at least 1
        self.kind = kind  # policy
        self.module_variant = f"{inputs}"
        #: req: Requests.
        #: gnt: The granted request, one-hot; 0 without a request.
        super().__init__(ports={"req": In(inputs), "gnt": Out(inputs)})

    def elaborate(self, platform):
        m = Module()
        if self.inputs == 1:
            m.d.comb += self.gnt.eq(self.req)
            return m
        build = {"counter": self._counter, "strict": self._strict, "fixed": self._fixed}[self.kind]
        build(m)
        return m

    def _counter(self, m):
        """Build a binary tree whose root is controlled by the top bit of the counter of grants.

        An input is granted if it requests and loses at no level. A level only depends on the counter and on the
        requests of the other branch, so all levels are decided in parallel.
        """
        levels = (self.inputs - 1).bit_length()
        preferred = Signal(levels)
        with m.If(self.req.any()):
            if self.inputs == 1 << levels:
                m.d.sync += preferred.eq(preferred + 1)
            else:
                m.d.sync += preferred.eq(Mux(preferred == self.inputs - 1, 0, preferred + 1))
        half_requests = {}
        for level in range(levels):
            for low in range(0, self.inputs, 1 << level):
                half = self.req[low : low + (1 << level)]
                half_requests[level, low] = requests = Signal(
                    name=f"req{low}_{low + len(half) - 1}" if level else f"req{low}"
                )
                m.d.comb += requests.eq(half.any())
        for number in range(self.inputs):
            loses = Signal(levels, name=f"loses{number}")
            for level in range(levels):
                other = (number >> level ^ 1) << level
                if other < self.inputs:
                    prefers_other = ~preferred[level] if number >> level & 1 else preferred[level]
                    m.d.comb += loses[level].eq(half_requests[level, other] & prefers_other)
            m.d.comb += self.gnt[number].eq(self.req[number] & ~loses.any())

    def _strict(self, m):
        """Grant the lowest requesting input above the last winner; if there is none, the lowest requesting input."""
        above, preferred = signals(self.inputs, "above preferred")
        m.d.comb += preferred.eq(self.req & above)
        with m.If(self.req.any()):
            m.d.sync += above.eq(Cat(Const(0, 1), *(self.gnt[:number].any() for number in range(1, self.inputs))))
        m.d.comb += self.gnt.eq(Mux(preferred.any(), _lowest(preferred), _lowest(self.req)))

    def _fixed(self, m):
        m.d.comb += self.gnt.eq(_lowest(self.req))


def _lowest(requests):
    return Cat(requests[0], *(requests[n] & ~requests[:n].any() for n in range(1, len(requests))))
