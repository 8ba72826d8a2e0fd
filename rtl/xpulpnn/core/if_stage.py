"""IF stage: prefetching, expansion of compressed instructions, and the IF/ID pipeline register."""

from amaranth.hdl import Cat, Module, Mux, Signal

from xpulpnn.component import Component, In, Out, assign_by_name, connect, flipped
from xpulpnn.config import CoreConfig
from xpulpnn.core.compressed_decoder import CompressedDecoder
from xpulpnn.core.obi import InstructionPortSignature
from xpulpnn.core.pipeline import InsnSignature
from xpulpnn.core.prefetch import PrefetchBuffer
from xpulpnn.isa.machine import HALF_BITS, XLEN

COMPRESSED_HALVES, WORD_HALVES = 1, 2  # length of an instruction in half-words


class IfStage(Component):
    """Delivers the instructions at the program counter to ID.

    With a memory that grants at once and answers in the next cycle, the target of a ``redirect`` in cycle t is in
    ID in t + 2, one later if it is a 32-bit instruction that crosses a word boundary. ``loop_back`` redirects after
    the instruction that enters ID, so that the first instruction of a hardware loop follows the last without a bubble.
    Reset empties the stage; fetching starts with the first redirect.
    """

    def __init__(self, config: CoreConfig):
        # ``rvfi`` adds ``id_raw``; late results delay redirects and loops by a cycle
        ports = {
            #: redirect: Continue at ``target``; the instruction in IF is dropped and the one in ID leaves or is
            #:   dropped.
            "redirect": In(1),
            "target": In(32),  #: Address to continue at, with ``redirect``.
            "pc": Out(32),  #: Address of the instruction in IF, the next to enter ID.
            "insn": Out(InsnSignature()),  #: Instruction in ID, from the pipeline register.
            "id_after": Out(32),  #: Address after the instruction in ID.
            "idle": Out(1),  #: No fetch is outstanding, except a ``redirect`` in this cycle.
            "instr": Out(InstructionPortSignature()),  #: Instruction memory.
        }
        if config.xpulpv2:
            #: loop_back: The instruction after the one at ``pc`` is at ``loop_start``.
            #: loop_start: First instruction of the hardware loop, with ``loop_back``.
            #: id_looped: ``loop_back`` of the instruction in ID: the next fetch was at the start of a hardware loop.
            ports |= {"loop_back": In(1), "loop_start": In(32), "id_looped": Out(1)}
        if config.rvfi:
            #: id_raw: The instruction as fetched, upper half 0 if it is compressed; with ``rvfi``.
            ports["id_raw"] = Out(32)
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        late = self.config.late_results
        prefetch = PrefetchBuffer(loops=self.config.xpulpv2 and not late, rests=self.config.idle_registers_rest)
        m.submodules.prefetch = prefetch
        m.submodules.compressed_decoder = expand = CompressedDecoder()
        connect(m, prefetch.instr, flipped(self.instr))
        insn, payload = self.insn, self.insn.payload
        take = Signal()
        m.d.comb += [
            expand.word.eq(prefetch.word),
            # an instruction that is accepted with a redirect, which is late in the cycle, is not valid in ID
            take.eq(prefetch.valid & (~insn.valid | insn.ready)),
            prefetch.take.eq(take),
        ]
        if late:
            self._turn_late(m, prefetch, take)
        else:
            m.d.comb += [
                *assign_by_name(self, prefetch, "pc", "idle"),
                *assign_by_name(prefetch, self, "redirect", "target"),
            ]
            if self.config.xpulpv2:
                m.d.comb += assign_by_name(prefetch, self, "loop_back", "loop_start")
        with m.If(self.redirect):
            m.d.sync += insn.valid.eq(0)
        with m.Elif(take):
            m.d.sync += insn.valid.eq(1)
        with m.Elif(insn.ready):
            m.d.sync += insn.valid.eq(0)
        with m.If(take):
            m.d.sync += [
                payload.word.eq(expand.expanded),
                payload.pc[1:].eq(prefetch.pc[1:]),
                payload.compressed.eq(expand.compressed),
                payload.error.eq(prefetch.error),
            ]
            if self.config.xpulpv2:
                m.d.sync += self.id_looped.eq(self.loop_back)
            if self.config.rvfi:
                low, high = prefetch.word[:HALF_BITS], prefetch.word[HALF_BITS:]
                m.d.sync += self.id_raw.eq(Cat(low, Mux(expand.compressed, 0, high)))
        halves = Mux(payload.compressed, COMPRESSED_HALVES, WORD_HALVES)
        m.d.comb += self.id_after[1:].eq(payload.pc[1:] + halves)
        return m

    def _turn_late(self, m, prefetch, take):
        """Delay redirects and loop jumps by a cycle; in that cycle ID gets no instruction from the prefetch buffer."""
        turns = Signal(name="turns")
        target = Signal(XLEN - 1, name="turn_target")
        free = ~self.insn.valid | self.insn.ready
        redirects = self.redirect
        with m.If(self.redirect):
            m.d.sync += target.eq(self.target[1:])
        if self.config.xpulpv2:
            with m.Else():
                m.d.sync += target.eq(self.loop_start[1:])
            redirects |= take & self.loop_back
        m.d.sync += turns.eq(redirects)
        m.d.comb += [
            take.eq(prefetch.valid & free & ~turns),
            prefetch.redirect.eq(turns),
            prefetch.target[1:].eq(target),
            self.pc[1:].eq(Mux(turns, target, prefetch.pc[1:])),
            self.idle.eq(prefetch.idle & ~turns),
        ]
