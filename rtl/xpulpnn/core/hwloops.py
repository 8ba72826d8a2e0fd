"""Hardware loops: the registers of two nested loops, and the next address at their ends (guide, "Hardware loops")."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.core.control import HwLoopOp
from xpulpnn.core.pipeline import HwLoopSignature

LOOPS = 2
REGISTERS = ("lpstart", "lpend", "lpcount")  # registers of a loop in the order of their CSR addresses


class HwLoops(Component):
    """Jumps back to the start of a loop after its last instruction while iterations are left.

    The decision is made twice: in IF, from the address about to enter ID, so that the first instruction of the body is
    fetched without a bubble; and in ID, when the instruction leaves and all older instructions have written the
    registers. The second decision is final; if the first was wrong (set-up right before the end of a short body), the
    fetch is corrected. Loop 0 is the inner loop and has priority.

    The count is decremented when the last instruction leaves ID. If that is a branch, which counts only if not taken,
    or a CSR access, which reads the old count, the count is decremented when it leaves EX. A write to the count wins
    over its decrement. After an access fault the decrements by the access and by the instruction after it are undone,
    in the two cycles in which ID is empty. Reset clears the registers.
    """

    if_pc: In(32)  #: Address of the next instruction to enter ID.
    if_back: Out(1)  #: The instruction after it is at ``if_start``.
    if_start: Out(32)  #: First instruction of the loop that ends at ``if_pc``.
    id_valid: In(1)  #: ID holds an instruction.
    id_pc: In(32)  #: Address of the instruction in ID.
    id_after: In(32)  #: Address after the instruction in ID.
    id_looped: In(1)  #: ``if_back`` when the instruction in ID was in IF.
    #: id_follows: The instruction leaves ID in this cycle, unless a branch drops it, and is no jump, mret or exception.
    id_follows: In(1)
    id_leaves: In(1)  #: ``id_follows``, and no branch drops the instruction in ID.
    id_late: In(1)  #: The instruction in ID is a branch or a CSR access.
    hold: Out(1)  #: The instruction must wait in ID for a decrement in EX.
    #: wrong: The instruction leaves ID, unless a branch drops it, and ``if_pc`` is not ``id_next``.
    wrong: Out(1)
    id_next: Out(32)  #: Address of the instruction after the one in ID.
    ex_leaves: In(1)  #: The instruction in EX leaves it.
    ex_taken: In(1)  #: The instruction in EX is a taken branch.
    wb_leaves: In(1)  #: WB is done with its instruction.
    fault: In(1)  #: An access faults: EX is emptied, and no instruction leaves ID in the next two cycles.
    setup: In(HwLoopSignature())  #: Set-up instruction leaving ID.
    we: In(LOOPS * len(REGISTERS))  #: CSR writes, a bit per register: start, end and count of loop 0, then of loop 1.
    wdata: In(32)  #: Value that CSR writes give to the registers.
    #: lpstart0, lpstart1: Address of the first instruction of the loop.
    lpstart0: Out(32)
    #: lpend0, lpend1: Address of the last instruction of the loop.
    lpend0: Out(32)
    #: lpcount0, lpcount1: Iterations left; with 0 or 1 the loop does not jump back.
    lpcount0: Out(32)
    lpstart1: Out(32)
    lpend1: Out(32)
    lpcount1: Out(32)

    def elaborate(self, platform):
        m = Module()
        starts, ends, counts = ([getattr(self, f"{name}{loop}") for loop in range(LOOPS)] for name in REGISTERS)
        late, id_ends, if_ends, id_again, if_again = signals(LOOPS, "late id_ends if_ends id_again if_again")
        id_goes_back, if_goes_back, more = signals(LOOPS, "id_goes_back if_goes_back more")

        def innermost(again, loop):
            return again[loop] & ~again[:loop].any() if loop else again[loop]

        for loop, (end, count) in enumerate(zip(ends, counts, strict=True)):
            above_one = count[1:].any()
            above_two = count[2:].any() | count[:2].all()
            m.d.comb += [
                id_ends[loop].eq(self.id_valid & (self.id_pc[1:] == end[1:])),
                if_ends[loop].eq(self.if_pc[1:] == end[1:]),
                id_again[loop].eq(id_ends[loop] & above_one),
                id_goes_back[loop].eq(innermost(id_again, loop)),
                # the loop may also end on the instruction in ID, which then uses one iteration
                more[loop].eq(Mux(id_goes_back[loop], above_two, above_one)),
                if_again[loop].eq(if_ends[loop] & more[loop]),
                if_goes_back[loop].eq(innermost(if_again, loop)),
            ]
        id_start = Signal.like(starts[0])
        m.d.comb += [
            id_start.eq(Mux(id_goes_back[0], starts[0], starts[1])),
            self.if_back.eq(if_goes_back.any()),
            self.if_start.eq(Mux(if_goes_back[0], starts[0], starts[1])),
            self.hold.eq(late.any() & id_ends.any()),
            self.id_next.eq(Mux(id_goes_back.any(), id_start, self.id_after)),
            self.wrong.eq(self.id_follows & Mux(id_goes_back.any(), self.if_pc[1:] != id_start[1:], self.id_looped)),
        ]
        counted, next_count = self._count(m, counts, late, id_goes_back)
        self._registers(m, counted, next_count)
        return m

    def _count(self, m, counts, late, id_goes_back):
        """Decrement loop counts, or restore them after a fault; return the loop whose count changes, and the new count.

        ``ex_took`` and ``wb_took`` are iterations that the instructions in EX and WB used when they left ID.
        """
        ex_took, wb_took = signals(LOOPS, "ex_took wb_took")
        gives_back = Signal()
        with m.If(self.ex_leaves):
            m.d.sync += wb_took.eq(ex_took)
        with m.Elif(self.wb_leaves):
            m.d.sync += wb_took.eq(0)
        with m.If(self.id_leaves):
            m.d.sync += [
                late.eq(id_goes_back & self.id_late.replicate(LOOPS)),
                ex_took.eq(id_goes_back & ~self.id_late.replicate(LOOPS)),
            ]
        with m.Elif(self.fault):
            m.d.sync += [late.eq(wb_took), gives_back.eq(1)]
        with m.Elif(self.ex_leaves | gives_back):
            rest = ex_took & gives_back.replicate(LOOPS)
            m.d.sync += [late.eq(rest), ex_took.eq(0), gives_back.eq(rest.any())]
        counted = Signal(LOOPS)
        next_count = Signal(32)
        step = Cat(Const(1, 1), ~gives_back.replicate(len(next_count) - 1))
        m.d.comb += [
            counted.eq(
                Mux(self.id_leaves & ~self.id_late, id_goes_back, 0)
                | Mux((self.ex_leaves & ~self.ex_taken) | gives_back, late, 0)
            ),
            # ``hold`` excludes simultaneous sources, so one adder suffices; early signals select its operand
            next_count.eq(Mux(late[0] | (id_goes_back[0] & ~late[1]), counts[0], counts[1]) + step),
        ]
        return counted, next_count

    def _registers(self, m, counted, next_count):
        """Write the loop registers; a set-up instruction is younger than a CSR write and wins."""
        op, setup = self.setup.op, self.setup
        sets_up = (op == HwLoopOp.SETUP) | (op == HwLoopOp.SETUPI)
        sets = {name: Signal(name=f"sets_{name}") for name in REGISTERS}
        m.d.comb += [
            sets["lpstart"].eq(setup.valid & (sets_up | (op == HwLoopOp.STARTI))),
            sets["lpend"].eq(setup.valid & (sets_up | (op == HwLoopOp.ENDI))),
            sets["lpcount"].eq(setup.valid & (sets_up | (op == HwLoopOp.COUNT) | (op == HwLoopOp.COUNTI))),
        ]
        values = {"lpstart": setup.start, "lpend": setup.end, "lpcount": setup.count}
        for loop in range(LOOPS):
            for index, name in enumerate(REGISTERS):
                register = getattr(self, f"{name}{loop}")
                # addresses are stored in half-words
                bits = slice(0 if name == "lpcount" else 1, None)
                with m.If((setup.loop == loop) & sets[name]):
                    m.d.sync += register[bits].eq(values[name][bits])
                with m.Elif(self.we[loop * len(REGISTERS) + index]):
                    m.d.sync += register[bits].eq(self.wdata[bits])
                if name == "lpcount":
                    with m.Elif(counted[loop]):
                        m.d.sync += register.eq(next_count)
