from amaranth.hdl import Cat, Const, Module, Mux, Signal

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.core.obi import InstructionPortSignature
from xpulpnn.isa.machine import HALF_BITS, LENGTH_BITS, XLEN

DEPTH = 4
"""Largest number of words buffered or requested; enough for a word per cycle from a memory with latency three."""


class PrefetchBuffer(Component):
    """Fetches ahead and offers the instruction at the program counter, compressed or not, at any half-word address.

    A word is offered in the cycle of its response. Up to four words are buffered or requested. A redirect requests the
    word of its target in the same cycle and drops everything older, including outstanding answers; a request
    that is not yet granted stays on the bus until it is (OBI), and its answer is dropped too. Reset empties the buffer;
    nothing is fetched before the first redirect. A word that the bus could not read is offered with its error; the
    following words do not matter then.
    """

    def __init__(self, *, loops: bool = False, rests: bool = False):
        # loops: Hardware loops may redirect as well. rests: Registers of the queue are clocked only to store a word.
        self.loops, self.rests = loops, rests
        ports = {
            "redirect": In(1),  #: Continue at ``target``. The instruction offered in the same cycle may still be taken.
            "target": In(32),  #: Byte address, bit 0 ignored.
            "valid": Out(1),  #: ``word`` holds the instruction at ``pc``.
            "word": Out(32),  #: The instruction; the upper half of a compressed one is undefined.
            #: error: The instruction could not be read: ``word`` is undefined, and no later instruction is offered
            #:   until a redirect.
            "error": Out(1),
            "pc": Out(32),  #: Address of the instruction, or of the next one while ``valid`` is 0.
            "take": In(1),  #: The instruction is accepted in this cycle; only with ``valid``.
            "idle": Out(1),  #: No request is made or outstanding, except the word of a ``redirect`` in this cycle.
            "instr": Out(InstructionPortSignature()),  #: Instruction memory.
        }
        if loops:
            #: loop_back: Continue at ``loop_start`` after the instruction, if it is accepted; ``redirect`` has
            #:   priority; only with ``loops``.
            #: loop_start: Byte address, bit 0 ignored; only with ``loops``.
            ports |= {"loop_back": In(1), "loop_start": In(32)}
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        words = [Signal(XLEN, name=f"word{i}") for i in range(DEPTH)]
        errors = [Signal(name=f"error{i}") for i in range(DEPTH)]
        count = Signal(range(DEPTH + 1))
        dropped, arriving, unaligned, compressed, leaves = signals(1, "dropped arriving unaligned compressed leaves")
        m.d.comb += [arriving.eq(self.instr.rvalid & ~dropped), unaligned.eq(self.pc[1])]

        # the word at the program counter and the one after it, from the queue or directly from the bus
        rdata = self.instr.rdata
        first = Signal(XLEN)
        second = Signal(HALF_BITS)
        has_first, has_second, first_error, second_error = signals(1, "has_first has_second first_error second_error")
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
        goes_back, redirects = signals(1, "goes_back redirects")
        m.d.comb += redirects.eq(self.redirect)
        if self.loops:
            m.d.comb += [goes_back.eq(self.take & self.loop_back), redirects.eq(self.redirect | goes_back)]
        self._queue(m, words, errors, count, redirects, arriving, leaves)
        self._position(m, goes_back, compressed, leaves)
        self._requests(m, count, dropped, goes_back, redirects)
        return m

    def _position(self, m, goes_back, compressed, leaves):
        m.d.comb += self.pc[0].eq(0)
        position = Signal(XLEN - 1)
        m.d.comb += self.pc[1:].eq(position)
        with m.If(self.redirect):
            m.d.sync += position.eq(self.target[1:])
        if self.loops:
            with m.Elif(goes_back):
                m.d.sync += position.eq(self.loop_start[1:])
        with m.Elif(self.take):
            m.d.sync += position[0].eq(position[0] ^ compressed)
            with m.If(leaves):
                m.d.sync += position[1:].eq(position[1:] + 1)

    def _queue(self, m, words, errors, count, redirects, arriving, leaves):
        """Build the queue: words move towards the head when the first leaves; an arriving word is appended.

        A redirect empties the queue, whatever its entries hold.
        """
        # a word that arrives and leaves in one cycle is not stored
        with m.If(redirects):
            m.d.sync += count.eq(0)
        with m.Else():
            m.d.sync += count.eq(count + arriving - leaves)
        entries = [Cat(word, error) for word, error in zip(words, errors, strict=True)]
        for index, entry in enumerate(entries):
            with m.If(arriving & Mux(leaves, count == index + 1, count == index)):
                m.d.sync += entry.eq(Cat(self.instr.rdata, self.instr.err))
            if index + 1 < len(entries):
                with m.Elif(leaves & (count > index + 1) if self.rests else leaves):
                    m.d.sync += entry.eq(entries[index + 1])

    def _requests(self, m, count, dropped, goes_back, redirects):
        """Request the target word of a redirect at once, otherwise the next word while there is room for it.

        A redirect is late in the cycle: the requests with and without it are prepared in parallel, and it selects one.
        """
        running, held, stale, exact = signals(1, "running held stale exact")
        current = Signal(XLEN - 2)
        live, drops = signals(range(DEPTH + 1), "live drops")
        # current is the last requested word address, or with exact the one on the bus or to be requested next; a stale
        # request is held for a word that is no longer needed; live answers are awaited, answers counted in drops are
        # dropped
        can_request, asks, asks_anew = signals(1, "can_request asks asks_anew")
        ahead, target = signals(current.shape(), "ahead target")
        gnt, rvalid = self.instr.gnt, self.instr.rvalid
        m.d.comb += [
            dropped.eq(drops != 0),
            can_request.eq(live + drops < DEPTH),
            target.eq(Mux(self.redirect, self.target[2:], self.loop_start[2:]) if self.loops else self.target[2:]),
            asks.eq(held | (can_request & running & (count + live < DEPTH))),
            asks_anew.eq(held | can_request),
            # the increment starts from a register
            ahead.eq(Mux(exact, current, current + 1)),
            self.instr.req.eq(Mux(redirects, asks_anew, asks)),
            self.instr.addr.eq(Cat(Const(0, 2), Mux(redirects & ~held, target, ahead))),
            self.idle.eq(~Mux(goes_back, asks_anew, asks) & (live == 0) & ~dropped),
        ]
        m.d.sync += [held.eq(self.instr.req & ~gnt), stale.eq(held & (stale | redirects) & ~gnt)]
        with m.If(redirects):
            m.d.sync += [
                running.eq(1),
                live.eq(can_request & ~held & gnt),
                drops.eq(drops + live - rvalid + (held & gnt)),
            ]
        with m.Else():
            m.d.sync += [
                live.eq(live - (rvalid & ~dropped) + (asks & ~(held & stale) & gnt)),
                drops.eq(drops - (rvalid & dropped) + (held & stale & gnt)),
            ]
        with m.If(redirects), m.If(~held | gnt):
            m.d.sync += [current.eq(target), exact.eq(held | ~(can_request & gnt))]
        with m.Elif(held & stale & gnt):
            # the pc has waited at the target of the redirect
            m.d.sync += [current.eq(self.pc[2:]), exact.eq(1)]
        with m.Elif(asks):
            m.d.sync += [current.eq(ahead), exact.eq(~gnt)]
