"""Faults of a core that random programs or cycle costs must find."""

from amaranth.hdl import Mux, Value

from xpulpnn.core.backend import Backend
from xpulpnn.core.controller import Controller
from xpulpnn.core.core import Core
from xpulpnn.core.csr_file import CsrFile
from xpulpnn.core.div import Divider
from xpulpnn.core.id_stage import IdStage
from xpulpnn.core.if_stage import IfStage
from xpulpnn.core.lsu import Lsu
from xpulpnn.core.machine_counter import MachineCounter
from xpulpnn.core.mult import Mult, MultOp
from xpulpnn.core.performance_counters import PerformanceCounters
from xpulpnn.core.prefetch import DEPTH, PrefetchBuffer
from xpulpnn.core.stall_monitor import StallMonitor
from xpulpnn.core.wb_stage import WbStage
from xpulpnn.isa.csr import CSR_BY_NAME, PERFORMANCE_EVENTS
from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.proofs.faults.core import CORE_FAULTS
from xpulpnn_sim.proofs.faults.fault import COSTS, PROGRAMS, Fault, lost_reset
from xpulpnn_sim.proofs.faults.instructions import INSTRUCTION_FAULTS


def _event(name, value):
    """Return a fault that replaces the bit of a performance event."""
    bit = 1 << PERFORMANCE_EVENTS.index(name)
    return {"csr_file.events": lambda right, u: Mux(value(u), right | bit, right & ~bit)}


def _called(cause, other, signal="cause"):
    """Return a fault that reports a stall cause as another cause."""
    return {signal: lambda right, _: Mux(right == cause, other, right)}


def _late_and_killed(_, u):
    return u("insn.valid") & u(".id_late_operand") & ~u("decoder.illegal")


def _base_and_killed(_, u):
    return u("insn.valid") & u(".id_jalr_waits") & ~u("decoder.illegal")


_SMALLEST = 1 << XLEN - 1


def _quotient_that_overflows(right, u):
    overflows = u("ctrl.signed") & (u("op_a") == _SMALLEST) & u("op_b").all()
    return Mux(overflows & ~u("ctrl.remainder"), _SMALLEST - 1, right)


def _high_of_corners(right, u):
    is_mulhsu = (u("ctrl.op") == MultOp.HIGH) & u("ctrl.a_signed") & ~u("ctrl.b_signed")
    return right ^ (is_mulhsu & (u("op_a") == _SMALLEST) & u("op_b").all())


def _base_from_ex(right, u):
    return right & ~(u("id_ex.lsu.valid") & ~u("id_ex.lsu.we") & u("id_ex.lsu.post"))


def _asleep_while_fetching(_, u):
    return Value.cast(u(".sleeping") & ~u("busy") & ~u(".any_pending"))


def _asleep_while_woken(_, u):
    return Value.cast(u(".sleeping") & ~u("busy") & u("fetch_idle"))


def _taken_asleep(_, u):
    return u(".interrupts") & u("id_valid") & ~u("busy") & ~u(".faulted")


def _mip_without_a_line(right, u):
    return right & ~Mux(u("csr.addr") == CSR_BY_NAME["mip"].address, 1 << 29, 0)


_PROGRAM_FAULTS = (
    Fault(
        "a compressed instruction that ends a loop is taken for a word",
        IfStage,
        {"insn.payload.compressed": lambda right, u: right & ~u("loop_back")},
        PROGRAMS,
    ),
    Fault(
        "mcountinhibit does not stop mcycle",
        CsrFile,
        {"mcycle.step": lambda _, u: Value.cast(u("clock_runs"))},
        PROGRAMS,
    ),
    Fault("mulhsu of the smallest by the largest", Mult, {"result": _high_of_corners}, PROGRAMS),
    Fault("a quotient that overflows is the largest", Divider, {"result": _quotient_that_overflows}, PROGRAMS),
    Fault("wfi is not reset", Controller, {".sleeping": lost_reset}, PROGRAMS),
    Fault("a core sleeps while it fetches", Controller, {"asleep": _asleep_while_fetching}, PROGRAMS),
    Fault("core_sleep falls a cycle late", Controller, {"asleep": _asleep_while_woken}, PROGRAMS),
    Fault("an interrupt is taken asleep", Controller, {"irq_ack": _taken_asleep}, PROGRAMS),
    Fault(
        "a fifth word is fetched",
        PrefetchBuffer,
        {".can_request": lambda right, u: right | (u(".live") + u(".drops") == DEPTH)},
        PROGRAMS,
    ),
    Fault("mip does not show line 29", CsrFile, {"csr.rdata": _mip_without_a_line}, PROGRAMS),
    Fault("an access under way is not reset", Lsu, {".outstanding": lost_reset}, PROGRAMS),
    Fault("a base that a load moves is not forwarded to rd", IdStage, {"rs3_read.ex_we": _base_from_ex}, PROGRAMS),
    Fault(
        "an access that faults writes the NN-RF",
        WbStage,
        {"nn_we": lambda right, u: right | (u(".nn_pending") & u("fault"))},
        PROGRAMS,
    ),
)

PROGRAM_FAULTS = tuple(
    fault for fault in (*_PROGRAM_FAULTS, *CORE_FAULTS, *INSTRUCTION_FAULTS) if PROGRAMS in fault.checks
)
"""Faults of a core with XpulpV2 and Mac&Load."""

COUNTER_FAULTS = (
    Fault("jump_register_stalls never counts", IdStage, {"jump_register_stall": lambda *_: 0}, PROGRAMS),
    Fault("fetch_stalls counts redirects", Core, _event("fetch_stalls", lambda u: ~u("if_stage.insn.valid")), PROGRAMS),
    Fault("jump_register_stalls counts killed instructions", IdStage, {"jump_register_stall": _base_and_killed}, COSTS),
    Fault(
        "load_use_stalls counts while a multiplication computes",
        Backend,
        {"events.load_use_stall": lambda right, u: right | ~u("ex_stage.done")},
        PROGRAMS,
    ),
    Fault("cycles counts asleep", Core, _event("cycles", lambda u: 1), PROGRAMS),
    Fault("mcycle counts asleep", Core, {"csr_file.clock_runs": lambda *_: 1}, PROGRAMS),
    Fault(
        "instructions counts what leaves WB",
        Core,
        _event("instructions", lambda u: u("backend.flow.wb_leaves")),
        PROGRAMS,
    ),
    Fault("loads counts requests", Backend, {"events.load": lambda _, u: u("data.req") & ~u("data.we")}, PROGRAMS),
    Fault("stores leaves bytes out", Backend, {"events.store": lambda right, u: right & (u("data.be") != 1)}, PROGRAMS),
    Fault(
        "jumps counts killed instructions", Backend, {"events.jump": lambda _, u: u("id_stage.intent.jump")}, PROGRAMS
    ),
    Fault("branches counts taken ones", Backend, {"events.branch": lambda _, u: u("branch.valid")}, PROGRAMS),
    Fault(
        "taken_branches counts all branches",
        Backend,
        {"events.taken_branch": lambda _, u: u("id_stage.id_ex.branch") & u("flow.ex_leaves")},
        PROGRAMS,
    ),
    Fault(
        "compressed counts instructions that trap",
        Backend,
        {"events.compressed": lambda _, u: u("id_stage.issue") & u("insn.payload.compressed")},
        PROGRAMS,
    ),
    Fault("elw_stalls counts every load", WbStage, {"elw_stall": lambda _, u: ~u("lsu_done")}, PROGRAMS),
    Fault(
        "a write of all counters leaves one alone",
        PerformanceCounters,
        {"count10": lambda right, u: Mux(u("we_all"), u("count10"), right)},
        PROGRAMS,
    ),
    Fault("counters cannot be made to stay", PerformanceCounters, {"mode": lambda right, _: right & 1}, PROGRAMS),
    Fault("cycles is always enabled", PerformanceCounters, {"enable": lambda right, _: right | 1}, PROGRAMS),
    Fault("pcmr does not stop the counters", PerformanceCounters, {"mode": lambda right, _: right | 1}, PROGRAMS),
    Fault("minstret counts accesses that fault", MachineCounter, {".takes_back": lambda *_: 0}, PROGRAMS),
    Fault(
        "bubbles behind a load are told as fetches",
        StallMonitor,
        _called(WaitCause.LOAD_USE, WaitCause.FETCH),
        PROGRAMS,
    ),
    Fault(
        "bubbles of jumps are told as those of branches", StallMonitor, _called(WaitCause.JUMP, WaitCause.BRANCH), COSTS
    ),
    Fault(
        "a division is told as a misaligned access",
        StallMonitor,
        _called(WaitCause.MULTICYCLE, WaitCause.MISALIGNED),
        COSTS,
    ),
    Fault(
        "mcountinhibit does not stop minstret",
        CsrFile,
        {"minstret.step": lambda _, u: Value.cast(u("retire"))},
        PROGRAMS,
    ),
    Fault(
        "load_use_stalls counts killed instructions",
        IdStage,
        {"load_use_stall": _late_and_killed},
        COSTS,
        needs="requantise_exact",
    ),
    Fault(
        "load_use_stalls leaves Mac&Load out",
        IdStage,
        {"load_use_stall": lambda right, u: right & ~u("id_ex.wb_base")},
        PROGRAMS,
        needs="requantise_exact",
    ),
)
"""Faults of a core with performance counters."""
