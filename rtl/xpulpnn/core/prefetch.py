"""Prefetch buffer: instruction words ahead of the program counter."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.core.obi import InstructionPortSignature
from xpulpnn.isa.machine import HALF_BITS, LENGTH_BITS, WORD_BYTES, XLEN

DEPTH = 4
"""Words buffered or requested at most: enough to fetch a word in every cycle from a memory that answers in three."""


class PrefetchBuffer(wiring.Component):
    """Fetches ahead and offers the instruction at the program counter, compressed or not, at any half-word address.

    A word is offered in the cycle of its response. Up to four words are buffered or under way. A redirect requests the
    word of its target in the same cycle and drops everything older, what is still to be answered included; a request
    that is not granted yet stays on the bus until it is (OBI), and its answer is dropped too. Reset empties the buffer;
    nothing is fetched before the first redirect. A word that the bus could not read goes with its error; what is behind
    it in memory does not matter then.

    Members
    -------
    redirect : In(1)
        Continue at ``target``. The instruction offered in the same cycle may still be taken.
    target : In(32)
        Byte address, bit 0 ignored.
    valid : Out(1)
        ``word`` holds the instruction at ``pc``.
    word : Out(32)
        The instruction; of a compressed one the upper half means nothing.
    error : Out(1)
        It could not be read: ``word`` means nothing, and nothing ``valid`` is offered behind it but by a redirect.
    pc : Out(32)
        Its address; also while ``valid`` is 0, the address of the next instruction.
    take : In(1)
        The instruction is taken in this cycle; only with ``valid``.
    idle : Out(1)
        Nothing is requested or under way.
    instr : Out(InstructionPortSignature)
        Instruction memory.
    """

    redirect: In(1)
    target: In(32)
    valid: Out(1)
    word: Out(32)
    error: Out(1)
    pc: Out(32)
    take: In(1)
    idle: Out(1)
    instr: Out(InstructionPortSignature())

    def elaborate(self, platform):
        """Build the word queue, the aligner and the request side."""
        m = Module()
        words = [Signal(XLEN, name=f"word{i}") for i in range(DEPTH)]
        errors = [Signal(name=f"error{i}") for i in range(DEPTH)]
        count = Signal(range(DEPTH + 1))
        dropped = Signal()
        arriving = Signal()
        unaligned = Signal()
        compressed = Signal()
        leaves = Signal()
        m.d.comb += [
            arriving.eq(self.instr.rvalid & ~dropped),
            unaligned.eq(self.pc[1]),
        ]

        # the word at the program counter and the one after it, from the queue or straight from the bus
        rdata = self.instr.rdata
        first = Signal(XLEN)
        second = Signal(HALF_BITS)
        has_first = Signal()
        has_second = Signal()
        first_error = Signal()
        second_error = Signal()
        m.d.comb += [
            first_error.eq(Mux(count != 0, errors[0], self.instr.err)),
            second_error.eq(Mux(count > 1, errors[1], self.instr.err)),
            self.error.eq(first_error | (unaligned & ~compressed & second_error)),
            has_first.eq((count != 0) | arriving),
            has_second.eq((count > 1) | ((count == 1) & arriving)),
            first.eq(Mux(count != 0, words[0], rdata)),
            second.eq(Mux(count > 1, words[1][:HALF_BITS], rdata[:HALF_BITS])),
            self.word.eq(Mux(unaligned, Cat(first[HALF_BITS:], second), first)),
            compressed.eq(~self.word[:LENGTH_BITS].all()),
            self.valid.eq(has_first & (~unaligned | compressed | has_second | first_error)),
            leaves.eq(self.take & (unaligned | ~compressed)),
        ]
        self._queue(m, words, errors, count, arriving, leaves)

        m.d.comb += self.pc[0].eq(0)
        position = Signal(XLEN - 1)
        m.d.comb += self.pc[1:].eq(position)
        with m.If(self.redirect):
            m.d.sync += position.eq(self.target[1:])
        with m.Elif(self.take):
            m.d.sync += position.eq(position + Mux(compressed, 1, WORD_BYTES // 2))
        self._requests(m, count, dropped)
        return m

    def _queue(self, m, words, errors, count, arriving, leaves):
        """Words shift towards the head when the first leaves; an arriving word goes behind the last."""
        kept = Signal.like(count)
        m.d.comb += kept.eq(count - leaves)
        # a word that arrives and leaves in one cycle is never stored
        with m.If(self.redirect):
            m.d.sync += count.eq(0)
        with m.Else():
            m.d.sync += count.eq(count + arriving - leaves)
        entries = [Cat(word, error) for word, error in zip(words, errors, strict=True)]
        for index, entry in enumerate(entries):
            with m.If(arriving & (kept == index)):
                m.d.sync += entry.eq(Cat(self.instr.rdata, self.instr.err))
            if index + 1 < len(entries):
                with m.Elif(leaves):
                    m.d.sync += entry.eq(entries[index + 1])

    def _requests(self, m, count, dropped):
        """Requests: the word of a redirect at once, else the next word while there is room for it."""
        running = Signal()
        held = Signal()
        stale = Signal()
        current = Signal(XLEN - 2)
        exact = Signal()
        live = Signal(range(DEPTH + 1))
        drops = Signal(range(DEPTH + 1))
        # current is the word address requested last, or if exact the one on the bus or to be requested next; a stale
        # request is held for a word nobody wants; live answers are awaited, older ones are going to be dropped
        fresh = Signal()
        forsaken = Signal()
        sequential = Signal()
        can_request = Signal()
        address = Signal(XLEN - 2)
        granted = Signal()
        m.d.comb += [
            dropped.eq(drops != 0),
            self.idle.eq(~self.instr.req & (live == 0) & (drops == 0)),
            can_request.eq(live + drops < DEPTH),
            fresh.eq(self.redirect & ~held),
            forsaken.eq(held & (stale | self.redirect)),
            sequential.eq(running & (count + live < DEPTH)),
            # the increment starts from a register: the target of a redirect comes late in the cycle
            address.eq(Mux(fresh, self.target[2:], Mux(exact, current, current + 1))),
            self.instr.req.eq(held | (can_request & (self.redirect | sequential))),
            self.instr.addr.eq(Cat(Const(0, 2), address)),
            granted.eq(self.instr.req & self.instr.gnt),
        ]
        m.d.sync += [held.eq(self.instr.req & ~self.instr.gnt), stale.eq(forsaken & ~self.instr.gnt)]
        with m.If(self.redirect):
            m.d.sync += [
                running.eq(1),
                live.eq(granted & ~forsaken),
                drops.eq(drops + live - self.instr.rvalid + (granted & forsaken)),
            ]
        with m.Else():
            m.d.sync += [
                live.eq(live - (self.instr.rvalid & ~dropped) + (granted & ~forsaken)),
                drops.eq(drops - (self.instr.rvalid & dropped) + (granted & forsaken)),
            ]
        with m.If(fresh):
            m.d.sync += [current.eq(self.target[2:]), exact.eq(~granted)]
        with m.Elif(self.redirect & self.instr.gnt):
            m.d.sync += [current.eq(self.target[2:]), exact.eq(1)]
        with m.Elif(granted & forsaken):
            # the pc has waited at the target of the redirect
            m.d.sync += [current.eq(self.pc[2:]), exact.eq(1)]
        with m.Elif(self.instr.req):
            m.d.sync += [current.eq(address), exact.eq(~self.instr.gnt)]
