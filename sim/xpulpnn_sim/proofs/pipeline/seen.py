"""Signals inside the core that the properties see: registers and wires, by their names in the emitted text."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from xpulpnn.config import CoreConfig
from xpulpnn.core.prefetch import DEPTH
from xpulpnn.isa.machine import NNRF_ACTIVATIONS, NNRF_WEIGHTS, REGISTERS
from xpulpnn_sim.cosimulation.model.libraries import cached_emission

_SINGLE = {
    "core": "intr",
    "core.backend": "ex_leaves=flow__ex_leaves taken=branch__valid",
    "core.backend.ex_stage": "ex_done=done ex_unit=ctrl_unit",
    "core.backend.ex_stage.nnrf": "kappa=nn_kappa lambda=nn_lambda",
    "core.backend.id_stage": "ex_valid=id_ex__valid ex_target=id_ex__op_c ex_base=id_ex__op_a"
    " ex_csr_address=id_ex__op_b ex_we=id_ex__ex_we ex_addr=id_ex__ex_addr ex_late_we=id_ex__wb_we"
    " ex_late_addr=id_ex__wb_addr ex_csr=id_ex__csr ex_csr_write=id_ex__csr_write ex_branch=id_ex__branch"
    " ex_access=id_ex__lsu ex_loads=id_ex__nn_we ex_entry=id_ex__nn_addr"
    " ex_wb_base=id_ex__wb_base ex_requantise=id_ex__requantise",
    "core.backend.lsu": "lsu_outstanding=outstanding lsu_wb_busy=wb_busy lsu_second=second lsu_crosses=crosses"
    " lsu_wb_crosses=wb_crosses lsu_fault__store=fault__store lsu_wb_byte=wb_byte lsu_wb_size=wb_size lsu_first=first"
    " lsu_ex_address=ex_address",
    # the emitted text names the first register after what it becomes
    "core.backend.rvfi_tap": "has_ex=wb_valid_value has_wb=wb_valid id_leaves=id_issue ex_ready ex_insn ex_pc_rdata"
    " ex_pc_wdata ex_trap ex_cause ex_intr ex_rs1_rdata ex_rs2_rdata ex_rd_rdata ex_nn_act_rdata ex_nn_wgt_rdata"
    " wb_rd_we wb_rd_addr wb_rd_wdata wb_base_we wb_base_addr wb_base_wdata",
    # what is kept of an access may share a register with the unit that requantises, whose name it then has
    "core.backend.wb_stage": "wb_late_we=wb__we wb_late_addr=wb__addr wb_old=old wb_old=requantiser_old"
    " wb_old_addr=old_addr wb_wrote=wrote wb_restores=restores wb_loads=nn_pending",
    "core.controller": "enter enter_interrupt enter_pc asking_pc=ex_pc granted_pc=access_pc sleeping any_pending"
    " booted=started faulted",
    "core.csr_file": "mie_bits mstatus_bits mtvec_bits mepc_bits mcause_bits mscratch_bits mcountinhibit_bits handler",
    "core.hwloops": "lpstart0 lpend0 lpcount0 lpstart1 lpend1 lpcount1 late ex_took wb_took gives_back",
    "core.if_stage": "id_valid=insn__valid id_pc=insn__payload__pc id_error=insn__payload__error id_raw id_looped"
    " id_compressed=insn__payload__compressed id_word=insn__payload__word",
    "core.if_stage.prefetch": "if_pc=pc fetch_count=count fetch_live=live fetch_drops=drops fetch_current=current"
    " fetch_held=held fetch_stale=stale fetch_running=running fetch_exact=exact",
}
"""Signals by their instance: their names in the emitted text, behind those that the properties give them."""

_NN_WORDS = [*(f"act{index}" for index in range(NNRF_ACTIVATIONS)), *(f"wgt{index}" for index in range(NNRF_WEIGHTS))]
_JOINED = {
    "registers": [f"core.backend.id_stage.regfile.x[{number}]" for number in range(1, REGISTERS)],
    "fetch_words": [f"core.if_stage.prefetch.word{index}" for index in range(DEPTH)],
    "fetch_errors": [f"core.if_stage.prefetch.error{index}" for index in range(DEPTH)],
    "nn_words": [f"core.backend.ex_stage.nnrf.nn_{name}" for name in (*_NN_WORDS, "kappa", "lambda")],
}
"""Words of several signals, lowest bits first."""


class Seen(NamedTuple):
    """A signal of the core."""

    width: int
    paths: tuple[str, ...]  # what it is put together from, lowest bits first: instances down to a wire, and its name


def seen_signals(config: CoreConfig) -> Mapping[str, Seen]:
    """The signals by the names that the properties give them; a core without a unit has none of its signals."""
    _, manifest = cached_emission("core", replace(config, rvfi=True))
    widths = {
        f"{place}.{net['name']}": net["width"]
        for place, module in manifest["hierarchy"].items()
        for kind in ("ports", "registers", "signals")
        for net in manifest["modules"][module][kind]
    }
    paths = dict(_JOINED)
    for place, names in _SINGLE.items():
        for name, _, inside in (each.partition("=") for each in names.split()):
            paths.setdefault(name, [])
            if f"{place}.{inside or name}" in widths:
                paths[name] = [f"{place}.{inside or name}"]
    there = {name: tuple(path for path in each if path in widths) for name, each in paths.items()}
    return {name: Seen(sum(widths[path] for path in each), each) for name, each in there.items() if each}
