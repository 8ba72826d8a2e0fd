from amaranth.hdl import Module, Mux, Signal

from xpulpnn.component import Component, In, Out
from xpulpnn.core.pipeline import RetireInfoSignature
from xpulpnn.isa.retirement import WaitCause


class StallMonitor(Component):
    """Follows every bubble from its origin to the end of WB and reports its cause. Has no effect on the pipeline.

    ID makes a bubble when EX is ready and ID issues no instruction. EX makes one when WB is done and EX is not. While
    ID is empty, the cause of the last redirect counts for one cycle, the shortest fetch, and then the instruction
    memory. Before the first instruction the cause is START.
    """

    insn_valid: In(1)  #: ID holds an instruction.
    hold: In(1)  #: The front end holds the instruction in ID.
    info: In(RetireInfoSignature())  #: Causes for which the front end holds ID, and its redirects.
    branch: In(1)  #: A branch in EX is taken: the instruction in ID is dropped.
    #: jump, trap, sync: A jump, an exception or mret, a fence.i leaves ID.
    jump: In(1)
    trap: In(1)
    sync: In(1)
    stage_wait: In(WaitCause)  #: Cause for which the ID stage itself holds its instruction.
    ex_ready: In(1)  #: EX passes on its content and accepts the content of ID, bubbles included.
    ex_wait: In(WaitCause)  #: Cause for which EX holds its instruction.
    wb_leave: In(1)  #: WB is done with its content.
    fault: In(1)  #: An access faults: the instruction in EX is dropped.
    cause: Out(WaitCause)  #: Cause of this cycle without retirement; undefined with a retirement.

    def elaborate(self, platform):
        m = Module()
        redirect = Signal(WaitCause)
        id_wait = Signal(WaitCause)
        empty, in_ex, in_wb = (
            Signal(WaitCause, init=WaitCause.START, name=name) for name in ("empty", "in_ex", "in_wb")
        )
        m.d.comb += redirect.eq(self.info.redirect)
        for event, cause in (
            (self.branch, WaitCause.BRANCH),
            (self.jump, WaitCause.JUMP),
            (self.trap, WaitCause.TRAP),
            (self.sync, WaitCause.SYNC),
        ):
            with m.If(event):
                m.d.comb += redirect.eq(cause)
        with m.If(self.info.held == WaitCause.DEBUG):
            m.d.comb += redirect.eq(WaitCause.DEBUG)
        with m.If(redirect != WaitCause.NONE):
            m.d.sync += empty.eq(redirect)
        with m.Elif(self.insn_valid | (empty != WaitCause.START)):
            m.d.sync += empty.eq(WaitCause.FETCH)

        with m.If(self.branch & (self.info.held != WaitCause.DEBUG)):
            m.d.comb += id_wait.eq(WaitCause.BRANCH)
        with m.Elif(self.info.held != WaitCause.NONE):
            m.d.comb += id_wait.eq(self.info.held)
        with m.Elif(~self.insn_valid | self.hold):
            m.d.comb += id_wait.eq(empty)
        with m.Else():
            m.d.comb += id_wait.eq(self.stage_wait)

        with m.If(self.ex_ready):
            m.d.sync += [in_ex.eq(id_wait), in_wb.eq(in_ex)]
        with m.Elif(self.fault):
            m.d.sync += in_ex.eq(WaitCause.TRAP)
        with m.Elif(self.wb_leave):
            m.d.sync += in_wb.eq(self.ex_wait)
        with m.If(self.wb_leave):
            m.d.comb += self.cause.eq(in_wb)
        with m.Else():
            m.d.comb += self.cause.eq(Mux(self.fault, WaitCause.TRAP, WaitCause.RESPONSE))
        return m
