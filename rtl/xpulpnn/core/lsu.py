from amaranth.hdl import Cat, Const, Module, Mux, Signal

from xpulpnn.component import Component, In, Out, follow_case, set_and_clear, signals
from xpulpnn.core.control import LsuCtrl, MemSize
from xpulpnn.core.obi import ObiSignature
from xpulpnn.core.pipeline import FaultSignature
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES


class Lsu(Component):
    """Loads and stores of bytes, half-words and words at any byte address.

    The request leaves in EX, the response ends the instruction in WB. An access that crosses a word boundary is two
    word-aligned requests, lower address first, and takes one more EX cycle. One request is outstanding at a time; the
    next one may be made in the cycle of the response, unless that is an error, after which the access in EX makes no
    more requests. Reset drops the outstanding request: the memory must be reset too.
    """

    def __init__(self, *, debug: bool = False, late: bool = False):
        # late: The address of a second request comes from a register, as the address of the first is late.
        ports = {
            "ex_ctrl": In(LsuCtrl),  #: Access of the instruction in EX; stable until ``ex_done``.
            "ex_base": In(32),  #: The address with post-increment.
            "ex_sum": In(32),  #: The address without post-increment: base and offset, added by the ALU.
            "ex_wdata": In(32),  #: Store data, right-aligned.
            "ex_address": Out(32),  #: Byte address of the access.
            #: ex_done: The last request of the access is granted in this cycle: the instruction may enter WB.
            "ex_done": Out(1),
            "wb_done": Out(1),  #: No request is outstanding in WB, or its response arrives in this cycle without error.
            "wb_rdata": Out(32),  #: Loaded value, extended to 32 bits; valid with ``wb_done``.
            "ex_granted": Out(1),  #: A request is granted in this cycle.
            #: fault: Access fault of the instruction in WB, or in EX if its first request is outstanding.
            "fault": Out(FaultSignature()),
            "data": Out(ObiSignature()),  #: Memory port.
        }
        if debug:
            #: kept: Register that an access across a word boundary overwrites; only with debug mode.
            #: kept_we, kept_wdata: Write of ``kept`` while no request is outstanding; only with debug mode.
            ports |= {"kept": Out(32), "kept_we": In(1), "kept_wdata": In(32)}
        self.debug, self.late = debug, late
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        byte = Signal(2)
        crosses, second, answered, outstanding, wb_busy = signals(1, "crosses second answered outstanding wb_busy")
        m.d.comb += [self.ex_address.eq(Mux(self.ex_ctrl.post, self.ex_base, self.ex_sum)), byte.eq(self.ex_address)]
        follow_case(m, crosses, self.ex_ctrl.size, {MemSize.HALF: byte.all(), MemSize.WORD: byte.any()})
        m.d.comb += [
            answered.eq(self.data.rvalid & ~self.data.err),
            self.fault.valid.eq(self.data.rvalid & self.data.err),
            self.data.req.eq(self.ex_ctrl.valid & (~outstanding | answered)),
            self.data.addr.eq(Cat(Const(0, len(byte)), self._word(m, second))),
            self.data.we.eq(self.ex_ctrl.we),
            self.ex_granted.eq(self.data.req & self.data.gnt),
            self.ex_done.eq(self.ex_granted & (second | ~crosses)),
            self.wb_done.eq(~wb_busy | answered),
        ]
        with m.If(self.ex_granted):
            m.d.sync += [second.eq(crosses & ~second), outstanding.eq(1), self.fault.store.eq(self.data.we)]
        with m.Elif(self.data.rvalid):
            m.d.sync += outstanding.eq(0)
            with m.If(self.data.err):
                m.d.sync += second.eq(0)
        set_and_clear(m, wb_busy, self.ex_done, self.data.rvalid)

        self._byte_lanes(m, byte, second)
        self._load_data(m, byte, crosses, second)
        return m

    def _word(self, m, second):
        word = self.ex_address[2:]
        if not self.late:
            return word + second
        following = Signal.like(word, name="following")
        with m.If(~second):
            m.d.sync += following.eq(word + 1)
        # an early selection between registers: the sum is late
        return Mux(second | self.ex_ctrl.post, Mux(second, following, self.ex_base[2:]), self.ex_sum[2:])

    def _byte_lanes(self, m, byte, second):
        """Select byte enables and rotated store data; a second request has the bytes after the boundary."""
        enables = Signal(2 * WORD_BYTES - 1)
        size_mask = Signal(WORD_BYTES)
        follow_case(m, size_mask, self.ex_ctrl.size, {size: (1 << (1 << size.value)) - 1 for size in MemSize})
        m.d.comb += [
            enables.eq(size_mask << byte),
            self.data.be.eq(Mux(second, enables[WORD_BYTES:], enables[:WORD_BYTES])),
        ]
        rotated = {shift: self.ex_wdata.rotate_left(shift * BYTE_BITS) for shift in range(WORD_BYTES)}
        follow_case(m, self.data.wdata, byte, rotated)

    def _load_data(self, m, byte, crosses, second):
        """Align and extend the loaded word by size and sign of the load, which were stored when it left EX."""
        wb_byte = Signal(2)
        wb_crosses, wb_signed = signals(1, "wb_crosses wb_signed")
        wb_size = Signal(MemSize)
        first, aligned = signals(32, "first aligned")
        with m.If(self.ex_done):
            m.d.sync += [
                wb_byte.eq(byte),
                wb_crosses.eq(crosses),
                wb_size.eq(self.ex_ctrl.size),
                wb_signed.eq(self.ex_ctrl.signed),
            ]
        with m.If(self.data.rvalid & second):
            m.d.sync += first.eq(self.data.rdata)
        if self.debug:
            with m.If(self.kept_we):
                m.d.sync += first.eq(self.kept_wdata)
            m.d.comb += self.kept.eq(first)
        low = Signal(32)
        m.d.comb += low.eq(Mux(wb_crosses, first, self.data.rdata))
        both = Cat(low, self.data.rdata)
        follow_case(m, aligned, wb_byte, {shift: both.bit_select(shift * BYTE_BITS, 32) for shift in range(WORD_BYTES)})
        narrow = {size: BYTE_BITS << size.value for size in (MemSize.BYTE, MemSize.HALF)}
        extended = {
            size: Cat(aligned[:bits], (wb_signed & aligned[bits - 1]).replicate(32 - bits))
            for size, bits in narrow.items()
        }
        follow_case(m, self.wb_rdata, wb_size, {**extended, MemSize.WORD: aligned})
