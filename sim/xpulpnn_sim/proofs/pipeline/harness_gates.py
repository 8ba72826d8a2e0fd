"""A property and the core as one graph of gates; signals of the core that properties see, by their emitted names."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from xpulpnn.config import CoreConfig
from xpulpnn.core.prefetch import DEPTH
from xpulpnn.errors import ToolError
from xpulpnn.isa.machine import NNRF_ACTIVATIONS, NNRF_WEIGHTS, REGISTERS
from xpulpnn.verilog import EmittedVerilog, emit
from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.proofs.engine.clocked_gates import ClockedGates
from xpulpnn_sim.proofs.faults.fault import Fault
from xpulpnn_sim.proofs.pipeline.catalog import PipelineProperty
from xpulpnn_sim.tools.netlists import read_module
from xpulpnn_sim.tools.yosys import Yosys

_SINGLE = {
    "core": "intr",
    "core.backend": "ex_leaves=flow__ex_leaves taken=branch__valid",
    "core.backend.ex_stage": "ex_done=done ex_unit=ctrl_unit",
    "core.backend.ex_stage.nnrf": "kappa=nn_kappa lambda=nn_lambda second=act2",
    "core.backend.id_stage": "ex_valid=id_ex__valid ex_target=id_ex__op_c ex_base=id_ex__op_a"
    " ex_csr_address=id_ex__op_b ex_we=id_ex__ex_we ex_addr=id_ex__ex_addr ex_late_we=id_ex__wb_we"
    " ex_late_addr=id_ex__wb_addr ex_csr=id_ex__csr ex_csr_write=id_ex__csr_write ex_branch=id_ex__branch"
    " ex_access=id_ex__lsu ex_loads=id_ex__nn_we ex_entry=id_ex__nn_addr"
    " ex_wb_base=id_ex__wb_base ex_requantise=id_ex__requantise ex_pair=id_ex__pair ex_later_pair=id_ex__later_pair",
    "core.backend.lsu": "lsu_outstanding=outstanding lsu_wb_busy=wb_busy lsu_second=second lsu_crosses=crosses"
    " lsu_wb_crosses=wb_crosses lsu_fault__store=fault__store lsu_wb_byte=wb_byte lsu_wb_size=wb_size lsu_first=first"
    " lsu_ex_address=ex_address",
    # the emitted text names the first register after what it becomes
    "core.backend.rvfi_tap": "has_ex=wb_valid_value has_wb=wb_valid id_leaves=id_issue ex_ready ex_insn ex_pc_rdata"
    " ex_pc_wdata ex_trap ex_cause ex_intr ex_rs1_rdata ex_rs2_rdata ex_rd_rdata ex_nn_act_rdata ex_nn_wgt_rdata"
    " wb_rd_we wb_rd_addr wb_rd_wdata wb_base_we wb_base_addr wb_base_wdata",
    # what is kept of an access may share a register with the unit that requantises, whose name it then has
    "core.backend.wb_stage": "wb_late_we=wb__we wb_late_addr=wb__addr wb_old=old wb_old=requantiser_old"
    " wb_old_addr=old_addr wb_wrote=wrote wb_restores=restores wb_loads=nn_pending wb_pair=wb__pair",
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
"""Signals by their instance: their names in the emitted text, behind those that the properties give them."""

_NN_WORDS = [*(f"act{index}" for index in range(NNRF_ACTIVATIONS)), *(f"wgt{index}" for index in range(NNRF_WEIGHTS))]
_LATER_PAIR = [f"act{NNRF_ACTIVATIONS + index}" for index in range(NNRF_ACTIVATIONS)]
_REGFILE = "core.backend.id_stage.regfile"
_JOINED = {
    # registers that do not all take the same data are written one by one
    "registers": [f"{_REGFILE}.x[{number}] {_REGFILE}.x{number}" for number in range(1, REGISTERS)],
    "fetch_words": [f"core.if_stage.prefetch.word{index}" for index in range(DEPTH)],
    "fetch_errors": [f"core.if_stage.prefetch.error{index}" for index in range(DEPTH)],
    "nn_words": [f"core.backend.ex_stage.nnrf.nn_{name}" for name in (*_NN_WORDS, "kappa", "lambda")],
    "nn_later_pair": [f"core.backend.ex_stage.nnrf.nn_{name}" for name in _LATER_PAIR],
}
"""Words of several signals, lowest bits first; each signal has one of some names."""


_NNRF, _ID_STAGE, _WB_STAGE = "core.backend.ex_stage.nnrf", "core.backend.id_stage", "core.backend.wb_stage"
_ONLY_WITH = {
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
"""Beginnings of the signals that a core need not have, by the setting without which it need not."""


class Seen(NamedTuple):
    """A signal of the core."""

    width: int
    paths: tuple[str, ...]  # what it is put together from, lowest bits first: instances down to a wire, and its name


def seen_signals(config: CoreConfig) -> Mapping[str, Seen]:
    """The signals by the names that the properties give them; a core without a unit has none of its signals.

    Raises :class:`ToolError` for a signal that is not there although the core has its unit.
    """
    _, manifest = cached_emission("core", replace(config, rvfi=True))
    widths = {
        f"{place}.{net['name']}": net["width"]
        for place, module in manifest["hierarchy"].items()
        for kind in ("ports", "registers", "signals")
        for net in manifest["modules"][module][kind]
    }
    # of each part of a signal the names that it may have
    parts = {name: [each.split() for each in paths] for name, paths in _JOINED.items()}
    for place, written in _SINGLE.items():
        for name, _, inside in (each.partition("=") for each in written.split()):
            parts.setdefault(name, [[]])[0].append(f"{place}.{inside or name}")
    absent = tuple(path for setting, paths in _ONLY_WITH.items() if not getattr(config, setting) for path in paths)
    found: dict[str, tuple[str, ...]] = {}
    for name, names in ((name, names) for name, each in parts.items() for names in each):
        there = next((each for each in names if each in widths), "")
        if there:
            found[name] = (*found.get(name, ()), there)
        elif not names[0].startswith(absent):
            raise ToolError(f"the emitted core must have {' or '.join(names)}, which is seen as {name}")
    return {name: Seen(sum(widths[path] for path in each), each) for name, each in found.items()}


MODULE = "scene"  # module of the core, its memories and the properties

CONSTANT = ("boot_addr", "hart_id", "watched_register", "watched_entry", "watched_bit")
CONSTANT += ("debug_halt_addr", "debug_exception_addr")
CONSTANT += ("held_address", "held_halves", "held_fails")
"""Inputs that do not change."""

_SCRIPT = f"""read_verilog -sv core.v
hierarchy -check -top {MODULE}
proc -noopt
{{first}}
{{cutpoints}}
flatten
{{outputs}}
{{ties}}
opt_clean
memory -nordff
opt -fast -nodffe -nosdff
opt_clean -purge
techmap
dffunmap
opt -fast -nodffe -nosdff
opt_clean
write_json rule.json
"""


@dataclass(frozen=True, slots=True)
class EmittedHarness:
    """The emitted core with all properties beside it, and their description."""

    emitted: EmittedVerilog
    description: Any

    def with_fault(self, fault: Fault) -> "EmittedHarness":
        """The same with a fault in the core; raises :class:`ToolError` if its signal is not there."""
        with fault.seeded():
            return emit_harness(self.description.config, self.description.seen)


def emit_harness(config: CoreConfig, seen: Mapping[str, Seen] | None = None) -> EmittedHarness:
    """Emit the core with its properties; raises :class:`InputError` for a core that they are not for."""
    # it imports this module
    from xpulpnn_sim.proofs.pipeline.properties.harness import CoreHarness as Description

    description = Description(replace(config, rvfi=True), seen or seen_signals(config))
    return EmittedHarness(emit(description, MODULE, config=description.config), description)


def script(rule: PipelineProperty, scene: EmittedHarness) -> str:
    """The script for Yosys that makes the graph."""

    def there(selection: str) -> bool:
        return selection.partition("/")[0] in scene.emitted.modules

    first = [
        f"setattr -set init {len(bits)}'b{bits} {selection}"
        for selection, bits in rule.initial.items()
        if there(selection)
    ]
    cutpoints = [f"cutpoint {selection}" for selection in rule.cutpoints if there(selection)]
    others = [one for one in scene.description.parts if one != rule.name]
    outputs = [f"delete -output {MODULE}/w:{kind}_{one}" for one in others for kind in ("wrong", "broken")]
    ties = {"rst": "1'b0", "prompt": f"1'b{rule.prompt:d}", "holds": f"1'b{rule.fixed_memory:d}"}
    if scene.description.config.debug and not rule.halts:
        ties["debug_req"] = "1'b0"
    for name, one in scene.description.seen.items():
        ties[f"seen_{name}"] = f"{one.width}'d0" if _is_cut(one, rule, scene) else ",".join(one.paths[::-1])
    tied = [f"delete -input w:{name}\nconnect -nounset -set {name} {value}" for name, value in ties.items()]
    return _SCRIPT.format(
        first="\n".join(first),
        cutpoints="\n".join(cutpoints),
        outputs="\n".join(outputs),
        ties="\n".join([f"cd {MODULE}", *tied, "cd .."]),
    )


def _is_cut(one: Seen, rule: PipelineProperty, scene: EmittedHarness) -> bool:
    """Return whether a signal is inside an instance that is free."""
    inner, places = scene.emitted.manifest["hierarchy"], (path.split(".") for path in one.paths)
    return any(
        f"{inner['.'.join([MODULE, *names[:depth]])]}/{names[depth]}" in rule.cutpoints
        for names in places
        for depth in range(len(names) - 1)
    )


def build_gates(rule: PipelineProperty, scene: EmittedHarness, folder: Path, yosys: Yosys) -> ClockedGates:
    """Make the gates in ``folder``; raises :class:`ToolError` if Yosys cannot."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "core.v").write_text("\n".join(scene.emitted.modules.values()))
    yosys.run(script(rule, scene), folder, what=rule.name, results=["rule.json"], name="rule")
    return ClockedGates(read_module(folder / "rule.json", MODULE))
