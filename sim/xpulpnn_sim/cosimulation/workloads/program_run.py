"""Runs programs on the whole core until they end: exit and output channel, checks, counts."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.cosimulation.checks.dma import DmaCheck
from xpulpnn_sim.cosimulation.checks.events import EventUnitCheck, TimerCheck
from xpulpnn_sim.cosimulation.checks.retirements import Checker, Findings, FirstDifference, RetirementCheck, WrongError
from xpulpnn_sim.cosimulation.model.libraries import model_library
from xpulpnn_sim.cosimulation.model.machine import Machine, Memory, Target, Waves, load_memory
from xpulpnn_sim.cosimulation.model.model import Block
from xpulpnn_sim.cosimulation.model.schema import GRANT, OUTSIDE, Event
from xpulpnn_sim.cosimulation.model.session import CHUNK_CYCLES, Observer, Progress, RunResult, Session
from xpulpnn_sim.reference.iss.cluster_lockstep import ClusterLockstep
from xpulpnn_sim.reference.iss.lockstep import Difference, Lockstep
from xpulpnn_sim.reference.programs import exits
from xpulpnn_sim.reference.programs.elf import Executable, Window
from xpulpnn_sim.reference.programs.exits import FROMHOST_DONE, Exit, Output, Reason
from xpulpnn_sim.reference.programs.objects import SourceLines
from xpulpnn_sim.reference.programs.retirement import RETIREMENT
from xpulpnn_sw.toolchain.core_note import core_name, require_core


class LockstepCheck(FirstDifference):
    """The simulator in lock step as a checker of one hart."""

    def __init__(self, reference: Lockstep) -> None:
        self._reference = reference

    def judge(self, block: Block) -> None:
        """Compare the next block."""
        _require_equal(self._reference.compare(block.records(), block.lines()))


class ClusterLockstepCheck(FirstDifference):
    """The simulator's harts in lock step as a checker of all cores."""

    def __init__(self, reference: ClusterLockstep) -> None:
        self._reference = reference

    def judge(self, block: Block) -> None:
        """Compare the next block."""
        records = [block.records(hart) for hart in range(len(self._reference.harts))]
        _require_equal(self._reference.compare(records, block.grants))

    def finish(self, retired: Sequence[int]) -> Findings:
        """The run is over: compare what is left, and the number of retirements of each hart with those compared."""
        nothing, grants = [np.zeros(0, RETIREMENT) for _ in retired], np.zeros(0, GRANT)
        findings = self.found(lambda: _require_equal(self._reference.compare(nothing, grants, last=True)))
        compared = [hart.compared for hart in self._reference.harts]
        if findings.count or compared == list(retired):
            return findings
        return Findings(1, f"retirements in lock step must be {list(retired)}, not {compared}")


def _require_equal(difference: Difference | None) -> None:
    if difference is not None:
        raise WrongError(difference.text, difference.order)


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
    closing: Callable[[], None] | None = None,
) -> RunResult:
    """Run a program on the core, or on all cores of a cluster, until it ends. Raises :class:`InputError` for a program
    or surroundings that do not fit, :class:`ToolError` if the model cannot be built."""
    machine = machine or Machine()
    target = Target.of(config, machine)
    require_core(executable.cores, target.core, str(executable.path), core_name(target.core))
    target.require(executable, machine.ram)
    library = library or model_library(target.engine, config, trace=waves is not None)
    memory = load_memory(executable, (*machine.ram, *target.memory))
    checkers: list[Checker] = []
    checked = None
    if check:
        checked = retirement_check(executable, target, machine, library)
        checkers.append(checked)
        if target.cluster is not None:
            checkers += device_checks(executable, target.cluster, machine)
    together = None
    if lockstep and target.cluster is not None:
        together = ClusterLockstepCheck(
            ClusterLockstep(executable, target.cluster, ram=machine.ram, errors=machine.bus_errors)
        )
        checkers.append(together)
    elif lockstep:
        checkers.append(
            LockstepCheck(Lockstep(executable, target.core, hart_id=machine.hart_id, errors=machine.bus_errors))
        )
    settings = {"boot_addr": executable.entry, "tohost": executable.tohost} | target.settings
    cores = len(target.hart_ids)
    session = Session(
        library,
        cores,
        settings,
        memory,
        machine,
        waves=waves,
        checkers=checkers,
        observer=observer,
        together=target.cluster is not None,
    )
    name_of, lines = executable.symbol_at, SourceLines(executable.path)
    try:
        accounts = [session.model.account(hart, *text_window(executable)) for hart in range(cores if account else 0)]
        host = _Host(session, executable, memory, output)
        end = None
        while end is None:
            session.advance(min(session.limit, session.model.cycles + CHUNK_CYCLES))
            end = host.served() or session.ended(name_of, lines.at)
            if session.checks.mismatches:
                end = exits.difference(int(session.model.harts[0]["pc"]), name_of)
            if progress is not None:
                progress(session.model.cycles)
        session.hand_over()
        session.checks.wait()
        if checked is not None and not session.checks.mismatches and end.reason is Reason.PASS:
            session.checks.note(checked.finish(memory, session.model.harts["retired"].tolist()))
        if together is not None and not session.checks.mismatches and end.reason is Reason.PASS:
            session.checks.note(together.finish(session.model.harts["retired"].tolist()))
        result = session.result(end, memory, name_of, session.model.cycles)
        if closing is not None:
            closing()
    finally:
        session.close()
    result.output, result.accounts = bytes(host.printed), accounts
    return result


def retirement_check(executable: Executable, target: Target, machine: Machine, library: Path) -> RetirementCheck:
    """The check of every retirement of a program."""
    hosts = [address for address in (executable.tohost, executable.fromhost) if address is not None]
    return RetirementCheck(
        library,
        target.core,
        load_memory(executable, (*machine.ram, *target.memory)),
        entry=executable.entry,
        host_words=hosts,
        hart_ids=target.hart_ids,
        has_tcdm=target.cluster is not None,
        name_of=executable.symbol_at,
        errors=machine.bus_errors,
    )


def device_checks(executable: Executable, cluster: ClusterConfig, machine: Machine) -> list[Checker]:
    """The checks of what the peripherals of a cluster answer and do."""
    name_of = executable.symbol_at
    checks: list[Checker] = [EventUnitCheck(cluster, name_of), TimerCheck(cluster.cores, name_of)]
    if cluster.dma:
        memory = load_memory(executable, (*machine.ram, (TCDM_BASE, cluster.tcdm_bytes)))
        checks.append(DmaCheck(cluster, memory, name_of))
    return checks


def text_window(executable: Executable) -> Window:
    """First address and size of what holds the program's functions and its entry."""
    starts = {executable.entry, *(function.address for function in executable.functions)}
    spans = [
        (segment.address, segment.address + segment.size)
        for segment in executable.segments
        if any(segment.address <= start < segment.address + segment.size for start in starts)
    ]
    low, high = min(first for first, _ in spans), max(last for _, last in spans)
    return low, high - low


class _Host:
    """The other end of the program's exit and output channel."""

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
        """Serve what the program has written to ``tohost``; the end if that is what it means."""
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
