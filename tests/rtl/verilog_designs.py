"""Designs whose emission is tried: a mixture of everything, and a small system."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, enum, fifo, memory, stream, wiring
from amaranth.lib.wiring import In, Out


class Mode(enum.Enum, shape=unsigned(2)):
    ADD = 0
    SUB = 1
    MUL = 2
    SHIFT = 3


class Ctrl(data.Struct):
    mode: Mode
    a_signed: 1
    b_signed: 1
    shamt: 5


class Item(data.Struct):
    word: 32
    addend: 32
    mode: Mode


class Lane(wiring.Component):
    """Product of two elements."""

    def __init__(self, width: int) -> None:
        self._width = width
        super().__init__(
            {
                #: a, b: Factors.
                "a": In(width),
                "b": In(width),
                "signed": In(2),  #: Each of them is signed.
                #: product: Their product, in the
                #:   same cycle.
                "product": Out(signed(2 * width + 2)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        a = Signal(signed(self._width + 1))
        b = Signal(signed(self._width + 1))
        m.d.comb += a.eq(Cat(self.a, self.a[-1] & self.signed[0]))
        m.d.comb += b.eq(Cat(self.b, self.b[-1] & self.signed[1]))
        m.d.comb += self.product.eq(a * b)
        return m


class Mixture(wiring.Component):
    """A bit of everything that the emission must handle."""

    ctrl: In(Ctrl)  #: Control word.
    #: i.payload: One operand pair.
    i: In(stream.Signature(Item))  #: Operands.
    o: Out(stream.Signature(signed(32)))
    unused: In(7)
    constant: Out(8)
    undriven: Out(4)
    vec: In(8).array(4)
    total: Out(10)
    x: In(signed(8))
    y: In(signed(5))
    flags: Out(11)
    mixed: Out(16)
    nibble: Out(4)
    contexts: Out(64)

    def elaborate(self, platform):
        m = Module()
        m.submodules.lane0 = lane0 = Lane(8)
        m.submodules.lane1 = lane1 = Lane(8)
        m.submodules.narrow = narrow = Lane(4)
        item = Signal(Item)
        valid = Signal()
        history = Signal(data.ArrayLayout(Mode, 3), init=[Mode.SUB, Mode.ADD, Mode.MUL])
        signs = Cat(self.ctrl.a_signed, self.ctrl.b_signed)
        for lane, low in ((lane0, 0), (lane1, 8), (narrow, 16)):
            high = low + len(lane.a)
            m.d.comb += [
                lane.a.eq(self.i.payload.word[low:high]),
                lane.b.eq(self.i.payload.addend[low:high]),
                lane.signed.eq(signs),
            ]
        m.d.comb += [
            self.constant.eq(0x5A),
            self.i.ready.eq(self.o.ready | ~valid),
            self.total.eq(sum(self.vec[i] for i in range(4))),
            self.mixed.eq(
                (self.x >> self.y[:3].as_unsigned()) + (self.y << self.vec[0][:3]) - Mux(self.unused[1], self.x, -1)
            ),
            self.flags.eq(
                Cat(
                    self.x < self.y,
                    self.x >= -self.y,
                    self.vec[0] < 256,
                    self.vec[1] >= 0,
                    self.vec[1] == self.x,
                    self.vec[2].any() ^ self.vec[2].all(),
                    self.vec[3].xor(),
                    (self.x >> 1) == (self.vec[3].as_signed() >> 2),
                    self.x < -3,
                    (~(self.vec[0] | self.vec[1])).any(),
                    (~self.vec[2]).xor(),
                )
            ),
            self.nibble.eq(self.i.payload.word.word_select(self.vec[2][:3], 4)),
            self.contexts.eq(
                Cat(
                    (self.x >> self.vec[0][:4]) & (self.vec[1] << 3)[:8],
                    ~self.vec[2] + (self.x >> self.vec[1][:2]),
                    self.vec[0].bit_select(self.vec[1][:3], 5),
                    (self.x >> self.vec[0][:2]).as_unsigned() & self.vec[1],
                    (~self.vec[2]).as_unsigned() + self.vec[3],
                    (self.vec[0] + self.vec[1])[:8] + self.vec[2],
                )
            ),
        ]
        with m.If(self.i.ready):
            m.d.sync += valid.eq(self.i.valid)
            m.d.sync += history.eq(Cat(self.ctrl.mode, history))
            with m.If(self.i.valid):
                m.d.sync += item.eq(self.i.payload)
            with m.Else():
                m.d.sync += item.word[4:9].eq(history)
        result = Signal(signed(32))
        with m.Switch(item.mode):
            with m.Case(Mode.ADD):
                m.d.comb += result.eq(item.word + item.addend)
            with m.Case(Mode.SUB):
                m.d.comb += result.eq(item.word - item.addend)
            with m.Case(Mode.MUL):
                m.d.comb += result.eq(lane0.product + lane1.product - narrow.product)
            with m.Default():
                m.d.comb += result.eq(item.word.as_signed() >> self.ctrl.shamt)
        with m.Switch(item.word[:8]):
            with m.Case("1----000"):
                m.d.comb += result[:16].eq(1)
            with m.Case("1-1--0-0", "01--1001"):
                m.d.comb += result[4:10].eq(self.vec[1])
            with m.Case("--------"):
                m.d.comb += result[0].eq(item.word[9])
        with m.If(self.unused[0] & self.vec[0][0]):
            m.d.comb += result[8:16].eq(Array(self.vec[i] for i in range(4))[item.word[:2]])
        with m.Elif(self.unused[2]):
            m.d.comb += result[20:].eq(self.x)
        with m.Elif(self.unused[3:6] == 5):
            pass
        with m.Else():
            m.d.comb += result[30].eq(1)
        with m.FSM():
            with m.State("IDLE"), m.If(self.i.valid):
                m.next = "RUN"
            with m.State("RUN"), m.If(self.o.ready):
                m.next = "DONE"
            with m.State("DONE"):
                m.next = "IDLE"
                m.d.comb += self.mixed.eq(0)
        m.d.comb += [self.o.payload.eq(result), self.o.valid.eq(valid)]
        return m


class Accumulator(wiring.Component):
    """Sum of bytes."""

    add: In(8)  #: Summand.
    total: Out(16, init=7)  #: Sum so far.

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.total.eq(self.total + self.add)
        return m


class Soc(wiring.Component):
    """A memory with byte enables, a queue, and logic in bare modules around a component."""

    addr: In(3)
    data: In(16)
    we: In(2)
    read: In(1)
    push: In(1)
    pop: In(1)
    word: Out(16)
    seen: Out(16)
    first: Out(16)
    queued: Out(8)
    waiting: Out(1)
    total: Out(16)
    phase: Out(2)

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = memory.Memory(shape=16, depth=8, init=[3, 1, 4, 1, 5, 9, 2, 6])
        write = ram.write_port(granularity=8)
        seen, old, now = ram.read_port(transparent_for=[write]), ram.read_port(), ram.read_port(domain="comb")
        m.submodules.queue = queue = fifo.SyncFIFO(width=8, depth=3)
        m.submodules.around = around = Module()
        around.submodules.inside = inside = Module()
        inside.submodules.accumulator = accumulator = Accumulator()
        inside.d.comb += accumulator.add.eq(self.data[:8] & self.read.replicate(8))
        around.d.comb += self.total.eq(accumulator.total)
        with around.FSM():
            with around.State("IDLE"):
                around.d.comb += self.phase.eq(1)
                with around.If(self.push):
                    around.next = "BUSY"
            with around.State("BUSY"):
                around.d.comb += self.phase.eq(2)
                with around.If(self.pop):
                    around.next = "IDLE"
        for port in (write, seen, old, now):
            m.d.comb += port.addr.eq(self.addr)
        m.d.comb += [
            write.data.eq(self.data),
            write.en.eq(self.we),
            seen.en.eq(self.read),
            self.seen.eq(seen.data),
            self.word.eq(old.data),
            self.first.eq(now.data),
            queue.w_data.eq(self.data),
            queue.w_en.eq(self.push),
            queue.r_en.eq(self.pop),
            self.queued.eq(queue.r_data),
            self.waiting.eq(queue.r_rdy),
        ]
        return m
