from functools import reduce
from operator import or_
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value

from xpulpnn.component import Component, In, Out, set_and_clear, signals
from xpulpnn.config import CoreConfig
from xpulpnn.core import pipeline
from xpulpnn.core.control import System
from xpulpnn.isa.csr import DebugCause
from xpulpnn.isa.machine import IRQ_PRIORITY, XLEN, ExceptionCause

_PAGE_BITS = 12  # low bits in which the addresses of debug mode differ


class DebugEntry(NamedTuple):
    """Conditions for entering debug mode, and effects of entering it; constant 0 in a core without debug mode."""

    mode: Value = Const(0)  #: The core is in debug mode.
    step: Value = Const(0)  #: A single step is being executed outside of debug mode.
    irq_masked: Value = Const(0)  #: No interrupt is taken.
    asks: Value = Const(0)  #: The debug module requests a halt.
    halting: Value = Const(0)  #: ID waits until the core can halt.
    halts: Value = Const(0)  #: Debug mode is entered instead of the instruction in ID.
    dropped: Value = Const(0)  #: Debug mode is entered instead of an access that a trigger has stopped.
    aborted: Value = Const(0)  #: Debug mode is entered instead of an access that has failed during a halt request.
    breaks: Value = Const(0)  #: The instruction in ID is an ebreak that enters debug mode.
    target: Value = Const(0)  #: Address of the next fetch.


class Controller(Component):
    """Decides the address of the next fetch and when ID is held.

    A branch resolved in EX has the highest priority; it kills the instruction in ID, so nothing else happens in the
    same cycle. It is decided late in the cycle and therefore selects last, after the request of the instruction in ID
    has been prepared as if there were no branch. An interrupt holds ID as soon as it may be taken, and is taken instead
    of the instruction in ID when all older instructions are complete. An access fault has priority over interrupts; its
    trap is entered one cycle late, since memory reports errors late in a cycle. wfi, once it has left ID, holds ID
    until an interrupt is pending and enabled by mie. Reset waits for ``fetch_enable`` and then goes to ``boot_addr``.
    """

    def __init__(self, config: CoreConfig):
        ports = {
            "fetch_enable": In(1),  #: Execution may start.
            "boot_addr": In(32),  #: Address at which execution starts.
            "boot": Out(1),  #: Execution starts in this cycle.
            "branch": In(pipeline.RedirectSignature()),  #: A branch in EX is taken.
            "jump": In(pipeline.RedirectSignature()),  #: A jump leaves ID; ``target`` is valid with ``intent.jump``.
            "trap": In(pipeline.TrapSignature()),  #: Exception of the instruction leaving ID.
            "fault": In(pipeline.FaultSignature()),  #: Access fault.
            #: intent: Effects of the instruction in ID when it leaves, unless ``branch`` drops it.
            "intent": In(pipeline.IntentSignature()),
            "ex_granted": In(1),  #: A request of the instruction in EX is granted.
            "system": In(pipeline.SystemSignature()),  #: System instruction leaving ID.
            "busy": In(1),  #: EX or WB holds an instruction.
            "fetch_idle": In(1),  #: No fetch is outstanding, except a redirect in this cycle.
            #: loop_wrong: The instruction in IF is not the one to execute after the instruction that leaves ID.
            "loop_wrong": In(1),
            "id_next": In(32),  #: Address of the instruction after the one in ID, also without ``loop_wrong``.
            "loop_hold": In(1),  #: The hardware loops hold ID.
            "id_valid": In(1),  #: ID holds an instruction.
            "id_pc": In(32),  #: Address of the instruction in ID.
            "pending": In(32),  #: Interrupt lines that are high and enabled in mie.
            "mie": In(1),  #: Global interrupt enable, mstatus.MIE.
            "handler": In(32),  #: Address of the trap handler.
            "mepc": In(32),  #: Address to return to.
            "enter": Out(1),  #: A trap is entered in this cycle.
            "enter_pc": Out(32),  #: Address of the instruction that traps, for mepc.
            "enter_interrupt": Out(1),  #: The trap is an interrupt rather than an exception.
            "enter_cause": Out(5),  #: Cause of the trap, as in mcause.
            "leave": Out(1),  #: mret is executed in this cycle.
            "hold": Out(1),  #: ID waits.
            "redirect": Out(1),  #: Fetching continues at ``target``.
            "target": Out(32),  #: Address to fetch from, with ``redirect``.
            "irq_ack": Out(1),  #: An interrupt is taken in this cycle.
            "irq_id": Out(5),  #: Line of the interrupt taken, with ``irq_ack``.
            "asleep": Out(1),  #: wfi waits and no access is outstanding.
        }
        if config.debug:
            # all of these only with debug mode
            #: debug_req: The debug module requests a halt; only with debug mode.
            #: debug_halt_addr: Target of debug mode entry, and of ebreak in debug mode; only with debug mode.
            #: debug_exception_addr: Target of exceptions other than ebreak in debug mode, in the 4 KiB of
            #:   ``debug_halt_addr``; only with debug mode.
            ports |= {"debug_req": In(1), "debug_halt_addr": In(32), "debug_exception_addr": In(32)}
            #: debug: Debug mode and its registers; only with debug mode.
            #: id_ready: The instruction in ID leaves at the end of this cycle, unless ``branch`` drops it; only with
            #:   debug mode.
            #: irq_masked: No interrupt is taken, whatever ``mie`` is; only with debug mode.
            #: halting: ID waits until debug mode can be entered; only with debug mode.
            ports |= {"debug": Out(pipeline.DebugSignature()), "id_ready": In(1), "irq_masked": Out(1)}
            ports["halting"] = Out(1)
            #: id_triggers: A trigger matches the instruction in ID; only with debug mode.
            #: ex_triggers: A trigger matches the access in EX, which is dropped; only with debug mode.
            #: fault_halts: The access that faults in this cycle is repeated when the core resumes; only with debug
            #:   mode.
            ports |= {"id_triggers": In(1), "ex_triggers": In(1), "fault_halts": Out(1)}
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        started, sleeping, any_pending, interrupts, faulted = signals(
            1, "started sleeping any_pending interrupts faulted"
        )
        debug = self._debug(m, sleeping, faulted) if self.config.debug else DebugEntry()
        trap_pc = self._track_accesses(m, debug, faulted)
        waits_for_debug = debug.halting | debug.dropped
        m.d.sync += faulted.eq(self.fault.valid)
        m.d.comb += [
            # a core in reset requests nothing
            self.boot.eq(self.fetch_enable & ~started & ~ResetSignal()),
            any_pending.eq(self.pending.any() | debug.asks if self.config.debug else self.pending.any()),
            interrupts.eq(self.mie & ~debug.irq_masked & any_pending),
            self.hold.eq(interrupts | sleeping | self.loop_hold | faulted | waits_for_debug),
            self.irq_ack.eq(interrupts & self.id_valid & ~self.busy & ~sleeping & ~faulted & ~waits_for_debug),
            self.asleep.eq(sleeping & ~self.busy & self.fetch_idle & ~any_pending),
        ]
        with m.If(self.boot):
            m.d.sync += started.eq(1)
        for line in reversed(IRQ_PRIORITY):
            with m.If(self.pending[line]):
                m.d.comb += self.irq_id.eq(line)
        set_and_clear(m, sleeping, self._executes(System.WFI) & ~debug.mode & ~debug.step, any_pending)
        fault_cause = Mux(self.fault.store, ExceptionCause.STORE_ACCESS_FAULT, ExceptionCause.LOAD_ACCESS_FAULT)
        traps = (self.trap.valid | faulted | self.irq_ack) & ~(debug.breaks | debug.aborted)
        m.d.comb += [
            self.enter.eq(~debug.mode & traps),
            self.enter_pc.eq(trap_pc),
            self.enter_interrupt.eq(self.irq_ack),
            self.enter_cause.eq(Mux(self.irq_ack, self.irq_id, Mux(faulted, fault_cause, self.trap.cause))),
            self.leave.eq(self._executes(System.MRET) & ~debug.mode),
        ]
        self._redirect(m, debug, faulted)
        return m

    def _track_accesses(self, m, debug, faulted):
        """Store the pcs of the instructions whose accesses are in EX and on the bus; return the pc of a trap.

        The registers lack bit 0, which is always 0. In debug mode they hold bits 31:1 of dscratch0 and dpc instead.
        """
        ex_pc, access_pc = signals(XLEN - 1, "ex_pc access_pc")
        with m.If(self.intent.accesses & ~debug.mode):
            m.d.sync += ex_pc.eq(self.id_pc[1:])
        with m.If(self.ex_granted & ~debug.mode):
            m.d.sync += access_pc.eq(ex_pc)
        if self.config.debug:
            self._store_debug_registers(m, debug, ex_pc, access_pc)
        return Mux(faulted, Cat(0, access_pc), self.id_pc)

    def _redirect(self, m, debug, faulted):
        flush, others = signals(1, "flush others")
        other_target = Signal.like(self.target)
        m.d.comb += flush.eq(self.intent.system & (self.system.kind == System.FENCE_I))
        returns = self.intent.system & (self.system.kind == System.MRET)
        enters = self.intent.trap | faulted | self.irq_ack | debug.halts | debug.dropped
        to_debug = debug.mode | debug.halts | debug.dropped | debug.aborted | debug.breaks
        # at most one of these is active in a cycle
        redirects = [
            (self.boot, Cat(Const(0, 1), self.boot_addr[1:])),
            (self.intent.jump, self.jump.target),
            (enters & ~to_debug, self.handler),
            (returns & ~debug.mode, self.mepc),
            (flush | self.loop_wrong, self.id_next),
        ]
        if self.config.debug:
            redirects += [(enters & to_debug, debug.target), (returns & debug.mode, self.debug.pc)]
        m.d.comb += [
            others.eq(Cat(valid for valid, _ in redirects).any()),
            other_target.eq(reduce(or_, (Mux(valid, address, 0) for valid, address in redirects))),
            self.redirect.eq(others | self.branch.valid),
            self.target.eq(Mux(self.branch.valid, self.branch.target, other_target)),
        ]

    def _executes(self, kind):
        return self.system.valid & (self.system.kind == kind)

    def _debug(self, m, sleeping, faulted):
        """Build entry to and exit from debug mode, and single steps.

        Debug mode is entered like an interrupt handler. A halt request has priority over interrupts and also ends wfi.
        In a single step ID is held as soon as an instruction has left it or an interrupt is taken. In debug mode and in
        single steps wfi does not wait.
        """
        debug, stepped = self.debug, Signal(name="stepped")
        asks, halts, dropped, aborted, breaks = signals(1, "asks halts dropped aborted breaks")
        is_break = self.trap.cause == ExceptionCause.BREAKPOINT
        m.d.comb += [
            asks.eq(self.debug_req & ~debug.mode),
            self.halting.eq(asks | stepped | self.id_triggers),
            halts.eq(self.halting & self.id_valid & ~self.busy & ~sleeping & ~faulted & ~dropped),
            breaks.eq(self.intent.trap & is_break),
            debug.enter.eq(halts | dropped | aborted | (self.trap.valid & is_break & debug.ebreak & ~debug.mode)),
            self.irq_masked.eq(debug.mode | (debug.step & ~debug.step_irq)),
            self.fault_halts.eq(self.fault.valid & asks),
            debug.cause.eq(DebugCause.EBREAK),
        ]
        m.d.sync += [dropped.eq(self.ex_triggers), aborted.eq(self.fault_halts)]
        # the last active cause wins
        for holds, cause in (
            (halts & stepped, DebugCause.STEP),
            ((halts & asks) | aborted, DebugCause.HALT_REQUEST),
            ((halts & self.id_triggers) | dropped, DebugCause.TRIGGER),
        ):
            with m.If(holds):
                m.d.comb += debug.cause.eq(cause)
        set_and_clear(m, debug.mode, debug.enter, debug.mode & self._executes(System.MRET))
        leaves = self.id_valid & self.id_ready & ~self.branch.valid
        with m.If(debug.enter):
            m.d.sync += stepped.eq(0)
        with m.Elif(debug.step & ~debug.mode & (leaves | self.irq_ack)):
            m.d.sync += stepped.eq(1)
        low = Mux(debug.mode & ~breaks, self.debug_exception_addr, self.debug_halt_addr)[:_PAGE_BITS]
        return DebugEntry(
            mode=debug.mode,
            step=debug.step,
            irq_masked=self.irq_masked,
            asks=asks,
            halting=self.halting,
            halts=halts,
            dropped=dropped,
            aborted=aborted,
            breaks=breaks & debug.ebreak,
            target=Cat(low, self.debug_halt_addr[_PAGE_BITS:]),
        )

    def _store_debug_registers(self, m, entry, ex_pc, access_pc):
        """Store dpc in ``access_pc`` and dscratch0 in ``ex_pc``: registers that debug mode does not need otherwise.

        A core that halts after a failed access resumes at the access, whose address is in ``access_pc``.
        """
        debug, lowest = self.debug, Signal(name="dscratch0_lowest")
        with m.If(entry.dropped):
            m.d.sync += access_pc.eq(ex_pc)
        with m.Elif(debug.enter & ~entry.aborted):
            m.d.sync += access_pc.eq(self.id_pc[1:])
        with m.If(debug.pc_we & debug.mode):
            m.d.sync += access_pc.eq(debug.wdata[1:])
        with m.If(debug.scratch_we & debug.mode):
            m.d.sync += Cat(lowest, ex_pc).eq(debug.wdata)
        m.d.comb += [debug.pc.eq(Cat(0, access_pc)), debug.scratch.eq(Cat(lowest, ex_pc))]
