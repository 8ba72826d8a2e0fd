"""Tables of faults of the core, of Wishbone bridges and of caches, with the checks that must find each fault.

The format of a table is that of :func:`~xpulpnn_sim.proofs.faults.fault.fault_table`.
"""

from collections.abc import Collection

from amaranth.hdl import Const

from xpulpnn.config import CoreConfig
from xpulpnn.core.prefetch import DEPTH
from xpulpnn.dotp.ctrl import DotpCtrl
from xpulpnn.isa.csr import CSR_BY_NAME, PERFORMANCE_EVENTS
from xpulpnn.isa.machine import NNRF_WEIGHTS, SECOND_PAIR, XLEN
from xpulpnn_sim.proofs.faults.fault import PROGRAMS, Fault, fault_table

_WAITS = " | ".join(
    f"decoder.ctrl.{field}_used & ~{port}_read.ready" for port, field in (("rs1", "rs1"), ("rs2", "rs2"), ("rs3", "rd"))
)
"""Condition that an instruction waits for its registers, without any other reasons to wait."""

_EXPANDED = "Cat(right, Const(0, 32))[:32]"
_ADDI4SPN, _SRAI = "word[:2] == 0, word[13:16] == 0", "word[:2] == 1, word[13:16] == 0b100, word[10:12] == 1"
_REDIRECTED = "Mux(net.redirects, Mux(redirect, target[2:], loop_start[2:]), net.ahead)"
_ENTRY_IN_USE = "Mux((decoder.ctrl.mac_load == MacLoad.NN) & insn.payload.word[23], nn_act_addr, right)"
_BREAKS = "~net.illegal & (decoder.ctrl.system == System.EBREAK)"
_ENTRY_9 = f"decoder.pair.valid & (id_ex.nn_addr == {SECOND_PAIR + 1})"
_OTHERS_ILLEGAL = "((decoder.ctrl.csr != CsrOp.NONE) & ~csr_check.legal) | insn.payload.error"
_SIGNED_HALF = "Cat(net.aligned[:16], net.aligned[15].replicate(16))"

CORE_FAULTS = fault_table(
    f"""
== core.operands:OperandRead
nothing is forwarded from EX: from_ex := 0 -> reg
nothing is forwarded from WB: other := stored -> reg, registers, verify random
no wait for a value being loaded: ready := 1 -> reg, registers
the second sum is not forwarded: other := Mux(wb.we & (wb.addr == addr), wb.data, stored) -> registers [mac_load_pair]
no wait for a second sum: ready := ~(ex_late_we & (ex_late_addr == addr)) -> registers [mac_load_pair]
== core.id_stage:IdStage
the third operand is the second: rs3_read.addr := insn.payload.word[20:25] -> registers
x0 reads x1: regfile.rs1_addr := right | (right == 0) -> insn_add
an illegal word does nothing: net.illegal := {_OTHERS_ILLEGAL} -> ill
no wait for the entry being loaded: net.id_late_operand := {_WAITS} -> mac_load
both update bits reload the activation in use: id_ex.nn_addr := {_ENTRY_IN_USE} -> mac_load
ebreak is ecall: trap.cause := Mux({_BREAKS}, ExceptionCause.ENVIRONMENT_CALL, right) -> system, verify random
fence.i does not wait for what is older: net.id_drains := right & (decoder.ctrl.system != System.FENCE_I) -> system
no wait for a second activation being loaded: net.id_late_operand := Mux({_ENTRY_9}, {_WAITS}, right) -> mac_load
    [mac_load_pair]
== core.lsu:Lsu
lhu extends the sign: wb_rdata := Mux(net.wb_size == MemSize.HALF, {_SIGNED_HALF}, right) -> insn_lhu
lb does not extend the sign: wb_rdata := Mux(net.wb_size == MemSize.BYTE, net.aligned[:8], right) -> insn_lb
lh across words is one access: net.crosses := Mux(ex_ctrl.size == MemSize.HALF, 0, right) -> data, verify random
the second access goes to the first word: data.addr := Cat(Const(0, 2), ex_address[2:]) -> data
bytes of a load in the wrong order: net.aligned := Mux(net.wb_byte == 1, net.low.rotate_right(8), right) -> data
a failed access stays under way: net.outstanding := Mux(ex_granted, right, data.err) -> liveness, progress,
    verify random
a second access before the first is answered: data.req := ex_ctrl.valid -> obi
== core.compressed_decoder:CompressedDecoder
c.addi4spn mixes two bits: expanded := Mux(Cat({_ADDI4SPN}).all(), (lambda x: Cat(x[:22], x[23], x[22],
    x[24:]))({_EXPANDED}), right) -> insn_c_addi4spn
c.srai shifts in zeros: expanded := Mux(Cat({_SRAI}).all(), {_EXPANDED} & ~(1 << 30), right) -> insn_c_srai,
    verify random
== core.immediates:Immediates
lui loses a bit: imm := Mux(sel == ImmSel.U_TYPE, right & ~0x1000, right) -> insn_lui
backward branches go forward: offset := Mux(target_sel == TargetSel.BRANCH, right[:12], right) -> insn_beq
the link of a compressed jump: imm := Mux(sel == ImmSel.LINK, 4, right) -> insn_c_jalr
== core.simd_alu:SimdAlu
unsigned comparisons are signed: comparator.signed := 1 -> insn_bltu
== core.csr_file:CsrFile
csrrc sets: wdata := Mux(csr.op == CsrOp.CLEAR, csr.rdata | csr.wdata, right) -> csrw_mscratch, system
mepc loses a bit: net.mepc_bits := Mux(enter, right, right[:30]) -> csrc_any_mepc, system, verify random
mret leaves interrupts off: net.mstatus_bits[0] := right & ~leave -> system, verify random
== core.csr_check:CsrCheck
mvendorid can be written: legal := 1 -> csrw_mvendorid
== core.prefetch:PrefetchBuffer
a redirect changes a waiting request: instr.addr := Cat(Const(0, 2), {_REDIRECTED}) -> obi
a dropped word is taken: net.arriving := instr.rvalid -> bus_imem, fetches
fetching stops after a redirect: net.running := 0 -> hang
the second word of an instruction may fail: error := net.first_error -> bus_imem_fault, fetches
== core.if_stage:IfStage
a taken branch does not drop what is in ID: insn.valid := Mux(redirect, net.take | (insn.valid & ~insn.ready), right)
    -> pc_fwd
== core.ex_stage:ExStage
a quotient is a product: result := Mux(ctrl.unit == Unit.DIV, mult.result, right) -> insn_div
== core.hwloops:HwLoops
a taken branch counts: net.counted := right | Mux(ex_leaves, net.late, 0) -> loops, verify random
both loops count at a common end: net.id_goes_back[1] := net.id_again[1] -> loops, verify random
fetching past the end of a loop is not corrected: wrong := 0 -> loops
== core.controller:Controller
an interrupt does not wait for what is older: irq_ack := net.interrupts & id_valid & ~net.sleeping & ~net.faulted ->
    interrupts
an interrupt drops the instruction behind it: enter_pc := Mux(net.faulted, right, id_next) -> interrupts,
    verify random
fence.i keeps what was fetched: net.flush := 0 -> system, verify random
wfi sleeps although an interrupt waits: net.sleeping := right | net.sleeping -> progress
== core.regfile:RegFile
an odd register takes the first sum: net.x5 := Mux(we_b & (addr_b == 5), right, data_a) -> registers [mac_load_pair]
== core.wb_stage:WbStage
two registers are restored behind an access fault: wb.pair := right | fault -> registers [mac_load_pair]
no wait for a summand in WB: summand_pending := 0 -> mac_load [reads_factor requantise_exact]
== dotp.nnrf:NnRf
the factor on its way to its entry is missed: wgt := Mux(wgt_addr == {NNRF_WEIGHTS}, nn_kappa, right) -> mac_load
    [reads_factor requantise_exact]
"""
)
"""Faults that checks of riscv-formal or properties of the pipeline must find."""

HALT_FAULTS = fault_table(
    """
== core.controller:Controller
dpc is behind the instruction that has not been executed: net.access_pc := Mux(net.halts, id_next[-len(right) :],
    right)
dpc is not changed by a halt: net.access_pc := Mux(debug.enter, net.access_pc, right)
a halt does not wait for what is older: net.halts := halting & id_valid & ~net.sleeping & ~net.dropped
a request to halt does not hold what follows: halting := net.stepped
an interrupt is taken while the core halts: irq_ack := net.interrupts & id_valid & ~busy & ~net.sleeping &
    ~net.faulted
an access that fails when the core halts is lost: net.aborted := 0
a halt enters a trap: enter := right | debug.enter
debug mode begins at the address for exceptions: net.other_target := Mux(net.halts, debug_exception_addr, right)
the core resumes where a trap returns: debug.pc := mepc
a step ends before it has begun: net.stepped := 1
interrupts are taken in debug mode: irq_masked := 0
""",
    checks="halts",
    needs="debug",
)
"""Faults of debug mode that the pipeline property ``halts`` must find."""

_IS_NARROWER = "Value.cast(fmt)[ElemFmt.{}]"  # bit of the one-hot lane format for an element format and narrower ones
_CLIP_BOUND = "Mux(word[20:25].any(), (Const(1, 32) << word[20:25])[:32] - 1, 0)"
_CLB = "Mux(net.missing, word[0].replicate(5), net.first)"
_SELECTOR = "Cat(op_b[24:26], op_b[31])"
_WRITTEN = "we & (waddr == wgt_addr + activations)"
_DIFFER = "decoder.ctrl.ex.dotp.a_signed ^ decoder.ctrl.ex.dotp.b_signed"
_SIGNS = f"1 if len(right) == 1 else {Const.cast(DotpCtrl.const({'a_signed': 1, 'b_signed': 1})).value}"

INSTRUCTION_FAULTS = fault_table(
    f"""
== core.simd_adder:SimdAdder
carries pass from crumb to crumb: net.lane_lsbs := right & ~4 -> pv.add.c
no borrow of the lowest lane: net.carry_starts := right & ~1 -> pv.sub.n
== core.simd_shifter:SimdShifter
every other bit of nibbles does not move: net.moving_2_up_2 := Mux({_IS_NARROWER.format("N")}, right & 0x2222_2222,
    right) -> pv.sra.n
== core.simd_comparator:SimdComparator
equality of crumbs looks at one bit: net.equal_2 := right | alike & (1 << 31) -> pv.cmpeq.c
branches ask for half of the word: holds := net.relation[15] -> p.bneimm
== core.alu:Alu
clipu of 0 by a negative bound is the bound: simd_alu.clip.beyond_b := right | (ctrl.result == AluResult.CLIPU) &
    ~op_a[31] -> p.clipu, verify random
== core.bit_count:BitCount
fl1 of 0 is 31: result := Mux(count == AluCount.FL1, ~net.first, right) -> p.fl1, verify random
clb counts one more: result := Mux(count == AluCount.CLB, {_CLB}, right) -> p.clb
cnt loses the carry: result := Mux(count == AluCount.CNT, right[:5], right) -> p.cnt
== core.bit_field:BitField
fields past bit 31 wrap: net.end := net.last[:5] -> p.extract
pv.insert.b replaces nine bits: net.width_m1 := Mux(place == AluFieldPlace.BYTE, 8, right) -> pv.insert.b
== core.lane_move:LaneMove
packhi swaps its sources: moved[16:24] := Mux(net.from_b[2], op_a[:8], right) -> pv.packhi.b
shuffle2 takes its selector's sign: net.selector_3 := Mux({_IS_NARROWER.format("B")}, {_SELECTOR}, right) ->
    pv.shuffle2.b, verify random
== core.immediates:Immediates
bit 25 is the highest of imm6: imm := Mux(sel == ImmSel.IMM6_SIGNED, word[20:26].as_signed(), right) -> pv.add.sci.b
the unsigned imm6 has a sign: imm := Mux(sel == ImmSel.IMM6_UNSIGNED, Cat(word[25], word[20:25]).as_signed(), right)
    -> pv.minu.sci.h
clipi bounds by 2 ** Is2: net.clip_bound := {_CLIP_BOUND} -> p.clipi
the short offset of a loop is signed: offset := Mux(target_sel == TargetSel.LOOP_SHORT, right[:6].as_signed(), right)
    -> lp.setupi
the immediate of a branch is unsigned: imm := Mux(sel == ImmSel.SIMM5, right[:5], right) -> p.beqimm
== core.simd_alu:SimdAlu
rounding adds a whole place: net.below := (Const(0xFFFF_FFFF, 32) >> ~shamt) & (ctrl.rounding & (ctrl.shift ==
    AluShift.NORMALISE)).replicate(32) -> p.addRNi
== core.id_stage:IdStage
the shift amount is always in the word: id_ex.shamt := insn.payload.word[25:30] -> p.subuRN
the scalar of bytes has seven bits: net.id_op_b_lane_b := right[:7] -> pv.dotsp.sc.b
the factors' signs are swapped: dotp_ctrl := right ^ Mux({_DIFFER}, {_SIGNS}, 0) -> pv.dotusp.h
the base of a Mac&Load stays if rd is x0: id_ex.wb_we := right & insn.payload.word[7:12].any() -> pv.mlsdotsup.n
pv.rqld mixes factor and summand: id_ex.nn_addr := Mux(decoder.requantise.load, 7 - insn.payload.word[20], right) ->
    pv.rqld
jalr does not wait for the second sum: net.id_jalr_waits := right & ~(wb.pair & insn.payload.word[15]) -> jalr
    [mac_load_pair]
narrower weights have no sign: widener.is_signed := 0 -> pv.mlsduosup.b.n1 [mixed_weights]
weights of a quarter are not widened: widener.quarter := 0 -> pv.mlduousp.b.c2 [mixed_weights]
the last quarter is the third: widener.part := Mux(right.all(), 2, right) -> pv.mlsduoup.h.n3 [mixed_weights]
== dotp.nnrf:NnRf
the weight of another number: wgt := Mux(~({_WRITTEN}) & (wgt_addr == 2), net.nn_wgt3, right) -> pv.mlsdotup.h
the word on its way to an entry is missed: act := Mux(act_addr, net.nn_act1, net.nn_act0) -> pv.mlsdotsp.b, mac_load,
    verify random
the second product is of the first pair: act2 := net.nn_act1 -> pv.mlsduosp.b [mac_load_pair]
== core.lsu:Lsu
post-increment accesses go to the sum: ex_address := ex_sum -> p.lw
p.lh does not extend the sign: wb_rdata := Mux(net.wb_size == MemSize.HALF, net.aligned[:16], right) -> p.lh
== core.requantiser:Requantiser
pv.rqs clips a bit too late: net.too_large := Mux(ctrl.fmt == ElemFmt.N, net.above | net.shifted_1[4:].any(), right)
    -> pv.rqs.n [requantise !requantise_exact]
pv.rqs clips a bit too late: net.high := Mux(ctrl.fmt == ElemFmt.N, right & (net.above | net.moved[4:].any()), right)
    -> pv.rqs.n [requantise_exact]
pv.rqxu rounds halves down with the lowest code of 0: net.moved := right - (rounds & net.shifted_1[0] & (zero ==
    0x80)) -> pv.rqxu.b [requantise_exact]
pv.rqu writes the next lane too: net.crumbs := Mux(ctrl.fmt == ElemFmt.C, right | (right << 1), right) -> pv.rqu.c
== core.ex_stage:ExStage
the second sum goes on from the first: mult.second_sum := op_c -> pv.mlsduoup.n [mac_load_pair]
the base of two products moves by the second sum: alu.op_b := Mux(pair, second_sum, right) -> pv.mlsduoup.h
    [mac_load_pair]
== core.wb_stage:WbStage
both sums are the first: wb.odd := ex.first -> pv.mlduosp.c [mac_load_pair]
"""
)
"""Faults that the proof of an instruction must find."""


def _event(name, value):
    bit = 1 << PERFORMANCE_EVENTS.index(name)
    return f"Mux({value}, right | {bit}, right & ~{bit})"


_KILLED = "insn.valid & {} & ~decoder.illegal"
_SMALLEST = 1 << XLEN - 1
_OVERFLOWS = f"ctrl.signed & (op_a == {_SMALLEST}) & op_b.all() & ~ctrl.remainder"
_MULHSU = "(ctrl.op == MultOp.HIGH) & ctrl.a_signed & ~ctrl.b_signed"
_MOVES_BASE = "id_ex.lsu.valid & ~id_ex.lsu.we & id_ex.lsu.post"
_MIP = f"csr.addr == {CSR_BY_NAME['mip'].address}"

_PROGRAM_FAULTS = fault_table(
    f"""
== core.if_stage:IfStage
a compressed instruction that ends a loop is taken for a word: insn.payload.compressed := right & ~loop_back
== core.csr_file:CsrFile
mcountinhibit does not stop mcycle: mcycle.step := clock_runs
mip does not show line 29: csr.rdata := right & ~Mux({_MIP}, 1 << 29, 0)
== core.mult:Mult
mulhsu of the smallest by the largest: result := right ^ ({_MULHSU} & (op_a == {_SMALLEST}) & op_b.all())
    [!multiplies_by_dotp]
== core.div:Divider
a quotient that overflows is the largest: result := Mux({_OVERFLOWS}, {_SMALLEST - 1}, right)
== core.controller:Controller
wfi is not reset: net.sleeping := lost reset
a core sleeps while it fetches: asleep := net.sleeping & ~busy & ~net.any_pending
core_sleep falls a cycle late: asleep := net.sleeping & ~busy & fetch_idle
an interrupt is taken asleep: irq_ack := net.interrupts & id_valid & ~busy & ~net.faulted
== core.prefetch:PrefetchBuffer
a fifth word is fetched: net.can_request := right | (net.live + net.drops == {DEPTH})
== core.lsu:Lsu
an access under way is not reset: net.outstanding := lost reset
== core.id_stage:IdStage
a base that a load moves is not forwarded to rd: rs3_read.ex_we := right & ~({_MOVES_BASE})
== core.wb_stage:WbStage
an access that faults writes the NN-RF: nn_we := right | (net.nn_pending & fault)
""",
    checks=PROGRAMS,
)
_CANDIDATES = (*_PROGRAM_FAULTS, *CORE_FAULTS, *INSTRUCTION_FAULTS)
PROGRAM_FAULTS = tuple(fault for fault in _CANDIDATES if PROGRAMS in fault.checks)
"""Faults of a core with XpulpV2 and Mac&Load."""

COUNTER_FAULTS = fault_table(
    f"""
== core.id_stage:IdStage
jump_register_stalls never counts: jump_register_stall := 0
jump_register_stalls counts killed instructions: jump_register_stall := {_KILLED.format("net.id_jalr_waits")} ->
    verify costs
load_use_stalls counts killed instructions: load_use_stall := {_KILLED.format("net.id_late_operand")} -> verify costs
    [requantise_exact]
load_use_stalls leaves Mac&Load out: load_use_stall := right & ~id_ex.wb_base [requantise_exact]
== core.core:Core
fetch_stalls counts redirects: csr_file.events := {_event("fetch_stalls", "~if_stage.insn.valid")}
cycles counts asleep: csr_file.events := {_event("cycles", "1")}
mcycle counts asleep: csr_file.clock_runs := 1
instructions counts what leaves WB: csr_file.events := {_event("instructions", "backend.flow.wb_leaves")}
== core.backend:Backend
load_use_stalls counts while a multiplication computes: events.load_use_stall := right | ~ex_stage.done
loads counts requests: events.load := data.req & ~data.we
stores leaves bytes out: events.store := right & (data.be != 1)
jumps counts killed instructions: events.jump := id_stage.intent.jump
branches counts taken ones: events.branch := branch.valid
taken_branches counts all branches: events.taken_branch := id_stage.id_ex.branch & flow.ex_leaves
compressed counts instructions that trap: events.compressed := id_stage.issue & insn.payload.compressed
== core.wb_stage:WbStage
elw_stalls counts every load: elw_stall := ~lsu_done
== core.performance_counters:PerformanceCounters
a write of all counters leaves one alone: count10 := Mux(we_all, count10, right)
counters cannot be made to stay: mode := right & 1
cycles is always enabled: enable := right | 1
pcmr does not stop the counters: mode := right | 1
== core.machine_counter:MachineCounter
minstret counts accesses that fault: net.takes_back := 0
== core.stall_monitor:StallMonitor
bubbles behind a load are told as fetches: cause := Mux(right == WaitCause.LOAD_USE, WaitCause.FETCH, right)
bubbles of jumps are told as those of branches: cause := Mux(right == WaitCause.JUMP, WaitCause.BRANCH, right) ->
    verify costs
a division is told as a misaligned access: cause := Mux(right == WaitCause.MULTICYCLE, WaitCause.MISALIGNED, right) ->
    verify costs
== core.csr_file:CsrFile
mcountinhibit does not stop minstret: minstret.step := retire
""",
    checks=PROGRAMS,
)
"""Faults of a core with performance counters."""

_OF_BRIDGES = fault_table(
    """
== wishbone.bridge:WishboneBridge
a burst is answered at its first word: port.rvalid := net.ended
a transfer that fails does not end: net.ended := right & ~bus.err
an error is not told: port.err := 0
the words of a burst are rotated: port.rdata := Cat(right[32:], right[:32])
a bit of the address is lost: bus.adr := right & ~(1 << 12)
the words of a burst go down: bus.adr := right ^ ((1 << len(net.word)) - 1)
an access granted at the end of another is lost: net.under_way := right & ~net.last
""",
    checks=PROGRAMS,
)
BRIDGE_FAULTS = _OF_BRIDGES + fault_table(
    """
== wishbone.bridge:WishboneBridge
an access under way is not reset: net.under_way := lost reset
the place in a burst is not reset: net.word := lost reset
== wishbone.core:CoreWishbone
a write is what the next access is: dbus.we := core.data.we
bytes enabled are those of the next access: dbus.sel := core.data.be
data written are those of the next access: dbus.dat_w := core.data.wdata
whole words are written: dbus.sel := 0b1111
fence.i keeps the lines: icache.control.flush := 0
a fetch in the cycle of fence.i hits: icache.core.req := core.instr.req
== cluster.icache.private:PrivateCache
a line on its way at fence.i is kept: net.stale := right & ~control.flush
a line that fails is kept: ways.write := right | (line.rvalid & line.err.any())
""",
    checks=PROGRAMS,
)
"""Faults of a core with Wishbone ports."""

CLUSTER_BRIDGE_FAULTS = _OF_BRIDGES + fault_table(
    """
== wishbone.cluster:ClusterWishbone
a write outside is what the next access is: ext.we := ext_bridge.port.we
bytes enabled outside are those of the next access: ext.sel := ext_bridge.port.be
data written outside are those of the next access: ext.dat_w := ext_bridge.port.wdata
whole words are written outside: ext.sel := 0b1111
whole words are written by the DMA engine: dma.sel := 0b1111
words written by the DMA engine are exchanged: dma.adr := right ^ dma.we
instructions come from two words further: refill.adr := right ^ 0b10
""",
    checks=PROGRAMS,
)
"""Faults of a cluster with Wishbone ports."""

PROOF_FAULTS = (*CORE_FAULTS, *INSTRUCTION_FAULTS, *HALT_FAULTS)


def faults_for(config: CoreConfig, checks: Collection[str]) -> list[Fault]:
    return [fault for fault in PROOF_FAULTS if fault.fits(config) and not set(checks).isdisjoint(fault.checks)]
