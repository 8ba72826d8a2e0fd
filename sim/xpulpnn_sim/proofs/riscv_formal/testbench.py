"""SystemVerilog around a check: its settings, and the outputs of the core as its inputs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpulpnn.isa.csr import csr_address
from xpulpnn_sim.proofs.riscv_formal.join import CHECK, CORE, RESET, TRIGGER
from xpulpnn_sim.proofs.riscv_formal.suite import (
    ASSUMPTIONS,
    COUNTS,
    NO_TRAPS,
    NO_WAITING,
    ONE_WRITE,
    OWN,
    TRUE_DATA,
    Check,
)

MODULE = "surrounded_core"  # module of the core between its memories

TOP = "seen"  # module of a check: what it sees of the core

CONSTANT = ("boot_addr", "hart_id", "watched", "watched_first", "watched_register")
"""Inputs of the core between its memories that do not change."""

ORDER_BITS = 8
"""Bits of the count of instructions that checks look at: enough for all cycles that are searched, see ``order``."""

_COMMON = (
    "RISCV_FORMAL",
    "RISCV_FORMAL_NRET 1",
    "RISCV_FORMAL_XLEN 32",
    "RISCV_FORMAL_ILEN 32",
    "RISCV_FORMAL_CHANNEL_IDX 0",
    "RISCV_FORMAL_COMPRESSED",
    "RISCV_FORMAL_ALTOPS",
    "RISCV_FORMAL_MEM_FAULT",
)
_WIDE_CSRS = ("mcycle", "minstret")
_WFI, _MRET = "32'h10500073", "32'h30200073"
_IS_COUNTER = " || ".join(f"{CORE}csr_addr == 12'h{csr_address(name):03x}" for name in _WIDE_CSRS)
_CSR_PARTS = ("rmask", "wmask", "rdata", "wdata")

_TRAPS = "fault"  # checker that looks at the CSR that traps write

_TRAPPED = {"rmask": "32'b0", "wmask": "{32{rvfi_trap}}", "rdata": "32'b0", "wdata": f"{CORE}cause"}
"""Effect of a trap on mcause."""

_ASSUMED: Mapping[str, str] = {
    NO_TRAPS: f"!(rvfi_valid && (rvfi_trap || rvfi_intr || rvfi_insn == {_MRET}))",
    ONE_WRITE: "!core_two_writes",
    TRUE_DATA: "!core_data_failed && !core_data_other",
    NO_WAITING: f"!(rvfi_valid && rvfi_insn == {_WFI})",
    COUNTS: f"!(rvfi_valid && {CORE}csr_wmask != 0 && ({_IS_COUNTER}))",
}


def top_text(check: Check, manifest: Mapping[str, Any]) -> str:
    """The top file of a check."""
    defines = [
        *_COMMON,
        *((f"RISCV_FORMAL_CSR_{check.csr.upper()}",) if check.csr else ()),
        *check.defines,
    ]
    lines = [*(f"`define {each}" for each in defines), *(f'`include "{Path(name).name}"' for name in check.files)]
    return "\n".join([*lines, "", *check.own, "", _top(check, manifest)])


def _top(check: Check, manifest: Mapping[str, Any]) -> str:
    """The module that has outputs of the core as inputs."""
    outputs = {port["name"]: port["width"] for port in manifest["ports"] if port["direction"] == "output"}
    has_bus = any(name.startswith("RISCV_FORMAL_BUS") for name in check.defines)
    ports = [f"input {name}" for name in ("clock", RESET, CHECK, TRIGGER)]
    ports += [f"input [{width - 1}:0] {CORE}{name}" for name, width in outputs.items()]
    body = ["`RVFI_WIRES", "`RVFI_BUS_WIRES"]
    for name in outputs:
        if name == "rvfi_order":
            body.append(f"assign {name} = {{{64 - ORDER_BITS}'b0, {CORE}{name}[{ORDER_BITS - 1}:0]}};")
        elif name.startswith("rvfi_"):
            body.append(f"assign {name} = {CORE}{name};")
        elif name.startswith("bus_") and has_bus:
            body.append(f"assign rvfi_{name} = {CORE}{name};")
    if has_bus:
        body += ["assign rvfi_bus_insn = 2'b01;", "assign rvfi_bus_data = 2'b10;"]
    if check.checker == _TRAPS:
        body += [f"assign rvfi_csr_{check.csr}_{part} = {value};" for part, value in _TRAPPED.items()]
    elif check.csr:
        body += _csr_ports(check.csr)
    if check.checker != OWN:
        wired = [f".{name}({name})" for name in ("clock", RESET, CHECK, *((TRIGGER,) if check.triggered else ()))]
        joined = ", ".join(wired)
        body.append(
            f"rvfi_{check.checker}_check checker_inst ({joined},\n        `RVFI_CONN\n        `RVFI_BUS_CONN\n    );"
        )
    for name in check.wrong:
        body.append(f"always @* if (!{RESET} && {CHECK}) assert (!({CORE}{name}));")
    for name in check.assumed:
        if name not in _ASSUMED:
            continue
        body.append(f"// assumed: {ASSUMPTIONS[name]}\n    always @* if (!{RESET}) assume ({_ASSUMED[name]});")
    ports_text, shown = ",\n    ".join(ports), "\n    ".join([*body, *check.body])
    return f"module {TOP} (\n    {ports_text}\n);\n    {shown}\nendmodule\n"


def _csr_ports(name: str) -> list[str]:
    """The ports of a CSR: what the instruction retiring does to it."""
    address = csr_address(name)
    here = f"{CORE}csr_addr == 12'h{address:03x}"
    if name in _WIDE_CSRS:
        high = f"{CORE}csr_addr == 12'h{csr_address(f'{name}h'):03x}"
        return [
            f"assign rvfi_csr_{name}_{part} = {{{high} ? {CORE}csr_{part} : 32'b0, {here} ? {CORE}csr_{part} : 32'b0}};"
            for part in _CSR_PARTS
        ]
    return [f"assign rvfi_csr_{name}_{part} = {here} ? {CORE}csr_{part} : 32'b0;" for part in _CSR_PARTS]
