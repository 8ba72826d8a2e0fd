"""``xpulpnn verify random`` and ``coverage``: random programs in lock step with the simulator, and their coverage."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, cycle
from typing import Annotated, Any

from cyclopts import Parameter

from xpulpnn.config import BOTH_FORMS, PRESETS, CoreConfig
from xpulpnn.errors import InputError, require
from xpulpnn_sim.cli.common import (
    INTERRUPTED,
    Columns,
    finish,
    interruptible,
    pairs,
    pick,
    plain,
    progress_bar,
    record_table,
    tell,
)
from xpulpnn_sim.cli.configurations import Settings
from xpulpnn_sim.cli.hosts import HostName, host_of
from xpulpnn_sim.cli.options import (
    Count,
    Dask,
    Jobs,
    Json,
    NewFolder,
    Numbers,
    Probability,
    Report,
    Seed,
    arguments,
    command,
    listed,
)
from xpulpnn_sim.cosimulation.model.host import Host
from xpulpnn_sim.reference.bare.program import BareProgram, elf_bytes
from xpulpnn_sim.tools.dask_workers import WorkersLostError
from xpulpnn_sim.tools.files import write_text
from xpulpnn_sim.tools.named_table import TerminalTable
from xpulpnn_sim.verification.coverage.coverage_runs import CoverageSource, Total, module_table, steered
from xpulpnn_sim.verification.coverage.crosses import Crosses, crosses_of
from xpulpnn_sim.verification.coverage.page import crosses_table, write_page
from xpulpnn_sim.verification.random import program_runs
from xpulpnn_sim.verification.random.designs import CORE, DESIGNS, MODELS, core_design, prepare
from xpulpnn_sim.verification.random.program_runs import CoreSource, Coverage, Job, ProgramRun, ProgramSource
from xpulpnn_sim.verification.random.shrink import excerpt, program_listing, shrink


@arguments
class RandomPrograms(Settings, Seed, Jobs, Json):
    instructions: Count = 100_000
    """Retired instructions to reach; --seed is the number of the first program."""
    preset: Annotated[tuple[str, ...], listed(tuple(PRESETS), "Configurations, taken in turn")] = (BOTH_FORMS,)
    keep_going: bool = False
    """Do not stop at the first failure."""
    no_shrink: bool = False
    """Leave a failing program as it is."""
    output: Annotated[NewFolder | None, Parameter(alias="-o")] = None
    """Write minimal failing programs there."""


@arguments
class StressedPrograms(RandomPrograms):
    grant_stalls: Probability | None = None
    """Probability of a withheld grant of a data access (default: differs between programs)."""
    response_latency: Count | None = None
    """Data responses take 1 to N cycles (default: differs between programs)."""
    fetch_grant_stalls: Probability | None = None
    """Probability of a withheld grant of a fetch (default: differs between programs)."""
    fetch_latency: Count | None = None
    """Fetched words take 1 to N cycles (default: differs between programs)."""
    irq_rate: Probability | None = None
    """Probability per cycle that an interrupt line rises (default: differs between programs)."""

    halt_rate: Probability | None = None
    """Probability per cycle that a core with debug mode is asked to halt (default: differs between programs)."""

    @property
    def chosen(self) -> dict[str, float]:
        names = ("grant_stalls", "response_latency", "fetch_grant_stalls", "fetch_latency", "irq_rate", "halt_rate")
        return {name: value for name, value in pick(self, *names).items() if value is not None}

    def sources(self, engine: str = CORE) -> list[CoreSource]:
        chosen = self.chosen
        words, design = "" if engine == CORE else f" --engine {engine}", DESIGNS[engine]
        return [
            CoreSource(config=core.core, label=core.command_words + words, chosen=chosen, design=design)
            for core in map(self.of_preset, self.preset)
        ]


@arguments
class RandomOptions(StressedPrograms, Dask):
    engine: Annotated[str, Parameter(choices=tuple(DESIGNS))] = CORE
    """Checks of the programs: the core, the core with a cache and its bridges to a bus, or the simulator alone."""
    self_test: bool = False
    """Put faults into the core, or its cache and bridges, instead, which programs or cycle costs must find."""
    host: HostName | None = None
    """Programs of RV32IMC on a core of somebody else (extra xif): CV32E40X as published, or without its issue 941; with
    our coprocessor if --set changes its parameters."""

    def source_on(self, host: Host, config: CoreConfig) -> CoreSource:
        label = " ".join([f"--host {host.name}", *(f"--set {text}" for text in self.settings)])
        design = partial(core_design, host=host)
        return CoreSource(config=config, label=label, chosen=self.chosen, design=design, on_host=True)


@command("verify random")
def verify_random_command(options: RandomOptions) -> int:
    """
    xpulpnn verify --instructions 20000  # random programs in lock step with the simulator
    xpulpnn verify --preset all --seed 1000 --keep-going -o build/failures  # all presets, every failure kept
    xpulpnn verify --host cv32e40x --instructions 20000  # on CV32E40X
    xpulpnn verify --host cv32e40x-mended --set memory=obi --set requantise=exact  # with our coprocessor
    """
    hosted = None if options.host is None else host_of(options)
    sources = options.sources(options.engine) if hosted is None else [options.source_on(*hosted)]
    if options.self_test:
        if options.engine not in MODELS:
            raise InputError(f"--engine must be {' or '.join(MODELS)} for --self-test, not {options.engine}")
        return _self_test(options, sources)
    if hosted is not None:
        hosted[0].library()
    elif not options.dask:
        prepare(options.engine, [source.config for source in sources])
    report = run_with_bar(options, sources, dask=options.dask)
    return report.finish(options, print_report(options, sources, report))


def _self_test(options: RandomOptions, sources: list[CoreSource]) -> int:
    # slow import
    from xpulpnn_sim.verification.random.faulty_core import faults_of, find_faults

    searches = [(source, faults_of(source.config, options.engine)) for source in sources]
    settings = options.instructions, options.seed, options.engine
    detections = chain.from_iterable(find_faults(*search, *settings) for search in searches)
    return print_faults(options, sum(len(faults) for _, faults in searches), detections)


_FAULTS: Columns = {
    **plain("fault", "module"),
    "found by": lambda record: record["check"] or "NOT FOUND",
    **plain("instructions"),
}


def print_faults(options: Json, number: int, results: Iterable[Any]) -> int:
    records: list[dict[str, Any]] = []
    with progress_bar("faults", number) as bar:
        for result in bar.each(results):
            record = {"fault": result.fault.name, "module": result.fault.module}
            records.append(record | pick(result, "check", "instructions", "text"))
    count = sum(bool(record["check"]) for record in records)
    tell(record_table(_FAULTS, records, title="faults"), f"{count} of {len(records)} faults found")
    return finish(options.json, {"faults": records}, good=count == len(records))


@dataclass
class RunReport:
    """The random programs that have run; if they are incomplete, an interrupt or the loss of workers is the reason."""

    runs: list[ProgramRun] = field(default_factory=list[ProgramRun])
    interrupted: bool = False
    lost: WorkersLostError | None = None

    @property
    def complete(self) -> bool:
        return not self.interrupted and self.lost is None

    @property
    def failures(self) -> list[ProgramRun]:
        return [run for run in self.runs if not run.verdict.ok]

    def totals(self) -> dict[str, Any]:
        wall = sum(run.wall_s for run in self.runs)
        instructions = sum(run.verdict.instructions for run in self.runs)
        failing = [run.seed for run in self.failures]
        return {
            "programs": len(self.runs),
            "instructions": instructions,
            "cycles": sum(run.verdict.cycles for run in self.runs),
            "differences": len(failing),
            "failing_seeds": failing,
            "instructions_per_s": round(instructions / wall) if wall else 0,
        }

    def finish(self, options: Json, summary: dict[str, Any], *, wrong: bool = False) -> int:
        code = finish(options.json, summary, good=not (self.failures or wrong))
        if self.complete:
            return code
        tell(f"INCOMPLETE: interrupted after {len(self.runs)} programs")
        if self.lost is not None:
            raise self.lost
        return INTERRUPTED


def run_with_bar(
    options: RandomPrograms,
    sources: Sequence[ProgramSource],
    batches: Iterable[Iterable[Job]] = (),
    *,
    count: Callable[[ProgramRun], None] = lambda run: None,
    dask: str = "",
) -> RunReport:
    """Run programs until enough instructions have retired; ``count`` is called with each run before the next batch."""
    report, how = RunReport(), pick(options, "keep_going", "jobs")
    batches = batches or [enumerate(cycle(sources), options.seed)]
    with progress_bar("instructions", options.instructions) as bar, interruptible() as stop:
        try:
            for run in program_runs.run_programs(batches, options.instructions, dask=dask, **how):
                count(run)
                report.runs.append(run)
                bar.advance(run.verdict.instructions)
        except WorkersLostError as lost:
            report.lost = lost
    report.interrupted = stop.interrupted
    return report


def print_report(options: RandomPrograms, sources: Sequence[CoreSource], report: RunReport) -> dict[str, Any]:
    for failure in report.failures:
        _print_failure(failure, options)
    summary = _summary(report, sources)
    _print(summary)
    return summary


def _print_failure(run: ProgramRun, options: RandomPrograms) -> None:
    tell(f"program {run.seed} fails:", run.verdict.text)
    case = run.source.case(run.seed)
    if not options.no_shrink:
        with progress_bar("shrinking", None) as bar:
            case = shrink(run, bar.reach)
        run = replace(run, verdict=run.source.check(case))
    tell(excerpt(case, run))
    hint = "tables, handlers and prologue around it: use --output DIR\n"
    keep_failure(options, run.seed, lambda: program_listing(case, run), case.program, hint)


def keep_failure(
    options: RandomPrograms, seed: int, text: Callable[[], str], program: BareProgram, without_folder: str
) -> None:
    if options.output is None:
        tell(without_folder)
        return
    write_text(options.output / f"fail{seed}.S", text())
    (options.output / f"fail{seed}.elf").write_bytes(elf_bytes(program.executable()))


def _summary(report: RunReport, sources: Sequence[CoreSource]) -> dict[str, Any]:
    total = Coverage()
    for run in report.runs:
        total.merge(run.coverage)
    rows: dict[str, list[int]] = {}
    for source in sources:
        for extension, figures in total.by_extension(source.config).items():
            rows[extension] = max(rows.get(extension, [0, 0, 0]), list(figures))
    sums, missing = report.totals(), {key for source in sources for key in total.missing(source.config)}
    return {
        **sums,
        "rows": {name: dict(zip(("rows", "executed", "retirements"), row, strict=True)) for name, row in rows.items()},
        "missing_rows": sorted(" ".join(key) for key in missing),
        "traps": {str(cause): number for cause, number in sorted(total.traps.items())},
        "interrupts": {str(line): number for line, number in sorted(total.interrupts.items())},
        "loop_ends": total.loop_ends,
        "taken_branches": total.taken,
        **pick(total, "misaligned", "requantised"),
        "requantised_inside": total.inside,
        "compressed": total.compressed,
        "stalls": sums["cycles"] - sums["instructions"],
        "complete": report.complete,
    }


def _print(summary: dict[str, Any]) -> None:
    rows = ({"extension": name, **row} for name, row in summary["rows"].items())
    columns = plain("extension", "rows", "executed", "retirements")
    tell(record_table(columns, rows, title="instructions executed"))
    lines = summary["interrupts"]
    traps = ", ".join(f"cause {cause}: {number}" for cause, number in summary["traps"].items()) or "0"
    shown = summary | {"traps": traps, "interrupts": f"{sum(lines.values())} on {len(lines)} lines"}
    figures = {name.replace("_", " "): shown[name] for name in _FIGURES}
    if summary["requantised"]:
        inside = summary["requantised_inside"]
        figures["results of pv.rq*"] = f"{summary['requantised']}, {inside} of them within the bounds"
    tell(pairs(figures | {"differences": summary["differences"]}))


_FIGURES = (
    *("programs", "instructions", "cycles", "traps", "interrupts"),
    *("loop_ends", "taken_branches", "misaligned", "compressed", "stalls"),
)
_HOLES_SHOWN = 20


@arguments
class CoverageOptions(StressedPrograms, Report):
    aim: Numbers = ()
    """Numbers of the crosses that one program aims at, as a failing program names them; with --seed."""
    no_steering: bool = False
    """No programs that aim at missing coverage."""

    def source(self) -> CoverageSource:
        sources = self.sources()
        require(len(sources) <= 1, f"--preset must be one for coverage, not {len(sources)}")
        (core,) = sources
        if self.aim:
            states = crosses_of(core.config).states
            if any(aim >= len(states) or states[aim] for aim in self.aim):
                raise InputError(f"--aim must be numbers of crosses to reach, not {'+'.join(map(str, self.aim))}")
        return CoverageSource(config=core.config, label=core.label, chosen=core.chosen, aims=self.aim)


@command("verify coverage")
def verify_coverage_command(options: CoverageOptions) -> int:
    """xpulpnn verify coverage --preset xpulpnn2 --report build/coverage.html  # a page of what is reached"""
    source = options.source()
    with progress_bar("compiling the model", None):
        total = Total(source.config)
    steers = not (options.aim or options.no_steering)
    batches = steered(source, options.seed, total.collector) if steers else ()
    report = run_with_bar(options, [source], batches, count=total.add)
    summary = print_report(options, [source], report)
    reached = _reached(total)
    _show_reached(total.collector.crosses, reached)
    summary |= {"coverage": reached}
    if options.report is not None:
        crosses = reached["reached"], reached["crosses"]
        facts = {
            "Core": source.label.removeprefix("--preset "),
            **{name: f"{summary[name.lower()]:,}" for name in ("Programs", "Instructions", "Cycles")},
            "Interrupts": f"{sum(summary['interrupts'].values()):,}",
            "Differences": str(summary["differences"]),
            "Crosses reached": "{:,} of {:,}, {}".format(*crosses, _share(*crosses)),
        }
        command = f"xpulpnn verify coverage {source.label} --seed {options.seed} --instructions {options.instructions}"
        write_page(options.report, total, reached, facts, command)
    return report.finish(options, summary, wrong=bool(reached["impossible"]))


def _reached(total: Total) -> dict[str, Any]:
    collector, families = total.collector, total.families()
    modules = module_table(total.used_points, total.components)
    verilog: dict[str, dict[str, int]] = {}
    for kind in ("lines", "branches", "changes"):
        pairs = [getattr(module, kind) for module in modules]
        verilog[kind] = {"used": sum(used for used, _ in pairs), "counted": sum(counted for _, counted in pairs)}
    return {
        "families": families,
        **{name: sum(family[name] for family in families.values()) for name in ("crosses", "reached", "out_of_reach")},
        "holes": [collector.crosses.label(number) for number in collector.holes.tolist()],
        "impossible": [collector.crosses.label(number) for number in collector.impossible.tolist()],
        "verilog": verilog,
    }


def _show_reached(crosses: Crosses, reached: dict[str, Any]) -> None:
    kinds = ({"of": _KINDS.get(kind, kind), **counts} for kind, counts in reached["verilog"].items())
    tell(TerminalTable(crosses_table(crosses, reached)), record_table(_VERILOG, kinds, title="Verilog"))
    for title, names in (("not reached", reached["holes"]), ("reached, and cannot be", reached["impossible"])):
        if names:
            tell(f"{title}:", *(f"  {name}" for name in names[:_HOLES_SHOWN]))
            if len(names) > _HOLES_SHOWN:
                tell(f"  and {len(names) - _HOLES_SHOWN} more: --json names them")


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.2f} %"


_VERILOG: Columns = {
    **plain("of", "counted", "used"),
    "": lambda counts: _share(counts["used"], counts["counted"]),
}
_KINDS = {"changes": "changes of bits"}
