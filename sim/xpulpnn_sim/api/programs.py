"""Run programs on the design or the simulator, and check instruction vectors on the design or the reference."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

from xpulpnn.config import BOTH_FORMS, ClusterConfig, CoreConfig
from xpulpnn.errors import InputError, require
from xpulpnn.field_values import apply_settings
from xpulpnn.xif.config import HOST_NAME, XifHost
from xpulpnn_sim.api.cosimulation import resolve_config
from xpulpnn_sim.cosimulation.checks.vector_stream import VectorBench
from xpulpnn_sim.cosimulation.checks.vectors import Vector, VectorMismatch, VectorReader, check_golden
from xpulpnn_sim.cosimulation.model.host import HOSTS, Host, host_config
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.model.session import RunResult
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.iss.cluster import ClusterSession
from xpulpnn_sim.reference.iss.memory import Memory
from xpulpnn_sim.reference.iss.session import DEFAULT_QUANTUM, IssSession
from xpulpnn_sim.reference.programs.elf import Executable, Window, load, load_for
from xpulpnn_sim.reference.programs.exits import STDOUT, Exit, Output
from xpulpnn_sw.toolchain.build_options import named_core

ENGINES = ("rtl", "golden")
_BATCH = 1 << 16
_FIRST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorReport:
    """Result of :func:`check_vectors`."""

    vectors: int  #: Executed.
    mismatches: int  #: Wrong.
    skipped: int  #: Left out because the configuration has no such instruction.
    vectors_per_s: float  #: Speed, without compiling the model.
    first: tuple[VectorMismatch, ...]  #: The first differences.

    def record(self) -> dict[str, Any]:
        own = {member.name: getattr(self, member.name) for member in fields(self)}
        return own | {"first": [mismatch.record() for mismatch in self.first]}


def check_vectors(
    files: Sequence[str | PathLike[str]],
    *,
    engine: str = "rtl",
    config: CoreConfig | str = BOTH_FORMS,
    progress: Callable[[int], None] | None = None,
) -> VectorReport:
    """Execute every vector of some files and compare the results with the expected ones.

    Parameters
    ----------
    files : sequence of paths
        JSON lines, plain or compressed with gzip.
    engine : str
        ``rtl``: the emitted back end; ``golden``: the numpy references.
    config : CoreConfig or str
        The core, or the name of a preset.
    progress : callable or None
        Called with the number of vectors executed since the last call.

    Raises
    ------
    InputError
        For an invalid line, with its number; one among the first 65,536 is found before a model is compiled.
    ToolError
        If the model cannot be built.
    """
    require(engine in ENGINES, f"engine must be one of {', '.join(ENGINES)}, not {engine}")
    chosen = resolve_config(config).core
    reader = VectorReader(chosen)
    source = (vector for path in files for vector in reader.read(Path(path)))
    check: Callable[[list[Vector]], list[VectorMismatch]] | None = None
    vectors = mismatching = 0
    first: list[VectorMismatch] = []
    begin = time.perf_counter()
    for batch in iter(lambda: list(islice(source, _BATCH)), []):
        if check is None:
            # report errors in the first lines before compiling, and leave compilation out of the speed
            compiling = time.perf_counter()
            check = check_golden if engine == "golden" else VectorBench(chosen).check
            begin += time.perf_counter() - compiling
        mismatches = check(batch)
        vectors += len(batch)
        mismatching += len({id(mismatch.vector) for mismatch in mismatches})
        first += mismatches[: _FIRST - len(first)]
        if progress is not None:
            progress(len(batch))
    return VectorReport(
        vectors=vectors,
        mismatches=mismatching,
        skipped=reader.skipped,
        vectors_per_s=round(vectors / (time.perf_counter() - begin), 1),
        first=tuple(first),
    )


DEFAULT_LIMIT = 1_000_000_000  # cycles or instructions


def _program_on(
    path: Path, config: CoreConfig | ClusterConfig | str | None, ram: Sequence[Window], *, exact: bool = True
) -> tuple[Executable, CoreConfig | ClusterConfig]:
    """Load a program; return it with its core or cluster, by default the one for which the program was built."""
    if config is None:
        program = load(path, ram=ram)
        name, *words = named_core(program.cores).split()
        settings = dict(word.split("=", 1) for word in words)
        config = XifHost.of(settings) if name == HOST_NAME else apply_settings(resolve_config(name), settings)
        if program.cluster is not None:
            cluster = config if isinstance(config, ClusterConfig) else ClusterConfig(core=config)
            config = replace(cluster, cores=program.cluster.cores)
    target = resolve_config(config, exact=exact)
    return load_for(path, target, ram), target


def run(
    program: str | PathLike[str],
    *,
    config: CoreConfig | ClusterConfig | str | None = None,
    machine: Machine | None = None,
    check: bool = False,
    lockstep: bool = False,
    account: bool = False,
    exact: bool = False,
    host: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> RunResult:
    """Run a program on the RTL of a core or cluster, cycle by cycle, until it ends.

    Parameters
    ----------
    program : path
        A 32-bit RISC-V ELF file with a symbol ``tohost``.
    config : CoreConfig, ClusterConfig, str or None
        The core or cluster, or the name of a preset; None: the one that the program names, else the default core.
    machine : Machine or None
        Additional memory, memory timing, interrupts, hart id and limit of cycles; None: memory for the program's
        segments that answers in the next cycle.
    check : bool
        Compare every retirement with the instruction-set simulator, its accesses on the bus, and the memory at the end.
    lockstep : bool
        Compare every retirement with the instruction-set simulator, without bus and memory.
    account : bool
        Count stall cycles by cause: ``stalls`` of the result.
    exact : bool
        Simulate the emitted adders instead of plain ones (slower, same results).
    host : str or None
        A core of somebody else: ``cv32e40x``, or ``cv32e40x-mended`` without its issue 941. It has our coprocessor if
        ``config`` is an :class:`~xpulpnn.xif.config.XifHost`, or the program was built for one.
    progress : callable or None
        Called periodically with the number of cycles.

    Returns
    -------
    RunResult
        Exit, cycles, instructions, output, final memory, and mismatches.

    Raises
    ------
    InputError
        If the file is no such program.
    ToolError
        If the model cannot be built.
    """
    machine, core = machine or Machine(), None
    if host is not None:
        if host not in HOSTS or not (config is None or isinstance(config, XifHost)):
            raise InputError(f"host must be one of {', '.join(HOSTS)} without a core of ours, not {host}")
        if config is None:
            config = host_config(named_core(load(Path(program), ram=machine.ram).cores), {})
        assert isinstance(config, CoreConfig)
        core = Host.of(host, config)
    executable, target = _program_on(Path(program), config, machine.ram, exact=exact)
    how: dict[str, Any] = {"check": check, "lockstep": lockstep, "account": account, "progress": progress}
    return run_program(executable, target, machine, host=core, **how)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """Result of a program that ran on the instruction-set simulator."""

    exit: Exit  #: How it ended.
    instructions: int  #: Instructions executed.
    wall_s: float  #: Seconds it took.
    output: bytes  #: What the program printed to its standard output.
    memory: Memory  #: Its final memory.


def simulate(
    program: str | PathLike[str],
    *,
    config: CoreConfig | ClusterConfig | str | None = None,
    ram: Sequence[Window] = (),
    bus_errors: Sequence[Window] = (),
    hart_id: int = 0,
    quantum: int = DEFAULT_QUANTUM,
    limit: int = DEFAULT_LIMIT,
    progress: Callable[[int], None] | None = None,
) -> SimulatedRun:
    """Run a program on the instruction-set simulator, which counts one cycle per instruction.

    The cores of a cluster take turns on one memory, always in the same order. Raises
    :class:`~xpulpnn.errors.InputError` if the file is no such program.

    Parameters
    ----------
    program : path
        A 32-bit RISC-V ELF file with a symbol ``tohost``.
    config : CoreConfig, ClusterConfig, str or None
        The core or cluster, or the name of a preset; None: as in :func:`run`.
    ram : sequence of (int, int)
        Base and size in bytes of additional memory.
    bus_errors : sequence of (int, int)
        Base and size in bytes of addresses that the bus answers with an error.
    hart_id : int
        Value of mhartid; the cores of a cluster are numbered from 0.
    quantum : int
        Instructions per turn of a core in a cluster.
    limit : int
        Maximum of instructions, summed over all cores.
    progress : callable or None
        Called periodically with the number of instructions.
    """
    printed = bytearray()

    def collect_output(output: Output) -> None:
        if output.descriptor == STDOUT:
            printed.extend(output.data)

    executable, target = _program_on(Path(program), config, ram)
    given: dict[str, Any] = {"ram": ram, "errors": bus_errors, "output": collect_output}
    if isinstance(target, ClusterConfig):
        session = ClusterSession(executable, target, quantum=quantum, **given)
    else:
        session = IssSession(executable, target, hart_id=hart_id, **given)
    begin = time.perf_counter()
    end = session.run(limit, progress)
    return SimulatedRun(
        exit=end,
        instructions=session.executed,
        wall_s=time.perf_counter() - begin,
        output=bytes(printed),
        memory=session.memory,
    )
