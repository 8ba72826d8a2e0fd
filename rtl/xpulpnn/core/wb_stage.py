"""WB stage: results that arrive after EX."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.config import CoreConfig
from xpulpnn.core.mult import MultOp
from xpulpnn.core.pipeline import PLACES_TOP, ZERO, ExWbSignature, WbSignature
from xpulpnn.core.requantiser import ZERO_BITS, RequantiseCtrl, Requantiser
from xpulpnn.isa.machine import FIRST_PARAMETER


class WbStage(Component):
    """Holds the destinations of the instruction whose memory response is outstanding.

    A loaded value goes to rd through port A. With a Mac&Load the word goes to the NN-RF instead, and port A writes the
    incremented base, registered here. The old value of a register that an access has written from EX, before its
    response, is stored here; if the response is an error, port A restores it in the next cycle. Reset drops all state.
    """

    def __init__(self, config: CoreConfig):
        # config: Mac&Load forms present. With requantisation the sum and the old rd of pv.rq* share the registers of an
        # incremented base and of a value to restore, and port A writes the requantised word. Late results share the
        # register of the base, which is early then.
        ports = {
            "ex": In(ExWbSignature(config)),  #: The instruction in EX.
            "ex_ready": In(1),  #: EX passes on its content, possibly a bubble.
            "ex_base": In(32),  #: Incremented base made in EX.
            "lsu_done": In(1),  #: The response has arrived without error, or none is outstanding.
            "fault": In(1),  #: The response is an error.
            "lsu_rdata": In(32),  #: Loaded value.
            "wb": Out(WbSignature(pairs=config.mac_load_pair)),  #: Pending write of port A, for forwarding.
            "wb_write": Out(1),  #: The write happens at the end of this cycle.
            "wb_wdata": Out(32),  #: Value written.
            "wb_is_base": Out(1),  #: Port A writes the base of a Mac&Load.
        }
        if config.performance_counters:
            #: elw_stall: p.elw waits for its answer; only with performance counters.
            ports["elw_stall"] = Out(1)
        if config.mac_load:
            #: nn_we, nn_addr: NN-RF write of ``lsu_rdata`` at the end of this cycle; only with Mac&Load.
            ports |= {"nn_we": Out(1), "nn_addr": Out(config.nn_addr_bits)}
        if config.requantise_exact:
            #: summand_pending: The summand of a requantisation is going to be written to the NN-RF; only with
            #:   ``requantise_exact``.
            ports["summand_pending"] = Out(1)
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        ex, wb = self.ex, self.wb
        wrote, restores, keeps_old, nn_pending = signals(1, "wrote restores keeps_old nn_pending")
        old, base = signals(32, "old base")
        old_addr = Signal(5)
        # held until the next write, to keep port A quiet between two bases
        shows_base = Signal()
        # products are late in EX and selected here
        late_words = {name: Signal(32, name=name) for name in self.config.late_result_names}
        # pending actions of the instruction in WB, and those of the instruction in EX
        flags = [(nn_pending, ex.nn_we)] if self.config.mac_load else []
        flags += [(wb.pair, ex.pair)] if self.config.mac_load_pair else []
        cleared = [flag.eq(0) for flag, _ in flags]
        with m.If(self.ex_ready):
            m.d.sync += [wb.we.eq(ex.valid & ex.wb_we), wrote.eq(keeps_old), restores.eq(0)]
            m.d.sync += [flag.eq(ex.valid & value) for flag, value in flags]
            with m.If(ex.valid & ex.wb_we):
                m.d.sync += wb.addr.eq(ex.wb_addr)
                m.d.sync += [word.eq(getattr(ex, name)) for name, word in late_words.items()]
                if writes := self._writes_of_registers():
                    m.d.sync += shows_base.eq(reduce(or_, writes))
            with m.If(keeps_old):
                m.d.sync += [old.eq(ex.old), old_addr.eq(ex.ex_addr)]
            self._register_words(m, base, old)
        with m.Elif(self.fault):
            m.d.sync += [wb.we.eq(wrote), wb.addr.eq(old_addr), restores.eq(1), *cleared]
        with m.Elif(self.lsu_done):
            m.d.sync += [wb.we.eq(0), wrote.eq(0), *cleared]
        m.d.comb += keeps_old.eq(ex.access & ex.ex_we)
        arrived = self._select_data(m, base, shows_base, late_words)
        m.d.comb += [self.wb_write.eq(wb.we & self.lsu_done), self.wb_wdata.eq(Mux(restores, old, wb.data))]
        if self.config.mac_load:
            self._write_entry(m, nn_pending)
        if self.config.multiplies_by_dotp:
            self._shift_product(m, arrived)
        if self.config.requantise:
            alone = self.config.late_results and not self.config.mac_load_pair
            self._requantise(m, late_words["late_product"] if alone else base, old, arrived)
        if self.config.performance_counters:
            self._count_stalls(m)
        return m

    def _writes_of_registers(self):
        ex = self.ex
        writes = [ex.late] if self.config.late_results else []
        writes += [ex.wb_base] if self.config.mac_load else []
        writes += [ex.pair] if self.config.mac_load_pair else []
        return writes + ([ex.mult.op == MultOp.HIGH] if self.config.multiplies_by_dotp else [])

    def _register_words(self, m, base, old):
        ex, late_results = self.ex, self.config.late_results
        if self.config.mac_load_pair:
            self._register_sums(m, base, old)
        elif self.config.requantise:
            with m.If(ex.valid & ex.requantise.valid):
                if not late_results:
                    m.d.sync += base.eq(ex.product)
                m.d.sync += old.eq(ex.old)
            with m.If(ex.valid & ex.requantise.load):
                m.d.sync += self.nn_addr.eq(ex.nn_addr)
        if late_results:
            with m.If(ex.valid & ex.late):
                m.d.sync += base.eq(ex.late_result)
            if self.config.mac_load:
                with m.If(ex.valid & ex.nn_we):
                    m.d.sync += self.nn_addr.eq(ex.nn_addr)
        elif self.config.mac_load and not self.config.mac_load_pair:
            with m.If(ex.valid & ex.wb_base):
                # masked, to keep the inputs of the register quiet during other results
                m.d.sync += [base.eq(self.ex_base & ex.wb_base.replicate(32)), self.nn_addr.eq(ex.nn_addr)]

    def _select_data(self, m, base, shows_base, late_words):
        """Select the loaded word or a registered word; return the word into which requantisation inserts its result."""
        arrived = Signal(32, name="arrived") if self.config.requantise_exact else self.wb.data
        m.d.comb += arrived.eq(self.lsu_rdata)
        if self.config.mac_load or self.config.late_results:
            with m.If(shows_base):
                m.d.comb += arrived.eq(reduce(or_, late_words.values(), base))
        return arrived

    def _write_entry(self, m, nn_pending):
        is_base = nn_pending & ~self.wb.pair if self.config.mac_load_pair else nn_pending
        if self.config.late_results:
            is_base = Const(0)
        m.d.comb += [self.wb_is_base.eq(is_base), self.nn_we.eq(nn_pending & self.lsu_done)]
        if self.config.requantise_exact:
            m.d.comb += self.summand_pending.eq(nn_pending & (self.nn_addr == FIRST_PARAMETER + 1))

    def _count_stalls(self, m):
        elw = Signal()
        with m.If(self.ex_ready):
            m.d.sync += elw.eq(self.ex.valid & self.ex.elw)
        m.d.comb += self.elw_stall.eq(elw & ~self.lsu_done)

    def _register_sums(self, m, base, old):
        """Register both sums of a Mac&Load; the first register also holds the incremented base or the sum of pv.rq*."""
        ex, late = self.ex, self.ex.pair | self.ex.wb_base
        # of these words all but one are 0
        word = ex.first | (self.ex_base & ex.wb_base.replicate(32))
        has_second = ex.pair
        if self.config.requantise:
            late |= ex.requantise.valid
            if self.config.requantise_exact:
                # the lower word of a 64-bit product shares the register of the second sum
                has_second |= ex.requantise.valid
            else:
                word |= ex.product
            with m.If(ex.valid & ex.requantise.valid):
                m.d.sync += old.eq(ex.old)
        if self.config.multiplies_by_dotp:
            late |= ex.mult.op == MultOp.HIGH
            has_second |= ex.mult.op == MultOp.HALF
        if self.config.has_whole_products:
            word |= ex.upper
        with m.If(ex.valid & late):
            m.d.sync += base.eq(word)
        with m.If(ex.valid & has_second):
            m.d.sync += self.wb.odd.eq(ex.second)
        with m.If(ex.valid & ex.nn_we):
            m.d.sync += self.nn_addr.eq(ex.nn_addr)

    def _shift_product(self, m, arrived):
        ex = self.ex
        shifts, is_signed = signals(1, "shifts is_signed")
        places = Signal.like(ex.shamt, name="product_places")
        with m.If(self.ex_ready):
            m.d.sync += shifts.eq(ex.valid & (ex.mult.op == MultOp.HALF))
            with m.If(ex.valid & (ex.mult.op == MultOp.HALF)):
                m.d.sync += [is_signed.eq(ex.mult.a_signed), places.eq(ex.shamt)]
        word = Signal(32, name="product")
        m.d.comb += word.eq(self.wb.odd & shifts.replicate(32))
        filled = Cat(word, (word[-1] & is_signed).replicate(32))
        with m.If(shifts):
            m.d.comb += arrived.eq(filled >> places)

    def _requantise(self, m, total, old, arrived):
        m.submodules.requantiser = requantiser = Requantiser(self.config)
        ex = self.ex
        ctrl = Signal(RequantiseCtrl, name="requantise")
        lane = Signal.like(ex.lane)
        places = Signal.like(ex.shamt)
        with m.If(self.ex_ready):
            m.d.sync += ctrl.valid.eq(ex.valid & ex.requantise.valid)
            with m.If(ex.valid & ex.requantise.valid):
                m.d.sync += [
                    ctrl.to_signed.eq(ex.requantise.to_signed),
                    ctrl.fmt.eq(ex.requantise.fmt),
                    lane.eq(ex.lane),
                    places.eq(ex.shamt),
                ]
        if self.config.requantise_exact:
            places, total = self._scale(m, requantiser, places, total)
        m.d.comb += [
            requantiser.ctrl.eq(ctrl),
            requantiser.lane.eq(lane),
            requantiser.places.eq(places),
            requantiser.sum.eq(total),
            requantiser.old.eq(old),
        ]
        if self.config.requantise_exact:
            # the latest result of all, 0 for other instructions
            m.d.comb += self.wb.data.eq((arrived & ~ctrl.valid.replicate(32)) | requantiser.result)
        else:
            with m.If(ctrl.valid):
                m.d.comb += self.wb.data.eq(requantiser.result)

    def _scale(self, m, requantiser, places, total):
        """Register the operands of exact requantisation; return its shift amount and its sum."""
        ex = self.ex
        places_top, rounds = signals(1, "places_top rounds")
        zero = Signal(ZERO_BITS)
        with m.If(self.ex_ready):
            m.d.sync += rounds.eq(ex.valid & ex.rounds)
        with m.If(self.ex_ready & ex.valid & ex.requantise.valid):
            m.d.sync += [places_top.eq(ex.scale[PLACES_TOP]), zero.eq(ex.scale[ZERO])]
        lower, upper = (self.wb.odd, total) if self.config.mac_load_pair else (total, Signal(32, name="upper"))
        if not self.config.mac_load_pair:
            with m.If(self.ex_ready & ex.valid & ex.requantise.valid):
                m.d.sync += upper.eq(ex.upper)
        m.d.comb += [requantiser.rounds.eq(rounds), requantiser.zero.eq(zero)]
        return Cat(places, places_top), Cat(lower, upper)
