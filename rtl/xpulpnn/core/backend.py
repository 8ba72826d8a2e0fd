"""Back end of the core: ID, EX and WB fed by a stream of instruction words."""

from amaranth.hdl import Module, Mux

from xpulpnn.component import Component, In, Out, connect, flipped, following, signals
from xpulpnn.config import CoreConfig
from xpulpnn.core import pipeline
from xpulpnn.core.control import CsrOp, System
from xpulpnn.core.csr_file import NN_ENTRY_BITS
from xpulpnn.core.ex_stage import ExStage
from xpulpnn.core.id_stage import IdStage
from xpulpnn.core.lsu import Lsu
from xpulpnn.core.obi import ObiSignature
from xpulpnn.core.rvfi import RvfiSignature, RvfiTap
from xpulpnn.core.wait_tap import WaitTap
from xpulpnn.core.wb_stage import WbStage
from xpulpnn.isa.machine import FIRST_WEIGHT, XLEN
from xpulpnn.isa.retirement import WaitCause


class Backend(Component):
    """Single-issue in-order back end with forwarding and interlocks.

    An instruction taken from the stream in cycle t is in EX in t + 1 and, if it accesses memory, in WB in t + 2. Costs
    in cycles with a memory that grants at once and answers in the next cycle: 1; use of a loaded value, of the base or
    of the reloaded NN-RF entry of a Mac&Load by the next instruction 1 more; misaligned access 2; mulh* 5; division 3
    to 35. Any order of instructions gives the sequential result for any memory latency. Redirects are requests: the
    source of the stream inserts the bubbles of fetching. With ``fault`` a load or store and what was taken behind it
    are dropped; a register that they have written already is restored in the next cycle, for which ``hold`` must be
    high. Reset empties the pipeline and clears all registers.

    Parameters
    ----------
    config : CoreConfig
        Instructions present; ``rvfi`` adds the retirement port.
    """

    def __init__(self, config: CoreConfig):
        ports = {
            "insn": In(pipeline.InsnSignature()),  #: Instruction stream.
            "hold": In(1),  #: No instruction is taken from the stream while it is high.
            "data": Out(ObiSignature()),  #: Port of the data memory.
            "jump": Out(pipeline.RedirectSignature()),  #: Jump taken from the stream.
            #: branch: Branch resolved as taken, one cycle or more after it was taken from the stream; an instruction
            #:   offered in the same cycle is dropped.
            "branch": Out(pipeline.RedirectSignature()),
            #: trap: Exception of the instruction taken from the stream, which has no other effect.
            "trap": Out(pipeline.TrapSignature()),
            "fault": Out(pipeline.FaultSignature()),  #: Access fault.
            #: system: System instruction taken from the stream, to be executed by whoever feeds it.
            "system": Out(pipeline.SystemSignature()),
            "hwloop": Out(pipeline.HwLoopSignature()),  #: Hardware-loop set-up taken from the stream.
            "csr": Out(pipeline.CsrSignature()),  #: CSR access of the instruction in EX.
            #: intent: What the instruction at the head of the stream does when it is taken, unless ``branch`` drops it.
            "intent": Out(pipeline.IntentSignature()),
            "flow": Out(pipeline.FlowSignature()),  #: Progress of instructions through the stages.
            "busy": Out(1),  #: EX or WB holds an instruction.
        }
        if config.debug:
            #: debug_mode: The core is in debug mode: what is taken from the stream does not retire; only with debug
            #:   mode.
            ports["debug_mode"] = In(1)
            #: fault_halts: The access that faults in this cycle is made again after debug mode; only with debug mode.
            ports["fault_halts"] = In(1)
            #: watched: The access in EX, which triggers may stop; only with debug mode.
            ports["watched"] = Out(pipeline.WatchedSignature())
            #: kept, kept_we, kept_wdata: A register that accesses across a word boundary overwrite, as of the
            #:   load-store unit; only with debug mode.
            ports |= {"kept": Out(32), "kept_we": In(1), "kept_wdata": In(32)}
        if config.nn_csrs:
            #: nn_csr_value: Word of the NN-RF that ``csr.addr`` may mean; only with ``nn_csrs``, like the next one.
            #: nn_csr_we, nn_csr_wdata: It is written; the word.
            ports |= {"nn_csr_value": Out(32), "nn_csr_we": In(1), "nn_csr_wdata": In(32)}
        if config.performance_counters:
            #: events: Events to count; only with performance counters.
            ports["events"] = Out(pipeline.EventsSignature())
        if config.rvfi:
            #: info: Additions of the front end to the retirement record of the instruction taken; with ``rvfi``.
            #: rvfi: Retirement port; on request.
            ports |= {
                "rvfi": Out(RvfiSignature(pairs=config.mac_load_pair)),
                "info": In(pipeline.RetireInfoSignature()),
            }
            if config.debug:
                #: debug_enters: Debug mode is entered in this cycle: what leaves the stream does not retire; with both.
                ports["debug_enters"] = In(1)
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.id_stage = id_stage = IdStage(self.config)
        m.submodules.ex_stage = ex_stage = ExStage(self.config)
        m.submodules.wb_stage = wb_stage = WbStage(self.config)
        m.submodules.lsu = lsu = Lsu(debug=self.config.debug, late=self.config.late_results)
        id_ex = id_stage.id_ex
        connect(m, flipped(self.insn), id_stage.insn)
        connect(m, lsu.data, flipped(self.data))
        connect(m, lsu.fault, flipped(self.fault))
        connect(m, wb_stage.wb, id_stage.wb)
        for name in ("jump", "trap", "system", "hwloop", "intent"):
            connect(m, getattr(id_stage, name), flipped(getattr(self, name)))

        ex_ready, ex_fires, ex_done = signals(1, "ex_ready ex_fires ex_done")
        address_sum = ex_stage.sum
        if self.config.late_results:
            # by itself, without the complement of a difference in front
            address_sum = (id_ex.op_a + id_ex.op_b)[:XLEN]
        m.d.comb += [
            ex_done.eq(Mux(id_ex.lsu.valid, lsu.ex_done, ex_stage.done)),
            ex_fires.eq(id_ex.valid & ex_done & lsu.wb_done),
            ex_ready.eq(lsu.wb_done & (~id_ex.valid | ex_done)),
            self.busy.eq(id_ex.valid | ~lsu.wb_done | wb_stage.wb.we),
            *following(self.flow, id_stage, "id_leaves", "id_late"),
            self.flow.ex_granted.eq(lsu.ex_granted),
            self.flow.ex_leaves.eq(ex_fires),
            self.flow.wb_leaves.eq(lsu.wb_done),
            id_stage.flush.eq(lsu.fault.valid),
            id_stage.hold.eq(self.hold),
            id_stage.drained.eq(~self.busy),
            id_stage.ex_ready.eq(ex_ready),
            id_stage.ex_result.eq(ex_stage.result),
            id_stage.ex_write.eq(ex_fires & id_ex.ex_we),
            id_stage.kill.eq(self.branch.valid),
            *following(id_stage, wb_stage, "wb_write", "wb_wdata"),
            wb_stage.ex_ready.eq(ex_ready),
            wb_stage.ex_base.eq(ex_stage.sum),
            wb_stage.lsu_done.eq(lsu.wb_done),
            wb_stage.fault.eq(lsu.fault.valid),
            wb_stage.lsu_rdata.eq(lsu.wb_rdata),
            lsu.ex_ctrl.eq(id_ex.lsu),
            lsu.ex_base.eq(id_ex.op_a),
            lsu.ex_sum.eq(address_sum),
            lsu.ex_wdata.eq(id_ex.op_c),
            self.branch.valid.eq(ex_fires & id_ex.branch & ex_stage.comparison),
            self.branch.target.eq(id_ex.op_c),
            self.csr.valid.eq(ex_fires & (id_ex.csr != CsrOp.NONE)),
            self.csr.addr.eq(id_ex.op_b),
            self.csr.op.eq(id_ex.csr),
            self.csr.write.eq(id_ex.csr_write),
            self.csr.wdata.eq(id_ex.op_a),
            ex_stage.csr_rdata.eq(self.csr.rdata),
        ]
        ex = wb_stage.ex
        keeps_rd = is_mac_load = id_ex.wb_base if self.config.mac_load else 0
        if self.config.requantise:
            keeps_rd |= id_ex.requantise.valid
            m.d.comb += [ex_stage.requantise.eq(id_ex.requantise.valid), ex.product.eq(ex_stage.product)]
        if self.config.requantise_exact:
            m.d.comb += [
                id_stage.nn_lambda.eq(ex_stage.id_nn_lambda),
                id_stage.summand_pending.eq(wb_stage.summand_pending),
                ex.rounds.eq(id_ex.requantise.valid & id_ex.ctrl.mult.a_signed),
                ex.scale.eq(id_ex.op_b[: pipeline.SCALE_BITS] & ex.rounds.replicate(pipeline.SCALE_BITS)),
            ]
        if self.config.late_results:
            m.d.comb += following(ex, ex_stage, "late_result", *self.config.late_words)
            m.d.comb += ex_stage.slow.eq(id_ex.slow)
        if self.config.has_whole_products:
            m.d.comb += ex.upper.eq(ex_stage.upper)
        if self.config.multiplies_by_dotp:
            m.d.comb += ex.mult.eq(id_ex.ctrl.mult)
        if self.config.mac_load_pair:
            m.d.comb += following(ex, ex_stage, "first", "second")
        m.d.comb += [getattr(ex, name).eq(getattr(id_ex, name)) for name in ex.signature.shared(self.config)]
        m.d.comb += [
            ex.access.eq(id_ex.lsu.valid),
            # the accumulator of a Mac&Load or the old rd of pv.rq*, else the base
            ex.old.eq(Mux(keeps_rd, id_ex.op_c, id_ex.op_a)),
        ]
        if self.config.debug:
            self._watch(m, id_stage, lsu, ex_fires)
        if self.config.nn_csrs:
            first = 0 if self.config.mac_load_nn else FIRST_WEIGHT
            m.d.comb += [
                ex_stage.nn_csr_addr.eq(self.csr.addr[:NN_ENTRY_BITS] - first),
                *following(ex_stage, self, "nn_csr_we", "nn_csr_wdata"),
                self.nn_csr_value.eq(ex_stage.nn_csr_rdata),
            ]
        self._execute(m, id_stage, ex_stage, wb_stage, lsu, ex_fires)
        if self.config.qnt:
            self._quantise(m, id_ex, ex_stage, lsu)
        if self.config.performance_counters:
            self._count(m, id_stage, wb_stage, ex_fires)
        if self.config.rvfi:
            self._observe(m, id_stage, ex_stage, wb_stage, lsu, ex_ready, is_mac_load)
        return m

    def _execute(self, m, id_stage, ex_stage, wb_stage, lsu, ex_fires):
        id_ex = id_stage.id_ex
        m.d.comb += [
            *following(ex_stage, id_ex, "valid", "ctrl", "op_a", "op_b", "op_c", "shamt"),
            ex_stage.advance.eq(ex_fires),
        ]
        if self.config.widths and self.config.dotp_operands_in_id:
            told = ("dotp_fmt", "dotp_a_signed", "dotp_b_signed")
            if self.config.multiplies_by_dotp:
                told = ("dotp_format", "dotp2_format", "dotp_form")
            m.d.comb += following(ex_stage, id_ex, *told, "dotp_a", "dotp_b")
        elif self.config.widths:
            m.d.comb += following(ex_stage, id_stage, "dotp_enable", "dotp_ctrl", "dotp_a", "dotp_b", into="id_")
        if self.config.mac_load_pair:
            m.d.comb += following(ex_stage, id_ex, "pair", "later_pair", "second_sum")
        if self.config.mac_load_nn:
            m.d.comb += [ex_stage.id_nn_act_addr.eq(id_stage.nn_act_addr), id_stage.nn_act.eq(ex_stage.id_nn_act)]
        if self.config.mac_load:
            m.d.comb += [
                ex_stage.id_nn_wgt_addr.eq(id_stage.nn_wgt_addr),
                id_stage.nn_wgt.eq(ex_stage.id_nn_wgt),
                *following(ex_stage, wb_stage, "nn_we", "nn_addr", into="wb_"),
                ex_stage.wb_nn_data.eq(lsu.wb_rdata),
            ]

    def _watch(self, m, id_stage, lsu, ex_fires):
        watched, access = self.watched, id_stage.id_ex.lsu
        m.d.comb += [
            id_stage.debug_mode.eq(self.debug_mode),
            watched.valid.eq(access.valid),
            watched.store.eq(access.we),
            watched.address.eq(lsu.ex_address),
            watched.older_done.eq(lsu.wb_done),
            watched.gone.eq(ex_fires | lsu.fault.valid | watched.hit),
            id_stage.flush.eq(lsu.fault.valid | watched.hit),
            *following(lsu, self, "kept_we", "kept_wdata"),
            self.kept.eq(lsu.kept),
        ]
        with m.If(watched.blocked):
            m.d.comb += lsu.ex_ctrl.valid.eq(0)

    def _quantise(self, m, id_ex, ex_stage, lsu):
        m.d.comb += [
            ex_stage.quantise.eq(id_ex.quantise),
            ex_stage.threshold_granted.eq(lsu.ex_done),
            ex_stage.threshold_answered.eq(lsu.wb_done),
            ex_stage.threshold.eq(lsu.wb_rdata),
        ]
        with m.If(id_ex.quantise.valid):
            m.d.comb += [lsu.ex_ctrl.valid.eq(ex_stage.threshold_request), lsu.ex_base.eq(ex_stage.threshold_address)]

    def _count(self, m, id_stage, wb_stage, ex_fires):
        events = self.events
        granted = self.flow.ex_granted
        m.d.comb += [
            *following(events, id_stage, "load_use_stall", "jump_register_stall"),
            events.load.eq(granted & ~self.data.we),
            events.store.eq(granted & self.data.we),
            events.jump.eq(self.jump.valid),
            events.branch.eq(ex_fires & id_stage.id_ex.branch),
            events.taken_branch.eq(self.branch.valid),
            events.compressed.eq(id_stage.issue & ~self.trap.valid & self.insn.payload.compressed),
            events.elw_stall.eq(wb_stage.elw_stall),
        ]

    def _observe(self, m, id_stage, ex_stage, wb_stage, lsu, ex_ready, is_mac_load):
        m.submodules.wait_tap = waits = WaitTap()
        m.submodules.rvfi_tap = tap = RvfiTap(pairs=self.config.mac_load_pair, debug=self.config.debug)
        connect(m, tap.rvfi, flipped(self.rvfi))
        connect(m, flipped(self.info), tap.id_info)
        connect(m, flipped(self.info), waits.info)
        id_ex, payload = id_stage.id_ex, self.insn.payload
        with m.If(~id_ex.lsu.valid):
            m.d.comb += waits.ex_wait.eq(WaitCause.MULTICYCLE)
        with m.Elif(~self.data.req):
            m.d.comb += waits.ex_wait.eq(WaitCause.RESPONSE)
        with m.Elif(~self.data.gnt):
            m.d.comb += waits.ex_wait.eq(WaitCause.GRANT)
        with m.Else():
            m.d.comb += waits.ex_wait.eq(WaitCause.MISALIGNED)
        if self.config.qnt:
            with m.If(ex_stage.threshold_request & self.data.req & ~self.data.gnt):
                m.d.comb += waits.ex_wait.eq(WaitCause.GRANT)
        system = self.system
        m.d.comb += [
            waits.insn_valid.eq(self.insn.valid),
            waits.hold.eq(self.hold),
            waits.branch.eq(self.branch.valid),
            waits.jump.eq(self.jump.valid),
            waits.trap.eq(self.trap.valid | (system.valid & (system.kind == System.MRET))),
            waits.sync.eq(system.valid & (system.kind == System.FENCE_I)),
            waits.stage_wait.eq(id_stage.id_wait),
            waits.ex_ready.eq(ex_ready),
            waits.wb_leave.eq(lsu.wb_done),
            waits.fault.eq(lsu.fault.valid),
            tap.wait_cause.eq(waits.cause),
            tap.id_issue.eq(id_stage.issue),
            tap.id_insn.eq(Mux(payload.error, 0, payload.word)),
            tap.id_compressed.eq(payload.compressed & ~payload.error),
            tap.id_pc.eq(payload.pc),
            tap.id_trap.eq(self.trap.valid),
            tap.id_cause.eq(self.trap.cause),
            *following(tap, id_stage, "rs1", "rs2", into="id_"),
            tap.id_rd.eq(id_stage.rs3),
            tap.id_act.eq(id_stage.dotp_a),
            tap.id_wgt.eq(id_stage.dotp_b),
            tap.ex_ready.eq(ex_ready),
            tap.ex_taken.eq(self.branch.valid),
            tap.ex_target.eq(self.branch.target),
            tap.ex_we.eq(id_ex.valid & id_ex.ex_we),
            tap.ex_is_base.eq(id_ex.lsu.valid & id_ex.lsu.post & ~is_mac_load),
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
            tap.wb_we.eq(wb_stage.wb.we),
            tap.wb_is_base.eq(wb_stage.wb_is_base),
            *following(tap, wb_stage.wb, "addr", "data", into="wb_"),
            tap.wb_rdata.eq(lsu.wb_rdata),
        ]
        if self.config.debug:
            m.d.comb += [
                tap.drop.eq(self.watched.hit | self.fault_halts),
                waits.fault.eq(lsu.fault.valid | self.watched.hit),
            ]
            with m.If(self.debug_mode | self.debug_enters):
                m.d.comb += tap.id_issue.eq(0)
            with m.If(self.debug_mode | self.fault_halts):
                m.d.comb += tap.fault.eq(0)
        if self.config.mac_load:
            first = 0 if self.config.mac_load_nn else FIRST_WEIGHT
            m.d.comb += [tap.wb_nn_we.eq(wb_stage.nn_we), tap.wb_nn_addr.eq(wb_stage.nn_addr + first)]
        if self.config.mac_load_pair:
            m.d.comb += [
                tap.id_pair.eq(id_stage.id_pair),
                # the entry itself, before it is widened
                tap.id_wgt.eq(Mux(id_stage.id_pair, id_stage.nn_wgt, id_stage.dotp_b)),
                tap.wb_pair.eq(wb_stage.wb.pair),
                tap.wb_odd.eq(wb_stage.wb.odd),
            ]
