"""Faults of a core that random programs or cycle costs must find, and lists of all faults."""

from collections.abc import Collection
from functools import partial

from xpulpnn.config import CoreConfig
from xpulpnn.core.backend import Backend
from xpulpnn.core.controller import Controller
from xpulpnn.core.core import Core
from xpulpnn.core.csr_file import CsrFile
from xpulpnn.core.div import Divider
from xpulpnn.core.id_stage import IdStage
from xpulpnn.core.if_stage import IfStage
from xpulpnn.core.lsu import Lsu
from xpulpnn.core.machine_counter import MachineCounter
from xpulpnn.core.mult import Mult
from xpulpnn.core.performance_counters import PerformanceCounters
from xpulpnn.core.prefetch import DEPTH, PrefetchBuffer
from xpulpnn.core.stall_monitor import StallMonitor
from xpulpnn.core.wb_stage import WbStage
from xpulpnn.isa.csr import CSR_BY_NAME, PERFORMANCE_EVENTS
from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.proofs.faults.core import CORE_FAULTS, HALT_FAULTS
from xpulpnn_sim.proofs.faults.fault import COSTS, LOST_RESET, PROGRAMS, Fault
from xpulpnn_sim.proofs.faults.instructions import INSTRUCTION_FAULTS

_controller, _core, _csrs, _id = (partial(Fault, unit) for unit in (Controller, Core, CsrFile, IdStage))
_backend, _counters, _stalls, _wb = (
    partial(Fault, unit) for unit in (Backend, PerformanceCounters, StallMonitor, WbStage)
)


def _event(name, value):
    bit = 1 << PERFORMANCE_EVENTS.index(name)
    return f"Mux({value}, right | {bit}, right & ~{bit})"


_KILLED = "insn.valid & {} & ~decoder.illegal"
_SMALLEST = 1 << XLEN - 1
_OVERFLOWS = f"ctrl.signed & (op_a == {_SMALLEST}) & op_b.all() & ~ctrl.remainder"
_MULHSU = "(ctrl.op == MultOp.HIGH) & ctrl.a_signed & ~ctrl.b_signed"
_MOVES_BASE = "id_ex.lsu.valid & ~id_ex.lsu.we & id_ex.lsu.post"
_MIP = f"csr.addr == {CSR_BY_NAME['mip'].address}"

_PROGRAM_FAULTS = (
    Fault(
        IfStage,
        "a compressed instruction that ends a loop is taken for a word",
        "insn.payload.compressed",
        "right & ~loop_back",
        PROGRAMS,
    ),
    _csrs("mcountinhibit does not stop mcycle", "mcycle.step", "clock_runs", PROGRAMS),
    Fault(
        Mult,
        "mulhsu of the smallest by the largest",
        "result",
        f"right ^ ({_MULHSU} & (op_a == {_SMALLEST}) & op_b.all())",
        PROGRAMS,
    ),
    Fault(
        Divider,
        "a quotient that overflows is the largest",
        "result",
        f"Mux({_OVERFLOWS}, {_SMALLEST - 1}, right)",
        PROGRAMS,
    ),
    _controller("wfi is not reset", "net.sleeping", LOST_RESET, PROGRAMS),
    _controller("a core sleeps while it fetches", "asleep", "net.sleeping & ~busy & ~net.any_pending", PROGRAMS),
    _controller("core_sleep falls a cycle late", "asleep", "net.sleeping & ~busy & fetch_idle", PROGRAMS),
    _controller(
        "an interrupt is taken asleep", "irq_ack", "net.interrupts & id_valid & ~busy & ~net.faulted", PROGRAMS
    ),
    Fault(
        PrefetchBuffer,
        "a fifth word is fetched",
        "net.can_request",
        f"right | (net.live + net.drops == {DEPTH})",
        PROGRAMS,
    ),
    _csrs("mip does not show line 29", "csr.rdata", f"right & ~Mux({_MIP}, 1 << 29, 0)", PROGRAMS),
    Fault(Lsu, "an access under way is not reset", "net.outstanding", LOST_RESET, PROGRAMS),
    _id("a base that a load moves is not forwarded to rd", "rs3_read.ex_we", f"right & ~({_MOVES_BASE})", PROGRAMS),
    _wb("an access that faults writes the NN-RF", "nn_we", "right | (net.nn_pending & fault)", PROGRAMS),
)

PROGRAM_FAULTS = tuple(
    fault for fault in (*_PROGRAM_FAULTS, *CORE_FAULTS, *INSTRUCTION_FAULTS) if PROGRAMS in fault.checks
)
"""Faults of a core with XpulpV2 and Mac&Load."""

COUNTER_FAULTS = (
    _id("jump_register_stalls never counts", "jump_register_stall", "0", PROGRAMS),
    _core("fetch_stalls counts redirects", "csr_file.events", _event("fetch_stalls", "~if_stage.insn.valid"), PROGRAMS),
    _id(
        "jump_register_stalls counts killed instructions",
        "jump_register_stall",
        _KILLED.format("net.id_jalr_waits"),
        COSTS,
    ),
    _backend(
        "load_use_stalls counts while a multiplication computes",
        "events.load_use_stall",
        "right | ~ex_stage.done",
        PROGRAMS,
    ),
    _core("cycles counts asleep", "csr_file.events", _event("cycles", "1"), PROGRAMS),
    _core("mcycle counts asleep", "csr_file.clock_runs", "1", PROGRAMS),
    _core(
        "instructions counts what leaves WB",
        "csr_file.events",
        _event("instructions", "backend.flow.wb_leaves"),
        PROGRAMS,
    ),
    _backend("loads counts requests", "events.load", "data.req & ~data.we", PROGRAMS),
    _backend("stores leaves bytes out", "events.store", "right & (data.be != 1)", PROGRAMS),
    _backend("jumps counts killed instructions", "events.jump", "id_stage.intent.jump", PROGRAMS),
    _backend("branches counts taken ones", "events.branch", "branch.valid", PROGRAMS),
    _backend(
        "taken_branches counts all branches", "events.taken_branch", "id_stage.id_ex.branch & flow.ex_leaves", PROGRAMS
    ),
    _backend(
        "compressed counts instructions that trap",
        "events.compressed",
        "id_stage.issue & insn.payload.compressed",
        PROGRAMS,
    ),
    _wb("elw_stalls counts every load", "elw_stall", "~lsu_done", PROGRAMS),
    _counters("a write of all counters leaves one alone", "count10", "Mux(we_all, count10, right)", PROGRAMS),
    _counters("counters cannot be made to stay", "mode", "right & 1", PROGRAMS),
    _counters("cycles is always enabled", "enable", "right | 1", PROGRAMS),
    _counters("pcmr does not stop the counters", "mode", "right | 1", PROGRAMS),
    Fault(MachineCounter, "minstret counts accesses that fault", "net.takes_back", "0", PROGRAMS),
    _stalls(
        "bubbles behind a load are told as fetches",
        "cause",
        "Mux(right == WaitCause.LOAD_USE, WaitCause.FETCH, right)",
        PROGRAMS,
    ),
    _stalls(
        "bubbles of jumps are told as those of branches",
        "cause",
        "Mux(right == WaitCause.JUMP, WaitCause.BRANCH, right)",
        COSTS,
    ),
    _stalls(
        "a division is told as a misaligned access",
        "cause",
        "Mux(right == WaitCause.MULTICYCLE, WaitCause.MISALIGNED, right)",
        COSTS,
    ),
    _csrs("mcountinhibit does not stop minstret", "minstret.step", "retire", PROGRAMS),
    _id(
        "load_use_stalls counts killed instructions",
        "load_use_stall",
        _KILLED.format("net.id_late_operand"),
        COSTS,
        "requantise_exact",
    ),
    _id(
        "load_use_stalls leaves Mac&Load out", "load_use_stall", "right & ~id_ex.wb_base", PROGRAMS, "requantise_exact"
    ),
)
"""Faults of a core with performance counters."""

PROOF_FAULTS = (*CORE_FAULTS, *INSTRUCTION_FAULTS, *HALT_FAULTS)


def faults_for(config: CoreConfig, checks: Collection[str]) -> list[Fault]:
    """Return the faults of a core that some of these proofs must find."""
    return [fault for fault in PROOF_FAULTS if fault.fits(config) and not set(checks).isdisjoint(fault.checks)]
