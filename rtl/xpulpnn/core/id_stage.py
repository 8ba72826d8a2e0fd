"""ID stage: decoding, operand read, hazards, and the ID/EX pipeline register."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from xpulpnn.component import Component, In, Out, connect, flipped, following, signals
from xpulpnn.config import CoreConfig
from xpulpnn.core import pipeline
from xpulpnn.core.control import CsrOp, HwLoopOp, OpCSel, System, TargetSel, Unit, WriteSel
from xpulpnn.core.csr_check import CsrCheck
from xpulpnn.core.csr_file import NN_ENTRY_BITS
from xpulpnn.core.decoder import Decoder
from xpulpnn.core.early_alu import is_early, takes_two_cycles
from xpulpnn.core.immediates import Immediates
from xpulpnn.core.operand_select import entry_load, nn_waits, select_factors, select_operands, set_up_loop, tell_arrays
from xpulpnn.core.operands import OperandRead
from xpulpnn.core.regfile import RegFile
from xpulpnn.core.requantiser import lane_of
from xpulpnn.dotp.ctrl import DotpCtrl
from xpulpnn.isa.csr import NN_BASE
from xpulpnn.isa.machine import ExceptionCause
from xpulpnn.isa.retirement import WaitCause

_IS_DRET = 30  # Bit of an instruction word that differs between dret and mret.


class IdStage(Component):
    """Decodes an instruction, reads its operands and issues it to EX.

    One instruction per cycle. It waits for a value that is only made in WB (one cycle behind a load, also for the base
    or the NN-RF entry of a Mac&Load), jalr for any write of its base still in the pipeline, every instruction for a CSR
    write in EX, wfi and fence.i until everything older is complete, what acts in ID (exceptions, system instructions,
    hardware-loop set-up) for the answer to the access in EX. A taken branch in EX kills the instruction in ID.
    Reset empties the ID/EX register and clears the registers.
    """

    def __init__(self, config: CoreConfig):  # Instructions present.
        ports = {
            "insn": In(pipeline.InsnSignature()),  #: Instruction stream.
            "ex_ready": In(1),  #: EX takes an instruction at the end of this cycle; EX and WB are done.
            "ex_result": In(32),  #: Result of the instruction in EX, for port B and forwarding.
            "ex_write": In(1),  #: That instruction leaves EX: port B writes.
            "kill": In(1),  #: The instruction in ID is dropped.
            "flush": In(1),  #: The instruction in EX is dropped; not with ``ex_ready``.
            "hold": In(1),  #: The instruction in ID stays.
            "drained": In(1),  #: EX and WB are empty.
            #: wb: Write under way through port A, for forwarding.
            "wb": In(pipeline.WbSignature(pairs=config.mac_load_pair)),
            "wb_write": In(1),  #: Port A writes at the end of this cycle.
            "wb_wdata": In(32),  #: Value that it writes.
            "id_ex": Out(pipeline.IdExSignature(config)),  #: Pipeline register.
            "issue": Out(1),  #: The instruction leaves ID at the end of this cycle.
            "rs1": Out(32),  #: Value of the register in field rs1.
            "rs2": Out(32),  #: Value of the register in field rs2.
            "rs3": Out(32),  #: Value of the register in field rd.
            "jump": Out(pipeline.RedirectSignature()),  #: jal or jalr leaves ID.
            "trap": Out(pipeline.TrapSignature()),  #: Exception of the instruction leaving ID.
            "system": Out(pipeline.SystemSignature()),  #: System instruction leaving ID.
            "hwloop": Out(pipeline.HwLoopSignature()),  #: Hardware-loop set-up leaving ID.
            #: intent: What the instruction does when it leaves ID, without ``kill``.
            "intent": Out(pipeline.IntentSignature()),
            #: id_leaves: The instruction leaves ID and is followed by the next one in the program: no jump, mret or
            #:   exception.
            "id_leaves": Out(1),
            "id_late": Out(1),  #: The instruction in ID is a branch or a CSR access, which act in EX.
            "load_use_stall": Out(1),  #: The instruction in ID waits for a value that is loaded.
            "jump_register_stall": Out(1),  #: A jalr in ID waits for its base.
            "dotp_enable": Out(1),  #: A dot product leaves ID at the end of this cycle.
            "dotp_ctrl": Out(DotpCtrl),  #: Its control word.
            "dotp_a": Out(32),  #: Its factor a: rs1, of the nn form of Mac&Load the activation, of Compute&Update rs2.
            "dotp_b": Out(32),  #: Its factor b: operand 2, of Mac&Load the weight or NN-RF entry.
        }
        if config.mac_load_nn:
            #: nn_act_addr: Activation entry of the NN-RF to read.
            #: nn_act: Its word.
            ports |= {"nn_act_addr": Out(1 + config.mac_load_pair), "nn_act": In(32)}
        if config.mac_load:
            #: nn_wgt_addr: Weight entry of the NN-RF to read.
            #: nn_wgt: Its word.
            ports |= {"nn_wgt_addr": Out(config.nn_wgt_addr_bits), "nn_wgt": In(32)}
        if config.requantise_exact:
            #: nn_lambda: Entry 7 of the NN-RF, the summand of a requantisation.
            #: summand_pending: That entry is going to be written from WB.
            ports |= {"nn_lambda": In(32), "summand_pending": In(1)}
        if config.debug:
            #: debug_mode: The core is in debug mode; only with it.
            ports["debug_mode"] = In(1)
        if config.rvfi:
            #: id_wait: Why the instruction in ID stays if it is neither held nor dropped and EX is ready; on request.
            ports["id_wait"] = Out(WaitCause)
            if config.mac_load_pair:
                #: id_pair: It is a Mac&Load of two products.
                ports["id_pair"] = Out(1)
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.decoder = decoder = Decoder(self.config)
        m.d.comb += decoder.word.eq(self.insn.payload.word)
        ctrl = decoder.ctrl
        reads, regfile = self._operand_reads(m, decoder)

        waits = [ctrl.rs1_used & ~reads["rs1"].ready, ctrl.rs2_used & ~reads["rs2"].ready]
        waits.append(ctrl.rd_used & ~reads["rs3"].ready)
        if self.config.mac_load:
            waits.append(nn_waits(m, self.config, self, decoder))
        late_operand, jalr_waits, drains, stall = signals(1, "id_late_operand id_jalr_waits id_drains id_stall")
        goes, illegal, acts = signals(1, "id_goes illegal id_acts")
        id_ex, wb, rs1 = self.id_ex, self.wb, self.insn.payload.word[15:20]
        pending = id_ex.valid & id_ex.ex_we & (id_ex.ex_addr == rs1)
        arrives = wb.addr == rs1
        if self.config.mac_load_pair:
            arrives |= wb.pair & (wb.addr[1:] == rs1[1:])
        if self.config.requantise_exact:
            # what is scaled comes from the register file and the NN-RF, past all that forwards
            exact = self._is_exact(decoder)
            waits.insert(0, exact & (pending | (wb.we & arrives) | self.summand_pending))
        waits_for_older = (ctrl.system == System.WFI) | (ctrl.system == System.FENCE_I)
        if self.config.nn_csrs:
            # a CSR of the NN-RF is accessed when nothing loads a word of it
            is_entry = self.insn.payload.word[20 + NN_ENTRY_BITS : 32] == NN_BASE >> NN_ENTRY_BITS
            waits_for_older |= (ctrl.csr != CsrOp.NONE) & is_entry
        csr_write_in_ex = self.id_ex.valid & (self.id_ex.csr != CsrOp.NONE) & self.id_ex.csr_write
        m.d.comb += [
            late_operand.eq(Cat(waits).any()),
            # jalr takes its base from the register file, so it waits for every write of it still under way
            jalr_waits.eq(ctrl.jump & (ctrl.target == TargetSel.JALR) & (pending | (wb.we & arrives))),
            drains.eq(waits_for_older & ~self.drained),
            acts.eq(illegal | (ctrl.system != System.NONE) | (ctrl.hwloop != HwLoopOp.NONE)),
            stall.eq(((late_operand | jalr_waits | drains) & ~decoder.illegal) | (acts & self.id_ex.lsu.valid)),
            self.insn.ready.eq(self.ex_ready & ~stall & ~csr_write_in_ex & ~self.hold),
            goes.eq(self.insn.valid & self.insn.ready),
            self.issue.eq(goes & ~self.kill),
            self.load_use_stall.eq(self.insn.valid & ~self.kill & late_operand & ~decoder.illegal),
            self.jump_register_stall.eq(self.insn.valid & ~self.kill & jalr_waits & ~decoder.illegal),
        ]
        if self.config.rvfi:
            late_mac_load = waits[-1] | self.id_ex.wb_base if self.config.mac_load else 0
            if self.config.mac_load_pair:
                late_mac_load |= self.id_ex.pair
            if self.config.requantise:
                late_mac_load |= self.id_ex.requantise.valid
            if self.config.requantise_exact:
                late_mac_load |= exact
            causes = [(csr_write_in_ex, WaitCause.CSR), (decoder.illegal, WaitCause.SYNC)]
            causes += [(late_operand & late_mac_load, WaitCause.MAC_LOAD), (late_operand, WaitCause.LOAD_USE)]
            causes += [(jalr_waits, WaitCause.JUMP_REGISTER)]
            m.d.comb += self.id_wait.eq(WaitCause.SYNC)
            for holds, cause in reversed(causes):  # the first that holds
                with m.If(holds):
                    m.d.comb += self.id_wait.eq(cause)
            if self.config.mac_load_pair:
                m.d.comb += self.id_pair.eq(decoder.pair.valid)
        m.submodules.csr_check = csr_check = CsrCheck(self.config)
        m.d.comb += [
            csr_check.addr.eq(self.insn.payload.word[20:32]),
            csr_check.write.eq(self._csr_writes(ctrl)),
            illegal.eq(self._illegal(m, decoder, csr_check)),
        ]
        immediate, target = self._constants(m, decoder, regfile.rs1)
        payload, ex_result = self.insn.payload, self.ex_result
        exact = self._is_exact(decoder) if self.config.requantise_exact else None
        operands = select_operands(m, self.config, ctrl, reads, ex_result, payload, immediate, target, exact)
        excepted = self._leave_sideways(m, ctrl, goes, illegal, target, operands[0])
        select_factors(m, self, decoder, operands)
        issues = goes & ~excepted
        if self.config.debug:
            # dret is not issued: it would be counted outside of debug mode
            issues &= ~(self.debug_mode & (ctrl.system == System.MRET))
        self._issue(m, decoder, issues, operands)
        if self.config.qnt:
            with m.If(self.issue & ~excepted):
                m.d.sync += self.id_ex.quantise.eq(decoder.quantise)
            with m.If(decoder.quantise.valid):
                m.d.comb += self.intent.accesses.eq(goes & ~excepted)
        return m

    def _illegal(self, m, decoder, csr_check):
        """Return whether the instruction is illegal, or could not be fetched."""
        ctrl = decoder.ctrl
        illegal = decoder.illegal | ((ctrl.csr != CsrOp.NONE) & ~csr_check.legal) | self.insn.payload.error
        if self.config.debug:
            m.d.comb += csr_check.debug_mode.eq(self.debug_mode)
            # in debug mode dret returns, outside mret
            illegal |= (ctrl.system == System.MRET) & (self.insn.payload.word[_IS_DRET] ^ self.debug_mode)
        return illegal

    def _csr_writes(self, ctrl):
        """Return whether a CSR instruction writes: set and clear with x0 or a zero immediate only read."""
        return (ctrl.csr == CsrOp.WRITE) | self.insn.payload.word[15:20].any()

    def _operand_reads(self, m, decoder):
        word = self.insn.payload.word
        m.submodules.regfile = regfile = RegFile(self.config.regfile, pairs=self.config.mac_load_pair)
        m.d.comb += [
            regfile.we_a.eq(self.wb_write),
            regfile.addr_a.eq(self.wb.addr),
            regfile.data_a.eq(self.wb_wdata),
            regfile.we_b.eq(self.ex_write),
            regfile.addr_b.eq(self.id_ex.ex_addr),
            regfile.data_b.eq(self.ex_result),
        ]
        if self.config.mac_load_pair:
            m.d.comb += [regfile.pair.eq(self.wb.pair), regfile.odd_a.eq(self.wb.odd)]
        ex_we, ex_late_we = Signal(), Signal()
        m.d.comb += [ex_we.eq(self.id_ex.valid & self.id_ex.ex_we), ex_late_we.eq(self.id_ex.valid & self.id_ex.wb_we)]
        reads = {}
        fields = {"rs1": word[15:20], "rs2": word[20:25], "rs3": word[7:12]}
        if self.config.mac_load_pair:
            # the second sum is read in place of rs2
            fields["rs2"] = Mux(decoder.pair.valid, Cat(Const(1), word[8:12]), fields["rs2"])
        for name, field in fields.items():
            reads[name] = read = OperandRead(pairs=self.config.mac_load_pair)
            m.submodules[f"{name}_read"] = read
            connect(m, flipped(self.wb), read.wb)
            m.d.comb += [
                getattr(regfile, f"{name}_addr").eq(field),
                read.addr.eq(field),
                read.stored.eq(getattr(regfile, name)),
                read.ex_we.eq(ex_we),
                read.ex_addr.eq(self.id_ex.ex_addr),
                read.ex_result.eq(self.ex_result),
                read.ex_late_we.eq(ex_late_we),
                read.ex_late_addr.eq(self.id_ex.wb_addr),
                getattr(self, name).eq(read.value),
            ]
            if self.config.mac_load_pair:
                m.d.comb += read.ex_late_pair.eq(self.id_ex.pair)
        return reads, regfile

    def _is_exact(self, decoder):
        """Return whether the instruction is pv.rqx*, a requantisation with signed factors; None without these."""
        return decoder.requantise.valid & decoder.ctrl.ex.mult.a_signed if self.config.requantise_exact else None

    def _constants(self, m, decoder, rs1_stored):
        payload, ctrl = self.insn.payload, decoder.ctrl
        m.submodules.immediates = immediates = Immediates()
        m.d.comb += [
            *following(immediates, payload, "word", "compressed"),
            immediates.sel.eq(ctrl.imm),
            immediates.target_sel.eq(ctrl.target),
        ]
        target = Signal(32)
        is_jalr = ctrl.target == TargetSel.JALR
        from_register, offset = is_jalr, immediates.offset
        if (exact := self._is_exact(decoder)) is not None:
            # the adder makes what is scaled, too: rs1 and the summand
            from_register, offset = is_jalr | exact, Mux(exact, self.nn_lambda, offset)
        target_sum = Mux(from_register, rs1_stored, payload.pc) + offset
        m.d.comb += target.eq(Cat(target_sum[0] & ~is_jalr, target_sum[1:]))
        return immediates.imm, target

    def _leave_sideways(self, m, ctrl, goes, illegal, target, op_a):
        """Requests to the core: jumps, exceptions, system instructions, hardware loops. Returns whether it traps."""
        payload = self.insn.payload
        intent = self.intent
        excepted = Signal()
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
            self.id_late.eq(ctrl.branch | (ctrl.csr != CsrOp.NONE)),
        ]
        m.d.comb += self.hwloop.valid.eq(self.issue & ~illegal & (ctrl.hwloop != HwLoopOp.NONE))
        m.d.comb += set_up_loop(self.hwloop, ctrl.hwloop, payload, op_a, target)
        return excepted

    def _is_slow(self, ctrl):
        """Return whether an instruction for EX takes several cycles with late results."""
        slow = (ctrl.unit == Unit.MULT) | (ctrl.unit == Unit.DIV)
        return slow | ((ctrl.unit == Unit.ALU) & takes_two_cycles(ctrl.alu)) if self.config.xpulpv2 else slow

    def _issue(self, m, decoder, loads, operands):
        """The ID/EX register. Operands are loaded only where the instruction uses them, to keep idle units quiet.

        What is dropped, which is known late in the cycle, is loaded too: all that counts then is that EX is empty.
        """
        word, id_ex, ctrl = self.insn.payload.word, self.id_ex, decoder.ctrl
        op_a, op_b, op_c = operands
        rs1_field, rd_field = word[15:20], word[7:12]
        accesses = Signal(name="accesses")
        is_dotp = ctrl.ex.unit == Unit.DOTP
        if self.config.multiplies_by_dotp:
            is_mult, mult = ctrl.ex.unit == Unit.MULT, ctrl.ex.mult
            is_dotp |= is_mult
        uses_alu: Value = ~is_dotp
        if self.config.requantise_exact:
            uses_alu |= decoder.requantise.valid  # of which operand b is shift and zero point
        if self.config.mac_load_pair:
            is_pair = decoder.pair.valid
            is_dotp |= is_pair
        uses_c = ctrl.rd_used | (ctrl.op_c != OpCSel.RD) | is_dotp
        m.d.comb += [self.intent.accesses.eq(loads & accesses), self.dotp_enable.eq(loads & is_dotp)]
        with m.If(self.ex_ready | self.flush):
            m.d.sync += [id_ex.valid.eq(loads & ~self.kill), id_ex.lsu.valid.eq(0)]
        ex_write, wb_write = ctrl.ex_write, ctrl.wb_write
        is_late: Value = Const(0)
        if self.config.late_results:
            is_late = (ex_write == WriteSel.RD) & ~((ctrl.ex.unit == Unit.ALU) & is_early(ctrl.ex.alu))
            # of Mac&Load the base is early, which takes the place of the product
            ex_write, wb_write = Mux(is_late, wb_write, ex_write), Mux(is_late, ex_write, wb_write)
        ex_addr = Mux(ex_write == WriteSel.RS1, rs1_field, rd_field)
        wb_addr = Mux(wb_write == WriteSel.RS1, rs1_field, rd_field)
        wb_we = (wb_write != WriteSel.NONE) & wb_addr.any()
        ex_we = (ex_write != WriteSel.NONE) & ex_addr.any()
        if self.config.multiplies_by_dotp:
            # the upper word of a product goes through port A, and what is shifted in WB
            in_wb = mult.op.as_value().any()
            ex_we, wb_we = ex_we & ~in_wb, wb_we | (in_wb & wb_addr.any())
        m.d.comb += accesses.eq(ctrl.lsu.valid)
        if self.config.mac_load:
            is_mac_load, reloads, loads_entry, entry = entry_load(m, self.config, self, decoder)
            m.d.comb += accesses.eq(ctrl.lsu.valid | reloads)
            uses_alu |= reloads
            if self.config.late_results:
                ex_we &= ~is_mac_load | reloads
            else:
                wb_we &= ~is_mac_load | (reloads & (rs1_field != rd_field))
            parameter = id_ex.requantise.load if self.config.requantise else 0
            if self.config.mac_load_pair:
                parameter |= id_ex.pair
            if not self.config.late_results:
                m.d.comb += id_ex.wb_base.eq(id_ex.nn_we & ~parameter)
            with m.If(loads):
                m.d.sync += id_ex.nn_we.eq(loads_entry)
                with m.If(loads_entry):
                    m.d.sync += id_ex.nn_addr.eq(entry)
        with m.If(loads):
            m.d.sync += [
                *following(id_ex.ctrl, ctrl.ex, "unit", "mult", "div"),
                id_ex.lsu.eq(ctrl.lsu),
                id_ex.lsu.valid.eq(accesses & ~self.kill),
                id_ex.shamt.eq(Mux(ctrl.shamt_rs2, self.rs2, word[25:30])),
                id_ex.ex_we.eq(ex_we),
                id_ex.ex_addr.eq(ex_addr),
                id_ex.wb_we.eq(wb_we),
                id_ex.wb_addr.eq(wb_addr),
                *following(id_ex, ctrl, "branch", "csr"),
                id_ex.csr_write.eq(self._csr_writes(ctrl)),
            ]
            with m.If(uses_c):
                m.d.sync += [id_ex.op_c.eq(op_c), id_ex.ctrl.dotp.accumulate.eq(ctrl.ex.dotp.accumulate)]
            with m.If(uses_alu):
                m.d.sync += id_ex.op_a.eq(op_a)
                added = [id_ex.op_b.eq(op_b), id_ex.ctrl.alu.eq(ctrl.ex.alu)]
                if self.config.mac_load_pair:
                    # a load of the same kind in EX has the same there
                    with m.If(~(is_pair & id_ex.pair & id_ex.lsu.valid)):
                        m.d.sync += added
                else:
                    m.d.sync += added
        if self.config.mac_load_pair:
            with m.If(loads):
                m.d.sync += id_ex.pair.eq(is_pair)
                with m.If(is_pair):
                    m.d.sync += id_ex.later_pair.eq(word[20])
                with m.If(is_pair & ctrl.rs2_used):
                    m.d.sync += id_ex.second_sum.eq(self.rs2)
        if self.config.late_results:
            with m.If(loads):
                m.d.sync += [id_ex.late.eq(is_late), id_ex.slow.eq(self._is_slow(ctrl.ex))]
        if self.config.performance_counters:
            with m.If(loads):
                m.d.sync += id_ex.elw.eq(ctrl.elw)
        if self.config.requantise:
            with m.If(loads):
                m.d.sync += [
                    id_ex.requantise.eq(decoder.requantise),
                    id_ex.lane.eq(lane_of(word, self._is_exact(decoder))),
                ]
        if self.config.dotp_operands_in_id:
            with m.If(self.dotp_enable):
                if self.config.multiplies_by_dotp:
                    tell_arrays(m, id_ex, self.dotp_ctrl, mult, is_mult, is_pair)
                else:
                    m.d.sync += following(id_ex, self.dotp_ctrl, "fmt", "a_signed", "b_signed", into="dotp_")
                m.d.sync += following(id_ex, self, "dotp_a", "dotp_b")
