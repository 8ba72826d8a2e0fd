"""``xpulpnn iss``, and options, output, memory dumps and profiles of all commands that run programs."""

import signal
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field, replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter

from xpulpnn.config import CLUSTER_PRESETS, ClusterConfig, CoreConfig
from xpulpnn.errors import InputError, require
from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn.isa.machine import IRQ_BITS
from xpulpnn.xif.config import HOST_NAME
from xpulpnn_sim.cli.common import Columns, finish, pass_on, pick, progress_bar, record_table, remark, tell
from xpulpnn_sim.cli.configurations import Cores, Hosted, refuse
from xpulpnn_sim.cli.options import Count, Json, NewFile, Preset, Repeated, arguments, between, command
from xpulpnn_sim.reference.iss.core import Retired
from xpulpnn_sim.reference.iss.library import library
from xpulpnn_sim.reference.iss.session import DEFAULT_QUANTUM, IssSession
from xpulpnn_sim.reference.programs import trace
from xpulpnn_sim.reference.programs.elf import Executable, Window, load, load_for, parse_number, parse_ram, windows
from xpulpnn_sim.reference.programs.exits import STDERR, Exit, Output, StoppedError, Trapped
from xpulpnn_sim.reference.programs.exits import record as trap_record
from xpulpnn_sim.reference.programs.failures import EXCEPTION, SOURCE, explain
from xpulpnn_sim.tools.files import replacing, require_writable, write_bytes
from xpulpnn_sw.toolchain.build_options import named_core, require_core

DEFAULT_LIMIT = 1_000_000_000
HART_LIMIT = 1 << 32
Dump = tuple[int, int, Path]  # address, size, and file


@arguments
class LoadOptions(Cores):
    program: Annotated[Path, Parameter(metavar="PROG.elf")] = field(kw_only=False)
    """32-bit RISC-V executable."""
    words: Annotated[tuple[str, ...], Parameter(name="WORDS")] = field(default=(), kw_only=False)
    """Arguments of its main; behind -- also such that begin with a hyphen."""
    preset: Annotated[Preset, Parameter(show_default=False)] = ""
    """Configuration to start from (default: the core that the program names, else xpulpnn2; of a program for a cluster
    also the number of its cores)."""
    ram: Annotated[Repeated, Parameter(metavar="BASE:SIZE")] = ()
    """Memory beside the program's segments, such as 0x80000000:1M; repeatable."""
    bus_error: Annotated[Repeated, Parameter(metavar="BASE:SIZE")] = ()
    """Words that the bus answers with an error: fetch, load and store access faults; repeatable."""
    hart_id: Annotated[int, between(0, HART_LIMIT - 1)] = 0
    """Value of mhartid."""
    files: Annotated[Path | None, Parameter(metavar="DIR")] = None
    """Folder whose files the program may open and read, by paths in it."""
    clint: bool = False
    """Core-local interruptor (CLINT) at 0x02000000, in a cluster at 0x10210000: msip, mtimecmp at 0x4000, mtime at
    0xBFF8, whose time counts cycles (iss: instructions, and cycles in wfi)."""

    @property
    def windows(self) -> tuple[Window, ...]:
        return tuple(parse_ram(text) for text in self.ram)

    @property
    def bus_errors(self) -> tuple[Window, ...]:
        return tuple(parse_ram(text) for text in self.bus_error)


@arguments
class ProgramOptions(LoadOptions, Json):
    dump: Annotated[Repeated, Parameter(metavar="ADDR:LEN:FILE")] = ()
    """Write LEN bytes of memory to FILE after the run; ADDR is a number or a symbol; repeatable."""
    trace: NewFile | None = None
    """Write a line for every instruction but one that leaves memory."""
    profile: bool = False
    """Show what each function took."""
    irq: Annotated[Repeated, Parameter(metavar="LINE@CYCLE")] = ()
    """Raise an interrupt line until it is taken; repeatable."""

    @property
    def irqs(self) -> tuple[tuple[int, int], ...]:
        return tuple(map(_irq, self.irq))


def _irq(text: str) -> tuple[int, int]:
    line, at, cycle = text.partition("@")
    if not (at and line.isdecimal() and cycle.isdecimal() and IRQ_BITS >> int(line) & 1):
        raise InputError(f"--irq must be LINE@CYCLE with a line out of 3, 7, 11 and 16 to 31, not {text}")
    return int(cycle), int(line)


Running = TypeVar("Running", bound=LoadOptions)


def with_named_core(options: Running) -> Running:
    """Return the options with the core and the number of cores for which the program was built, unless given; with
    ``clint`` as a setting of a cluster."""
    options = _with_named_core(options)
    if options.clint and (options.cores is not None or options.preset in CLUSTER_PRESETS):
        return replace(options, clint=False, settings=(*options.settings, "clint=true"))
    return options


def _with_named_core(options: Running) -> Running:
    has_cores = options.cores is not None or options.preset in CLUSTER_PRESETS
    if options.preset and has_cores:
        return options
    program = load(options.program, ram=options.windows)
    if program.cluster is not None and not has_cores:
        options = replace(options, cores=program.cluster.cores)
    if options.preset:
        return options
    name, *settings = named_core(program.cores).split()
    settings = tuple(dict.fromkeys((*settings, *options.settings)))
    if name != HOST_NAME:
        if isinstance(options, Hosted) and options.xif:
            return options
        return replace(options, preset=name, settings=settings)
    if not isinstance(options, Hosted):
        raise InputError(f"core must be one of ours, not RV32IMC with the coprocessor as {options.program} needs")
    return replace(options, xif=True, settings=settings)


def load_program(options: LoadOptions, config: CoreConfig | ClusterConfig) -> Executable:
    for name in ("trace", "waves", "json"):
        _require_other(options.program, getattr(options, name, None), f"--{name}")
    executable = load_for(options.program, config, options.windows)
    from xpulpnn_sim.reference.programs.files import with_arguments, with_files

    if options.files is not None:
        executable = with_files(executable, options.files, options.windows)
    if options.words:
        executable = with_arguments(executable, options.words, options.windows)
    try:
        require_core(executable.cores, config.core, str(executable.path), options.title)
    except InputError as error:
        raise InputError(f"{error}; without --preset and --set a program runs on the core that it names") from None
    return executable


def _require_other(program: Path, written: Path | None, option: str) -> None:
    if written is not None and written.exists() and written.samefile(program):
        raise InputError(f"{option} must be another file than the program, not {written}")


def dumps(options: ProgramOptions, executable: Executable, added: Sequence[Window]) -> tuple[Dump, ...]:
    memory = windows(executable, (*options.windows, *added))
    pieces: list[Dump] = []
    for text in options.dump:
        where, length, name = [*text.split(":", 2), "", ""][:3]
        try:
            address = executable.symbols[where] if where in executable.symbols else parse_number(where)
            size = parse_number(length)
        except ValueError:
            address, size = 0, -1
        require(size >= 0 and name, f"--dump must be ADDR:LEN:FILE with a number or symbol as ADDR, not {text}")
        if not any(base <= address and address + size <= base + extent for base, extent in memory):
            raise InputError(f"--dump must be inside memory, not 0x{address:08x} with {size} bytes")
        path = Path(name)
        require_writable(path, "--dump")
        _require_other(options.program, path, "--dump")
        pieces.append((address, size, path))
    return tuple(pieces)


def write_dumps(pieces: Sequence[Dump], read: Callable[[int, int], bytes]) -> None:
    for address, size, path in pieces:
        write_bytes(path, read(address, size))
        remark(f"{path} is written")


def show(printed: Output) -> None:
    pass_on(printed.data, error=printed.descriptor == STDERR)


@contextmanager
def stoppable(progress: Callable[[int], None]) -> Generator[Callable[[int], None]]:
    """Ctrl-C ends the run when it next reports its progress, and its results and trace are kept; a second one ends the
    command."""
    pressed = False

    def press(_number: int, _frame: object) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    def reach(count: int) -> None:
        progress(count)
        if pressed:
            raise StoppedError

    before = signal.signal(signal.SIGINT, press)
    try:
        yield reach
    finally:
        signal.signal(signal.SIGINT, before)


def report(
    executable: Executable, ended: Exit, trapped: Trapped | None, config: CoreConfig, core: str, summary: str
) -> dict[str, Any]:
    """Print to stderr how a run ended, after a failure with the last exception, since stdout is the program's output.
    Return a record of the end."""
    name_of = executable.symbol_at
    remark(f"{ended.text} ({summary})")
    why = explain(executable, ended, trapped, config, core)
    remark(*(f"{what}: {text}" for what, text in why.items()))
    exception = why.get(EXCEPTION)
    return {
        "program": str(executable.path),
        "reason": ended.reason.value,
        **pick(ended, "code", "pc"),
        "symbol": name_of(ended.pc),
        "line": why.get(SOURCE, ""),
        **pick(ended, "address", "text"),
        "exception": trap_record(trapped, exception, name_of) if trapped and exception else None,
    }


OUTSIDE = "(no symbol)"


def by_function(executable: Executable, counts: Mapping[int, int]) -> list[dict[str, Any]]:
    sums = Counter[tuple[str, int | None]]()
    for pc, number in counts.items():
        function = executable.function_at(pc)
        sums[(OUTSIDE, None) if function is None else (function.name, function.address)] += number
    return [
        {"symbol": name, "address": address, "count": number, "share": round(number / sums.total(), 4)}
        for (name, address), number in sorted(sums.items(), key=lambda item: (-item[1], item[0][0]))
    ]


FUNCTION: Columns = {
    "function": "{[symbol]}",
    "address": lambda row: "" if row["address"] is None else f"0x{row['address']:08x}",
}
"""Columns of a function of a profile."""

_QUANTUM = Parameter(
    help=f"With --cores: the cores take turns of N instructions (default {DEFAULT_QUANTUM}); results of programs "
    "without races do not depend on it."
)


@arguments
class IssOptions(ProgramOptions, Hosted):
    limit: Annotated[Count, Parameter(name=("--max-instructions", "--max-cycles"))] = 100 * DEFAULT_LIMIT
    """Give up after N instructions."""
    quantum: Annotated[Count | None, _QUANTUM] = None


@command("iss")
def iss_command(options: IssOptions) -> int:
    """
    xpulpnn iss prog.elf  # fast; an instruction counts as a cycle
    xpulpnn iss prog.elf --trace build/prog.txt --max-instructions 100000  # a line for every instruction
    xpulpnn iss prog.elf --dump result:64:build/result.bin  # memory after the run
    xpulpnn iss block.elf --xif  # with the coprocessor of generate xif, as for any program that cc --xif built
    xpulpnn iss --cores 8 team.elf  # on eight cores, which take turns
    """
    options = with_named_core(options)
    target = options.target
    _require_turns(options, target)
    executable = load_program(options, target)
    pieces = dumps(options, executable, [(TCDM_BASE, target.tcdm_bytes)] if isinstance(target, ClusterConfig) else [])
    visits = Counter[int]() if options.profile else None
    given: dict[str, Any] = {"ram": options.windows, "errors": options.bus_errors, "output": show, "visits": visits}
    with progress_bar("compiling the simulator", None):
        library()
    begin = time.perf_counter()
    with ExitStack() as stack:
        if isinstance(target, ClusterConfig):
            from xpulpnn_sim.reference.iss.cluster import ClusterSession  # loads numpy

            session = ClusterSession(executable, target, quantum=options.quantum or DEFAULT_QUANTUM, **given)
        else:
            observer = None if options.trace is None else stack.enter_context(_tracing(options.trace, target))
            given |= {"clint": options.clint, "irqs": options.irqs}
            session = IssSession(executable, target, hart_id=options.hart_id, observer=observer, **given)
        bar = stack.enter_context(progress_bar("instructions", None))
        ended = session.run(options.limit, stack.enter_context(stoppable(bar.reach)))
    seconds, executed = time.perf_counter() - begin, session.executed
    cores = f" on {target.cores} cores" if isinstance(target, ClusterConfig) else ""
    summary = f"{executed} instructions{cores}, {executed / seconds:,.0f} per second"
    record = report(executable, ended, session.trapped, target.core, options.title, summary)
    record |= {"engine": "iss", "instructions": executed, "wall_s": round(seconds, 3)}
    record["instructions_per_s"] = round(executed / seconds, 1)
    if not isinstance(session, IssSession):
        record |= {"cores": len(session.harts), "instructions_of_cores": [iss.executed for iss in session.harts]}
    if visits is not None:
        record["profile"] = by_function(executable, visits)
        tell(record_table(_PROFILE, record["profile"], title="instructions by function"))
    write_dumps(pieces, session.memory.read_bytes)
    return finish(options.json, record, good=ended.ok)


_PROFILE: Columns = {**FUNCTION, "instructions": "{[count]}", "share": "{[share]:.1%}"}


def _require_turns(options: IssOptions, target: CoreConfig | ClusterConfig) -> None:
    if isinstance(target, CoreConfig):
        refuse(options, ("quantum",), "must come with --cores, not alone")
    else:
        refuse(options, ("xif", "trace", "irq", "hart_id"), "must be left out with --cores")


@contextmanager
def _tracing(path: Path, config: CoreConfig) -> Generator[Callable[[Retired], None]]:
    blank, numbers, decoder = dict.fromkeys(trace.RECORD_FIELDS, 0), count(), trace.decoder_of(config)
    with replacing(path) as temporary, temporary.open("w") as file:
        file.write(trace.TRACE_HEADER + "\n")

        def write(retired: Retired) -> None:
            record = blank | retired.record | {"cycle": next(numbers)}
            print(trace.line_of(record, decoder), file=file)

        yield write
