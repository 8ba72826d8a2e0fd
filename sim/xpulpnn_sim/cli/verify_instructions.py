"""``xpulpnn verify arch``, ``c``, ``costs`` and ``vectors``: compiled programs, instruction vectors, cycle costs."""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from itertools import cycle, islice, product, repeat
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from xpulpnn.config import BOTH_FORMS, CoreConfig
from xpulpnn.errors import ToolError, require
from xpulpnn.isa.retirement import WaitCause
from xpulpnn.xif.config import HOST_NAME, XifHost
from xpulpnn_sim.api.programs import ENGINES, check_vectors
from xpulpnn_sim.cli.common import Columns, finish, pairs, pick, plain, progress_bar, record_table, tell
from xpulpnn_sim.cli.configurations import Configuration
from xpulpnn_sim.cli.hosts import HostName, host_of
from xpulpnn_sim.cli.options import CorePreset, Count, Jobs, Json, Natural, Seed, arguments, command, listed
from xpulpnn_sim.cosimulation.model.libraries import model_library
from xpulpnn_sim.tools.files import require_writable
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.verification.c_programs import architecture_tests, comparison
from xpulpnn_sim.verification.c_programs.comparison import ProgramComparison, Setting
from xpulpnn_sim.verification.costs.measurement import Line, lines_of
from xpulpnn_sim.verification.random.designs import block_costs, measured_costs
from xpulpnn_sim.verification.random.drawn_vectors import write_vectors
from xpulpnn_sw.toolchain.compilers import COMPILERS, find_compiler

_NAMES = tuple(level.removeprefix("-O") for level in comparison.LEVELS)


@arguments
class CProgramsOptions(Configuration, Seed, Jobs, Json):
    programs: Count = 1000
    """C programs to draw, compile and run; --seed is the number of the first."""
    no_shrink: bool = False
    """Leave a failing program as it is."""
    generator: Annotated[str, Parameter(choices=tuple(comparison.GENERATORS))] = "loops"
    """What draws the programs: loops of all forms, or Csmith, which must be installed."""
    every: bool = False
    """Compile each program with every compiler and level, instead of one after the other."""
    compilers: Annotated[tuple[str, ...], listed(COMPILERS)] = ()
    """Compilers, taken in turn, or all (default: all that are installed)."""
    levels: Annotated[tuple[str, ...], listed(_NAMES, "Quantiser, taken in turn")] = _NAMES
    rtl: Annotated[Natural, Parameter(metavar="K")] = 0
    """Run one of K groups of programs on the RTL in lock step, others on the ISS; 0: none."""


@command("verify c")
def verify_c_command(options: CProgramsOptions) -> int:
    """
    xpulpnn verify c --programs 100 --levels 2  # a hundred C programs
    xpulpnn verify c --generator csmith --programs 20 --every  # programs of Csmith, with every compiler and level
    """
    config = options.core
    require(config.xpulpv2, "--preset must have XpulpV2, not leave it out")
    comparison.host_compiler()
    comparison.GENERATORS[options.generator].folder()
    settings = _settings(options, config)
    total = ProgramComparison()
    starts = range(options.seed, options.seed + options.programs, comparison.BATCH)
    groups = [range(start, min(start + comparison.BATCH, starts.stop)) for start in starts]
    turns = repeat(settings) if options.every else cycle([[setting] for setting in settings])
    chosen = [*islice(turns, len(groups))]
    for number in range(0, len(groups), options.rtl) if options.rtl else ():
        chosen[number] = [replace(setting, engine="rtl") for setting in chosen[number]]
    with progress_bar("programs", options.programs) as bar, executor(options.jobs) as pool:
        for result in pool.map(comparison.run_seeds, groups, chosen):
            total.merge(result)
            bar.advance(result.programs + result.dropped)
    for failure in total.failures:
        small = failure if options.no_shrink else comparison.shrink_c_program(failure)
        tell(small.text)
    summary = _summary(total)
    tell(_table(summary))
    return finish(options.json, summary, good=not total.failures)


def _settings(options: CProgramsOptions, config: CoreConfig) -> list[Setting]:
    kinds = [find_compiler(kind).kind for kind in options.compilers]
    for kind in () if kinds else COMPILERS:
        # missing compilers are left out unless none is installed
        with suppress(ToolError):
            kinds.append(find_compiler(kind).kind)
    made = partial(Setting, config=config, generator=options.generator)
    choices = product(options.levels, kinds or [find_compiler().kind])
    return [made(compiler=kind, level=f"-O{level}") for level, kind in choices]


def _summary(total: ProgramComparison) -> dict[str, Any]:
    report = total.report
    return {
        **pick(total, "programs", "dropped", "runs"),
        "differences": len(total.failures),
        "failing_seeds": sorted({failure.seed for failure in total.failures}),
        "loops": len(report.loops),
        "hardware_loops": report.turned,
        "refusals": report.refusals(),
        **pick(report, "increments", "sums"),
        "executed": total.instructions,
    }


def _table(summary: dict[str, Any]) -> Table:
    executed = summary["executed"]
    rows = {
        "programs": f"{summary['programs']}, compared {summary['runs']} times",
        "left out": f"{summary['dropped']} that run for too long",
        "differences": summary["differences"],
        "loops": f"{summary['loops']}, of them hardware loops {summary['hardware_loops']}",
        "left alone": ", ".join(f"{count} {reason}" for reason, count in summary["refusals"].items()) or "none",
        "accesses": f"{summary['increments']} with increment, {summary['sums']} with a sum for their address",
        "executed": f"{executed['without']:,} instructions without the pass, {executed['with']:,} with it",
    }
    return pairs(rows)


@arguments
class ArchitectureOptions(Configuration, Jobs, Json):
    path: Annotated[Path, Parameter(metavar="PATH")] = field(kw_only=False)
    """Folder of riscv-arch-test, such as riscv-test-suite/rv32i_m, or one test; tests of other extensions are named."""
    engine: Annotated[str, Parameter(choices=architecture_tests.ENGINES)] = "rtl"
    """On the instruction-set simulator alone (iss), or on the RTL in lock step with it (rtl)."""
    compiler: Annotated[str | None, Parameter(choices=COMPILERS)] = None
    """Compiler (default: the first that is installed)."""
    reference: Annotated[Path | None, Parameter(metavar="DIR")] = None
    """Folder of signatures of another simulator, NAME.signature each, which ours must equal."""


@command("verify arch")
def verify_arch_command(options: ArchitectureOptions) -> int:
    """
    xpulpnn verify arch riscv-test-suite/rv32i_m --json build/arch.json  # RISC-V's architecture tests
    """
    tests = architecture_tests.architecture_tests(options.path)
    applying = [test for test in tests if test.macros]
    kind = find_compiler(options.compiler).kind
    run = partial(
        architecture_tests.run_test,
        config=options.core,
        engine=options.engine,
        compiler=kind,
        reference=options.reference,
    )
    if options.engine == "rtl":
        model_library("core", options.core)
    with progress_bar("tests", len(applying)) as bar, executor(options.jobs) as pool:
        outcomes = [*bar.each(pool.map(run, applying))]
    for outcome in outcomes:
        tell(*(f"{outcome.test.path.stem}: {failure}" for failure in outcome.failures))
    failed = [outcome.test.path.stem for outcome in outcomes if outcome.failures]
    apart = [str(test.path) for test in tests if not test.macros]
    record = {
        "tests": len(applying),
        "failed": failed,
        "words": sum(outcome.words for outcome in outcomes),
        "left_out": apart,
        "conditions": {"engine": options.engine, "compiler": kind, "reference": options.reference is not None},
    }
    groups = Counter(test.path.parent.parent.name for test in tests if not test.macros)
    rows = {
        "tests": f"{len(applying)} with {kind} on {options.engine}, {len(failed)} wrong",
        "signatures": f"{record['words']} words",
        "left out": ", ".join(f"{count} of {group}" for group, count in groups.items()) or "none",
    }
    tell(pairs(rows))
    return finish(options.json, record, good=not failed)


@arguments
class VectorOptions(Configuration, Seed, Json):
    files: Annotated[tuple[Path, ...], Parameter(metavar="FILE.jsonl[.gz]")] = field(kw_only=False)
    """Vector files, JSON lines."""
    preset: CorePreset = BOTH_FORMS
    """Configuration to start from, for both forms of Mac&Load."""
    draw: Count | None = None
    """First write the file: N random vectors of the Mac&Loads with both factors from the NN-RF and of the
    requantisation, computed with plain integers."""
    engine: Annotated[str, Parameter(choices=ENGINES)] = "rtl"
    """Engine that executes them."""


@command("verify vectors")
def verify_vectors_command(options: VectorOptions) -> int:
    """
    xpulpnn verify vectors vectors.jsonl.gz  # every vector on the back end
    xpulpnn verify vectors vectors.jsonl --engine golden --json build/vectors.json  # on the reference models
    """
    config = options.core
    if options.draw is not None:
        require(len(options.files) == 1, f"FILE must be a single one with --draw, not {len(options.files)}")
        require_writable(options.files[0], "FILE")
        write_vectors(options.files[0], config, options.draw, options.seed)
    with progress_bar("vectors", None) as bar:
        report = check_vectors(options.files, engine=options.engine, config=config, progress=bar.advance)
    for mismatch in report.first:
        file, line = mismatch.vector.origin
        tell(
            f"{file} line {line}: {mismatch.vector.insn.mnemonic} 0x{mismatch.vector.word:08x}: {mismatch.field} "
            f"must be 0x{mismatch.expected:08x}, not 0x{mismatch.got:08x}"
        )
    tell(
        f"{report.vectors} vectors on {options.engine}, {report.mismatches} mismatches, {report.skipped} skipped, "
        f"{report.vectors_per_s:,.0f} per second"
    )
    return finish(options.json, report.record(), good=not report.mismatches)


_SHOWN = 5  # wrong rows shown of each group


@arguments
class CostOptions(Configuration, Json):
    preset: CorePreset = BOTH_FORMS
    """Configuration to start from, for both forms of Mac&Load."""
    host: HostName | None = None
    """Blocks on a core of somebody else with our coprocessor (extra xif), whose parameters --set changes."""


@command("verify costs")
def verify_costs_command(options: CostOptions) -> int:
    """
    xpulpnn verify costs  # every cycle cost of the pipeline, measured
    xpulpnn verify costs --host cv32e40x-mended --set memory=obi  # cycles of a dot product on CV32E40X
    """
    if options.host is not None:
        return _host_costs(options)
    config = options.core
    measured, difference = measured_costs(config)
    lines = lines_of(measured)
    records = list(map(_cost_record, lines))
    tell(record_table(_COSTS, records, title="cycles; memory grants at once and answers in the next cycle"))
    for line in lines:
        for case in line.wrong[:_SHOWN]:
            documented, measured_waits = map(_shown_waits, (case.row.waits, case.waits))
            tell(f"{line.group}: {case.row.name} must wait {documented}, not {measured_waits}")
    if difference is not None:
        tell(difference)
    return finish(options.json, records, good=difference is None and not any(line.wrong for line in lines))


def _host_costs(options: CostOptions) -> int:
    host, config = host_of(options, HOST_NAME)
    assert isinstance(config, XifHost)
    measured = block_costs(host, config)
    records = [{"event": row.group, "at_most": row.limit, "measured": round(figure, 3)} for row, figure in measured]
    title = "cycles a dot product; 4x4 block, 16 steps, start and end included; memory answers in the next cycle"
    tell(record_table(plain("event", "at_most", "measured"), records, title=title))
    return finish(options.json, records, good=all(figure <= row.limit for row, figure in measured))


_COSTS: Columns = {
    **plain("event", "documented", "measured"),
    "cases": lambda record: len(record["cases"]),
    **plain("wrong"),
}


def _shown_waits(waits: Mapping[WaitCause, int] | None) -> str:
    return ", ".join(f"{cycles} for {cause.name.lower()}" for cause, cycles in (waits or {}).items()) or "not at all"


def _cost_record(line: Line) -> dict[str, Any]:
    cases = [
        {
            **pick(case.row, "name", "documented"),
            "measured": case.cycles,
            "extra": case.row.is_extra,
            "waits": {cause.name.lower(): cycles for cause, cycles in case.waits.items()},
        }
        for case in line.measured
    ]
    numbers = {"documented": line.documented, "measured": line.observed}
    return {"event": line.group, **numbers, "cases": cases, "wrong": len(line.wrong)}
