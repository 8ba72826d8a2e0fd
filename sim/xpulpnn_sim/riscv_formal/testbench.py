"""SystemVerilog around a check: its settings, and a wrapper that gives the core memories and interrupts of any kind."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpulpnn.isa.csr import csr_address
from xpulpnn_sim.riscv_formal.suite import ASSUMPTIONS, NO_LOOPS, NO_TRAPS, NO_WAITING, ONE_WRITE, OWN, TRUE_DATA, Check

MODULE = "surrounded_core"
"""Module of the core between its memories."""

_CONSTANT = ("boot_addr", "hart_id", "watched", "watched_first", "watched_register")
_COMMON = (
    "RISCV_FORMAL",
    "RISCV_FORMAL_NRET 1",
    "RISCV_FORMAL_XLEN 32",
    "RISCV_FORMAL_ILEN 32",
    "RISCV_FORMAL_RESET_CYCLES 1",
    "RISCV_FORMAL_CHANNEL_IDX 0",
    "RISCV_FORMAL_COMPRESSED",
    "RISCV_FORMAL_ALTOPS",
    "RISCV_FORMAL_MEM_FAULT",
)
_ANY_CYCLE = "RISCV_FORMAL_UNBOUNDED"
_NO_CHECKER = f"module rvfi_{OWN}_check (input clock, reset, check, `RVFI_INPUTS);\nendmodule"
"""For what is checked by the wrapper."""

_WIDE_CSRS = ("mcycle", "minstret")
_WFI, _MRET = "32'h10500073", "32'h30200073"
_CSR_PARTS = ("rmask", "wmask", "rdata", "wdata")

_ASSUMED: Mapping[str, str] = {
    NO_LOOPS: "!seen_loops",
    NO_TRAPS: f"!(rvfi_valid && (rvfi_trap || rvfi_intr || rvfi_insn == {_MRET}))",
    ONE_WRITE: "!seen_two_writes",
    TRUE_DATA: "seen_data_true",
    NO_WAITING: f"!(rvfi_valid && rvfi_insn == {_WFI})",
}


def top_text(check: Check, manifest: Mapping[str, Any]) -> str:
    """The top file of a check.

    Parameters
    ----------
    check : Check
        The check.
    manifest : mapping
        Ports of the core between its memories.
    """
    defines = [
        *_COMMON,
        f"RISCV_FORMAL_CHECKER rvfi_{check.checker}_check",
        f"RISCV_FORMAL_CHECK_CYCLE {check.cycle}",
        *((_ANY_CYCLE,) if check.any_cycle else ()),
        *((f"RISCV_FORMAL_TRIG_CYCLE {check.trigger}",) if check.trigger else ()),
        *((f"RISCV_FORMAL_CSR_{check.csr.upper()}",) if check.csr else ()),
        *check.defines,
    ]
    lines = [*(f"`define {each}" for each in defines), *(f'`include "{Path(name).name}"' for name in check.files)]
    return "\n".join([*lines, *((_NO_CHECKER,) if check.checker == OWN else ()), "", _wrapper(check, manifest)])


def _wrapper(check: Check, manifest: Mapping[str, Any]) -> str:
    """The wrapper that the suite's testbench expects."""
    ports = [port for port in manifest["ports"] if port["name"] not in ("clk", "rst")]
    has_bus = any(name.startswith("RISCV_FORMAL_BUS") for name in check.defines)
    body: list[str] = []
    connections = [".clk(clock)", ".rst(reset)"]
    for port in ports:
        name, width = port["name"], port["width"]
        wire = name if name.startswith("rvfi_") else f"seen_{name}"
        if name.startswith("bus_") and has_bus:
            wire = f"rvfi_{name}"
        if name == "fair":
            wire = "1'b1" if "RISCV_FORMAL_FAIRNESS" in check.defines else "1'b0"
        elif port["direction"] == "input":
            kind = "const_reg" if name in _CONSTANT else "reg"
            body.append(f"`rvformal_rand_{kind} [{width - 1}:0] {wire};")
        elif not wire.startswith("rvfi_"):
            body.append(f"wire [{width - 1}:0] {wire};")
        connections.append(f".{name}({wire})")
    joined = ",\n        ".join(connections)
    body.append(f"{MODULE} core (\n        {joined}\n    );")
    if has_bus:
        body += ["assign rvfi_bus_insn = 2'b01;", "assign rvfi_bus_data = 2'b10;"]
    if check.csr:
        body += _csr_ports(check.csr)
    if check.wrong:
        body.append(f"always @* if (!reset) assert (!(seen_{check.wrong}));")
    for name in check.assumed:
        body.append(f"// assumed: {ASSUMPTIONS[name]}\n    always @* if (!reset) assume ({_ASSUMED[name]});")
    shown = "\n    ".join(body)
    ports_text = "`RVFI_OUTPUTS\n    `RVFI_BUS_OUTPUTS"
    return f"module rvfi_wrapper (\n    input clock, input reset,\n    {ports_text}\n);\n    {shown}\nendmodule\n"


def _csr_ports(name: str) -> list[str]:
    """The ports of a CSR: what the instruction retiring does to it."""
    address = csr_address(name)
    here = f"seen_csr_addr == 12'h{address:03x}"
    if name in _WIDE_CSRS:
        high = f"seen_csr_addr == 12'h{csr_address(f'{name}h'):03x}"
        return [
            f"assign rvfi_csr_{name}_{part} = {{{high} ? seen_csr_{part} : 32'b0, {here} ? seen_csr_{part} : 32'b0}};"
            for part in _CSR_PARTS
        ]
    return [f"assign rvfi_csr_{name}_{part} = {here} ? seen_csr_{part} : 32'b0;" for part in _CSR_PARTS]
