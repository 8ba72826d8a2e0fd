"""Names of internal nets of the design, for proofs, cutpoints, faults and mutants.

No other module names nets inside a component. An entry ``ex_done=done`` defines the probe ``ex_done`` of the net
``done``; without ``=`` the probe has the name of the net. Nets have their names in the emitted Verilog.
"""

from collections.abc import Mapping

from xpulpnn.core.prefetch import DEPTH
from xpulpnn.isa.machine import NNRF_ACTIVATIONS, NNRF_WEIGHTS, REGISTERS


def _table(text: str) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in text.split())
    return {name: net or name for name, _, net in pairs}


_NNRF = "core.backend.ex_stage.nnrf"
_REGFILE = "core.backend.id_stage.regfile"

CORE_NETS: Mapping[str, str] = {
    "core": "intr=backend_info__intr",
    "core.backend": "ex_leaves=flow__ex_leaves taken=branch__valid",
    "core.backend.ex_stage": "ex_done=done ex_unit=ctrl_unit",
    _NNRF: "kappa=nn_kappa lambda=nn_lambda second=act2",
    "core.backend.id_stage": "ex_valid=id_ex__valid ex_target=id_ex__op_c ex_base=id_ex__op_a"
    " ex_csr_address=id_ex__op_b ex_we=id_ex__ex_we ex_addr=id_ex__ex_addr ex_late_we=id_ex__wb_we"
    " ex_late_addr=id_ex__wb_addr ex_csr=id_ex__csr ex_csr_write=id_ex__csr_write ex_branch=id_ex__branch"
    " ex_access=id_ex__lsu ex_loads=id_ex__nn_we ex_entry=id_ex__nn_addr"
    " ex_wb_base=id_ex__wb_base ex_requantise=id_ex__requantise ex_pair=id_ex__pair ex_later_pair=id_ex__later_pair",
    "core.backend.lsu": "lsu_outstanding=outstanding lsu_wb_busy=wb_busy lsu_second=second lsu_crosses=crosses"
    " lsu_wb_crosses=wb_crosses lsu_fault__store=fault__store lsu_wb_byte=wb_byte lsu_wb_size=wb_size lsu_first=first"
    " lsu_first=kept lsu_ex_address=ex_address",
    "core.backend.rvfi_tap": "has_ex=ex_valid has_wb=wb_valid id_leaves=id_issue ex_ready ex_insn ex_pc_rdata"
    " ex_pc_wdata ex_trap ex_cause ex_intr ex_rs1_rdata ex_rs2_rdata ex_rd_rdata ex_nn_act_rdata ex_nn_wgt_rdata"
    " wb_rd_we wb_rd_addr wb_rd_wdata wb_base_we wb_base_addr wb_base_wdata",
    # the old value of an access may share a register with the requantiser, and then has that name
    "core.backend.wb_stage": "wb_late_we=wb__we wb_late_addr=wb__addr wb_old=old wb_old=requantiser_old"
    " wb_old_addr=old_addr wb_wrote=wrote wb_restores=restores wb_loads=nn_pending wb_loads=wb_is_base"
    " wb_pair=wb__pair",
    "core.controller": "enter enter_interrupt enter_pc asking_pc=ex_pc granted_pc=access_pc sleeping any_pending"
    " booted=started faulted debug_mode=debug__mode debug_enters=debug__enter stepped halt_dropped=dropped"
    " halt_aborted=aborted id_ready",
    "core.csr_file": "mie_bits mstatus_bits mtvec_bits mepc_bits mcause_bits mscratch_bits mcountinhibit_bits handler"
    " csr_valid=csr__valid csr_write=csr__write csr_number=csr__addr dcsr_bits dcsr_cause",
    "core.hwloops": "lpstart0 lpend0 lpcount0 lpstart1 lpend1 lpcount1 late ex_took wb_took gives_back",
    "core.if_stage": "id_valid=insn__valid id_pc=insn__payload__pc id_error=insn__payload__error id_raw id_looped"
    " id_compressed=insn__payload__compressed id_word=insn__payload__word",
    "core.triggers": "trigger_hit=ex__hit trigger_checked=checked trigger_armed=armed trigger_executes=executes",
    "core.if_stage.prefetch": "if_pc=pc fetch_count=count fetch_live=live fetch_drops=drops fetch_current=current"
    " fetch_held=held fetch_stale=stale fetch_running=running fetch_exact=exact",
}
"""Probes for properties of the pipeline, by instance; if a probe is listed twice, a core has one of the two nets."""

_NN_WORDS = [*(f"act{index}" for index in range(NNRF_ACTIVATIONS)), *(f"wgt{index}" for index in range(NNRF_WEIGHTS))]
_LATER_PAIR = [f"act{NNRF_ACTIVATIONS + index}" for index in range(NNRF_ACTIVATIONS)]

CORE_WORDS: Mapping[str, list[str]] = {
    "registers": [f"{_REGFILE}.x[{number}]" for number in range(1, REGISTERS)],
    "fetch_words": [f"core.if_stage.prefetch.word{index}" for index in range(DEPTH)],
    "fetch_errors": [f"core.if_stage.prefetch.error{index}" for index in range(DEPTH)],
    "nn_words": [f"{_NNRF}.nn_{name}" for name in (*_NN_WORDS, "kappa", "lambda")],
    "nn_later_pair": [f"{_NNRF}.nn_{name}" for name in _LATER_PAIR],
}
"""Probes of several nets, lowest bits first; alternative names of a net are separated by spaces."""

_ID_STAGE, _WB_STAGE = "core.backend.id_stage", "core.backend.wb_stage"
ONLY_WITH: Mapping[str, tuple[str, ...]] = {
    "xpulpv2": ("core.hwloops.", "core.if_stage.id_looped"),
    "mac_load": (f"{_NNRF}.", f"{_ID_STAGE}.id_ex__nn_", f"{_ID_STAGE}.id_ex__wb_base", f"{_WB_STAGE}.nn_pending"),
    "mac_load_nn": (f"{_NNRF}.nn_act",),
    "mac_load_pair": (
        *(f"{_NNRF}.nn_{name}" for name in _LATER_PAIR),
        f"{_NNRF}.act2",
        f"{_ID_STAGE}.id_ex__pair",
        f"{_ID_STAGE}.id_ex__later_pair",
        f"{_WB_STAGE}.wb__pair",
    ),
    "debug": (
        *(f"core.controller.{name}" for name in ("debug__", "stepped", "dropped", "aborted", "id_ready")),
        "core.csr_file.dcsr_",
        "core.triggers.",
    ),
    "requantise": (f"{_NNRF}.nn_kappa", f"{_NNRF}.nn_lambda", f"{_ID_STAGE}.id_ex__requantise"),
}
"""Prefixes of the nets that exist only with a setting, by setting."""

BACKEND_NETS: Mapping[str, str] = _table(
    # instruction in ID
    "id_goes=id_stage.id_goes id_kill=id_stage.kill id_excepted=id_stage.excepted id_issue=id_stage.issue"
    " read_rs1=id_stage.regfile.rs1 read_rs2=id_stage.regfile.rs2 read_rs3=id_stage.regfile.rs3"
    # records of EX and WB
    " ex_ready=rvfi_tap.ex_ready ex_valid=rvfi_tap.ex_valid wb_valid=rvfi_tap.wb_valid wb_trap=rvfi_tap.rvfi__trap"
    " lsu_busy=lsu.wb_busy lsu_outstanding=lsu.outstanding"
    # control words and operands in EX
    " ex_unit=ex_stage.ctrl_unit ex_pair=id_stage.id_ex__pair ex_lsu_valid=id_stage.id_ex__lsu_valid"
    " ex_op_b=id_stage.id_ex__op_b"
    " adder_subtract=ex_stage.alu.simd_alu.ctrl_subtract adder_fmt=ex_stage.alu.simd_alu.ctrl_fmt"
    " adder_result=ex_stage.alu.simd_alu.ctrl_result"
    " alu_result=ex_stage.alu.result alu_sum=ex_stage.alu.sum alu_comparison=ex_stage.alu.comparison"
    # register writes under way
    " ex_we=id_stage.id_ex__ex_we ex_addr=id_stage.id_ex__ex_addr late_we=id_stage.id_ex__wb_we"
    " late_addr=id_stage.id_ex__wb_addr wb_we=id_stage.wb__we wb_addr=id_stage.wb__addr"
    " wb_wrote=wb_stage.wrote wb_old_addr=wb_stage.old_addr"
)
"""Probes for proofs of instructions, by path in the back end."""

EX_REGISTERS = ("id_stage.id_ex__", "rvfi_tap.ex_", BACKEND_NETS["ex_valid"])
WB_REGISTERS = ("wb_stage.", "rvfi_tap.wb_", "rvfi_tap.rvfi__", "lsu.wb_")
"""Name prefixes of back-end registers that follow an instruction through EX (``EX_REGISTERS``) and through WB."""

NNRF_NETS = "ex_stage.nnrf.nn_"  # prefix of NN-RF entries in the back end

UNIT_INSTANCES: Mapping[str, str] = {
    "alu": "ex_stage.alu",
    "mult": "ex_stage.mult",
    "div": "ex_stage.div",
    "dotp": "ex_stage.dotp",
    "dotp2": "ex_stage.dotp2",
    "quantiser": "ex_stage.quantiser",
    "regfile": "id_stage.regfile",
    "widener": "id_stage.widener",
    "lsu": "lsu",
}

CUT_WIRES: Mapping[str, Mapping[str, str]] = {
    "fetched words": {"prefetch_buffer": "first second has_first has_second first_error second_error"},
    # the wildcard matches names that Yosys makes for an array
    "registers": {"reg_file": "*mem2reg_rd*DATA"},
    "forwarded results": {"id_stage": "ex_result wb__data wb__odd wb_wdata"},
    "products": {"ex_stage": "mult_result mult_done dotp_result dotp2_result", "id_stage": "nn_act nn_wgt"},
    "quotients": {"ex_stage": "div_result div_done"},
    "dot products": {"ex_stage": "dotp_result dotp2_result", "id_stage": "nn_act nn_wgt"},
    "results": {"ex_stage": "result"},
    "results of the ALU": {"ex_stage": "alu_result"},
    "addresses": {"ex_stage": "sum"},
    "bases and targets of branches": {"lsu": "ex_base", "controller": "branch__target"},
    "comparisons": {"ex_stage": "comparison"},
    "loaded values": {"lsu": "wb_rdata"},
    "CSRs": {"ex_stage": "csr_rdata"},
    "values written to CSRs": {"csr_file": "wdata"},
    "handlers": {"controller": "handler"},
    "interrupts": {"controller": "mepc mie pending"},
    "interrupts but for mepc": {"controller": "mie pending", "csr_file": "mepc[31:1]"},
    "hardware loops": {"hw_loops": "if_back if_start hold wrong id_next[31:1]"},
    "ends of hardware loops": {"hw_loops": "if_back if_start id_start[31:1] id_next[31:1] id_ends id_again"},
    "targets": {"immediates": "offset[31:1]"},
    "constants and targets": {"id_stage": "insn__payload__pc target_sum", "immediates": "imm offset"},
}
"""Wires of the cutpoints for riscv-formal, by cutpoint and module."""

IDLE_LOOPS: Mapping[str, str] = {
    **{f"hw_loops/{name}{loop}": "32'h00000000" for name in ("lpstart", "lpend", "lpcount") for loop in range(2)},
    "hw_loops/late": "2'h0",
}
"""Registers of the hardware loops, and their values if no loop is active."""

PIPELINE_CUTS: Mapping[str, tuple[str, ...]] = {
    "units": ("ex_stage/mult", "ex_stage/div", "ex_stage/dotp", "ex_stage/dotp2", "wb_stage/requantiser"),
    "counters": ("csr_file/mcycle", "csr_file/minstret"),
    "fetched": ("prefetch_buffer/w:first", "prefetch_buffer/w:second"),
    "csrs": ("csr_file/w:*_bits",),
    "operands": ("id_stage/regfile",),
    "alu": ("ex_stage/alu",),
    "nnrf": ("ex_stage/nnrf",),
    "loaded": ("lsu/w:aligned",),
    "loops": ("hw_loops/w:lp*",),
}
"""Instances and wires of the cutpoints for properties of the pipeline, as Yosys selections."""

LOOP_REGISTERS = {"start": "hw_loops/w:lpstart", "end": "hw_loops/w:lpend", "count": "hw_loops/w:lpcount"}
NNRF_REGISTERS = "nn_rf/w:nn_*"
"""Yosys selections of registers with arbitrary initial values in proofs; users append the number of the hardware loop
to LOOP_REGISTERS."""

UNIT_NETS: Mapping[str, Mapping[str, str]] = {
    unit: _table(text)
    for unit, text in {
        "AhbBridge": "ended in_data_phase left requested",
        "BitCount": "first missing",
        "BitField": "end last width_m1",
        "Controller": "any_pending faulted flush sleeping interrupts halts aborted dropped stepped"
        " access_pc other_target",
        "CsrFile": "mepc_bits mstatus_bits",
        "HwLoops": "counted id_again id_goes_back late",
        "IdStage": "id_drains id_goes id_jalr_waits id_late_operand id_op_b_lane_b illegal",
        "IfStage": "take",
        "Immediates": "clip_bound",
        "LaneMove": "from_b selector_3",
        "Lsu": "aligned crosses low outstanding second wb_byte wb_size",
        "MachineCounter": "takes_back",
        "NnRf": "nn_act0 nn_act1 nn_wgt3",
        "PrefetchBuffer": "ahead arriving can_request drops first_error live redirects running",
        "PrivateCache": "stale",
        "RegFile": "x5 in_a",
        "Requantiser": "above crumbs high moved shifted_1 too_large",
        "SimdAdder": "carry_starts lane_lsbs",
        "SimdAlu": "below",
        "SimdComparator": "equal_2 relation",
        "SimdShifter": "moving_2_up_2",
        "WbStage": "nn_pending",
        "WishboneBridge": "ended last under_way word",
    }.items()
}
"""Probes that faults read or change, by component; the ports of a component need no probes."""
