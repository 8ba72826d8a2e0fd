"""Controller: interrupts, sleep, traps and every redirect of instruction fetching."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from xpulpnn.component import Component, In, Out, set_and_clear, signals
from xpulpnn.config import CoreConfig
from xpulpnn.core import pipeline
from xpulpnn.core.control import System
from xpulpnn.isa.csr import DebugCause
from xpulpnn.isa.machine import IRQ_PRIORITY, XLEN, ExceptionCause

_PAGE_BITS = 12  # low bits in which the addresses of debug mode differ


class Controller(Component):
    """Decides where fetching goes on and when ID is held.

    A branch resolved in EX goes first; it kills the instruction in ID, so nothing else happens in the same cycle. It is
    decided late in the cycle, and therefore is the last to choose: what the instruction in ID asks for is made ready
    beside it, as if there were no branch. An
    interrupt holds ID as soon as it may be taken and is taken, in place of the instruction in ID, when everything older
    is complete. An access fault goes before that; its trap is entered one cycle late, since memory tells of errors late
    in a cycle. wfi, once it has left ID, holds ID until an interrupt is pending and enabled by mie. Reset waits for
    ``fetch_enable`` and then goes to ``boot_addr``.
    """

    def __init__(self, config: CoreConfig):  # Debug mode present.
        ports = {
            "fetch_enable": In(1),  #: Execution may start.
            "boot_addr": In(32),  #: Where it starts.
            "boot": Out(1),  #: Execution starts in this cycle.
            "branch": In(pipeline.RedirectSignature()),  #: A branch in EX is taken.
            "jump": In(pipeline.RedirectSignature()),  #: A jump leaves ID; its target also with ``intent.jump`` alone.
            "trap": In(pipeline.TrapSignature()),  #: Exception of the instruction leaving ID.
            "fault": In(pipeline.FaultSignature()),  #: Access fault.
            #: intent: What the instruction in ID does when it leaves, unless ``branch`` drops it.
            "intent": In(pipeline.IntentSignature()),
            "ex_granted": In(1),  #: A request of the instruction in EX is granted.
            "system": In(pipeline.SystemSignature()),  #: System instruction leaving ID.
            "busy": In(1),  #: EX or WB holds an instruction.
            "fetch_idle": In(1),  #: Nothing is being fetched, but for a redirect in this cycle.
            #: loop_wrong: Fetching is not at the instruction after the one that leaves ID, unless ``branch`` drops it.
            "loop_wrong": In(1),
            "id_next": In(32),  #: Address of the instruction after the one in ID, also without ``loop_wrong``.
            "loop_hold": In(1),  #: The hardware loops hold ID.
            "id_valid": In(1),  #: ID holds an instruction.
            "id_pc": In(32),  #: Its address.
            "pending": In(32),  #: Interrupt lines that are high and enabled in mie.
            "mie": In(1),  #: Global interrupt enable, mstatus.MIE.
            "handler": In(32),  #: Address of the trap handler.
            "mepc": In(32),  #: Address to return to.
            "enter": Out(1),  #: A trap is entered in this cycle.
            "enter_pc": Out(32),  #: Where it is raised, for mepc.
            "enter_interrupt": Out(1),  #: It is an interrupt, no exception.
            "enter_cause": Out(5),  #: Its cause, as in mcause.
            "leave": Out(1),  #: mret is executed in this cycle.
            "hold": Out(1),  #: ID waits.
            "redirect": Out(1),  #: Fetching goes on elsewhere, at ``target``.
            "target": Out(32),  #: Address to fetch from, with ``redirect``.
            "irq_ack": Out(1),  #: An interrupt is taken in this cycle.
            "irq_id": Out(5),  #: Its line, with ``irq_ack``.
            "asleep": Out(1),  #: wfi waits and nothing is under way.
        }
        if config.debug:
            #: debug_req: The debug module wants the core to halt; only with debug mode, like all of these.
            #: debug_halt_addr: Address to go to when debug mode is entered, and for ebreak in it.
            #: debug_exception_addr: Address to go to for other exceptions in debug mode, in the same 4 KiB.
            ports |= {"debug_req": In(1), "debug_halt_addr": In(32), "debug_exception_addr": In(32)}
            #: debug: Debug mode and its registers.
            #: id_ready: The instruction in ID leaves at the end of this cycle, unless ``branch`` drops it.
            #: irq_masked: No interrupt is taken, whatever ``mie`` is.
            #: halting: ID waits until debug mode can be entered.
            ports |= {"debug": Out(pipeline.DebugSignature()), "id_ready": In(1), "irq_masked": Out(1)}
            ports["halting"] = Out(1)
            #: id_triggers: A trigger is for the instruction in ID.
            #: ex_triggers: A trigger is for the access in EX, which is dropped.
            #: fault_halts: The access that faults in this cycle is made again when the core resumes.
            ports |= {"id_triggers": In(1), "ex_triggers": In(1), "fault_halts": Out(1)}
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        started, sleeping, any_pending, wanted, flush = signals(1, "started sleeping any_pending wanted flush")
        faulted = Signal()
        # addresses of the accesses in EX and on the bus, in half-words
        ex_pc, access_pc = signals(XLEN - 1, "ex_pc access_pc")
        accesses, granted = self.intent.accesses, self.ex_granted
        if self.config.debug:
            # in debug mode, where nobody wants them, they are dscratch0, but for a bit, and dpc
            accesses, granted = accesses & ~self.debug.mode, granted & ~self.debug.mode
        with m.If(accesses):
            m.d.sync += ex_pc.eq(self.id_pc[1:])
        with m.If(granted):
            m.d.sync += access_pc.eq(ex_pc)
        m.d.sync += faulted.eq(self.fault.valid)
        fault_cause = Mux(self.fault.store, ExceptionCause.STORE_ACCESS_FAULT, ExceptionCause.LOAD_ACCESS_FAULT)
        enabled, hold, sleeps = self.mie, wanted | sleeping | self.loop_hold | faulted, self._executes(System.WFI)
        irq_ack = wanted & self.id_valid & ~self.busy & ~sleeping & ~faulted
        enter, entered, handler = self.trap.valid | faulted | self.irq_ack, self.irq_ack, self.handler
        pc = Mux(faulted, Cat(0, access_pc), self.id_pc)
        leave = self._executes(System.MRET)
        if self.config.debug:
            debug = self.debug
            asks, halts, dropped, aborted, breaks = self._debug(m, sleeping, faulted)
            enabled, hold = enabled & ~self.irq_masked, hold | self.halting | dropped
            irq_ack &= ~(self.halting | dropped)
            sleeps &= ~debug.mode & ~debug.step
            enter = ~debug.mode & (enter & ~(breaks & debug.ebreak | aborted))
            entered |= halts | dropped
            self._keep(m, ex_pc, access_pc, dropped, aborted)
            leave &= ~debug.mode
            to_debug = debug.mode | halts | dropped | aborted | (breaks & debug.ebreak)
            low = Mux(debug.mode & ~breaks, self.debug_exception_addr, self.debug_halt_addr)[:_PAGE_BITS]
            in_debug = Cat(low, self.debug_halt_addr[_PAGE_BITS:])
        m.d.comb += [
            self.boot.eq(self.fetch_enable & ~started),
            any_pending.eq(self.pending.any() | asks if self.config.debug else self.pending.any()),
            wanted.eq(enabled & any_pending),
            self.hold.eq(hold),
            self.irq_ack.eq(irq_ack),
            self.asleep.eq(sleeping & ~self.busy & self.fetch_idle & ~any_pending),
        ]
        with m.If(self.boot):
            m.d.sync += started.eq(1)
        for line in reversed(IRQ_PRIORITY):
            with m.If(self.pending[line]):
                m.d.comb += self.irq_id.eq(line)

        set_and_clear(m, sleeping, sleeps, any_pending)

        m.d.comb += [
            self.enter.eq(enter),
            self.enter_pc.eq(pc),
            self.enter_interrupt.eq(self.irq_ack),
            self.enter_cause.eq(Mux(self.irq_ack, self.irq_id, Mux(faulted, fault_cause, self.trap.cause))),
            self.leave.eq(leave),
            flush.eq(self.intent.system & (self.system.kind == System.FENCE_I)),
        ]
        returns = self.intent.system & (self.system.kind == System.MRET)
        redirects = {
            "boot": (self.boot, Cat(Const(0, 1), self.boot_addr[1:])),
            "jump": (self.intent.jump, self.jump.target),
            "enter": (self.intent.trap | faulted | entered, handler),
            "leave": (returns, self.mepc),
            "next": (flush | self.loop_wrong, self.id_next),
        }
        if self.config.debug:
            (enters, _), (returns, _) = redirects["enter"], redirects["leave"]
            redirects |= {
                "enter": (enters & ~to_debug, handler),
                "debug": (enters & to_debug, in_debug),
                "leave": (returns & ~debug.mode, self.mepc),
                "resume": (returns & debug.mode, debug.pc),
            }
        # at most one of them asks in a cycle
        others = Signal()
        other_target = Signal.like(self.target)
        target = 0
        for valid, address in redirects.values():
            target = target | Mux(valid, address, 0)
        m.d.comb += [
            others.eq(Cat(valid for valid, _ in redirects.values()).any()),
            other_target.eq(target),
            self.redirect.eq(others | self.branch.valid),
            self.target.eq(Mux(self.branch.valid, self.branch.target, other_target)),
        ]
        return m

    def _executes(self, kind):
        """Return whether an instruction for the controller leaves ID."""
        return self.system.valid & (self.system.kind == kind)

    def _debug(self, m, sleeping, faulted):
        """Enter and leave debug mode, and end single steps.

        It is entered like the handler of an interrupt. A request to halt goes before interrupts and also ends wfi. In
        single steps ID is held as soon as an instruction has left it or an interrupt is taken. In debug mode and in
        single steps wfi does not wait. Returns whether the core is asked to halt, does so in this cycle in place of the
        instruction in ID, of an access that has been dropped, or of one that has failed meanwhile, and whether the
        instruction in ID is ebreak.
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
        ]
        m.d.comb += self.fault_halts.eq(self.fault.valid & asks)
        m.d.sync += [dropped.eq(self.ex_triggers), aborted.eq(self.fault_halts)]
        m.d.comb += debug.cause.eq(DebugCause.EBREAK)
        # the last that holds
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
        return asks, halts, dropped, aborted, breaks

    def _keep(self, m, ex_pc, access_pc, dropped, aborted):
        """Keep dpc and dscratch0 where the addresses of accesses are outside of debug mode.

        What halts behind an access that has failed goes on at it, where ``access_pc`` is.
        """
        debug, lowest = self.debug, Signal(name="dscratch0_lowest")
        with m.If(dropped):
            m.d.sync += access_pc.eq(ex_pc)
        with m.Elif(debug.enter & ~aborted):
            m.d.sync += access_pc.eq(self.id_pc[1:])
        with m.If(debug.pc_we & debug.mode):
            m.d.sync += access_pc.eq(debug.wdata[1:])
        with m.If(debug.scratch_we & debug.mode):
            m.d.sync += Cat(lowest, ex_pc).eq(debug.wdata)
        m.d.comb += [debug.pc.eq(Cat(0, access_pc)), debug.scratch.eq(Cat(lowest, ex_pc))]
