"""ID stage: decoding, operand read, hazards, and the ID/EX pipeline register."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from xpulpnn.component import Component, In, Out, assign_by_name, connect, flipped, optional, signals
from xpulpnn.config import CoreConfig
from xpulpnn.core import pipeline
from xpulpnn.core.control import CsrOp, HwLoopOp, OpCSel, System, TargetSel, Unit, WriteSel
from xpulpnn.core.csr_check import CsrCheck
from xpulpnn.core.decoded_insn import DecodedInsn
from xpulpnn.core.decoder import Decoder
from xpulpnn.core.id_options import ID_OPTIONS
from xpulpnn.core.immediates import Immediates
from xpulpnn.core.insn_word import operand
from xpulpnn.core.operand_select import select_operands, set_up_loop
from xpulpnn.core.operands import OperandRead
from xpulpnn.core.regfile import RegFile
from xpulpnn.dotp.ctrl import DotpCtrl
from xpulpnn.isa.machine import ExceptionCause
from xpulpnn.isa.retirement import WaitCause


class IdStage(Component):
    """Decodes an instruction, reads its operands and issues it to EX.

    One instruction per cycle. An instruction waits for a value from WB (one cycle after a load, also for the base or
    the NN-RF entry of a Mac&Load). jalr waits for any outstanding write of its base, every instruction for a CSR write
    in EX, wfi and fence.i until all older instructions are complete, and instructions that act in ID (exceptions,
    system instructions, hardware-loop set-up) for the answer to the access in EX. A taken branch in EX kills the
    instruction in ID. Reset empties the ID/EX register and clears the registers.
    """

    def __init__(self, config: CoreConfig):
        ports = {
            "insn": In(pipeline.InsnSignature()),  #: Instruction stream.
            "ex_ready": In(1),  #: EX accepts an instruction at the end of this cycle; EX and WB are done.
            "ex_result": In(32),  #: Result of the instruction in EX, for port B and forwarding.
            "ex_write": In(1),  #: The instruction in EX leaves and port B writes.
            "kill": In(1),  #: The instruction in ID is dropped.
            "flush": In(1),  #: The instruction in EX is dropped; not with ``ex_ready``.
            "hold": In(1),  #: The instruction in ID stays.
            "drained": In(1),  #: EX and WB are empty.
            #: wb: Pending write of port A, for forwarding.
            "wb": In(pipeline.WbSignature(pairs=config.mac_load_pair)),
            "wb_write": In(1),  #: Port A writes at the end of this cycle.
            "wb_wdata": In(32),  #: Value that port A writes.
            "id_ex": Out(pipeline.IdExSignature(config)),  #: Pipeline register.
            "issue": Out(1),  #: The instruction leaves ID at the end of this cycle.
            "rs1": Out(32),  #: Value of the register in field rs1.
            "rs2": Out(32),  #: Value of the register in field rs2.
            "rs3": Out(32),  #: Value of the register in field rd.
            "jump": Out(pipeline.RedirectSignature()),  #: jal or jalr leaves ID.
            "trap": Out(pipeline.TrapSignature()),  #: Exception of the instruction leaving ID.
            "system": Out(pipeline.SystemSignature()),  #: System instruction leaving ID.
            "hwloop": Out(pipeline.HwLoopSignature()),  #: Hardware-loop set-up leaving ID.
            #: intent: Effects of the instruction when it leaves ID, without ``kill``.
            "intent": Out(pipeline.IntentSignature()),
            #: id_leaves: The instruction leaves ID and the next one in the program follows: it is no jump, mret or
            #:   exception.
            "id_leaves": Out(1),
            "id_late": Out(1),  #: The instruction in ID is a branch or a CSR access, which act in EX.
            "load_use_stall": Out(1),  #: The instruction in ID waits for a value that is loaded.
            "jump_register_stall": Out(1),  #: A jalr in ID waits for its base.
            "dotp_enable": Out(1),  #: A dot product leaves ID at the end of this cycle.
            "dotp_ctrl": Out(DotpCtrl),  #: Control word of the dot product leaving ID.
            #: dotp_a: Factor a of the dot product: rs1, the activation of the nn form of Mac&Load, or rs2 of
            #:   Compute&Update.
            "dotp_a": Out(32),
            "dotp_b": Out(32),  #: Factor b of the dot product: operand 2, or the NN-RF weight of Mac&Load.
        }
        if config.mac_load_nn:
            #: nn_act_addr: Activation entry of the NN-RF to read.
            #: nn_act: Word of the activation entry.
            ports |= {"nn_act_addr": Out(1 + config.mac_load_pair), "nn_act": In(32)}
        if config.mac_load:
            #: nn_wgt_addr: Weight entry of the NN-RF to read.
            #: nn_wgt: Word of the weight entry.
            ports |= {"nn_wgt_addr": Out(config.nn_wgt_addr_bits), "nn_wgt": In(32)}
        if config.requantise_exact:
            #: nn_lambda: Entry 7 of the NN-RF, the summand of a requantisation.
            #: summand_pending: Entry 7 is going to be written from WB.
            ports |= {"nn_lambda": In(32), "summand_pending": In(1)}
        if config.debug:
            #: debug_mode: The core is in debug mode; only with debug mode.
            ports["debug_mode"] = In(1)
        if config.rvfi:
            #: id_wait: Cause of a stall in ID while the instruction is neither held nor dropped and EX is ready; with
            #:   ``rvfi``.
            ports["id_wait"] = Out(WaitCause)
            if config.mac_load_pair:
                #: id_pair: The instruction in ID is a Mac&Load of two products.
                ports["id_pair"] = Out(1)
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.decoder = decoder = Decoder(self.config)
        m.d.comb += decoder.word.eq(self.insn.payload.word)
        insn = DecodedInsn(self.config, self.insn.payload.word, decoder)
        reads, rs1_stored = self._read_operands(m, insn)
        options = [option(m, self, insn) for name, option in ID_OPTIONS.items() if getattr(self.config, name)]
        illegal = Signal(name="illegal")
        goes = self._stall(m, insn, reads, options, illegal)
        m.d.comb += illegal.eq(self._is_illegal(m, insn, options))
        immediate, target = self._constants(m, insn, rs1_stored)
        op_a, op_b, op_c = select_operands(
            m, self.config.widths, insn, reads, self.ex_result, self.insn.payload, immediate, target
        )
        self._act_in_id(m, insn, goes, illegal, target, op_a)
        self._select_factors(m, insn, options, op_a, op_b)
        issues = goes & ~insn.excepted
        if self.config.debug:
            # dret is not issued, as it would be counted outside of debug mode
            issues &= ~(self.debug_mode & (insn.ctrl.system == System.MRET))
        self._issue(m, insn, options, issues, (op_a, op_b, op_c))
        return m

    def _read_operands(self, m, insn):
        """Read the register file and forward results; return the operands by field, and the stored rs1."""
        m.submodules.regfile = regfile = RegFile(self.config.regfile, pairs=self.config.mac_load_pair)
        id_ex, wb, fields = self.id_ex, self.wb, insn.fields
        m.d.comb += [
            regfile.we_a.eq(self.wb_write),
            regfile.addr_a.eq(wb.addr),
            regfile.data_a.eq(self.wb_wdata),
            regfile.we_b.eq(self.ex_write),
            regfile.addr_b.eq(id_ex.ex_addr),
            regfile.data_b.eq(self.ex_result),
        ]
        if self.config.mac_load_pair:
            m.d.comb += [regfile.pair.eq(wb.pair), regfile.odd_a.eq(wb.odd)]
        ex_we, ex_late_we = signals(1, "ex_we ex_late_we")
        m.d.comb += [ex_we.eq(id_ex.valid & id_ex.ex_we), ex_late_we.eq(id_ex.valid & id_ex.wb_we)]
        reads = {}
        rs2 = fields.rs2
        if self.config.mac_load_pair:
            # the second sum is read instead of rs2
            rs2 = Mux(insn.is_pair, Cat(Const(1), fields.rd[1:]), rs2)
        for name, address in (("rs1", fields.rs1), ("rs2", rs2), ("rs3", fields.rd)):
            reads[name] = read = OperandRead(pairs=self.config.mac_load_pair)
            m.submodules[f"{name}_read"] = read
            connect(m, flipped(wb), read.wb)
            m.d.comb += [
                getattr(regfile, f"{name}_addr").eq(address),
                read.addr.eq(address),
                read.stored.eq(getattr(regfile, name)),
                read.ex_we.eq(ex_we),
                read.ex_addr.eq(id_ex.ex_addr),
                read.ex_result.eq(self.ex_result),
                read.ex_late_we.eq(ex_late_we),
                read.ex_late_addr.eq(id_ex.wb_addr),
                getattr(self, name).eq(read.value),
            ]
            if self.config.mac_load_pair:
                m.d.comb += read.ex_late_pair.eq(id_ex.pair)
        return reads, regfile.rs1

    def awaits_write(self, register):
        id_ex, wb = self.id_ex, self.wb
        in_wb = (wb.addr == register) | (optional(wb, "pair") & (wb.addr[1:] == register[1:]))
        return (id_ex.valid & id_ex.ex_we & (id_ex.ex_addr == register)) | (wb.we & in_wb)

    def _stall(self, m, insn, reads, options, illegal):
        ctrl, id_ex = insn.ctrl, self.id_ex
        late_operand, jalr_waits, drains, stall = signals(1, "id_late_operand id_jalr_waits id_drains id_stall")
        goes, acts = signals(1, "id_goes id_acts")
        entry_hazards = self._entry_hazards(m, options)
        hazards = [hazard for option in options for hazard in option.hazards()]
        hazards += [ctrl.rs1_used & ~reads["rs1"].ready, ctrl.rs2_used & ~reads["rs2"].ready]
        hazards += [ctrl.rd_used & ~reads["rs3"].ready, *entry_hazards]
        waits_for_older = [(ctrl.system == System.WFI) | (ctrl.system == System.FENCE_I)]
        waits_for_older += [wait for option in options for wait in option.waits_for_older()]
        csr_write_in_ex = id_ex.valid & (id_ex.csr != CsrOp.NONE) & id_ex.csr_write
        legal = ~insn.decoder.illegal
        m.d.comb += [
            late_operand.eq(Cat(hazards).any()),
            # jalr reads its base without forwarding, so it waits for every pending write of the base
            jalr_waits.eq(ctrl.jump & (ctrl.target == TargetSel.JALR) & self.awaits_write(insn.fields.rs1)),
            drains.eq(reduce(or_, waits_for_older) & ~self.drained),
            acts.eq(illegal | (ctrl.system != System.NONE) | (ctrl.hwloop != HwLoopOp.NONE)),
            stall.eq(((late_operand | jalr_waits | drains) & legal) | (acts & id_ex.lsu.valid)),
            self.insn.ready.eq(self.ex_ready & ~stall & ~csr_write_in_ex & ~self.hold),
            goes.eq(self.insn.valid & self.insn.ready),
            self.issue.eq(goes & ~self.kill),
            self.load_use_stall.eq(self.insn.valid & ~self.kill & late_operand & legal),
            self.jump_register_stall.eq(self.insn.valid & ~self.kill & jalr_waits & legal),
        ]
        if self.config.rvfi:
            late_mac_load = reduce(or_, entry_hazards, optional(id_ex, "wb_base")) | optional(id_ex, "pair")
            if self.config.requantise:
                late_mac_load |= id_ex.requantise.valid
            causes = {
                WaitCause.CSR: csr_write_in_ex,
                WaitCause.SYNC: insn.decoder.illegal,
                WaitCause.MAC_LOAD: late_operand & (late_mac_load | insn.is_exact),
                WaitCause.LOAD_USE: late_operand,
                WaitCause.JUMP_REGISTER: jalr_waits,
            }
            self._report_cause(m, causes)
            if self.config.mac_load_pair:
                m.d.comb += self.id_pair.eq(insn.is_pair)
        return goes

    def _report_cause(self, m, causes):
        m.d.comb += self.id_wait.eq(WaitCause.SYNC)
        for cause, holds in reversed(causes.items()):
            with m.If(holds):
                m.d.comb += self.id_wait.eq(cause)

    def _entry_hazards(self, m, options):
        reads = [read for option in options for read in option.reads_loaded_entry()]
        if not reads:
            return []
        loads_entry = Signal(name="loads_entry")
        m.d.comb += loads_entry.eq(self.id_ex.valid & self.id_ex.nn_we)
        return [loads_entry & reduce(or_, reads)]

    def _is_illegal(self, m, insn, options):
        m.submodules.csr_check = csr_check = CsrCheck(self.config)
        m.d.comb += [csr_check.addr.eq(operand(insn.word, "csr")), csr_check.write.eq(insn.writes_csr)]
        if self.config.debug:
            m.d.comb += csr_check.debug_mode.eq(self.debug_mode)
        illegal = insn.decoder.illegal | (insn.accesses_csr & ~csr_check.legal) | self.insn.payload.error
        return reduce(or_, [condition for option in options for condition in option.illegal()], illegal)

    def _constants(self, m, insn, rs1_stored):
        payload, ctrl = self.insn.payload, insn.ctrl
        m.submodules.immediates = immediates = Immediates()
        m.d.comb += [
            immediates.word.eq(payload.word),
            immediates.compressed.eq(payload.compressed),
            immediates.sel.eq(ctrl.imm),
            immediates.target_sel.eq(ctrl.target),
        ]
        target = Signal(32)
        is_jalr = ctrl.target == TargetSel.JALR
        # the target adder also computes rs1 plus summand of pv.rqx*
        offset = Mux(insn.is_exact, optional(self, "nn_lambda"), immediates.offset)
        target_sum = Mux(is_jalr | insn.is_exact, rs1_stored, payload.pc) + offset
        m.d.comb += target.eq(Cat(target_sum[0] & ~is_jalr, target_sum[1:]))
        return immediates.imm, target

    def _act_in_id(self, m, insn, goes, illegal, target, op_a):
        payload, intent, ctrl, excepted = self.insn.payload, self.intent, insn.ctrl, insn.excepted
        is_ecall, is_ebreak = ctrl.system == System.ECALL, ctrl.system == System.EBREAK
        cause = Mux(is_ebreak, ExceptionCause.BREAKPOINT, ExceptionCause.ENVIRONMENT_CALL)
        no_insn = Mux(payload.error, ExceptionCause.INSTRUCTION_ACCESS_FAULT, ExceptionCause.ILLEGAL_INSTRUCTION)
        m.d.comb += [
            excepted.eq(illegal | is_ecall | is_ebreak),
            intent.jump.eq(goes & ctrl.jump & ~illegal),
            intent.trap.eq(goes & excepted),
            intent.system.eq(goes & ~excepted & (ctrl.system != System.NONE)),
            intent.follows.eq(goes & ~excepted & ~ctrl.jump & (ctrl.system != System.MRET)),
            self.jump.valid.eq(intent.jump & ~self.kill),
            self.jump.target.eq(target),
            self.trap.valid.eq(intent.trap & ~self.kill),
            self.trap.cause.eq(Mux(illegal, no_insn, cause)),
            self.system.valid.eq(intent.system & ~self.kill),
            self.system.kind.eq(ctrl.system),
            self.id_leaves.eq(intent.follows & ~self.kill),
            self.id_late.eq(ctrl.branch | insn.accesses_csr),
            self.hwloop.valid.eq(self.issue & ~illegal & (ctrl.hwloop != HwLoopOp.NONE)),
        ]
        m.d.comb += set_up_loop(self.hwloop, ctrl.hwloop, payload, op_a, target)

    def _select_factors(self, m, insn, options, op_a, op_b):
        """Select the factors of a dot product for the factor registers.

        Kernels multiply one activation word with several weights. A change of factor a costs more energy, so the
        activation is always factor a.
        """
        m.d.comb += [self.dotp_a.eq(op_a), self.dotp_b.eq(op_b), self.dotp_ctrl.eq(insn.ctrl.ex.dotp)]
        for option in options:
            option.select_factors(op_b)

    def _writes(self, m, insn, options):
        ex_write, wb_write = insn.ctrl.ex_write, insn.ctrl.wb_write
        for option in options:
            ex_write, wb_write = option.select_writes(ex_write, wb_write)
        ex_addr = Mux(ex_write == WriteSel.RS1, insn.fields.rs1, insn.fields.rd)
        wb_addr = Mux(wb_write == WriteSel.RS1, insn.fields.rs1, insn.fields.rd)
        ex_we = (ex_write != WriteSel.NONE) & ex_addr.any()
        wb_we = (wb_write != WriteSel.NONE) & wb_addr.any()
        for option in options:
            ex_we, wb_we = option.enable_writes(ex_we, wb_we, wb_addr)
        return [
            self.id_ex.ex_we.eq(ex_we),
            self.id_ex.ex_addr.eq(ex_addr),
            self.id_ex.wb_we.eq(wb_we),
            self.id_ex.wb_addr.eq(wb_addr),
        ]

    def _issue(self, m, insn, options, issues, operands):
        """Load the ID/EX register. Operands are loaded only if the instruction uses them, to keep idle units quiet.

        A dropped instruction, which is known late in the cycle, is loaded too; only the valid bit of EX matters then.
        """
        id_ex, ctrl = self.id_ex, insn.ctrl
        op_a, op_b, op_c = operands
        accesses = Signal(name="accesses")
        multiplies = (ctrl.ex.unit == Unit.DOTP) | insn.multiplies_on_arrays
        is_dotp = multiplies | insn.is_pair
        uses_alu = reduce(or_, [use for option in options for use in option.uses_alu()], ~multiplies)
        uses_c = ctrl.rd_used | (ctrl.op_c != OpCSel.RD) | is_dotp
        m.d.comb += [
            accesses.eq(reduce(or_, [access for option in options for access in option.accesses()], ctrl.lsu.valid)),
            self.intent.accesses.eq(issues & accesses),
            self.dotp_enable.eq(issues & is_dotp),
        ]
        with m.If(self.ex_ready | self.flush):
            m.d.sync += [id_ex.valid.eq(issues & ~self.kill), id_ex.lsu.valid.eq(0)]
        with m.If(issues):
            m.d.sync += [
                *assign_by_name(id_ex.ctrl, ctrl.ex, "unit", "mult", "div"),
                id_ex.lsu.eq(ctrl.lsu),
                id_ex.lsu.valid.eq(accesses & ~self.kill),
                id_ex.shamt.eq(Mux(ctrl.shamt_rs2, self.rs2, operand(insn.word, "Is3"))),
                *self._writes(m, insn, options),
                id_ex.branch.eq(ctrl.branch),
                id_ex.csr.eq(ctrl.csr),
                id_ex.csr_write.eq(insn.writes_csr),
            ]
            with m.If(uses_c):
                m.d.sync += [id_ex.op_c.eq(op_c), id_ex.ctrl.dotp.accumulate.eq(ctrl.ex.dotp.accumulate)]
            with m.If(uses_alu):
                m.d.sync += [id_ex.op_a.eq(op_a), id_ex.op_b.eq(op_b), id_ex.ctrl.alu.eq(ctrl.ex.alu)]
            for option in options:
                option.load()
        for option in options:
            option.drive(issues)
