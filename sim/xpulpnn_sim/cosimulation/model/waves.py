"""Writes the GTKWave save file of a waveform: groups of signals, with names for instructions and enumerations.

In the waveform of a cluster there is an outer group for each core. The names are in translate filter files in a folder
beside the save file. Signals and enumerations come from the manifest of the emitted Verilog.
"""

import io
from collections.abc import Mapping
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from vcd.gtkw import GTKWSave, make_translation_filter

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.isa.compressed import expand_compressed
from xpulpnn.isa.csr import CSR_BY_ADDRESS
from xpulpnn.isa.machine import BYTE_BITS, HALF_BYTES, WORD_BYTES, instruction_size
from xpulpnn.isa.retirement import CAUSE_INTERRUPT, WaitCause
from xpulpnn_sim.cosimulation.model.build import TOP
from xpulpnn_sim.cosimulation.model.libraries import cached_emission, engine_of, observed
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sim.reference.programs.trace import EXCEPTIONS, decode
from xpulpnn_sim.tools.files import write_text, write_view
from xpulpnn_sw.assembly.disasm import ABI_NAMES, disassemble

SAVE_SUFFIX, FILTERS_SUFFIX = ".gtkw", ".filters"

SCOPE = f"{TOP}.{TOP}"  # scope of the top of the design


INSTRUCTION, REGISTER, CSR, CAUSE, WAIT = "instruction", "register", "csr", "cause", "wait"
"""Types of signal values that get names here instead of from an enumeration in the design."""

_BACKEND = "core.backend"
_ID, _EX, _WB = f"{_BACKEND}.id_stage", f"{_BACKEND}.ex_stage", f"{_BACKEND}.wb_stage"
_TAP, _LSU = f"{_BACKEND}.rvfi_tap", f"{_BACKEND}.lsu"

SIGNAL_GROUPS: Mapping[str, Mapping[str, str]] = {
    "what retires, or what the cycle waits for": {
        "core": "rvfi_valid rvfi_insn:instruction rvfi_wait:wait",
        "core.csr_file": "mcycle_value",
    },
    "clock and reset": {"core": "clk rst fetch_enable boot_addr hart_id core_sleep irq irq_ack irq_id"},
    "IF": {
        "core.if_stage": "redirect target pc loop_back loop_start",
        "core.if_stage.prefetch": "valid take count",
        "core.if_stage.compressed_decoder": "expanded:instruction compressed",
    },
    "ID": {
        "core.if_stage": "id_raw:instruction",
        _ID: "insn__valid insn__ready insn__payload__pc insn__payload__word:instruction insn__payload__compressed "
        "issue kill hold id_stall id_late_operand id_jalr_waits id_drains illegal rs1 rs2 rs3 decoder_ctrl_ex_unit "
        "decoder_ctrl_op_a decoder_ctrl_op_b decoder_ctrl_op_c decoder_ctrl_imm decoder_ctrl_mac_load "
        "jump__valid jump__target trap__valid trap__cause:cause system__valid system__kind",
    },
    "EX": {
        _TAP: "ex_pc_rdata ex_insn:instruction",
        _EX: "valid ctrl_unit op_a op_b op_c done result comparison mult_start div_start "
        "dotp_fmt dotp_form dotp_format dotp2_format dotp_a dotp_b dotp_result first second "
        "id_nn_act_addr id_nn_act id_nn_wgt_addr id_nn_wgt",
        _BACKEND: "flow__ex_leaves branch__valid branch__target",
    },
    "WB": {
        _TAP: "wb_valid rvfi__pc_rdata rvfi__insn:instruction",
        _WB: "lsu_done wb__we wb__addr:register wb__data wb_is_base nn_we nn_addr",
        _EX: "wb_nn_data",
    },
    "controller, CSRs and hardware loops": {
        "core.controller": "started sleeping interrupts hold enter enter_interrupt enter_cause leave redirect target",
        "core.csr_file": "csr__valid csr__addr:csr csr__op csr__write csr__wdata csr__rdata mie pending mstatus_bits "
        "mie_bits mtvec_bits mepc mcause_bits:cause mcycle_value minstret_value",
        "core.hwloops": "setup__valid setup__op setup__loop hold wrong late "
        "lpstart0 lpend0 lpcount0 lpstart1 lpend1 lpcount1",
    },
    "instruction port": {"core": "instr__req instr__gnt instr__addr instr__rvalid instr__rdata"},
    "data port": {
        "core": "data__req data__gnt data__addr data__we data__be data__wdata data__rvalid data__rdata",
        _LSU: "second outstanding ex_done wb_done wb_size",
    },
    "retirement": {
        "core": "rvfi_order rvfi_pc_rdata rvfi_trap rvfi_intr rvfi_cause:cause "
        "rvfi_rs1_addr:register rvfi_rs1_rdata rvfi_rs2_addr:register rvfi_rs2_rdata rvfi_rd_we "
        "rvfi_rd_addr:register rvfi_rd_wdata rvfi_base_we rvfi_base_addr:register rvfi_base_wdata rvfi_mem_addr "
        "rvfi_mem_rmask rvfi_mem_rdata rvfi_mem_wmask rvfi_mem_wdata rvfi_nn_act_rdata rvfi_nn_wgt_rdata "
        "rvfi_nn_we rvfi_nn_addr rvfi_nn_wdata rvfi_pc_wdata"
    },
}
"""Signals by group and instance. After ``:`` follows the kind of the values. Signals that the design lacks are
omitted."""

_CLUSTER = "cluster"
_CLUSTER_GROUPS: Mapping[str, Mapping[str, str]] = {
    "cluster": {
        _CLUSTER: "clk rst fetch_enable busy core_clock_en eoc return_value "
        "ext__req ext__gnt ext__addr ext__we ext__be ext__wdata ext__rvalid ext__rdata ext_hart",
        f"{_CLUSTER}.event_unit": "barrier_0_events barrier_1_events core_0_barriers__0__status "
        "core_0_barriers__1__status dispatch_team irq",
    }
}

_IN_DEMUX = "answering to_tcdm to_event_unit to_peripherals to_ext to_hole tcdm__gnt tcdm__rvalid"
_CLOSED = frozenset({"retirement"})
_NESTED = "/"  # separates the name of a group from that of its parent


class WaveSignal(NamedTuple):
    instance: str  # path of the instance from the top
    name: str  # name in the Verilog
    width: int
    filter: str | None  # file with the names of its values

    @property
    def path(self) -> str:
        bits = f"[{self.width - 1}:0]" if self.width > 1 else ""
        return f"{SCOPE}.{self.instance}.{self.name}{bits}"


def save_files(waveform: Path) -> tuple[Path, Path]:
    return waveform.with_suffix(SAVE_SUFFIX), waveform.with_suffix(FILTERS_SUFFIX)


def write_save_file(waveform: Path, executable: Executable, config: CoreConfig | ClusterConfig) -> None:
    save_file, folder = save_files(waveform)
    groups, filters = contents(executable, config)
    folder.mkdir(exist_ok=True)
    for name, text in filters.items():
        write_text(folder / name, text)
    text = io.StringIO()
    save = GTKWSave(text)
    save.comment("Generated by xpulpnn run.")
    # paths relative to the working directory, so that the folder can be moved
    save.dumpfile(str(waveform), abspath=False)
    save.savefile(str(save_file), abspath=False)
    save.sst_expanded(True)
    save.treeopen(f"{SCOPE}.{next(iter(groups.values()))[0].instance}")
    for view, members in groupby(groups.items(), lambda item: item[0].rpartition(_NESTED)[0]):
        with save.group(view, closed=True) if view else nullcontext():
            for name, signals in members:
                group = name.rpartition(_NESTED)[2]
                with save.group(group, closed=group in _CLOSED):
                    for shown in signals:
                        names = None if shown.filter is None else str(folder / shown.filter)
                        alias = f"{shown.instance.rpartition('.')[2]}.{shown.name}"
                        save.trace(shown.path, alias=alias, translate_filter_file=names)
    write_view(save_file, text.getvalue())


def _views(config: CoreConfig | ClusterConfig) -> Mapping[str, Mapping[str, str]]:
    if isinstance(config, CoreConfig):
        return SIGNAL_GROUPS
    views = dict(_CLUSTER_GROUPS)
    banks = " ".join(f"banks__{bank}__req bank_master_{bank}" for bank in range(config.banks))
    views["banks"] = {_CLUSTER: banks}
    for number in range(config.cores):
        core = f"{_CLUSTER}.core{number}"
        for group, instances in SIGNAL_GROUPS.items():
            moved = {f"{core}{instance.removeprefix('core')}": text for instance, text in instances.items()}
            views[f"core {number}{_NESTED}{group}"] = moved
        views[f"core {number}{_NESTED}where its accesses go"] = {f"{_CLUSTER}.demux{number}": _IN_DEMUX}
    return views


def contents(
    executable: Executable, config: CoreConfig | ClusterConfig
) -> tuple[dict[str, list[WaveSignal]], dict[str, str]]:
    """Return the signals of each group (PARENT/NAME if nested) and the text of each filter file."""
    manifest = cached_emission(engine_of(config), observed(config))[1]
    fixed = {
        INSTRUCTION: instruction_names(executable),
        REGISTER: dict(enumerate(ABI_NAMES)),
        WAIT: {cause.value: cause.name.lower() for cause in WaitCause},
        CSR: {address: csr.name for address, csr in CSR_BY_ADDRESS.items()},
        CAUSE: EXCEPTIONS | {CAUSE_INTERRUPT | line: f"interrupt {line}" for line in range(CAUSE_INTERRUPT)},
    }
    filters: dict[str, str] = {}
    groups: dict[str, list[WaveSignal]] = {}
    for group, instances in _views(config).items():
        shown = groups.setdefault(group, [])
        for instance, text in instances.items():
            widths, enumerations = _widths(manifest, instance), _enumerations(manifest, instance)
            for signal in text.split():
                name, _, kind = signal.partition(":")
                if name not in widths:
                    continue
                width, names = widths[name], fixed[kind] if kind else enumerations.get(name, {})
                file = f"{kind or name}-{width}.txt" if names else None
                if file is not None:
                    fitting = {value: label for value, label in names.items() if value < 1 << width}
                    filters[file] = make_translation_filter(list(fitting.items()), size=width) + "\n"
                shown.append(WaveSignal(instance, name, width, file))
    return groups, filters


def _module(manifest: Mapping[str, Any], instance: str) -> Mapping[str, Any]:
    name = manifest["hierarchy"].get(instance)
    return {} if name is None else manifest["modules"][name]


def _widths(manifest: Mapping[str, Any], instance: str) -> dict[str, int]:
    module = _module(manifest, instance)
    return {net["name"]: net["width"] for kind in ("signals", "registers", "ports") for net in module.get(kind, ())}


def _enumerations(manifest: Mapping[str, Any], instance: str) -> dict[str, dict[int, str]]:
    children = [path for path in manifest["hierarchy"] if path.rpartition(".")[0] == instance]
    enumerations: dict[str, dict[int, str]] = {}
    for path, prefix in ((instance, ""), *((path, f"{path.rpartition('.')[2]}_") for path in children)):
        for port in _module(manifest, path).get("ports", ()):
            for field in port.get("fields", ()):
                suffix = "_" + field["name"].replace(".", "_") if field["name"] else ""
                values = {value: name for name, value in field.get("values", {}).items()}
                enumerations.setdefault(f"{prefix}{port['name']}{suffix}", values)
    return enumerations


def instruction_names(executable: Executable) -> dict[int, str]:
    """Return the disassembly of the instruction at each half-word of code, by its fetched word and its 32-bit form."""
    starts = {executable.entry, *(function.address for function in executable.functions)}
    names: dict[int, str] = {}
    for segment in executable.segments:
        if starts.isdisjoint(range(segment.address, segment.address + len(segment.data))):
            continue
        for at in range(0, len(segment.data), HALF_BYTES):
            word = int.from_bytes(segment.data[at : at + WORD_BYTES], "little")
            raw = word & ((1 << BYTE_BITS * instruction_size(word)) - 1)
            row = decode(raw)
            if row is not None:
                word = expand_compressed(raw) if row.size == HALF_BYTES else raw
                names |= {raw: disassemble(raw), word: disassemble(word)}
    return dict(sorted(names.items()))
