"""Bounded model checking with ABC of a riscv-formal check, which is in SystemVerilog, together with the core."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from xpulpnn.errors import ToolError
from xpulpnn.isa.csr import csr_address
from xpulpnn_sim.proofs.engine.clocked_gates import ClockCycle, ClockedGates, ClockedGraph
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, Word
from xpulpnn_sim.proofs.engine.outcomes import FAILED, PASSED, UNDECIDED, VACUOUS, Outcome
from xpulpnn_sim.proofs.engine.solvers import WITNESS, CycleSearch, read_witness
from xpulpnn_sim.proofs.riscv_formal.suite import COUNTS, FAIR, NO_TRAPS, NO_WAITING, ONE_WRITE, OWN, Check, Suite
from xpulpnn_sim.tools.netlists import read_module
from xpulpnn_sim.tools.yosys import Yosys

CORE = "core_"  # prefix of the core's outputs in a check

CHECK, TRIGGER, RESET = "check", "trig", "reset"
"""Inputs of a check: CHECK is 1 in the cycle that it examines, TRIGGER when the examined instruction retires."""

CONSTANT = ("boot_addr", "hart_id")

_CORE_RESET, _FAIR, _CLOCK = "rst", "fair", "clock"


class BmcProblem(NamedTuple):
    graph: ClockedGraph
    bad: Sequence[int]  # literals that must stay 0: one for each check or data bit
    claims: Sequence[int]  # literals that must become 1 in some cycle: one for each check
    signals: Mapping[str, Word]  # outputs of the core


def bmc_problem(checks: Sequence[Check], netlists: Sequence[ClockedGates], core: ClockedGates) -> BmcProblem:
    """Return a graph of one or several checks together with the core, after one cycle of reset.

    A check examines a single cycle. Its registers are therefore updated with CHECK at 0, and a failure is evaluated
    with CHECK at 1.
    """
    graph, (first, *_) = ClockedGraph(), checks
    known = {name: graph.constants(len(core.inputs[name])) for name in CONSTANT if name in core.inputs}
    known |= {_CORE_RESET: [FALSE], _FAIR: [int(FAIR in first.defines)]}
    cycle = graph.place(core, known, graph.after_reset(core, _CORE_RESET))
    signals = {name: cycle.port(name) for name in core.outputs}
    bad: list[int] = []
    claims: list[int] = []
    for netlist, bit in product(netlists, range(len(signals[first.sliced[0]]) if first.sliced else 1)):
        trigger = graph.input() if first.triggered else FALSE
        seen = {f"{CORE}{name}": _only(bit, word) if name in first.sliced else word for name, word in signals.items()}
        literals = _outcomes(graph, netlist, seen | {TRIGGER: [trigger]})
        failure, claim = (_delayed(graph, trigger, each, first.delay) if first.triggered else each for each in literals)
        bad.append(failure)
        claims += [] if bit else [claim]
    return BmcProblem(graph, bad, claims, signals)


def _only(bit: int, word: Sequence[int]) -> list[int]:
    return [literal if place == bit else FALSE for place, literal in enumerate(word)]


def _outcomes(graph: ClockedGraph, check: ClockedGates, seen: Mapping[str, Sequence[int]]) -> tuple[int, int]:
    """Return two literals: that the check fails, and that it has an enabled assertion."""
    given = {**seen, _CLOCK: [FALSE], RESET: [FALSE]}
    idle = graph.place(check, {**given, CHECK: [FALSE]}, graph.after_reset(check, RESET))
    looking = ClockCycle(graph, check, {**given, CHECK: [TRUE]}, idle.variables())
    if CHECK in check.inputs and any(_hold(graph, idle, [claim]) != TRUE for claim in check.asserted):
        raise ToolError("the check must not fail in a cycle in which it does not look")
    assumed, so_far = _hold(graph, idle, check.assumed), graph.register(TRUE)
    graph.follow(so_far, graph.and_(so_far, assumed))
    assumptions_hold = graph.and_(_hold(graph, looking, check.assumed), TRUE if assumed == TRUE else so_far)
    claims = graph.any(looking.nets([made])[0] for _, made in check.asserted)
    return graph.and_(assumptions_hold, _hold(graph, looking, check.asserted) ^ 1), graph.and_(assumptions_hold, claims)


def _hold(graph: ClockedGraph, cycle: ClockCycle, claims: Sequence[tuple[int, int]]) -> int:
    return graph.all(graph.or_(claim, made ^ 1) for claim, made in map(cycle.nets, claims))


def _delayed(graph: ClockedGraph, trigger: int, failure: int, delay: int | None) -> int:
    """Return a failure only ``delay`` cycles after a trigger or, for None, in every cycle after a trigger."""
    if delay is None:
        earlier = graph.register(FALSE)
        awaited = graph.or_(earlier, trigger)
        graph.follow(earlier, awaited)
        return graph.and_(failure, awaited)
    for _ in range(delay):
        later = graph.register(FALSE)
        graph.follow(later, trigger)
        trigger = later
    return graph.and_(failure, trigger)


TOP = "seen"  # module of a check

ORDER_BITS = 8
"""Number of bits of the instruction count in checks, which suffices for all searched cycles."""

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

_TRAPS = "fault"  # checker of the CSRs that traps write

_TRAPPED = {"rmask": "32'b0", "wmask": "{32{rvfi_trap}}", "rdata": "32'b0", "wdata": f"{CORE}cause"}
"""Expressions in Verilog for the access of a trap to mcause, by field."""

_ASSUMED: Mapping[str, str] = {
    NO_TRAPS: f"!(rvfi_valid && (rvfi_trap || rvfi_intr || rvfi_insn == {_MRET}))",
    ONE_WRITE: "!core_two_writes",
    NO_WAITING: f"!(rvfi_valid && rvfi_insn == {_WFI})",
    COUNTS: f"!(rvfi_valid && {CORE}csr_wmask != 0 && ({_IS_COUNTER}))",
}


def top_text(check: Check, manifest: Mapping[str, Any]) -> str:
    defines = [*_COMMON, *((f"RISCV_FORMAL_CSR_{check.csr.upper()}",) if check.csr else ()), *check.defines]
    lines = [*(f"`define {each}" for each in defines), *(f'`include "{Path(name).name}"' for name in check.files)]
    return "\n".join([*lines, "", _top(check, manifest)])


def _top(check: Check, manifest: Mapping[str, Any]) -> str:
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
    for name in check.assumed:
        if name in _ASSUMED:
            body.append(f"// assumed: {name}\n    always @* if (!{RESET}) assume ({_ASSUMED[name]});")
    ports_text, shown = ",\n    ".join(ports), "\n    ".join([*body, *check.body])
    return f"module {TOP} (\n    {ports_text}\n);\n    {shown}\nendmodule\n"


def _csr_ports(name: str) -> list[str]:
    address = csr_address(name)
    is_accessed = f"{CORE}csr_addr == 12'h{address:03x}"
    if name in _WIDE_CSRS:
        high = f"{CORE}csr_addr == 12'h{csr_address(f'{name}h'):03x}"
        halves = [[f"{when} ? {CORE}csr_{part} : 32'b0" for when in (high, is_accessed)] for part in _CSR_PARTS]
        texts = zip(_CSR_PARTS, map(", ".join, halves), strict=True)
        return [f"assign rvfi_csr_{name}_{part} = {{{text}}};" for part, text in texts]
    return [f"assign rvfi_csr_{name}_{part} = {is_accessed} ? {CORE}csr_{part} : 32'b0;" for part in _CSR_PARTS]


BAD, SIMPLE, CLAIMS = "bad.aig", "simple.aig", "claims.aig"  # files of the searched graphs
_READ = f"read_aiger {BAD}; strash; scleanup; "
_SCRIPT = """read_verilog -sv -formal -I. check.sv
hierarchy -check -top {top}
proc
flatten
opt_clean
opt -full -nodffe -nosdff
chformal -cover -remove
{lower}chformal -early
opt_clean
techmap
opt -fast -nodffe -nosdff
dffunmap
opt_clean
write_json check.json
"""
_TRIGGERS = 37  # first Yosys version, 0.37, that keeps properties as cells with a trigger
_LOWER = "async2sync\nchformal -lower\n"


def read_check(check: Check, suite: Suite, manifest: Mapping[str, Any], folder: Path, yosys: Yosys) -> ClockedGates:
    folder.mkdir(parents=True, exist_ok=True)
    for name in check.files:
        (folder / Path(name).name).write_text(suite.text(name))
    (folder / "check.sv").write_text(top_text(check, manifest))
    number = re.match(r"0\.(\d+)", yosys.tools["yosys"])
    script = _SCRIPT.format(top=TOP, lower=_LOWER if number is None or int(number[1]) >= _TRIGGERS else "")
    yosys.run(script, folder, what=check.name, results=["check.json"], name="check")
    return ClockedGates(read_module(folder / "check.json", TOP))


def shared_search(check: Check) -> tuple[object, ...] | None:
    """Return a key that checks have in common if they can be searched together; None for a check searched alone."""
    if check.sliced or check.triggered:
        return None
    return (check.cutpoints, check.cycle, check.first)


def with_claims(outcome: Outcome, check: Check, claims: int, graph: ClockedGraph, searching: CycleSearch) -> Outcome:
    """Return the outcome; a check that passed without an enabled assertion gets another verdict, such as vacuous."""
    if outcome.verdict != PASSED or claims == TRUE:
        return outcome
    if claims == FALSE:
        return replace(outcome, verdict=VACUOUS)
    (searching.folder / CLAIMS).write_bytes(graph.aiger([claims]).content)
    last = check.cycle - 1
    claiming, deepest = searching.search(f"read_aiger {CLAIMS}; strash; ", check.first - 1, last)
    if claiming is not None:
        return outcome
    return replace(outcome, verdict=VACUOUS if deepest >= last else UNDECIDED)


def search(check: Check, problem: BmcProblem, folder: Path, abc: str, timeout_s: float, *, shortest: bool) -> Outcome:
    """Search for a counterexample of a check.

    Only the last cycle is searched at first, since any failure in an earlier cycle also occurs in the last one if
    fetching begins later. Data bits with equal graphs are searched once. Unless the check passes, the first cycle that
    fails is then searched for.
    """
    began = time.monotonic()
    aiger = problem.graph.aiger(problem.bad)
    (folder / BAD).write_bytes(aiger.content)
    last = check.cycle - 1
    failed = decided = False
    if not shortest:
        searching = CycleSearch(abc, folder, began + timeout_s)
        failed, decided = _last_cycle(searching, last, merge_equal=len(problem.bad) > 1)
    if decided and not failed:
        return Outcome(name=check.name, verdict=PASSED, cycle=check.cycle, seconds=time.monotonic() - began)
    # first failing cycle, or depth of the search
    searching = CycleSearch(abc, folder, time.monotonic() + timeout_s)
    failing, deepest = searching.search(f"read_aiger {BAD}; strash; ", check.first - 1, last)
    seconds = time.monotonic() - began
    if failing is not None:
        frames = read_witness((folder / WITNESS).read_text(), aiger.inputs)
        trace = problem.graph.replay(frames, problem.signals)
        return Outcome(name=check.name, verdict=FAILED, cycle=failing + 1, seconds=seconds, trace=trace)
    if failed:
        return Outcome(name=check.name, verdict=FAILED, cycle=check.cycle, seconds=seconds)
    verdict = PASSED if deepest >= last else UNDECIDED
    return Outcome(name=check.name, verdict=verdict, cycle=deepest + 1, seconds=seconds)


def search_all(checks: Sequence[Check], problem: BmcProblem, folder: Path, abc: str, timeout_s: float) -> float | None:
    """Search all checks at once; return the seconds if all pass, or None if one fails or time runs out."""
    began = time.monotonic()
    searching = CycleSearch(abc, folder, began + timeout_s)
    (folder / BAD).write_bytes(problem.graph.aiger(problem.bad).content)
    if all(literal == FALSE for literal in searching.simplify(_READ, SIMPLE)):
        return time.monotonic() - began
    last = checks[0].cycle - 1
    failing, deepest = searching.search(f"read_aiger {SIMPLE}; ", last, last)
    return time.monotonic() - began if failing is None and deepest >= last else None


def _last_cycle(searching: CycleSearch, last: int, *, merge_equal: bool) -> tuple[bool, bool]:
    outputs = searching.simplify(f"{_READ}iso; " if merge_equal else _READ, SIMPLE)
    for number, literal in enumerate(outputs):
        if literal == FALSE:
            # simplified to constant 0
            continue
        read = f"read_aiger {SIMPLE}; " + (f"cone -s -O {number}; scleanup; " if len(outputs) > 1 else "")
        failing, deepest = searching.search(read, last, last)
        if failing is not None:
            return True, True
        if deepest < last:
            return False, False
    return False, True
