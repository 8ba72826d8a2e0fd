"""Multi-precision dot-product unit (XpulpNN paper, section IV-A)."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module, Signal, Value

from xpulpnn.arith.carry_save import carry_save
from xpulpnn.arith.prefix_adder import PrefixAdder
from xpulpnn.component import Component, In, Out, assign_by_name, follow_case, signals
from xpulpnn.config import DotpConfig
from xpulpnn.dotp.ctrl import DotpCtrl
from xpulpnn.dotp.region import DotpRegion
from xpulpnn.dotp.shared import DotpShared
from xpulpnn.isa.machine import XLEN


class DotpUnit(Component):
    """Dot product of packed words with optional accumulation.

    ``result = rd * accumulate + sum(ea(rs1[i]) * eb(rs2[i]))`` modulo 2**32 over the elements of ``ctrl.fmt``; ``ea``
    and ``eb`` extend an element by its sign if ``ctrl.a_signed`` / ``ctrl.b_signed``, else by zero. The result of a
    format that is not configured is undefined. One operation per cycle, never stalls, needs no reset.

    With ``isolation`` ``none`` and ``and`` the unit is combinational. With ``register`` the factors have latency 1: at
    the end of a cycle with ``enable`` high, ``ctrl``, ``rs1`` and ``rs2`` are sampled, factors and signs into the
    registers of the region of ``ctrl.fmt`` only. From the next cycle on, until the next ``enable``, ``result`` belongs
    to that operation, with the accumulator still combinational: ``rd`` is needed in the cycle of the result, so
    back-to-back accumulation needs no bubble.

    With ``multipliers`` ``replicated`` every format has a region with its own multipliers and adder tree, ``region_h``
    to ``region_c``. ``isolation`` keeps the inputs of idle regions from toggling: ``and`` gates factors, signs and
    accumulator, ``register`` holds the factors and gates the accumulator, ``none`` does nothing. With ``carry-save``
    adders each region outputs its sum as two words; the words of the selected region and the accumulator go through one
    final adder, ``adder``. With ``shared`` one multiplier array, ``array``, serves all formats.

    Parameters
    ----------
    config : DotpConfig
        Formats and structure.
    apart : bool
        Adds a result port for each format; needs ``inferred`` adders and ``signed`` multipliers.
    """

    def __init__(self, config: DotpConfig, *, apart: bool = False) -> None:
        #: enable: Samples ``ctrl``, ``rs1`` and ``rs2``; only with ``isolation`` ``register``.
        ports = {
            "ctrl": In(DotpCtrl),  #: Element format, signs and whether to accumulate; valid with the factors.
            #: rs1: Packed factor a: the activation of Mac&Load in the core. Its changes cost more energy with shared
            #:   multipliers.
            "rs1": In(XLEN),
            "rs2": In(XLEN),  #: Packed factor b: the weight of Mac&Load in the core.
            "rd": In(XLEN),  #: Accumulator, valid in the cycle of the result.
            "result": Out(XLEN),  #: Low word of the sum of products and accumulator.
        }
        if config.isolation == "register":
            ports["enable"] = In(1)
        if apart:
            #: result_h, result_b, result_n, result_c: Results of one format, 0 for other formats; only with ``apart``.
            ports |= {f"result_{fmt.suffix}": Out(XLEN) for fmt in config.formats}
        super().__init__(config, ports)
        self.apart = [getattr(self, f"result_{fmt.suffix}") for fmt in config.formats] if apart else []
        self.words = self.apart or [self.result]  # words of which all but one are 0

    @property
    def registered(self) -> bool:
        return self.config.isolation == "register"

    def elaborate(self, platform):
        m = Module()
        if self.config.multipliers == "shared":
            self.add_array(m)
        else:
            self.add_regions(m)
        return m

    def add_array(self, m: Module) -> None:
        m.submodules.array = array = DotpShared(self.config)
        m.d.comb += [
            array.fmt.eq(self.ctrl.fmt),
            array.a.eq(self.rs1),
            array.b.eq(self.rs2),
            *assign_by_name(array, self.ctrl, "a_signed", "b_signed"),
            array.acc.eq(self.rd & self.ctrl.accumulate.replicate(XLEN)),
            self.result.eq(array.result),
        ]

    def add_regions(self, m: Module) -> None:
        current = Signal(DotpCtrl)
        if self.registered:
            with m.If(self.enable):
                m.d.sync += current.eq(self.ctrl)
        else:
            m.d.comb += current.eq(self.ctrl)
        isolation = self.config.isolation
        regions: list[tuple[Signal, DotpRegion]] = []
        for fmt in self.config.formats:
            region = DotpRegion(
                fmt,
                registered=self.registered,
                adders=self.config.adders,
                signed_products=self.config.multipliers == "signed",
            )
            m.submodules[f"region_{fmt.suffix}"] = region
            selected, gate = signals(1, f"selected_{fmt.suffix} gate_{fmt.suffix}")
            m.d.comb += [
                selected.eq(current.fmt == fmt),
                gate.eq(selected if isolation == "and" else 1),
                region.a.eq(self.rs1 & gate.replicate(XLEN)),
                region.b.eq(self.rs2 & gate.replicate(XLEN)),
                region.a_signed.eq(self.ctrl.a_signed & gate),
                region.b_signed.eq(self.ctrl.b_signed & gate),
            ]
            if self.registered:
                m.d.comb += region.load.eq(self.enable & (self.ctrl.fmt == fmt))
            regions.append((selected, region))
        if self.config.adders == "inferred":
            self.select_result(m, current, regions)
        else:
            self.add_selected(m, current, regions)

    def select_result(self, m: Module, current: Signal, regions: list[tuple[Signal, DotpRegion]]) -> None:
        """Select the result of a region; every region adds the accumulator to its sum."""
        isolation = self.config.isolation
        for selected, region in regions:
            accumulate = Signal(name=f"accumulate_{region.fmt.suffix}")
            m.d.comb += [
                accumulate.eq(current.accumulate & (1 if isolation == "none" else selected)),
                region.acc.eq(self.rd & accumulate.replicate(XLEN)),
            ]
        if isolation != "and" and self.config.multipliers != "signed":
            follow_case(m, self.result, current.fmt, {region.fmt: region.result for _, region in regions})
            return
        # the result of an idle region behind AND gates is 0
        results = [region.result for _, region in regions]
        if isolation != "and":
            # no multiplexer: synthesis would share multipliers behind it, with multiplexers at their inputs
            results = [region.result & selected.replicate(XLEN) for selected, region in regions]
        m.d.comb += [word.eq(result) for word, result in zip(self.apart, results, strict=False)]
        m.d.comb += self.result.eq(reduce(or_, results))

    def add_selected(self, m: Module, current: Signal, regions: list[tuple[Signal, DotpRegion]]) -> None:
        """Select the partial sum and carry words of a region and add them to the accumulator."""
        words: list[Value] = []
        for name in ("partial", "carry"):
            word = Signal(XLEN, name=name)
            # the words of an idle region behind AND gates are 0
            always = self.config.isolation == "and"
            chosen = (
                getattr(region, name) if always else getattr(region, name) & selected.replicate(XLEN)
                for selected, region in regions
            )
            m.d.comb += word.eq(reduce(or_, chosen))
            words.append(word)
        accumulator = self.rd & current.accumulate.replicate(XLEN)
        (_, partial), (_, carry) = carry_save(m, [*words, accumulator], XLEN, "final")
        m.submodules.adder = adder = PrefixAdder(XLEN)
        m.d.comb += [adder.a.eq(partial), adder.b.eq(carry), self.result.eq(adder.result)]
