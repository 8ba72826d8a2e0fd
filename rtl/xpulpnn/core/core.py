"""The four-stage core: RV32IMC with the Xpulp extensions of its configuration."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from xpulpnn.component import Component, In, Out, assign_by_name, connect, flipped, set_and_clear, signals
from xpulpnn.config import CoreConfig
from xpulpnn.core.backend import Backend
from xpulpnn.core.control import HwLoopOp, System
from xpulpnn.core.controller import Controller
from xpulpnn.core.csr_file import LOOP_REGISTERS, CsrFile
from xpulpnn.core.hwloops import HwLoops
from xpulpnn.core.if_stage import IfStage
from xpulpnn.core.obi import InstructionPortSignature, ObiSignature
from xpulpnn.core.triggers import Triggers
from xpulpnn.isa.csr import CLUSTER_EVENTS, PERFORMANCE_EVENTS
from xpulpnn.isa.retirement import MEANINGS, WaitCause, port_widths

FENCE_PORTS = ("fence_i", "fetch_busy")  # ports for an external instruction cache


class Core(Component):
    """In-order single-issue core with the stages IF, ID, EX and WB (RI5CY).

    Cycles of an instruction with memories that grant at once and answer in the next cycle: as in ``Backend``; branch
    taken 3, jump 2, both one more if the target is a 32-bit instruction across a word boundary; trap entry and mret 2;
    fence.i 2 after all older instructions are complete; an instruction right after a CSR write waits 1; hardware loops
    add none; an access fault 3 from the answer of the memory; exceptions, system instructions and hardware-loop set-up
    wait 1 right after an access. Interrupts and exceptions are precise: an instruction that the bus could not read
    (``instr.err``) traps where it would be executed, and a failed load or store (``data.err``) has no effect, except
    the first half of a store across a word boundary whose second half fails. After reset the core waits for
    ``fetch_enable``.

    Machine mode only: there is no other privilege mode and no physical memory protection. Debug mode and triggers, if
    configured, follow the RISC-V debug specification 0.13.2; instructions in debug mode do not appear at
    the retirement port, and the debug module is outside. The base of mtvec is a multiple of 256 bytes, mtval is always
    0; mhpmcounter, mhpmevent, mstatush and mconfigptr read as 0.

    Parameters
    ----------
    config : CoreConfig
        Extensions, dot-product structure, counters and retirement port.
    """

    #: rvfi_*: Retirement port, named as in the RISC-V Formal Interface, see :mod:`xpulpnn.isa.retirement`; with
    #:   ``rvfi``.

    PORT_MEANINGS = {f"rvfi_{name}": text for name, text in MEANINGS.items()}

    fence_port = False

    def __init__(self, config: CoreConfig, *, fence_port: bool = False):
        self.fence_port = fence_port  # an external instruction cache observes fence.i
        ports = {
            #: boot_addr: Address of the first instruction, bit 0 taken as 0; bits 31:8 are also the reset value of
            #:   mtvec's base. Read when execution starts.
            "boot_addr": In(32),
            "hart_id": In(32),  #: Value of the CSR mhartid; constant.
            #: fetch_enable: Execution may start; nothing is fetched between reset and the first cycle in which it is
            #:   high.
            "fetch_enable": In(1),
            "instr": Out(InstructionPortSignature()),  #: Port of the instruction memory.
            "data": Out(ObiSignature()),  #: Port of the data memory.
            #: irq: Level-sensitive interrupt lines, synchronous to the clock, bits as in mip: 3 software, 7 timer, 11
            #:   external, 31 to 16 free for the platform; the others have no effect. A line stays high until software
            #:   has served it.
            "irq": In(32),
            "irq_ack": Out(1),  #: An interrupt is taken in this cycle.
            "irq_id": Out(5),  #: Number of the interrupt line, valid with ``irq_ack``.
            #: core_sleep: wfi waits and no access is outstanding: the clock may be gated until a line of ``irq`` that
            #:   mie enables is high, or with debug mode ``debug_req``.
            "core_sleep": Out(1),
        }
        if config.debug:
            #: debug_req: Halt request of the debug module, held until the core halts. If it is high when execution
            #:   starts, the core halts before its first instruction. Only with debug mode.
            #: debug_halt_addr: Address of the debug module's code, at which a halted core continues; constant; only
            #:   with debug mode.
            #: debug_exception_addr: Target of exceptions in debug mode, in the 4 KiB of ``debug_halt_addr``; constant;
            #:   only with debug mode.
            #: debug_mode: The core is in debug mode; only with debug mode.
            ports |= {"debug_req": In(1), "debug_halt_addr": In(32), "debug_exception_addr": In(32)}
            ports["debug_mode"] = Out(1)
        if fence_port:
            #: fence_i: fence.i takes effect in this cycle: all later fetches must be read anew; optional.
            #: fetch_busy: An external cache is reading; sleep waits for it; optional.
            ports |= {"fence_i": Out(1), "fetch_busy": In(1)}
        if config.performance_counters:
            #: ext_events: Events of this cycle for the performance counters from 12 on, a bit each: external loads and
            #:   stores, their cycles, cycles lost to bank conflicts; only with performance counters.
            ports["ext_events"] = In(len(CLUSTER_EVENTS))
        if config.rvfi:
            ports |= {f"rvfi_{name}": Out(width) for name, width in port_widths(pairs=config.mac_load_pair).items()}
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.if_stage = if_stage = IfStage(self.config)
        m.submodules.backend = backend = Backend(self.config)
        m.submodules.csr_file = csr_file = CsrFile(self.config)
        m.submodules.controller = controller = Controller(self.config)
        connect(m, if_stage.instr, flipped(self.instr))
        connect(m, if_stage.insn, backend.insn)
        connect(m, backend.data, flipped(self.data))
        connect(m, backend.csr, csr_file.csr)
        for name in ("branch", "jump", "trap", "fault", "system", "intent"):
            connect(m, getattr(backend, name), getattr(controller, name))
        insn, flow = if_stage.insn, backend.flow
        m.d.comb += [
            if_stage.redirect.eq(controller.redirect),
            if_stage.target.eq(controller.target),
            backend.hold.eq(controller.hold),
            controller.fetch_enable.eq(self.fetch_enable),
            controller.boot_addr.eq(self.boot_addr),
            controller.busy.eq(backend.busy),
            controller.fetch_idle.eq(if_stage.idle & ~self.fetch_busy if self.fence_port else if_stage.idle),
            controller.id_valid.eq(insn.valid),
            controller.id_pc.eq(insn.payload.pc),
            controller.id_next.eq(if_stage.id_after),
            controller.ex_granted.eq(flow.ex_granted),
            *assign_by_name(controller, csr_file, "pending", "mie", "handler", "mepc"),
            csr_file.boot.eq(controller.boot),
            *assign_by_name(csr_file, self, "boot_addr", "hart_id", "irq"),
            csr_file.clock_runs.eq(~controller.asleep),
            csr_file.retire.eq(flow.ex_leaves),
            csr_file.retire_final.eq(flow.wb_leaves),
            csr_file.retire_cancel.eq(backend.fault.valid),
            *assign_by_name(csr_file, controller, "enter", "enter_pc", "enter_interrupt", "enter_cause", "leave"),
            self.irq_ack.eq(controller.irq_ack),
            self.irq_id.eq(controller.irq_id),
            self.core_sleep.eq(controller.asleep),
        ]
        if self.fence_port:
            m.d.comb += self.fence_i.eq(backend.system.valid & (backend.system.kind == System.FENCE_I))
        if self.config.debug:
            self._debug(m, insn, backend, csr_file, controller)
        if self.config.nn_csrs:
            m.d.comb += [
                csr_file.nn_value.eq(backend.nn_csr_value),
                backend.nn_csr_we.eq(csr_file.nn_we),
                backend.nn_csr_wdata.eq(csr_file.wdata),
            ]
        if self.config.xpulpv2:
            self._hwloops(m, if_stage, backend, csr_file, controller)
        if self.config.performance_counters:
            self._events(m, insn, backend, csr_file, controller)
        if self.config.rvfi:
            self._observe(m, if_stage, backend, csr_file, controller)
        return m

    def _debug(self, m, insn, backend, csr_file, controller):
        m.submodules.triggers = triggers = Triggers(self.config)
        connect(m, controller.debug, csr_file.debug)
        connect(m, backend.watched, triggers.ex)
        mode = controller.debug.mode
        m.d.comb += [
            *assign_by_name(controller, self, "debug_req", "debug_halt_addr", "debug_exception_addr"),
            controller.id_ready.eq(insn.ready),
            controller.id_triggers.eq(triggers.id_hit & insn.valid),
            controller.ex_triggers.eq(triggers.ex.hit),
            self.debug_mode.eq(mode),
            backend.debug_mode.eq(mode),
            backend.fault_halts.eq(controller.fault_halts),
            csr_file.dscratch1.eq(backend.kept),
            backend.kept_we.eq(csr_file.dscratch1_we & mode),
            backend.kept_wdata.eq(csr_file.wdata),
            triggers.mode.eq(mode),
            triggers.id_pc.eq(insn.payload.pc),
            triggers.select.eq(csr_file.trigger_select),
            Cat(triggers.we_control, triggers.we_address).eq(csr_file.trigger_we),
            triggers.wdata.eq(csr_file.wdata),
            csr_file.trigger_values.eq(Cat(triggers.control, triggers.address)),
        ]

    def _hwloops(self, m, if_stage, backend, csr_file, controller):
        m.submodules.hwloops = loops = HwLoops()
        connect(m, backend.hwloop, loops.setup)
        # lp.setup and lp.setupi are directly before the body, so its start address is already computed
        with m.If((backend.hwloop.op == HwLoopOp.SETUP) | (backend.hwloop.op == HwLoopOp.SETUPI)):
            m.d.comb += loops.setup.start.eq(if_stage.id_after)
        insn = if_stage.insn
        m.d.comb += [
            loops.if_pc.eq(if_stage.pc),
            if_stage.loop_back.eq(loops.if_back),
            if_stage.loop_start.eq(loops.if_start),
            loops.id_valid.eq(insn.valid),
            loops.id_pc.eq(insn.payload.pc),
            loops.id_after.eq(if_stage.id_after),
            loops.id_looped.eq(if_stage.id_looped),
            loops.id_follows.eq(backend.intent.follows),
            *assign_by_name(loops, backend.flow, "id_leaves", "id_late", "ex_leaves"),
            loops.ex_taken.eq(backend.branch.valid),
            loops.wb_leaves.eq(backend.flow.wb_leaves),
            loops.fault.eq(backend.fault.valid | backend.watched.hit if self.config.debug else backend.fault.valid),
            loops.we.eq(csr_file.loop_we),
            loops.wdata.eq(csr_file.wdata),
            csr_file.loop_values.eq(Cat(getattr(loops, csr.name) for csr in LOOP_REGISTERS)),
            controller.loop_hold.eq(loops.hold),
            controller.loop_wrong.eq(loops.wrong),
            controller.id_next.eq(loops.id_next),
        ]
        if self.config.debug:
            # loops of the program do not end in the code of the debug module
            with m.If(controller.debug.mode):
                m.d.comb += [loops.id_valid.eq(0), if_stage.loop_back.eq(0)]

    def _events(self, m, insn, backend, csr_file, controller):
        refilling = Signal()
        set_and_clear(m, refilling, controller.redirect, insn.valid)
        events = backend.events
        m.d.comb += csr_file.events.eq(
            Cat(
                {
                    "cycles": ~controller.asleep,
                    "instructions": backend.flow.ex_leaves,
                    "load_use_stalls": events.load_use_stall,
                    "jump_register_stalls": events.jump_register_stall,
                    "fetch_stalls": ~insn.valid & ~refilling,
                    "loads": events.load,
                    "stores": events.store,
                    "jumps": events.jump,
                    "branches": events.branch,
                    "taken_branches": events.taken_branch,
                    "compressed": events.compressed,
                    "elw_stalls": events.elw_stall,
                    **dict(zip(CLUSTER_EVENTS, self.ext_events, strict=True)),
                }[name]
                for name in PERFORMANCE_EVENTS
            )
        )

    def _observe(self, m, if_stage, backend, csr_file, controller):
        intr, faulted = signals(1, "intr faulted")
        intr_id = Signal(5)
        in_debug = controller.debug.mode | controller.debug.enter if self.config.debug else Const(0)
        irq = csr_file.mie & csr_file.pending.any()
        if self.config.debug:
            irq &= ~controller.irq_masked
        m.d.sync += faulted.eq(backend.fault.valid)
        info = backend.info
        with m.If(controller.irq_ack):
            m.d.sync += [intr.eq(1), intr_id.eq(controller.irq_id)]
        with m.Elif(if_stage.insn.valid & if_stage.insn.ready & ~backend.branch.valid & ~in_debug):
            m.d.sync += intr.eq(0)
        m.d.comb += [
            info.raw.eq(if_stage.id_raw),
            info.next_pc.eq(Mux(controller.redirect, controller.target, if_stage.pc)),
            info.handler.eq(csr_file.handler),
            info.intr.eq(intr),
            info.intr_id.eq(Mux(intr, intr_id, 0)),
        ]
        with m.If(faulted):
            m.d.comb += info.held.eq(WaitCause.TRAP)
        with m.Elif(irq):
            # an interrupt replaces an instruction: with an empty ID the cause is that of the empty ID
            m.d.comb += info.held.eq(Mux(if_stage.insn.valid, WaitCause.TRAP, WaitCause.NONE))
        with m.Elif(controller.loop_hold):
            m.d.comb += info.held.eq(WaitCause.LOOP)
        with m.Elif(controller.hold):
            m.d.comb += info.held.eq(WaitCause.SLEEP)
        with m.If(controller.irq_ack | faulted):
            m.d.comb += info.redirect.eq(WaitCause.TRAP)
        with m.Elif(controller.loop_wrong & ~backend.branch.valid):
            m.d.comb += info.redirect.eq(WaitCause.LOOP)
        if self.config.debug:
            m.d.comb += backend.debug_enters.eq(controller.debug.enter)
            with m.If(in_debug | controller.halting):
                m.d.comb += info.held.eq(WaitCause.DEBUG)
            with m.If(in_debug):
                m.d.comb += info.redirect.eq(WaitCause.DEBUG)
        names = port_widths(pairs=self.config.mac_load_pair)
        m.d.comb += [getattr(self, f"rvfi_{name}").eq(getattr(backend.rvfi, name)) for name in names]
