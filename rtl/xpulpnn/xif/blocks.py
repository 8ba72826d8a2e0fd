"""Execution of the instructions with state: accumulators, NN-RF, products of blocks, steps, requantisation."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from xpulpnn.component import Component, In, Out, set_and_clear, signals
from xpulpnn.core.insn_word import operand
from xpulpnn.core.requantiser import ZERO_BITS
from xpulpnn.dotp.widener import WeightWidener
from xpulpnn.isa.machine import BYTE_BITS, FIRST_PARAMETER, XLEN
from xpulpnn.isa.xif import ACCUMULATORS, FILTERS, FIRST_POINTER, PIXELS
from xpulpnn.xif.accumulators import Accumulators
from xpulpnn.xif.config import XifConfig
from xpulpnn.xif.decoder import XifCtrl, XifOp
from xpulpnn.xif.products import Products
from xpulpnn.xif.requantisation import SHIFT_BITS, Requantisation
from xpulpnn.xif.steps import Steps
from xpulpnn.xif.words import Words

_PARAMETER_PAIR = 4  # pair of pa.ld that is the parameter of requantisation


class Blocks(Component):
    """Executes the oldest instruction, and makes the dot products of all.

    ``pop`` comes in the last cycle of an instruction, ``push`` with its result once: in the first cycle, or behind the
    last load of the memory interface.
    """

    def __init__(self, config: XifConfig) -> None:
        ports = {
            "valid": In(1),  #: The instruction is committed.
            "word": In(XLEN),  #: Instruction word.
            "ctrl": In(XifCtrl),  #: Its control word.
            "rs1": In(XLEN),  #: Value of rs1.
            "rs2": In(XLEN),  #: Value of rs2.
            "op_b": In(XLEN),  #: Second operand of a dot product without state.
            "space": In(1),  #: There is room for a result.
            "pop": Out(1),  #: The instruction ends.
            "ends": Out(1),  #: A block or steps end in this cycle, as known from its beginning.
            "push": Out(1),  #: The result is there.
            "data": Out(XLEN),  #: Value of rd, 0 for lane-wise operations.
        }
        if config.memory != "none":
            #: oldest: The core waits for the result of the instruction, or takes it in this cycle or did so, if it was
            #:   pushed; only with memory.
            #: req, addr, last: A load is requested, its address, and whether it is the last one; only with memory.
            #: gnt: The request is taken; only with memory.
            #: fault: The request is refused, with ``gnt``; the instruction ends; only with memory.
            #: rvalid, rdata, err: A word arrives, and whether its load failed; only with memory.
            #: faulted: A load of the instruction was refused, with ``push``; only with memory.
            ports |= {"oldest": In(1), "req": Out(1), "addr": Out(XLEN), "last": Out(1), "gnt": In(1), "fault": In(1)}
            ports |= {"rvalid": In(1), "rdata": In(XLEN), "err": In(1), "faulted": Out(1)}
        super().__init__(config, ports)
        self.units = int(config.dots)

    def elaborate(self, platform):
        m = Module()
        m.submodules.accumulators = self.accumulators = Accumulators(self.config)
        m.submodules.products = self.products = Products(self.config)
        m.submodules.nnrf = self.nnrf = Words(self.config)
        self.go, self.settled = signals(1, "go settled")
        self.pixel, self.of_filter = Signal(range(PIXELS)), Signal(range(FILTERS))
        self.later, self.makes_block = signals(1, "later makes_block")
        self.number = operand(self.word, "r")
        self.parameter = Signal(SHIFT_BITS + ZERO_BITS)
        self.failed = Signal()
        at_once = ~self._is(XifOp.BLOCK, XifOp.STEP, XifOp.REQUANTISE)
        m.d.comb += [
            self.settled.eq(1),
            self.go.eq(self.valid & at_once & self.space & self.settled),
            self.pop.eq(self.go),
            self.push.eq(self.go),
        ]
        self._block(m)
        self.steps = self._steps(m) if self.config.memory != "none" else None
        if self.config.requantise != "none":
            self._requantise(m)
        self._multiply(m)
        self._access(m)
        self._write_words(m)
        self._read(m)
        return m

    def _is(self, *ops: XifOp):
        return Cat(self.ctrl.op == op for op in ops).any()

    def _block(self, m):
        """Count the products of pa.blk: first the pixels of a unit, then its weights, then the later pixels."""
        per_pair = PIXELS // 2 // self.units
        phase = Signal(range(2 * 2 * per_pair))
        runs = self.valid & self._is(XifOp.BLOCK) & self.settled & (self.space | phase.any())
        m.d.comb += self.ends.eq(phase.all())
        self.second = phase[-2]
        self.odd = Const(0) if self.units > 1 else phase[0]
        with m.If(runs):
            m.d.sync += phase.eq(phase + 1)
            m.d.comb += [
                self.makes_block.eq(1),
                self.pop.eq(phase.all()),
                self.push.eq(~phase.any()),
                self.later.eq(phase[-1]),
                self.pixel.eq(Cat(self.odd, phase[-1])),
                self.of_filter.eq(Cat(self.second, operand(self.word, "h"))),
            ]

    def _steps(self, m):
        m.submodules.steps = steps = Steps(self.config)
        stepping, pushed, begins, ends = signals(1, "stepping pushed begins ends")
        now = self.oldest if self.config.load_when_oldest else Const(1)
        none = ~self.rs1[: len(steps.count)].any()
        by_core = self.config.memory == "xif"
        pushes = self.valid & self._is(XifOp.STEP) & ~pushed & self.space & self.settled
        ready = self.space & self.settled if by_core else pushed
        m.d.comb += [
            begins.eq(self.valid & self._is(XifOp.STEP) & ~stepping & ready & now),
            ends.eq((stepping & ~steps.busy) | (begins & none)),
            steps.start.eq(begins & ~none),
            steps.count.eq(self.rs1),
            steps.half.eq(self.ctrl.half),
            steps.quarter.eq(self.ctrl.quarter),
            self.req.eq(steps.req),
            self.addr.eq(steps.addr),
            self.last.eq(steps.last),
            steps.gnt.eq(self.gnt),
            steps.stop.eq(steps.req & self.gnt & self.fault),
            steps.rvalid.eq(self.rvalid),
        ]
        set_and_clear(m, stepping, steps.start, ends)
        set_and_clear(m, pushed, pushes, ends)
        set_and_clear(m, self.failed, (self.rvalid & self.err) | steps.stop, self.go & self._is(XifOp.SYNC))
        if by_core:
            set_and_clear(m, self.faulted, steps.stop, ends)
        with m.If(self._is(XifOp.STEP)):
            m.d.comb += [
                self.pop.eq(ends),
                self.push.eq(ends if by_core else pushes),
                self.ends.eq(stepping & ~steps.busy),
                self.makes_block.eq(steps.product),
                self.later.eq(steps.later_pixels),
                self.pixel.eq(Cat(steps.odd_pixel, steps.later_pixels)),
                self.of_filter.eq(steps.of_filter),
            ]
        return steps

    def _requantise(self, m):
        m.submodules.requantisation = unit = Requantisation(self.config)
        asks = self.valid & self._is(XifOp.REQUANTISE)
        accumulators, products = self.accumulators, self.products
        m.d.comb += [
            self.settled.eq(~unit.packed_we),
            unit.active.eq(asks & (self.space | unit.begun)),
            unit.ctrl.eq(self.ctrl.requantise),
            unit.exact.eq(self.ctrl.exact),
            unit.of_filter.eq(operand(self.word, "f")),
            unit.summand.eq(self.rs2),
            unit.parameter.eq(self.parameter),
            unit.sum.eq(Mux(unit.pixel[0], accumulators.rdata[1], accumulators.rdata[0])),
            unit.product.eq(products.product),
            products.multiply.eq(unit.multiply),
            products.exact.eq(self.ctrl.exact),
            products.scaled.eq(unit.scaled),
            products.factor.eq(self.rs1),
            products.summand.eq(self.rs2),
            accumulators.pixel.eq(unit.packed_pixel),
            unit.packed.eq(accumulators.packed),
            accumulators.packed_we.eq(unit.packed_we),
            accumulators.packed_wdata.eq(unit.packed_wdata),
        ]
        with m.If(asks):
            m.d.comb += [
                self.pop.eq(unit.active & unit.done),
                self.push.eq(unit.active & ~unit.begun),
                self.pixel.eq(unit.pixel),
                self.of_filter.eq(unit.of_filter),
            ]

    def _multiply(self, m):
        """Select the factors: two registers, activations of the NN-RF with weights of a register or of the NN-RF."""
        products, nnrf = self.products, self.nnrf
        m.submodules.widener = widener = WeightWidener()
        word = Mux(self._is(XifOp.BLOCK) & ~self.second, self.rs1, self.rs2)
        part = self.word[25:27]
        if self.steps is not None:
            word = Mux(self._is(XifOp.STEP), nnrf.wgt, word)
            part = Mux(self._is(XifOp.STEP), self.steps.part, part)
            entry = Cat(self.number[0], self.number[2])
            m.d.comb += nnrf.wgt_addr.eq(Mux(self._is(XifOp.READ), entry, self.steps.of_filter))
        by_block = self._is(XifOp.BLOCK, XifOp.STEP)
        m.d.comb += [
            nnrf.later.eq(self.later | (self._is(XifOp.READ) & self.number[3])),
            widener.word.eq(word),
            widener.fmt.eq(self.ctrl.dotp.fmt),
            widener.half.eq(self.ctrl.half),
            widener.quarter.eq(self.ctrl.quarter),
            widener.part.eq(part),
            widener.is_signed.eq(self.ctrl.dotp.b_signed),
            products.ctrl.eq(self.ctrl.dotp),
            products.weights.eq(Mux(self._is(XifOp.DOT), self.op_b, widener.result)),
        ]
        activations = [nnrf.act, nnrf.act2] if self.units > 1 else [Mux(self.pixel[0], nnrf.act2, nnrf.act)]
        for unit, word in enumerate(activations):
            m.d.comb += [
                products.activations[unit].eq(Mux(by_block, word, self.rs1)),
                products.olds[unit].eq(self.accumulators.rdata[unit]),
            ]

    def _access(self, m):
        """Select the accumulators that are read and written."""
        accumulators = self.accumulators
        number = Mux(self._is(XifOp.ACCUMULATE), operand(self.word, "k"), self.number)
        with m.If(self._is(XifOp.ACCUMULATE, XifOp.READ, XifOp.WRITE)):
            m.d.comb += Cat(self.of_filter, self.pixel).eq(number)
        parity = Cat(~self.pixel[0], self.pixel[0]) if self.units > 1 else Const(1, 1)
        written = self.go & (self._is(XifOp.ACCUMULATE) | (self._is(XifOp.WRITE) & ~self.number[-1]))
        m.d.comb += [
            accumulators.addr.eq(Cat(self.of_filter, self.pixel[1:] if self.units > 1 else self.pixel)),
            accumulators.clear.eq(self.go & self._is(XifOp.CLEAR)),
            accumulators.we.eq(self.makes_block.replicate(self.units) | (parity & written.replicate(self.units))),
        ]
        for unit in range(self.units):
            word = Mux(self._is(XifOp.WRITE), self.rs1, self.products.sums[unit])
            m.d.comb += accumulators.wdata[unit].eq(word)

    def _write_words(self, m):
        """Write words of the NN-RF, both of a pair at once, the parameter of requantisation, and the pointers."""
        nnrf, pair = self.nnrf, operand(self.word, "e")
        loads, writes = self.go & self._is(XifOp.LOAD), self.go & self._is(XifOp.WRITE) & self.number[-1]
        is_pair, is_parameter = pair != _PARAMETER_PAIR, pair == _PARAMETER_PAIR
        if self.steps is None:
            is_pair = ~pair.any() | (pair == 1)
        first = Cat(Const(0, 1), pair == 2, pair == 3, pair == 1)  # entries 0, 8, 2 and 4
        chosen = Cat(~self.number[0], self.number[0])
        m.d.comb += [
            nnrf.we.eq((loads & is_pair).replicate(2) | (chosen & writes.replicate(2))),
            nnrf.waddr.eq(Mux(self._is(XifOp.LOAD), first, self.number[:-1])),
            nnrf.even.eq(self.rs1),
            nnrf.odd.eq(Mux(self._is(XifOp.LOAD), self.rs2, self.rs1)),
        ]
        if self.config.requantise != "none":
            with m.If((loads & is_parameter) | (writes & (self.number == ACCUMULATORS + FIRST_PARAMETER))):
                m.d.sync += self.parameter.eq(Cat(self.rs1[:SHIFT_BITS], self.rs1[BYTE_BITS : BYTE_BITS + ZERO_BITS]))
        if self.steps is not None:
            with m.If(self.rvalid):
                entry = self.steps.entry
                m.d.comb += [nnrf.we.eq(Cat(~entry[0], entry[0])), nnrf.waddr.eq(entry)]
                m.d.comb += [nnrf.even.eq(self.rdata), nnrf.odd.eq(self.rdata)]
            both = (self.go & self._is(XifOp.POINTERS)).replicate(2)
            one = Cat(writes & (self.number == FIRST_POINTER + unit) for unit in (0, 1))
            second = Mux(self._is(XifOp.POINTERS), self.rs2, self.rs1)
            m.d.comb += [self.steps.pointers_we.eq(both | one), self.steps.pointer_wdata.eq(Cat(self.rs1, second))]

    def _read(self, m):
        """Select the value of rd."""
        sums = self.accumulators.rdata
        state = Signal(XLEN)
        is_weight = self.number[1:3].any()
        of_pixel = sums[0] if self.units == 1 else Mux(self.pixel[0], sums[1], sums[0])
        word = Mux(self.number[0], self.nnrf.act2, self.nnrf.act) & (~is_weight).replicate(XLEN)
        if self.steps is not None:
            word |= self.nnrf.wgt & (is_weight & ~self.number[3] & ~self.number[1:3].all()).replicate(XLEN)
        m.d.comb += state.eq(Mux(self.number[-1], word, of_pixel))
        if self.config.requantise != "none":
            with m.If(self.number == ACCUMULATORS + FIRST_PARAMETER):
                shift, zero = self.parameter[:SHIFT_BITS], self.parameter[SHIFT_BITS:]
                m.d.comb += state.eq(Cat(shift, Const(0, BYTE_BITS - SHIFT_BITS), zero))
        if self.steps is not None:
            for unit in (0, 1):
                with m.If(self.number == FIRST_POINTER + unit):
                    m.d.comb += state.eq(self.steps.pointers.word_select(unit, XLEN))
        with m.Switch(self.ctrl.op):
            with m.Case(XifOp.READ):
                m.d.comb += self.data.eq(state)
            with m.Case(XifOp.DOT):
                m.d.comb += self.data.eq(self.products.sums[0])
            with m.Case(XifOp.SYNC):
                m.d.comb += self.data.eq(self.failed)
