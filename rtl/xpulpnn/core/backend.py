"""Back end of the core: ID, EX and WB fed by a stream of instruction words."""

from typing import NamedTuple

from amaranth.hdl import Module, Mux, Signal

from xpulpnn.component import Component, In, Out, assign_by_name, connect, flipped, optional, signals
from xpulpnn.config import CoreConfig
from xpulpnn.core import pipeline
from xpulpnn.core.control import CsrOp, System
from xpulpnn.core.csr_file import NN_ENTRY_BITS
from xpulpnn.core.ex_stage import ExStage
from xpulpnn.core.id_stage import IdStage
from xpulpnn.core.lsu import Lsu
from xpulpnn.core.obi import ObiSignature
from xpulpnn.core.rvfi import RvfiSignature, RvfiTap
from xpulpnn.core.stall_monitor import StallMonitor
from xpulpnn.core.wb_stage import WbStage
from xpulpnn.isa.machine import FIRST_WEIGHT, XLEN
from xpulpnn.isa.retirement import WaitCause


class Stages(NamedTuple):
    id_stage: IdStage
    ex_stage: ExStage
    wb_stage: WbStage
    lsu: Lsu


class Backend(Component):
    """Single-issue in-order back end with forwarding and interlocks.

    An instruction accepted from the stream in cycle t is in EX in t + 1 and, if it accesses memory, in WB in t + 2.
    With a memory that grants at once and answers in the next cycle it takes 1 cycle; a misaligned access takes 2, mulh*
    5, a division 3 to 35. Use of a loaded value, or of the base or reloaded NN-RF entry of a Mac&Load, by the next
    instruction costs 1 more. Any order of instructions gives the sequential result for any memory latency. A redirect
    only names the next address: the source of the stream inserts the bubbles of fetching. With ``fault`` a load or
    store and all younger instructions are dropped; a register that they have already written is restored in the next
    cycle, in which ``hold`` must be high. Reset empties the pipeline and clears all registers.

    Parameters
    ----------
    config : CoreConfig
        Instructions present; ``rvfi`` adds the retirement port.
    """

    def __init__(self, config: CoreConfig):
        ports = {
            "insn": In(pipeline.InsnSignature()),  #: Instruction stream.
            "hold": In(1),  #: No instruction is accepted from the stream.
            "data": Out(ObiSignature()),  #: Port of the data memory.
            "jump": Out(pipeline.RedirectSignature()),  #: Jump accepted from the stream.
            #: branch: Taken branch, one cycle or more after it was accepted from the stream; an instruction offered in
            #:   the same cycle is dropped.
            "branch": Out(pipeline.RedirectSignature()),
            #: trap: Exception of the instruction accepted from the stream, which has no other effect.
            "trap": Out(pipeline.TrapSignature()),
            "fault": Out(pipeline.FaultSignature()),  #: Access fault.
            #: system: System instruction accepted from the stream, to be executed outside of the back end.
            "system": Out(pipeline.SystemSignature()),
            "hwloop": Out(pipeline.HwLoopSignature()),  #: Hardware-loop set-up accepted from the stream.
            "csr": Out(pipeline.CsrSignature()),  #: CSR access of the instruction in EX.
            #: intent: Effects of the instruction at the head of the stream when it is accepted, unless ``branch`` drops
            #:   it.
            "intent": Out(pipeline.IntentSignature()),
            "flow": Out(pipeline.FlowSignature()),  #: Progress of instructions through the stages.
            "busy": Out(1),  #: EX or WB holds an instruction.
        }
        if config.debug:
            #: debug_mode: The core is in debug mode: instructions of the stream do not retire; only with debug mode.
            ports["debug_mode"] = In(1)
            #: fault_halts: The access that faults in this cycle is repeated after debug mode; only with debug mode.
            ports["fault_halts"] = In(1)
            #: watched: The access in EX, which triggers may stop; only with debug mode.
            ports["watched"] = Out(pipeline.WatchedSignature())
            #: kept: Register of the load-store unit for accesses across a word boundary, which otherwise serves as
            #:   dscratch1; only with debug mode.
            #: kept_we, kept_wdata: Write of ``kept`` while no access is outstanding; only with debug mode.
            ports |= {"kept": Out(32), "kept_we": In(1), "kept_wdata": In(32)}
        if config.nn_csrs:
            #: nn_csr_value: Word of the NN-RF at ``csr.addr``; only with ``nn_csrs``.
            #: nn_csr_we, nn_csr_wdata: Write of the word of the NN-RF at ``csr.addr``; only with ``nn_csrs``.
            ports |= {"nn_csr_value": Out(32), "nn_csr_we": In(1), "nn_csr_wdata": In(32)}
        if config.performance_counters:
            #: events: Events to count; only with performance counters.
            ports["events"] = Out(pipeline.EventsSignature())
        if config.rvfi:
            #: info: Facts of the front end for the retirement record of the accepted instruction; with ``rvfi``.
            #: rvfi: Retirement port; with ``rvfi``.
            ports |= {
                "rvfi": Out(RvfiSignature(pairs=config.mac_load_pair)),
                "info": In(pipeline.RetireInfoSignature()),
            }
            if config.debug:
                #: debug_enters: Debug mode is entered in this cycle: instructions that leave the stream do not retire;
                #:   with debug mode and ``rvfi``.
                ports["debug_enters"] = In(1)
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.id_stage = id_stage = IdStage(config)
        m.submodules.ex_stage = ex_stage = ExStage(config)
        m.submodules.wb_stage = wb_stage = WbStage(config)
        m.submodules.lsu = lsu = Lsu(debug=config.debug, late=config.late_results)
        stages = Stages(id_stage, ex_stage, wb_stage, lsu)
        ex_ready, ex_fires = signals(1, "ex_ready ex_fires")
        connect(m, flipped(self.insn), id_stage.insn)
        connect(m, lsu.data, flipped(self.data))
        connect(m, lsu.fault, flipped(self.fault))
        connect(m, wb_stage.wb, id_stage.wb)
        for name in ("jump", "trap", "system", "hwloop", "intent"):
            connect(m, getattr(id_stage, name), flipped(getattr(self, name)))
        self._advance(m, stages, ex_ready, ex_fires)
        self._forward(m, stages, ex_ready, ex_fires)
        self._access(m, stages, ex_fires)
        self._hand_to_wb(m, stages)
        for present, option in (
            (config.debug, self._watch),
            (config.widths, self._multiply),
            (config.mac_load, self._connect_nnrf),
            (config.qnt, self._quantise),
            (config.performance_counters, self._count),
        ):
            if present:
                option(m, stages, ex_fires)
        if config.rvfi:
            self._observe(m, stages, ex_ready)
        return m

    def _advance(self, m, stages, ex_ready, ex_fires):
        id_ex, lsu, ex_stage = stages.id_stage.id_ex, stages.lsu, stages.ex_stage
        ex_done = Signal()
        m.d.comb += [
            ex_done.eq(Mux(id_ex.lsu.valid, lsu.ex_done, ex_stage.done)),
            ex_fires.eq(id_ex.valid & ex_done & lsu.wb_done),
            ex_ready.eq(lsu.wb_done & (~id_ex.valid | ex_done)),
            self.busy.eq(id_ex.valid | ~lsu.wb_done | stages.wb_stage.wb.we),
            self.flow.id_leaves.eq(stages.id_stage.id_leaves),
            self.flow.id_late.eq(stages.id_stage.id_late),
            self.flow.ex_granted.eq(lsu.ex_granted),
            self.flow.ex_leaves.eq(ex_fires),
            self.flow.wb_leaves.eq(lsu.wb_done),
            self.branch.valid.eq(ex_fires & id_ex.branch & ex_stage.comparison),
            self.branch.target.eq(id_ex.op_c),
        ]

    def _forward(self, m, stages, ex_ready, ex_fires):
        """Connect the operands of EX, the results that are forwarded to ID, and the register writes of WB."""
        id_stage, ex_stage, wb_stage, lsu = stages
        id_ex = id_stage.id_ex
        m.d.comb += [
            id_stage.flush.eq(lsu.fault.valid),
            id_stage.hold.eq(self.hold),
            id_stage.drained.eq(~self.busy),
            id_stage.ex_ready.eq(ex_ready),
            id_stage.ex_result.eq(ex_stage.result),
            id_stage.ex_write.eq(ex_fires & id_ex.ex_we),
            id_stage.kill.eq(self.branch.valid),
            id_stage.wb_write.eq(wb_stage.wb_write),
            id_stage.wb_wdata.eq(wb_stage.wb_wdata),
            *assign_by_name(ex_stage, id_ex, "valid", "ctrl", "op_a", "op_b", "op_c", "shamt"),
            ex_stage.advance.eq(ex_fires),
            wb_stage.ex_ready.eq(ex_ready),
            wb_stage.ex_base.eq(ex_stage.sum),
            wb_stage.lsu_done.eq(lsu.wb_done),
            wb_stage.fault.eq(lsu.fault.valid),
            wb_stage.lsu_rdata.eq(lsu.wb_rdata),
        ]
        if self.config.late_results:
            m.d.comb += ex_stage.slow.eq(id_ex.slow)
        if self.config.requantise:
            m.d.comb += ex_stage.requantise.eq(id_ex.requantise.valid)
        if self.config.requantise_exact:
            m.d.comb += [
                id_stage.nn_lambda.eq(ex_stage.id_nn_lambda),
                id_stage.summand_pending.eq(wb_stage.summand_pending),
            ]

    def _access(self, m, stages, ex_fires):
        id_ex, ex_stage, lsu = stages.id_stage.id_ex, stages.ex_stage, stages.lsu
        address_sum = ex_stage.sum
        if self.config.late_results:
            # a separate adder, without the complement for differences
            address_sum = (id_ex.op_a + id_ex.op_b)[:XLEN]
        m.d.comb += [
            lsu.ex_ctrl.eq(id_ex.lsu),
            lsu.ex_base.eq(id_ex.op_a),
            lsu.ex_sum.eq(address_sum),
            lsu.ex_wdata.eq(id_ex.op_c),
            self.csr.valid.eq(ex_fires & (id_ex.csr != CsrOp.NONE)),
            self.csr.addr.eq(id_ex.op_b),
            self.csr.op.eq(id_ex.csr),
            self.csr.write.eq(id_ex.csr_write),
            self.csr.wdata.eq(id_ex.op_a),
            ex_stage.csr_rdata.eq(self.csr.rdata),
        ]

    def _hand_to_wb(self, m, stages):
        config, id_ex, ex_stage, ex = self.config, stages.id_stage.id_ex, stages.ex_stage, stages.wb_stage.ex
        uses_rd = optional(id_ex, "wb_base")
        if config.requantise:
            uses_rd |= id_ex.requantise.valid
            m.d.comb += ex.product.eq(ex_stage.product)
        if config.requantise_exact:
            m.d.comb += [
                ex.rounds.eq(id_ex.requantise.valid & id_ex.ctrl.mult.a_signed),
                ex.scale.eq(id_ex.op_b[: pipeline.SCALE_BITS] & ex.rounds.replicate(pipeline.SCALE_BITS)),
            ]
        if config.late_results:
            m.d.comb += assign_by_name(ex, ex_stage, "late_result", *config.late_result_names)
        if config.has_whole_products:
            m.d.comb += ex.upper.eq(ex_stage.upper)
        if config.multiplies_by_dotp:
            m.d.comb += ex.mult.eq(id_ex.ctrl.mult)
        if config.mac_load_pair:
            m.d.comb += assign_by_name(ex, ex_stage, "first", "second")
        m.d.comb += [
            *assign_by_name(ex, id_ex, *ex.signature.shared_names(config)),
            ex.access.eq(id_ex.lsu.valid),
            # the accumulator of a Mac&Load or the old rd of pv.rq*, else the base
            ex.old.eq(Mux(uses_rd, id_ex.op_c, id_ex.op_a)),
        ]

    def _multiply(self, m, stages, ex_fires):
        id_stage, ex_stage, id_ex = stages.id_stage, stages.ex_stage, stages.id_stage.id_ex
        if self.config.dotp_operands_in_id:
            formats = ("dotp_fmt", "dotp_a_signed", "dotp_b_signed")
            if self.config.multiplies_by_dotp:
                formats = ("dotp_format", "dotp2_format", "dotp_form")
            m.d.comb += assign_by_name(ex_stage, id_ex, *formats, "dotp_a", "dotp_b")
        else:
            m.d.comb += assign_by_name(
                ex_stage, id_stage, "dotp_enable", "dotp_ctrl", "dotp_a", "dotp_b", to_prefix="id_"
            )
        if self.config.mac_load_pair:
            m.d.comb += assign_by_name(ex_stage, id_ex, "pair", "later_pair", "second_sum")

    def _connect_nnrf(self, m, stages, ex_fires):
        id_stage, ex_stage, wb_stage, lsu = stages
        m.d.comb += [
            ex_stage.id_nn_wgt_addr.eq(id_stage.nn_wgt_addr),
            id_stage.nn_wgt.eq(ex_stage.id_nn_wgt),
            ex_stage.wb_nn_we.eq(wb_stage.nn_we),
            ex_stage.wb_nn_addr.eq(wb_stage.nn_addr),
            ex_stage.wb_nn_data.eq(lsu.wb_rdata),
        ]
        if self.config.mac_load_nn:
            m.d.comb += [ex_stage.id_nn_act_addr.eq(id_stage.nn_act_addr), id_stage.nn_act.eq(ex_stage.id_nn_act)]
        if self.config.nn_csrs:
            first = 0 if self.config.mac_load_nn else FIRST_WEIGHT
            m.d.comb += [
                ex_stage.nn_csr_addr.eq(self.csr.addr[:NN_ENTRY_BITS] - first),
                ex_stage.nn_csr_we.eq(self.nn_csr_we),
                ex_stage.nn_csr_wdata.eq(self.nn_csr_wdata),
                self.nn_csr_value.eq(ex_stage.nn_csr_rdata),
            ]

    def _watch(self, m, stages, ex_fires):
        """Connect the triggers of debug mode, which can stop a load or store in EX before it is requested."""
        id_stage, lsu = stages.id_stage, stages.lsu
        watched, access = self.watched, id_stage.id_ex.lsu
        m.d.comb += [
            id_stage.debug_mode.eq(self.debug_mode),
            watched.valid.eq(access.valid),
            watched.store.eq(access.we),
            watched.address.eq(lsu.ex_address),
            watched.older_done.eq(lsu.wb_done),
            watched.gone.eq(ex_fires | lsu.fault.valid | watched.hit),
            id_stage.flush.eq(lsu.fault.valid | watched.hit),
            lsu.kept_we.eq(self.kept_we),
            lsu.kept_wdata.eq(self.kept_wdata),
            self.kept.eq(lsu.kept),
        ]
        with m.If(watched.blocked):
            m.d.comb += lsu.ex_ctrl.valid.eq(0)

    def _quantise(self, m, stages, ex_fires):
        id_ex, ex_stage, lsu = stages.id_stage.id_ex, stages.ex_stage, stages.lsu
        m.d.comb += [
            ex_stage.quantise.eq(id_ex.quantise),
            ex_stage.threshold_granted.eq(lsu.ex_done),
            ex_stage.threshold_answered.eq(lsu.wb_done),
            ex_stage.threshold.eq(lsu.wb_rdata),
        ]
        with m.If(id_ex.quantise.valid):
            m.d.comb += [lsu.ex_ctrl.valid.eq(ex_stage.threshold_request), lsu.ex_base.eq(ex_stage.threshold_address)]

    def _count(self, m, stages, ex_fires):
        id_stage, events, granted = stages.id_stage, self.events, self.flow.ex_granted
        m.d.comb += [
            events.load_use_stall.eq(id_stage.load_use_stall),
            events.jump_register_stall.eq(id_stage.jump_register_stall),
            events.load.eq(granted & ~self.data.we),
            events.store.eq(granted & self.data.we),
            events.jump.eq(self.jump.valid),
            events.branch.eq(ex_fires & id_stage.id_ex.branch),
            events.taken_branch.eq(self.branch.valid),
            events.compressed.eq(id_stage.issue & ~self.trap.valid & self.insn.payload.compressed),
            events.elw_stall.eq(stages.wb_stage.elw_stall),
        ]

    def _observe(self, m, stages, ex_ready):
        m.submodules.stall_monitor = waits = StallMonitor()
        m.submodules.rvfi_tap = tap = RvfiTap(pairs=self.config.mac_load_pair, debug=self.config.debug)
        connect(m, tap.rvfi, flipped(self.rvfi))
        connect(m, flipped(self.info), tap.id_info)
        connect(m, flipped(self.info), waits.info)
        self._observe_waits(m, stages, waits, ex_ready)
        self._observe_instructions(m, stages, tap, ex_ready)
        m.d.comb += tap.wait_cause.eq(waits.cause)
        if self.config.debug:
            m.d.comb += [
                tap.drop.eq(self.watched.hit | self.fault_halts),
                waits.fault.eq(stages.lsu.fault.valid | self.watched.hit),
            ]
            with m.If(self.debug_mode | self.debug_enters):
                m.d.comb += tap.id_issue.eq(0)
            with m.If(self.debug_mode | self.fault_halts):
                m.d.comb += tap.fault.eq(0)

    def _observe_waits(self, m, stages, waits, ex_ready):
        lsu, system = stages.lsu, self.system
        with m.If(~stages.id_stage.id_ex.lsu.valid):
            m.d.comb += waits.ex_wait.eq(WaitCause.MULTICYCLE)
        with m.Elif(~self.data.req):
            m.d.comb += waits.ex_wait.eq(WaitCause.RESPONSE)
        with m.Elif(~self.data.gnt):
            m.d.comb += waits.ex_wait.eq(WaitCause.GRANT)
        with m.Else():
            m.d.comb += waits.ex_wait.eq(WaitCause.MISALIGNED)
        if self.config.qnt:
            with m.If(stages.ex_stage.threshold_request & self.data.req & ~self.data.gnt):
                m.d.comb += waits.ex_wait.eq(WaitCause.GRANT)
        m.d.comb += [
            waits.insn_valid.eq(self.insn.valid),
            waits.hold.eq(self.hold),
            waits.branch.eq(self.branch.valid),
            waits.jump.eq(self.jump.valid),
            waits.trap.eq(self.trap.valid | (system.valid & (system.kind == System.MRET))),
            waits.sync.eq(system.valid & (system.kind == System.FENCE_I)),
            waits.stage_wait.eq(stages.id_stage.id_wait),
            waits.ex_ready.eq(ex_ready),
            waits.wb_leave.eq(lsu.wb_done),
            waits.fault.eq(lsu.fault.valid),
        ]

    def _observe_instructions(self, m, stages, tap, ex_ready):
        id_stage, ex_stage, wb_stage, lsu = stages
        id_ex, payload, wb = id_stage.id_ex, self.insn.payload, wb_stage.wb
        m.d.comb += [
            tap.id_issue.eq(id_stage.issue),
            tap.id_insn.eq(Mux(payload.error, 0, payload.word)),
            tap.id_compressed.eq(payload.compressed & ~payload.error),
            tap.id_pc.eq(payload.pc),
            tap.id_trap.eq(self.trap.valid),
            tap.id_cause.eq(self.trap.cause),
            tap.id_rs1.eq(id_stage.rs1),
            tap.id_rs2.eq(id_stage.rs2),
            tap.id_rd.eq(id_stage.rs3),
            tap.id_act.eq(id_stage.dotp_a),
            tap.id_wgt.eq(id_stage.dotp_b),
            tap.ex_ready.eq(ex_ready),
            tap.ex_taken.eq(self.branch.valid),
            tap.ex_target.eq(self.branch.target),
            tap.ex_we.eq(id_ex.valid & id_ex.ex_we),
            tap.ex_is_base.eq(id_ex.lsu.valid & id_ex.lsu.post & ~optional(id_ex, "wb_base")),
            tap.ex_addr.eq(id_ex.ex_addr),
            tap.ex_data.eq(ex_stage.result),
            tap.ex_access.eq(id_ex.lsu.valid),
            tap.ex_store.eq(id_ex.lsu.we),
            tap.ex_size.eq(id_ex.lsu.size),
            tap.ex_mem_addr.eq(lsu.ex_address),
            tap.ex_wdata.eq(id_ex.op_c),
            tap.wb_leave.eq(lsu.wb_done),
            tap.fault.eq(lsu.fault.valid),
            tap.fault_store.eq(lsu.fault.store),
            tap.wb_we.eq(wb.we),
            tap.wb_is_base.eq(wb_stage.wb_is_base),
            tap.wb_addr.eq(wb.addr),
            tap.wb_data.eq(wb.data),
            tap.wb_rdata.eq(lsu.wb_rdata),
        ]
        if self.config.mac_load:
            first = 0 if self.config.mac_load_nn else FIRST_WEIGHT
            m.d.comb += [tap.wb_nn_we.eq(wb_stage.nn_we), tap.wb_nn_addr.eq(wb_stage.nn_addr + first)]
        if self.config.mac_load_pair:
            m.d.comb += [
                tap.id_pair.eq(id_stage.id_pair),
                # the entry itself, before it is widened
                tap.id_wgt.eq(Mux(id_stage.id_pair, id_stage.nn_wgt, id_stage.dotp_b)),
                tap.wb_pair.eq(wb.pair),
                tap.wb_odd.eq(wb.odd),
            ]
