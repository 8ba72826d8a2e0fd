"""Bench of the CSR file: every register, traps and counters against the simulator."""

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
from cocotb.triggers import RisingEdge

from xpulpnn.isa import csr as isa
from xpulpnn.isa.machine import IRQ_BITS, VECTOR_BYTES, WORD_MASK, XLEN
from xpulpnn_sim.benches.agents import Dut, Scoreboard, drive, pulse_reset, run_vectors, unit_test
from xpulpnn_sim.benches.launcher_data import bench_data, configuration
from xpulpnn_sim.reference.iss.csrs import SimulatedCsrs
from xpulpnn_sim.reference.stimuli import random_word

_WRITABLE = (isa.CsrAccess.RW, isa.CsrAccess.WO)
LOOP_NAMES = tuple(csr.name for csr in isa.CSRS if csr.group is isa.CsrGroup.HWLOOP)
"""CSRs of hardware loops, which the file does not store, in the order of their addresses."""

CsrCycle = dict[str, Any]
"""Inputs of the CSR file in one cycle, by port; ``op`` is WRITE, SET or CLEAR. Accesses need ``retire_final``."""


class CsrModel:
    def __init__(self, groups: frozenset[isa.CsrGroup]) -> None:
        self._groups = groups
        self._file = SimulatedCsrs(0, 0, groups)
        # minstret has counted an instruction that may still trap; that instruction has trapped
        self._counted = self._takes_back = False

    def _access(self, cycle: CsrCycle) -> tuple[int, int, isa.Csr | None]:
        """Return the value read (0 for no register), the value written, and the register that is written."""
        file, wdata = self._file, cycle["csr__wdata"]
        csr = isa.CSR_BY_ADDRESS.get(cycle["csr__addr"])
        if csr is None or csr.group not in self._groups:
            csr = None
            old = 0
        elif csr.name in LOOP_NAMES:
            old = cycle["loop_values"] >> XLEN * LOOP_NAMES.index(csr.name) & isa.ALL_BITS
        else:
            file["mip"], file["mhartid"] = cycle["irq"] & IRQ_BITS, cycle["hart_id"]
            old = file.call("read_csr", csr.address)
        new = {"WRITE": wdata, "SET": old | wdata, "CLEAR": old & ~wdata}[cycle["op"]]
        writes = csr is not None and cycle["csr__valid"] and cycle["csr__write"] and csr.access in _WRITABLE
        return old, new, csr if writes else None

    def outputs(self, cycle: CsrCycle) -> dict[str, int]:
        """Return the expected outputs of the CSR file in this cycle, by port; -1 if any value is allowed."""
        file = self._file
        old, new, target = self._access(cycle)
        vectored = cycle["enter_interrupt"] and file["mtvec"] & isa.MTVEC_VECTORED
        outputs = {
            "csr__rdata": old,
            "handler": (file["mtvec"] & isa.MTVEC_BASE) + (VECTOR_BYTES * cycle["enter_cause"] if vectored else 0),
            "mepc": file["mepc"],
            "mie": int(file["mstatus"] & isa.MSTATUS_MIE != 0),
            "pending": cycle["irq"] & file["mie"],
        }
        if isa.CsrGroup.HWLOOP in self._groups:
            loop = target is not None and target.name in LOOP_NAMES
            outputs["loop_we"] = 1 << LOOP_NAMES.index(target.name) if target is not None and loop else 0
            outputs["wdata"] = new if loop else -1
        return outputs

    def clock(self, cycle: CsrCycle) -> None:
        """Advance to the next cycle: count, unless the counter is written, then enter or leave a trap."""
        file = self._file
        _, new, target = self._access(cycle)
        inhibit, saturates = file["mcountinhibit"], bool(file["pcmr"] & isa.PCMR_SATURATES)
        enabled = file["pcer"] if file["pcmr"] & isa.PCMR_COUNTS else 0
        file.hart.skipped = 0
        if cycle["boot"]:
            file["mtvec"] = file["mtvec"] & ~isa.MTVEC_BASE | cycle["boot_addr"] & isa.MTVEC_BASE
        if target is not None:
            file.call("write_csr", target.address, new)
        is_written = target is not None and target.name in ("minstret", "minstreth")
        if self._takes_back and not is_written:
            total = (file["minstreth"] << XLEN | file["minstret"]) - 1
            file["minstret"], file["minstreth"] = total & isa.ALL_BITS, total >> XLEN & isa.ALL_BITS
        file.call("pass", cycle["clock_runs"], cycle["retire"], inhibit)
        self._takes_back = cycle["retire_cancel"] and self._counted
        if cycle["retire_final"]:
            self._counted = cycle["retire"] and not is_written and not inhibit & isa.INHIBIT["minstret"]
        file.call("count", cycle["events"], enabled, saturates)
        if cycle["enter"]:
            file.hart.pc = cycle["enter_pc"] & ~1
            file.call("enter", (isa.MCAUSE_INTERRUPT if cycle["enter_interrupt"] else 0) | cycle["enter_cause"])
        elif cycle["leave"]:
            enabled = isa.MSTATUS_MIE if file["mstatus"] & isa.MSTATUS_MPIE else 0
            file["mstatus"] = file["mstatus"] & ~isa.MSTATUS_MIE | isa.MSTATUS_MPIE | enabled


ALMOST_FULL = (WORD_MASK - 1, WORD_MASK)
EVENTS = len(isa.PERFORMANCE_EVENTS)
_STOPPING = 0b11  # mode of performance counters that count and do not wrap


def _registers() -> list[isa.Csr]:
    return [csr for csr in isa.CSRS if csr.group in configuration().csr_groups]


def idle_cycle(rng: Random) -> CsrCycle:
    final, cancel = rng.choice(((True, False), (True, False), (False, True), (False, False)))
    return {
        "csr__addr": rng.choice(isa.CSRS).address,
        **dict.fromkeys(("csr__valid", "csr__write", "boot", "enter", "leave"), False),
        "op": "WRITE",
        "boot_addr": random_word(rng),
        "hart_id": random_word(rng),
        "irq": random_word(rng),
        "clock_runs": rng.random() < 0.8,
        "retire": final and rng.random() < 0.5,
        "retire_final": final,
        "retire_cancel": cancel,
        "enter_pc": random_word(rng),
        "enter_interrupt": rng.random() < 0.5,
        "enter_cause": rng.randrange(XLEN),
        "loop_values": sum(random_word(rng) << XLEN * index for index in range(len(LOOP_NAMES))),
        "events": rng.getrandbits(EVENTS),
        "csr__wdata": random_word(rng),
    }


def _access(csr: isa.Csr, op: str, operand: int, rng: Random) -> CsrCycle:
    """Return the inputs of a cycle that writes, sets or clears a register, or reads a read-only one."""
    write = csr.access is not isa.CsrAccess.RO
    access = {"csr__addr": csr.address, "op": op, "csr__valid": True, "csr__write": write, "csr__wdata": operand}
    return {**idle_cycle(rng), "retire_final": True, "retire_cancel": False, **access}


def read(csr: isa.Csr, rng: Random) -> CsrCycle:
    return {**idle_cycle(rng), "csr__addr": csr.address}


def _directed(rng: Random) -> Iterator[CsrCycle]:
    """Yield reset values; every register all ones, all zeros, set and cleared; full counters; traps in both modes."""
    every = _registers()
    yield from (read(csr, rng) for csr in every)
    for csr in every:
        operands = (isa.ALL_BITS, random_word(rng), 0, random_word(rng))
        for op, operand in zip(("WRITE", "CLEAR", "WRITE", "SET"), operands, strict=True):
            yield _access(csr, op, operand, rng)
            yield read(csr, rng)
            # the same access while the instruction stays in EX, or without a write, with another value
            for without in ("csr__valid", "csr__write"):
                yield _access(csr, op, operand ^ isa.ALL_BITS, rng) | {without: False}
            yield read(csr, rng)
    by_name = {csr.name: csr for csr in every}
    yield idle_cycle(rng) | {"boot": True}
    for vectored in (0, 1):
        yield _access(by_name["mtvec"], "WRITE", random_word(rng) & ~1 | vectored, rng)
        for enabled in (0, 8, 0x80, 0x88):
            yield _access(by_name["mstatus"], "WRITE", enabled, rng)
            yield idle_cycle(rng) | {"enter": True}
            yield from (read(by_name[name], rng) for name in ("mstatus", "mepc", "mcause", "mtval"))
            yield idle_cycle(rng) | {"leave": True}
            yield read(by_name["mstatus"], rng)
    yield from full_counters(by_name, rng)
    yield from almost_full_counters(by_name, rng)


def full_counters(by_name: dict[str, isa.Csr], rng: Random) -> Iterator[CsrCycle]:
    """Yield cycles in which performance counters wrap or saturate, in every counting mode."""
    if "pcmr" in by_name:
        for mode in range(4):
            yield _access(by_name["pcmr"], "WRITE", mode, rng)
            yield _access(by_name["pcer"], "WRITE", rng.getrandbits(EVENTS) | 1 << rng.randrange(EVENTS), rng)
            for value in (ALMOST_FULL[0], *(rng.getrandbits(XLEN) for _ in range(6))):
                yield _access(by_name["pccrall"], "WRITE", value, rng)
                yield from (idle_cycle(rng) | {"events": (1 << EVENTS) - 1} for _ in range(3))
                yield from (read(csr, rng) for name, csr in by_name.items() if name.startswith("pccr"))
        # counters saturate at the end of their range, and not one bit away from it
        yield _access(by_name["pcmr"], "WRITE", _STOPPING, rng)
        yield _access(by_name["pcer"], "WRITE", (1 << EVENTS) - 1, rng)
        for value in (isa.ALL_BITS, *(isa.ALL_BITS ^ 1 << place for place in range(XLEN))):
            yield _access(by_name["pccrall"], "WRITE", value, rng)
            yield idle_cycle(rng) | {"events": (1 << EVENTS) - 1}
            yield from (read(csr, rng) | {"events": 0} for name, csr in by_name.items() if name.startswith("pccr"))


def almost_full_counters(by_name: dict[str, isa.Csr], rng: Random) -> Iterator[CsrCycle]:
    """Yield cycles with counters that wrap, or whose next carry into the upper half depends on a single lower bit."""
    yield _access(by_name["mcountinhibit"], "WRITE", 0, rng)
    for name in ("mcycle", "minstret"):
        low, high, *views = (by_name[view] for view in (name, f"{name}h", name[1:], f"{name[1:]}h"))
        for place in range(XLEN):
            # with all ones above, the whole counter wraps
            yield _access(high, "WRITE", rng.choice((*ALMOST_FULL, random_word(rng))), rng)
            for value in (ALMOST_FULL[0] ^ 1 << place, ALMOST_FULL[1] ^ 1 << place, (1 << place) - 1, isa.ALL_BITS):
                yield _access(low, "WRITE", value, rng)
                # count one up, which is cancelled two cycles later
                for counts, cancels in ((True, False), (False, True), (False, False), (True, False)):
                    looks = read(rng.choice((low, high, *views)), rng) | {"clock_runs": True, "retire": counts}
                    yield looks | {"retire_final": counts, "retire_cancel": cancels}


def random_cycles(rng: Random) -> Iterator[CsrCycle]:
    """Yield random accesses, traps and returns from traps; a trap never comes together with a write."""
    every = _registers()
    for _ in range(1500):
        csr = rng.choice(every)
        if rng.random() < 0.3:
            traps = {name: rng.random() < 0.2 for name in ("enter", "leave")}
            yield idle_cycle(rng) | traps | {"csr__addr": csr.address}
        else:
            yield _access(csr, rng.choice(["WRITE", "SET", "CLEAR"]), random_word(rng), rng)


def columns(cycles: list[CsrCycle]) -> dict[str, np.ndarray]:
    data = bench_data()
    stimulus = {port: [int(cycle[port]) for cycle in cycles] for port in cycles[0] if port in data["inputs"]}
    stimulus["csr__op"] = [data["ops"][cycle["op"]] for cycle in cycles]
    return {port: np.array(values, dtype=object) for port, values in stimulus.items()}


@unit_test(draw=[_directed, random_cycles])
async def registers_match_the_simulator(dut: Dut, rng: Random, board: Scoreboard, draw) -> None:
    """Compare read data and all outputs in every cycle; then again after a reset."""
    for phase in ("after reset", "after a reset in flight"):
        model, cycles = CsrModel(configuration().csr_groups), list(draw(rng))
        want: dict[str, list[int]] = {}
        for cycle in cycles:
            for port, value in model.outputs(cycle).items():
                want.setdefault(port, []).append(value)
            model.clock(cycle)
        stimulus = columns(cycles)
        observed = await run_vectors(dut, stimulus, list(want))
        for port, values in want.items():
            checked = [index for index, value in enumerate(values) if value >= 0]
            board.compare({port: values}, observed, stimulus, phase, checked)
        drive(dut, dict.fromkeys(("csr__valid", "enter", "leave", "boot"), 0))
        await RisingEdge(dut.clk)
        await pulse_reset(dut)
