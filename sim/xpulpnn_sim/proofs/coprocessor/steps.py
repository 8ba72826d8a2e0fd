# amaranth: UnusedElaboratable=no
"""Properties of pa.step, for memories of any timing."""

from amaranth.hdl import Array, Cat, Mux, Signal
from amaranth.lib.wiring import In

from xpulpnn.component import signals
from xpulpnn.isa.machine import WORD_BYTES, XLEN
from xpulpnn.isa.xif import STEP_BITS
from xpulpnn.xif.steps import Steps
from xpulpnn_sim.proofs.cluster.obligation import Obligation

_ENTRIES = (0, 1, 2, 3, 4, 5, 8, 9)  # of the NN-RF, in the order of the loads
_WEIGHTS = range(2, 6)  # loads of weights
_LAST_USE = (3, 3, 4, 5, 6, 7, 7, 7)  # last product of a step that takes the word of a load
_LAST = len(_ENTRIES) - 1

_CLAIMS = {
    "arrived": "every product takes words of its own step: they have arrived, and none was replaced",
    "kept": "no load, made or under way, replaces a word that products still need",
    "once": "a step makes each of its products once, with its part of the weights",
    "addresses": "loads ask for the words of the step in order, each for its entry",
    "steady": "a load that is not granted stays, with its address",
    "all": "steps are busy until all products are made and all words have arrived, and mark the last load",
    "progress": "while steps are busy, a load is requested, a word is on its way or a product is made",
    "counted": "counters and pointers are those of the loads, words and products so far",
}


class StepsClaims(Obligation):
    """Properties of steps, with the step of each word of the NN-RF and counts of loads, words and products."""

    def __init__(self, config):
        self.two = config.dots == "2"
        registers = {f"of_{name}": (name, 4) for name in ("requested", "arrived", "made")}
        registers |= {f"of_{name}": (name, XLEN) for name in ("activations", "weights")}
        registers |= {"of_left": ("left", STEP_BITS), "of_part": ("requested_part", 2)}
        ports = dict.fromkeys(("start", "half", "quarter", "gnt", "stop", "rvalid"), In(1))
        ports |= {"count": In(STEP_BITS), "pointers_we": In(2), "pointer_wdata": In(2 * XLEN)}
        title = f"steps, {config.dots} dot product{'s' * self.two} at a time"
        super().__init__(title, Steps(config), _CLAIMS, registers, ports=ports)

    def claim(self, m):
        unit = self.unit
        self.asked, self.came, self.made = signals(5, "asked came made")  # modulo four steps
        self.on_way, self.narrow, before = Signal(4, name="on_way"), *signals(2, "narrow before")
        self.starts, self.stops, self.fetches = signals(1, "starts stops fetches")
        self.to_make = Signal(STEP_BITS, name="to_make")  # steps
        m.d.comb += [
            self.starts.eq(self.start & ~unit.busy & self.count.any()),
            self.narrow.eq(Mux(self.starts, Cat(self.half & ~self.quarter, self.quarter), before)),
            self.stops.eq(unit.req & self.gnt & self.stop),
            self.fetches.eq(unit.req & self.gnt & ~self.stop),
            unit.start.eq(self.starts),
            unit.count.eq(self.count),
            Cat(unit.half, unit.quarter).eq(self.narrow),
            unit.gnt.eq(self.gnt),
            unit.stop.eq(self.stops),
            unit.rvalid.eq(self.rvalid & self.on_way.any()),
            unit.pointers_we.eq(self.pointers_we & ~(unit.busy | self.starts).replicate(2)),
            unit.pointer_wdata.eq(self.pointer_wdata),
        ]
        m.d.sync += [before.eq(self.narrow), self.on_way.eq(self.on_way + self.fetches - unit.rvalid)]
        self.mask = Cat(self.narrow.any(), self.narrow[1])
        odd = Signal(name="odd")
        whole = unit.product & (self.two or odd)
        if not self.two:
            m.d.sync += odd.eq(~self.starts & (odd ^ unit.product))
        m.d.sync += [
            self.asked.eq(Mux(self.starts, 0, self.asked + self.fetches)),
            self.came.eq(Mux(self.starts, 0, self.came + unit.rvalid)),
            self.made.eq(Mux(self.starts, 0, self.made + whole)),
        ]
        order = (Cat(unit.of_filter, unit.later_pixels) == self.made[:3]) | ~unit.product
        part = (unit.part == (self.made[3:] & self.mask)) & (self.two or unit.odd_pixel == odd)
        m.d.comb += self.once.eq(order & (part | ~self.to_make.any()))
        counted = [self._words(m), self._addresses(m), self._end(m, whole)]
        counters = ((self.of_requested, self.asked), (self.of_arrived, self.came), (self.of_made, self.made))
        counted += [register == count[:4] for register, count in counters]
        counted.append(self.on_way == (self.asked - self.came)[:5])
        m.d.comb += self.counted.eq(Cat(counted).all())

    def _words(self, m):
        """Claim that products find words of their step; return whether the steps of words fit the counts."""
        unit = self.unit
        steps = [Signal(2, name=f"step_of_{load}") for load in range(len(_ENTRIES))]
        present = Signal(len(steps), name="present")
        with m.If(unit.rvalid):
            m.d.sync += [Array(steps)[self.came[:3]].eq(self.came[3:]), present.bit_select(self.came[:3], 1).eq(1)]
        with m.If(self.starts):
            m.d.sync += present.eq(0)
        fits = [bit & (step == self.made[3:]) for bit, step in zip(present, steps, strict=True)]
        first, second = (Mux(unit.later_pixels, fits[later], fits[load]) for load, later in ((0, 6), (1, 7)))
        pixels = first & second if self.two else Mux(unit.odd_pixel, second, first)
        weight = Array(fits[load] for load in _WEIGHTS)[unit.of_filter]
        ahead, kept = (self.came - self.made)[:5], [self.on_way <= len(_ENTRIES)]
        for more in range(-len(_ENTRIES), len(_ENTRIES)):
            most = Array(_LAST + load - last for load, last in enumerate(_LAST_USE))[(self.came + more)[:3]]
            kept.append((self.on_way <= more) | (ahead + more <= most))
        m.d.comb += [self.arrived.eq(~unit.product | (pixels & weight)), self.kept.eq(Cat(kept).all())]
        counted = [ahead <= len(_ENTRIES)]
        for load, (bit, step) in enumerate(zip(present, steps, strict=True)):
            behind = self.came[:3] <= load  # the word of this step has not come
            counted.append(
                Mux(bit, step == (self.came[3:] - behind)[:2], behind & ~self.came[3:].any() & (self.made <= self.came))
            )
        return Cat(counted).all()

    def _addresses(self, m):
        """Claim that loads go to the words of their step; return whether the pointers fit these words."""
        unit, load, part = self.unit, self.asked[:3], self.asked[3:] & self.mask
        activations, weights, first, address = signals(XLEN, "activations weights first address")
        waits, is_weight = signals(1, "waits is_weight")
        m.d.sync += [waits.eq(unit.req & ~self.gnt), address.eq(unit.addr)]
        m.d.comb += is_weight.eq((load >= _WEIGHTS.start) & (load < _WEIGHTS.stop))
        with m.If(self.starts):
            m.d.sync += Cat(activations, weights).eq(unit.pointers)
        with m.If(self.fetches & ~is_weight):
            m.d.sync += activations.eq(activations + WORD_BYTES)
        with m.If(self.fetches & is_weight):
            m.d.sync += weights.eq(weights + WORD_BYTES)
            with m.If(load == _WEIGHTS.start):
                m.d.sync += first.eq(weights)
            with m.If((load == _WEIGHTS.stop - 1) & (part != self.mask)):
                m.d.sync += weights.eq(first)
        asks = unit.addr == Mux(is_weight, weights, activations)
        m.d.comb += [
            self.addresses.eq((~unit.req | asks) & (~unit.rvalid | (unit.entry == Array(_ENTRIES)[self.came[:3]]))),
            self.steady.eq(~waits | self.starts | (unit.req & (unit.addr == address))),
        ]
        behind = [
            (load != number) | (weights == (first + WORD_BYTES * (number - _WEIGHTS.start))[:XLEN])
            for number in (3, 4, 5)
        ]
        pointers = Cat(self.of_activations, self.of_weights) == Cat(activations, weights)
        return ~self.to_make.any() | (Cat(behind).all() & pointers & (self.of_part == part))

    def _end(self, m, whole):
        """Claim that all loads and products are made; return whether the steps that are left fit the counts."""
        unit, stopped = self.unit, Signal(name="stopped")
        to_make, to_load = self.to_make, Signal(STEP_BITS, name="to_load")
        with m.If(self.starts):
            m.d.sync += [stopped.eq(0), to_make.eq(self.count), to_load.eq(self.count)]
        with m.Else():
            made, loaded = whole & (self.made[:3] == _LAST), self.fetches & (self.asked[:3] == _LAST)
            m.d.sync += [to_make.eq(Mux(self.stops, 0, to_make - made)), to_load.eq(to_load - loaded)]
            m.d.sync += stopped.eq(stopped | self.stops)
        is_last = (to_load == 1) & (self.asked[:3] == _LAST)
        m.d.comb += [
            self.all.eq((unit.busy == (to_make.any() | self.on_way.any())) & (~unit.req | (unit.last == is_last))),
            self.progress.eq(~unit.busy | unit.req | self.on_way.any() | unit.product),
        ]
        ahead = (self.asked[3:] - self.made[3:])[:2]
        return (self.of_left == to_make) & (stopped | (to_make == to_load + ahead)) & (~stopped | ~to_make.any())
