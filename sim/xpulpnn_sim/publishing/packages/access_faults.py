"""Checks of access faults: what the bus answers with an error has no effect but the trap."""

from xpulpnn.isa.machine import ExceptionCause
from xpulpnn_sim.publishing.packages.checks import Checks
from xpulpnn_sim.publishing.packages.memory_map import NOWHERE

_RELOADS_WEIGHT = 0b10000  # selector of a Mac&Load that reloads weight 0


def failed_fetch(checks: Checks) -> None:
    """A call of a place outside the memory; the handler returns to the caller."""
    checks.title("instruction access fault")
    checks.code("    li a0, nowhere; jalr ra, 0(a0)")
    checks.stored(ExceptionCause.INSTRUCTION_ACCESS_FAULT.value, "mcause of a fetch outside the memory")
    checks.stored(lambda labels: labels["nowhere"], "mepc of a fetch outside the memory")


def failed_accesses(checks: Checks) -> None:
    """Loads and stores of a place outside the memory; the handler goes on behind them."""
    checks.title("load and store access faults: registers stay as they were, in the instruction behind too")
    _fault(checks, "lw a1, 0(a0)")
    _fault(checks, "sw a1, 0(a0)", store=True)
    if checks.config.xpulpv2:
        _fault(checks, "p.lw a1, 4(a0!)")
        _fault(checks, "p.sw a1, 4(a0!)", store=True)
        checks.code("    lp.setupi 0, 5, faulty_end\n    addi a2, a2, 0\nfaulty_end:\n    lw a1, 0(a0)")
        _stored_fault(checks, "faulty_end", "lw at the end of a hardware loop", store=False)
        checks.code("    csrr a2, lpcount0; lp.counti 0, 0")
        checks.expect("a2", 5, "lpcount0 after a fault of the last instruction of the body")
    for insn in [insn for insn in checks.insns if insn.is_mac_load][:1]:
        operands = "(a0!), a2" if insn.entry is not None else f"(a0!), {_RELOADS_WEIGHT}"
        _fault(checks, f"{insn.mnemonic} a1, {operands}")


def _fault(checks: Checks, text: str, *, store: bool = False) -> None:
    """An access through a0 of a1 or into it, and an instruction behind that must wait for its fault."""
    label = f"access_fault{len(checks.results)}"
    checks.code(f"    li a0, nowhere; li a1, 85; li a2, 3\n{label}:\n    {text}\n    addi a2, a2, 4")
    _stored_fault(checks, label, text, store=store)
    checks.expect("a0", NOWHERE, f"base after a fault of {text}")
    checks.expect("a1", 85, f"a1 after a fault of {text}")
    checks.expect("a2", 7, f"the instruction behind a fault of {text} is executed once")


def _stored_fault(checks: Checks, label: str, text: str, *, store: bool) -> None:
    cause = ExceptionCause.STORE_ACCESS_FAULT if store else ExceptionCause.LOAD_ACCESS_FAULT
    checks.stored(cause.value, f"mcause of {text} outside the memory")
    checks.stored(lambda labels: labels[label], f"mepc of {text} outside the memory")
