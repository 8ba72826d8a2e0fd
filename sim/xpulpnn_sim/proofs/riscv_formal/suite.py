"""Find an installed riscv-formal, and select the checks of its suite that apply to a core."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError, ToolError
from xpulpnn.isa.csr import CSRS, ZERO_CSRS, CsrAccess, CsrGroup
from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sim.proofs.riscv_formal.cutpoints import CLASSES, instruction_cutpoints

VARIABLE = "XPULPNN_RISCV_FORMAL"  # environment variable with the folder of riscv-formal

DEPTH = 15  # default cycle after reset that checks examine

_ISA = "rv32imc"
_ALTERNATIVE = ("mul", "mulh", "mulhsu", "mulhu", "div", "divu", "rem", "remu")
_CONSISTENCY = ("reg", "pc_fwd", "pc_bwd", "causal", "causal_mem", "unique", "ill", "fault", "hang", "liveness")
_BUS_DEFINES = tuple(f"RISCV_FORMAL_{each}" for each in ("BUS", "NBUS 2", "BUSLEN 32", "FAULT_WIDTH 4"))
_TRIGGERED = ("unique", "hang", "liveness")
_LIVENESS_WINDOW = 36  # cycles for the next instruction to retire with fair memories
_HANG_CYCLE = 25
_CUTS = {
    "reg": CLASSES["moves"],
    "pc_fwd": CLASSES["addresses"],
    "pc_bwd": CLASSES["addresses"],
    "ill": instruction_cutpoints("add"),
    "fault": instruction_cutpoints("lw"),
    "hang": CLASSES["progress"],
    "liveness": CLASSES["progress"],
}
"""Cutpoints by checker of riscv-formal; a checker that is not listed only needs the order of retirements."""

_ORDER = (
    "reg [63:0] expected = 0;",
    "always @(posedge clock) if (reset) expected <= 0; else if (core_rvfi_valid) expected <= expected + 1;",
    "always @* if (check && core_rvfi_valid) assert (core_rvfi_order == expected);",
)
_TRAP_STATE = ("mstatus", "mepc", "mcause")  # CSRs that traps also write
_COUNTERS = ("mcycle", "minstret")

FAIR = "RISCV_FORMAL_FAIRNESS"  # macro of checks with fair memories

OWN = "own"  # checker of our own checks

NO_LOOPS, NO_TRAPS, NO_WAITING = "no hardware loops", "no traps, interrupts or mret", "no wfi"
ONE_WRITE, COUNTS = "no instruction that writes two registers", "no writes to mcycle and minstret"
"""Assumptions of checks."""


@dataclass(frozen=True, slots=True)
class Check:
    name: str  # `insn_add`, `reg` or `csrw_mscratch` of the suite, or our `order`
    checker: str  # file `rvfi_CHECKER_check.sv`, or OWN
    cycle: int  # last cycle after reset that is examined
    defines: tuple[str, ...] = ()  # additional macros: a name, or name and value
    assumed: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()  # included files besides the checker
    csr: str = ""  # CSR of the check, or empty
    cutpoints: tuple[str, ...] = ()
    # core outputs with independent bits, each of which is checked separately
    sliced: tuple[str, ...] = ()
    first: int = 1  # first cycle after reset that is examined
    delay: int | None = None  # cycles from trigger to examined cycle; None for any
    # lines of the top module, with assertions for cycles with `check` at 1; state that `reset` does not set is free
    body: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        suite = ("rvfi_macros.vh", "rvfi_channel.sv")
        checker = () if self.checker == OWN else (f"rvfi_{self.checker}_check.sv",)
        return (*(f"checks/{name}" for name in (*suite, *checker)), *(f"insns/{name}" for name in self.sources))

    @property
    def triggered(self) -> bool:
        return self.checker in _TRIGGERED


@dataclass(frozen=True, slots=True)
class Suite:
    folder: Path  # with `checks` and `insns`

    def text(self, name: str) -> str:
        return _read(self.folder / name)

    @property
    def instructions(self) -> list[str]:
        return self.text(f"insns/isa_{_ISA}.txt").split()

    @property
    def masks(self) -> dict[str, int]:
        """Return the masks of the substitute operations that riscv-formal expects in place of RV32M instructions."""
        masks: dict[str, int] = {}
        for name in _ALTERNATIVE:
            mask = re.search(r"altops_bitmask\s*=\s*64'h([0-9a-fA-F]+)", self.text(f"insns/insn_{name}.v"))
            if mask is None:
                raise InputError(f"{self.folder}/insns/insn_{name}.v must have an altops_bitmask, not none")
            masks[name] = int(mask[1], 16) & WORD_MASK
        return masks

    def checks(self, config: CoreConfig, depth: int = DEPTH) -> list[Check]:
        loops = (NO_LOOPS,) if config.xpulpv2 else ()
        buses = dict.fromkeys(("bus_imem", "bus_imem_fault"), CLASSES["fetches"])
        buses |= {"bus_dmem_fault": CLASSES["accesses"]}
        checks = [_consistency(name, config, depth) for name in _CONSISTENCY]
        checks += [Check(name, name, depth, _BUS_DEFINES, cutpoints=cuts) for name, cuts in buses.items()]
        checks.append(Check("order", OWN, depth, body=_ORDER, cutpoints=CLASSES["order"]))
        for name in self.instructions:
            defines, cuts = (f"RISCV_FORMAL_INSN_MODEL rvfi_insn_{name}",), instruction_cutpoints(name)
            checks.append(Check(f"insn_{name}", "insn", depth, defines, loops, (f"insn_{name}.v",), cutpoints=cuts))
        return [*checks, *self._csr_checks(depth, loops)]

    def _csr_checks(self, depth: int, loops: tuple[str, ...]) -> Iterator[Check]:
        known = self.text("checks/rvfi_macros.vh")
        rows = [
            csr
            for csr in CSRS
            if csr.group is CsrGroup.BASE and csr.name.startswith("m")
            if f"`ifdef RISCV_FORMAL_CSR_{csr.name.upper()}\n" in known
            if not csr.name.startswith("mhpm") or csr.name in ("mhpmcounter3", "mhpmevent3")
        ]
        accesses, cuts = CLASSES["CSR"], CLASSES["CSR, no loops" if loops else "CSR"]
        for csr in rows:
            wide = ("RISCV_FORMAL_CSRWH",) if csr.name in _COUNTERS else ()
            defines = (f"RISCV_FORMAL_CSRW_NAME {csr.name}", *wide)
            yield Check(f"csrw_{csr.name}", "csrw", depth, defines, loops, csr=csr.name, cutpoints=cuts)
        for csr in rows:
            kind, more, assumed = "", (), ()
            if csr.name in _COUNTERS:
                # the suite remembers a write for one cycle only
                kind, assumed = "inc", (COUNTS,)
            elif csr in ZERO_CSRS and csr.access is CsrAccess.WI:
                kind = "zero"
            elif csr.writable:
                kind, more = "any", (f"RISCV_FORMAL_CSRC_MASK 32'h{csr.writable:08x}",)
                assumed = (NO_TRAPS,) if csr.name in _TRAP_STATE else ()
            elif csr.name == "misa":
                kind, more = "const", ("RISCV_FORMAL_CSRC_CONSTVAL rdata_shadow",)
            if kind:
                name, defines = f"csrc_{kind}_{csr.name}", (f"RISCV_FORMAL_CSRC_NAME {csr.name}", *more)
                yield Check(name, f"csrc_{kind}", depth, defines, assumed, csr=csr.name, cutpoints=accesses)
        kinds = tuple(f"RISCV_FORMAL_ILL_{name}" for name in ("MMODE", "READ", "WRITE"))
        for address in (0x302, 0x306, 0x3A0, 0x7A0):
            defines = (f"RISCV_FORMAL_ILL_CSR_ADDR 12'h{address:03x}", *kinds)
            yield Check(f"csr_ill_{address:03x}", "csr_ill", depth, defines, cutpoints=CLASSES["order"])


def _consistency(name: str, config: CoreConfig, depth: int) -> Check:
    check = Check(name, name, depth, cutpoints=_CUTS.get(name, CLASSES["order"]))
    if name == "reg":
        sliced = ("rvfi_rd_wdata", "rvfi_rs1_rdata", "rvfi_rs2_rdata")
        return replace(check, assumed=(ONE_WRITE,) if config.xpulpv2 else (), sliced=sliced)
    if name == "fault":
        return replace(check, csr="mcause")
    if name == "hang":
        return replace(check, cycle=_HANG_CYCLE, first=_HANG_CYCLE, defines=(FAIR,))
    if name == "liveness":
        cycle = _LIVENESS_WINDOW + depth
        return replace(check, cycle=cycle, delay=_LIVENESS_WINDOW, defines=(FAIR,), assumed=(NO_WAITING,))
    return check


@cache
def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise InputError(f"{path} must be readable, as in riscv-formal, not failing with: {error.strerror}") from None


def find_suite(folder: Path | None) -> Suite:
    """Return the suite in ``folder`` or, for None, in the folder named by the environment variable."""
    option = "suite"
    if folder is None:
        option = VARIABLE
        named = os.environ.get(VARIABLE, "")
        if not named:
            raise ToolError(
                f"riscv-formal must be there: git clone https://github.com/YosysHQ/riscv-formal, then --riscv-formal "
                f"FOLDER or {VARIABLE}=FOLDER"
            )
        folder = Path(named)
    if not (folder / "checks" / "rvfi_macros.vh").is_file() or not (folder / "insns").is_dir():
        raise InputError(f"{option} must be the folder of riscv-formal, with checks and insns, not {folder}")
    return Suite(folder.absolute())
