"""Runs programs on a core or cluster, with their exit and output channel, checks and profile."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.isa.cluster import CLINT
from xpulpnn.isa.machine import CLINT_BASE, CLINT_BYTES, HALF_BYTES, WORD_BYTES, Clint
from xpulpnn.isa.retirement import WaitCause
from xpulpnn.xif.config import XifHost
from xpulpnn_sim.cosimulation.checks.counters import CounterCheck
from xpulpnn_sim.cosimulation.checks.dma import DmaCheck
from xpulpnn_sim.cosimulation.checks.events import EventUnitCheck, TimerCheck
from xpulpnn_sim.cosimulation.checks.retirements import Checker, RetirementCheck
from xpulpnn_sim.cosimulation.model.host import OWN_CSRS, Host
from xpulpnn_sim.cosimulation.model.libraries import engine_of, model_library
from xpulpnn_sim.cosimulation.model.machine import Machine, Memory, Waves, hart_ids, load_memory
from xpulpnn_sim.cosimulation.model.schema import OUTSIDE, STALLS, Event
from xpulpnn_sim.cosimulation.model.session import CHUNK_CYCLES, Observer, Progress, RunResult, Session
from xpulpnn_sim.cosimulation.workloads.debugger import Debugger
from xpulpnn_sim.reference.iss.clint import RESET
from xpulpnn_sim.reference.iss.cluster_lockstep import ClusterLockstep
from xpulpnn_sim.reference.iss.lockstep import Lockstep
from xpulpnn_sim.reference.programs import exits
from xpulpnn_sim.reference.programs.elf import Executable, Window, memory_of, require_fitting
from xpulpnn_sim.reference.programs.exits import FROMHOST_DONE, Exit, Output
from xpulpnn_sim.reference.programs.failures import explain
from xpulpnn_sim.reference.programs.objects import SourceLines
from xpulpnn_sim.reference.programs.trace import text_of
from xpulpnn_sw.toolchain.build_options import core_name, require_core


def run_program(
    executable: Executable,
    config: CoreConfig | ClusterConfig,
    machine: Machine | None = None,
    *,
    check: bool = False,
    lockstep: bool = False,
    observer: Observer | None = None,
    account: bool = False,
    output: Callable[[Output], None] | None = None,
    progress: Progress | None = None,
    waves: Waves | None = None,
    library: Path | None = None,
    before_close: Callable[[], None] | None = None,
    more_checkers: Sequence[Checker] = (),
    debugger: Debugger | None = None,
    host: Host | None = None,
) -> RunResult:
    """Run a program on the core, or on all cores of a cluster, until it ends. ``debugger`` is a server for OpenOCD;
    ``host`` is a core of somebody else, which executes what ``config`` does.
    Raises :class:`InputError` for a program or machine that does not suit the design, :class:`ToolError` if the model
    cannot be built."""
    machine = machine or Machine()
    harts, cluster = hart_ids(config, machine), config if isinstance(config, ClusterConfig) else None
    core = core_name(config.core) if host is None else host.name
    require_core(executable.cores, config.core, str(executable.path), core)
    require_fitting(executable, config, machine.ram)
    engine = engine_of(config, debugged=debugger is not None)
    if library is None:
        traced = waves is not None
        library = model_library(engine, config, trace=traced) if host is None else host.library(trace=traced)
    ram = (*machine.ram, *memory_of(config), *([(CLINT_BASE, CLINT_BYTES)] if machine.clint else ()))
    memory, debug_memory = load_memory(executable, ram), machine.debug_memory
    if machine.clint:
        Memory(memory).write(CLINT_BASE + Clint.MTIMECMP, RESET)
    checkers = [*more_checkers]
    if check or lockstep:
        checkers.append(retirement_check(executable, config, machine, host, compares_bus=check))
    name_of, lines = executable.symbol_at, SourceLines(executable.path)
    if check and cluster is not None:
        checkers += device_checks(executable, cluster, machine)
    if (check or lockstep) and host is None:
        checkers.append(CounterCheck(config.core, len(harts), name_of, in_cluster=cluster is not None))
    settings: dict[str, int] = {"boot_addr": executable.entry, "tohost": executable.tohost}
    if debugger is not None:
        settings |= debugger.settings(len(harts))
    if cluster is not None:
        settings |= {"bank_hash": cluster.bank_hash, "tcdm_bytes": cluster.tcdm_bytes}
        settings |= {"clint": CLINT} if cluster.clint else {}
    with Session(
        library,
        len(harts),
        settings,
        memory | debug_memory,
        machine,
        waves=waves,
        checkers=checkers,
        observer=observer,
        in_cluster=cluster is not None,
    ) as session:
        window = text_window(executable)
        session.accounts = [session.model.account(hart, *window) for hart in range(len(harts) if account else 0)]
        channel = _Host(session, executable, memory, output)
        end = None
        while end is None:
            chunk = debugger.chunk if debugger is not None else CHUNK_CYCLES
            session.advance(min(session.limit, session.model.cycles + chunk))
            end = channel.served() or session.ended(name_of, lines.location)
            if debugger is not None:
                why = explain(executable, end, session.trapped(memory), config.core, core) if end is not None else {}
                end = debugger.ended(session.model.events, end, why, session.model.harts)
            if session.checks.mismatches:
                end = exits.difference(int(session.model.harts[0]["pc"]), name_of)
            try:
                if progress is not None:
                    progress(session.model.cycles)
            except exits.StoppedError:
                pc = int(session.model.harts[0]["pc"])
                end = end or exits.interrupted(session.model.cycles, "cycles", pc, name_of)
        result = session.result(end, memory, name_of, session.model.cycles)
        if before_close is not None:
            before_close()
    result.output = bytes(channel.printed)
    result.memory = memory | debug_memory
    return result


def retirement_check(
    executable: Executable,
    config: CoreConfig | ClusterConfig,
    machine: Machine,
    host: Host | None = None,
    *,
    compares_bus: bool = True,
) -> RetirementCheck:
    changing = [executable.tohost] if executable.fromhost is None else [executable.tohost, executable.fromhost]
    if isinstance(config, ClusterConfig):
        together = ClusterLockstep(executable, config, ram=machine.ram, errors=machine.bus_errors)
        return RetirementCheck(together, compares_bus=compares_bus, changing=changing)
    changing += range(CLINT_BASE, CLINT_BASE + CLINT_BYTES, WORD_BYTES) if machine.clint else ()
    free = frozenset[str]() if host is None else OWN_CSRS
    given = {"errors": machine.bus_errors, "free": free, "clint": machine.clint}
    alone = Lockstep(executable, config, hart_id=machine.hart_id, **given)
    # a coprocessor makes accesses of its own
    compares_bus &= not isinstance(config, XifHost)
    return RetirementCheck(alone, compares_bus=compares_bus, changing=changing, compares_lines=host is None)


def device_checks(executable: Executable, cluster: ClusterConfig, machine: Machine) -> list[Checker]:
    name_of = executable.symbol_at
    checks: list[Checker] = [EventUnitCheck(cluster, name_of), TimerCheck(cluster.cores, name_of)]
    if cluster.clint:
        checks.append(TimerCheck(cluster.cores, name_of, clint=True))
    if cluster.dma:
        memory = load_memory(executable, (*machine.ram, *memory_of(cluster)))
        checks.append(DmaCheck(cluster, memory, name_of))
    return checks


def text_window(executable: Executable) -> Window:
    starts = {executable.entry, *(function.address for function in executable.functions)}
    spans = [
        (segment.address, segment.address + segment.size)
        for segment in executable.segments
        if any(segment.address <= start < segment.address + segment.size for start in starts)
    ]
    low, high = min(first for first, _ in spans), max(last for _, last in spans)
    return low, high - low


class _Host:
    def __init__(
        self,
        session: Session,
        executable: Executable,
        memory: dict[int, NDArray[np.uint8]],
        output: Callable[[Output], None] | None,
    ) -> None:
        self._session, self._executable, self._output = session, executable, output
        self._memory = Memory(memory)
        self.printed = bytearray()

    def served(self) -> Exit | None:
        """Serve a word written to ``tohost``; returns the end of the program if the word reports it."""
        model = self._session.model
        if Event.TOHOST not in model.events or model.events & OUTSIDE:
            return None
        value, hart = int(model.status["value"]), int(model.status["hart"])
        printed = exits.host_call(value, self._memory.read, self._memory.inside)
        if printed is None:
            self._retire_store(hart)
            return exits.reported(value, int(model.harts[hart]["pc"]), self._executable.symbol_at)
        if printed.descriptor == exits.STDOUT:
            self.printed += printed.data
        if self._output is not None:
            self._output(printed)
        self._memory.write(self._executable.tohost, bytes(WORD_BYTES))
        if self._executable.fromhost is not None:
            self._memory.write(self._executable.fromhost, FROMHOST_DONE.to_bytes(WORD_BYTES, "little"))
        return None

    def _retire_store(self, hart: int) -> None:
        model = self._session.model
        retired = int(model.harts[hart]["retired"])
        while int(model.harts[hart]["retired"]) == retired and Event.STUCK not in model.events:
            self._session.advance(model.cycles + 1)


MEANING = {
    "start": "reset",
    "fetch": "instruction memory, targets across a word boundary",
    "jump": "jal, jalr",
    "branch": "taken branch",
    "trap": "exception, interrupt, mret",
    "load_use": "value loaded by the instruction before",
    "jump_register": "jalr, its base still being written",
    "mac_load": "base or NN-RF entry of the Mac&Load before, parameter or result of a requantisation",
    "multicycle": "multiplication high, division",
    "misaligned": "second half of an access across words",
    "grant": "data memory withholds its grant",
    "response": "data memory has not answered",
    "csr": "instruction behind a CSR write",
    "loop": "end of a hardware loop too short to be foreseen",
    "sync": "fence.i, wfi: what is older completes",
    "sleep": "wfi",
    "debug": "debug mode",
    "bank_conflict": "the bank of the TCDM serves another one",
    "barrier": "barrier of the event unit",
    "event": "event unit: events, mutexes, dispatch",
    "peripheral": "other registers inside the cluster",
    "external": "memory outside the cluster",
}


class Profile:
    def __init__(self, executable: Executable, account: NDArray[np.uint64]) -> None:
        self._executable = executable
        self._base, _ = text_window(executable)
        self._memory = Memory(load_memory(executable))
        self._rows = account[:-1]
        self._rest = account[-1]
        self.cycles = int(account.sum())

    def by_instruction(self) -> Iterator[dict[str, Any]]:
        for slot in np.flatnonzero(self._rows.any(axis=1)).tolist():
            pc = self._base + HALF_BYTES * slot
            symbol, word = self._executable.symbol_at(pc), exits.fetched_word(self._memory.read, pc)
            yield {"pc": pc, "symbol": symbol, "text": text_of(word, pc)} | self._row(self._rows[slot])

    def by_function(self, outside: str) -> list[dict[str, Any]]:
        """Return the functions by decreasing cycles; code outside functions is called ``outside``."""
        members: dict[tuple[str, int | None], NDArray[np.uint64]] = {(outside, None): self._rest}
        for slot in np.flatnonzero(self._rows.any(axis=1)).tolist():
            function = self._executable.function_at(self._base + HALF_BYTES * slot)
            key = (outside, None) if function is None else (function.name, function.address)
            members[key] = members.get(key, 0) + self._rows[slot]
        rows = [
            {"symbol": name, "address": address} | self._row(row)
            for (name, address), row in members.items()
            if row.any()
        ]
        return sorted(rows, key=lambda row: (-row["cycles"], row["symbol"]))

    def _row(self, counts: NDArray[np.uint64]) -> dict[str, Any]:
        cycles, retired = int(counts.sum()), int(counts[WaitCause.NONE])
        return {
            "cycles": cycles,
            "share": round(cycles / max(self.cycles, 1), 4),
            "instructions": retired,
            "cpi": round(cycles / max(retired, 1), 3),
            "stalls": {cause.name.lower(): int(counts[cause]) for cause in STALLS if cause and counts[cause]},
        }
