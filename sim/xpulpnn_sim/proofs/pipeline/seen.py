"""Signals inside the core that the properties see: registers and wires, by their names in the emitted text."""

from collections.abc import Mapping
from typing import NamedTuple

from xpulpnn.config import CoreConfig
from xpulpnn.core.prefetch import DEPTH
from xpulpnn.isa.machine import NNRF_ACTIVATIONS, NNRF_WEIGHTS, REGISTERS, XLEN
from xpulpnn.isa.retirement import WIDTHS

_NNRF = "core.backend.ex_stage.nnrf"
_TAP = "core.backend.rvfi_tap"
_RECORD = ("insn", "pc_rdata", "pc_wdata", "trap", "cause", "intr", "rs1_rdata", "rs2_rdata", "rd_rdata")
_RECORD += ("nn_act_rdata", "nn_wgt_rdata")
"""Fields of the record of the instruction in EX; those of the one in WB are on the retirement port."""

_PREFETCH = "core.if_stage.prefetch"
_WRITTEN = {
    f"{name}_{part}": width for name in ("rd", "base") for part, width in {"we": 1, "addr": 5, "wdata": XLEN}.items()
}
"""Writes of the instruction in WB that it made in EX."""

_WB = "core.backend.wb_stage"
_WRITES = {"late_we": ("wb__we", 1), "late_addr": ("wb__addr", 5), "old": ("old", XLEN), "old_addr": ("old_addr", 5)}
_WRITES |= {name: (name, 1) for name in ("wrote", "restores")}
_LSU = dict.fromkeys(("outstanding", "wb_busy", "second", "crosses", "wb_crosses", "fault__store"), 1)
_LSU |= {"wb_byte": 2, "wb_size": 2, "first": XLEN, "ex_address": XLEN}
_FETCHING = {"count": 3, "live": 3, "drops": 3, "current": 30}
_FETCHING |= dict.fromkeys(("held", "stale", "running", "exact"), 1)


class Seen(NamedTuple):
    """A signal of the core."""

    width: int
    paths: tuple[str, ...]  # what it is put together from, lowest bits first: instances down to a wire, and its name


def seen_signals(config: CoreConfig) -> Mapping[str, Seen]:
    """The signals by the names that the properties give them; a core without a unit has none of its signals."""
    found = {
        "ex_leaves": Seen(1, ("core.backend.flow__ex_leaves",)),
        "taken": Seen(1, ("core.backend.branch__valid",)),
        "enter": Seen(1, ("core.controller.enter",)),
        "enter_interrupt": Seen(1, ("core.controller.enter_interrupt",)),
        "enter_pc": Seen(32, ("core.controller.enter_pc",)),
        "asking_pc": Seen(31, ("core.controller.ex_pc",)),
        "granted_pc": Seen(31, ("core.controller.access_pc",)),
        "sleeping": Seen(1, ("core.controller.sleeping",)),
        "any_pending": Seen(1, ("core.controller.any_pending",)),
        "mie_bits": Seen(19, ("core.csr_file.mie_bits",)),
        "mstatus_bits": Seen(2, ("core.csr_file.mstatus_bits",)),
        "mtvec_bits": Seen(25, ("core.csr_file.mtvec_bits",)),
        "mepc_bits": Seen(31, ("core.csr_file.mepc_bits",)),
        "mcause_bits": Seen(6, ("core.csr_file.mcause_bits",)),
        "mscratch_bits": Seen(32, ("core.csr_file.mscratch_bits",)),
        "mcountinhibit_bits": Seen(2, ("core.csr_file.mcountinhibit_bits",)),
        "id_leaves": Seen(1, (f"{_TAP}.id_issue",)),
        "id_valid": Seen(1, ("core.if_stage.insn__valid",)),
        "id_pc": Seen(32, ("core.if_stage.insn__payload__pc",)),
        "if_pc": Seen(32, ("core.if_stage.prefetch.pc",)),
        "booted": Seen(1, ("core.controller.started",)),
        "faulted": Seen(1, ("core.controller.faulted",)),
        "handler": Seen(32, ("core.csr_file.handler",)),
        "intr": Seen(1, ("core.intr",)),
        # the emitted text names the register after what it becomes
        "has_ex": Seen(1, (f"{_TAP}.wb_valid_value",)),
        "has_wb": Seen(1, (f"{_TAP}.wb_valid",)),
        **{f"ex_{name}": Seen(WIDTHS[name], (f"{_TAP}.ex_{name}",)) for name in _RECORD},
        **{f"wb_{name}": Seen(width, (f"{_TAP}.wb_{name}",)) for name, width in _WRITTEN.items()},
        **{f"wb_{name}": Seen(width, (f"{_WB}.{path}",)) for name, (path, width) in _WRITES.items()},
        "registers": Seen(
            XLEN * (REGISTERS - 1),
            tuple(f"core.backend.id_stage.regfile.x[{number}]" for number in range(1, REGISTERS)),
        ),
        "ex_valid": Seen(1, ("core.backend.id_stage.id_ex__valid",)),
        "ex_done": Seen(1, ("core.backend.ex_stage.done",)),
        "ex_ready": Seen(1, (f"{_TAP}.ex_ready",)),
        "ex_target": Seen(32, ("core.backend.id_stage.id_ex__op_c",)),
        "id_error": Seen(1, ("core.if_stage.insn__payload__error",)),
        "id_raw": Seen(32, ("core.if_stage.id_raw",)),
        "id_compressed": Seen(1, ("core.if_stage.insn__payload__compressed",)),
        "id_word": Seen(32, ("core.if_stage.insn__payload__word",)),
        "ex_base": Seen(32, ("core.backend.id_stage.id_ex__op_a",)),
        "ex_we": Seen(1, ("core.backend.id_stage.id_ex__ex_we",)),
        "ex_addr": Seen(5, ("core.backend.id_stage.id_ex__ex_addr",)),
        "ex_late_we": Seen(1, ("core.backend.id_stage.id_ex__wb_we",)),
        "ex_late_addr": Seen(5, ("core.backend.id_stage.id_ex__wb_addr",)),
        "ex_csr_write": Seen(1, ("core.backend.id_stage.id_ex__csr_write",)),
        "ex_csr_address": Seen(32, ("core.backend.id_stage.id_ex__op_b",)),
        "ex_unit": Seen(3, ("core.backend.ex_stage.ctrl_unit",)),
        "ex_csr": Seen(2, ("core.backend.id_stage.id_ex__csr",)),
        "ex_branch": Seen(1, ("core.backend.id_stage.id_ex__branch",)),
        "ex_access": Seen(6, ("core.backend.id_stage.id_ex__lsu",)),
        **{f"lsu_{name}": Seen(width, (f"core.backend.lsu.{name}",)) for name, width in _LSU.items()},
        **{f"fetch_{name}": Seen(width, (f"{_PREFETCH}.{name}",)) for name, width in _FETCHING.items()},
        "fetch_words": Seen(XLEN * DEPTH, tuple(f"{_PREFETCH}.word{index}" for index in range(DEPTH))),
        "fetch_errors": Seen(DEPTH, tuple(f"{_PREFETCH}.error{index}" for index in range(DEPTH))),
    }
    if config.xpulpv2:
        names = [f"{name}{loop}" for loop in range(2) for name in ("lpstart", "lpend", "lpcount")]
        found |= {name: Seen(32, (f"core.hwloops.{name}",)) for name in names}
        found |= {name: Seen(2, (f"core.hwloops.{name}",)) for name in ("late", "ex_took", "wb_took")}
        found |= {
            "gives_back": Seen(1, ("core.hwloops.gives_back",)),
            "id_looped": Seen(1, ("core.if_stage.id_looped",)),
        }
    if config.mac_load:
        found["ex_loads"] = Seen(1, ("core.backend.id_stage.id_ex__nn_we",))
        found["ex_entry"] = Seen(config.nn_addr_bits, ("core.backend.id_stage.id_ex__nn_addr",))
        found["ex_wb_base"] = Seen(1, ("core.backend.id_stage.id_ex__wb_base",))
        found["wb_loads"] = Seen(1, ("core.backend.wb_stage.nn_pending",))
        activations = [f"nn_act{index}" for index in range(NNRF_ACTIVATIONS)] if config.mac_load_nn else []
        words = [*activations, *(f"nn_wgt{index}" for index in range(NNRF_WEIGHTS))]
        words += ["nn_kappa", "nn_lambda"] if config.requantise else []
        found["nn_words"] = Seen(32 * len(words), tuple(f"{_NNRF}.{name}" for name in words))
    if config.requantise:
        # what is kept of an access shares a register with the unit, whose name it has
        found["wb_old"] = Seen(XLEN, (f"{_WB}.requantiser_old",))
        found["ex_requantise"] = Seen(5, ("core.backend.id_stage.id_ex__requantise",))
        found |= {name: Seen(32, (f"{_NNRF}.nn_{name}",)) for name in ("kappa", "lambda")}
    return found
