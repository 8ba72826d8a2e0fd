"""``xpulpnn verify random`` and ``coverage``: random programs in lock step with the simulator, what they reach."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from xpulpnn.config import BOTH_FORMS, PRESETS
from xpulpnn.errors import InputError
from xpulpnn_sim.cli.common import (
    FAILED,
    INTERRUPTED,
    OK,
    Columns,
    finish,
    interruptible,
    pairs,
    progress_bar,
    record_table,
    table,
    tell,
    write_json,
)
from xpulpnn_sim.cli.configurations import Configuration, Settings
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
from xpulpnn_sim.reference.bare.program import BareProgram, elf_bytes
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sim.tools.dask_workers import WorkersLostError, require_dask
from xpulpnn_sim.tools.files import write_text
from xpulpnn_sim.verification.coverage import covered_trials as covered
from xpulpnn_sim.verification.coverage.covered_trials import Total
from xpulpnn_sim.verification.coverage.crosses import crosses_of
from xpulpnn_sim.verification.coverage.page import write_page
from xpulpnn_sim.verification.random import trials
from xpulpnn_sim.verification.random.designs import CORE, DESIGNS, MODELS, prepare
from xpulpnn_sim.verification.random.trials import Coverage, Plan, Runner, Trial, Trier, work


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

    def plans(self) -> list[Plan]:
        names = ("grant_stalls", "response_latency", "fetch_grant_stalls", "fetch_latency", "irq_rate", "halt_rate")
        chosen = {name: value for name in names if (value := getattr(self, name)) is not None}
        cores = [Configuration(preset=name, settings=self.settings) for name in self.preset]
        return [
            Plan(config=configuration.core, label=configuration.command_words, chosen=chosen) for configuration in cores
        ]


@arguments
class RandomOptions(StressedPrograms, Dask):
    engine: Annotated[str, Parameter(choices=tuple(DESIGNS))] = CORE
    """Checks of the programs: the core, the core with a cache and its bridges to Wishbone, or the simulator alone."""
    self_test: bool = False
    """Put faults into the core, or its cache and bridges, instead, which programs or cycle costs must find."""

    def plans(self) -> list[Plan]:
        words = "" if self.engine == CORE else f" --engine {self.engine}"
        return [replace(plan, label=plan.label + words) for plan in super().plans()]


@command("verify random")
def verify_random_command(options: RandomOptions) -> int:
    """Run programs until there are enough instructions; fails if one of them does.

    xpulpnn verify --instructions 20000  # random programs in lock step with the simulator
    xpulpnn verify --preset all --seed 1000 --keep-going -o build/failures  # all presets, every failure kept
    """
    plans = options.plans()
    if options.self_test:
        if options.engine not in MODELS:
            raise InputError(f"--engine must be {' or '.join(MODELS)} for --self-test, not {options.engine}")
        return _self_test(options, plans)
    if options.dask:
        require_dask(options.dask)
    else:
        prepare(options.engine, [plan.config for plan in plans])
    outcome = gather(options, plans, partial(trials.run_on, engine=options.engine), dask=options.dask)
    write_json(options.json, report_trials(options, plans, outcome, options.engine))
    return outcome.code()


def _self_test(options: RandomOptions, plans: list[Plan]) -> int:
    # Amaranth takes long to import
    from xpulpnn_sim.verification.random.faulty_core import faults_of, find_faults

    searches = [(faults_of(plan.config, options.engine), plan) for plan in plans]
    return tell_faults(
        options.json,
        sum(len(faults) for faults, _ in searches),
        chain.from_iterable(
            find_faults(plan, faults, options.instructions, options.seed, options.engine) for faults, plan in searches
        ),
    )


def tell_faults(json: Path | None, number: int, results: Iterable[Any]) -> int:
    """Tell of a number of faults how each was found; fails if one was not."""
    records: list[dict[str, Any]] = []
    with progress_bar("faults", number) as bar:
        for result in bar.each(results):
            record = {"fault": result.fault.name, "module": result.fault.module, "check": result.check}
            records.append(record | {"instructions": result.instructions, "text": result.text})
    missed = [record for record in records if not record["check"]]
    columns: Columns = {
        "fault": "{[fault]}",
        "module": "{[module]}",
        "found by": lambda record: record["check"] or "NOT FOUND",
        "instructions": "{[instructions]}",
    }
    tell(record_table(columns, records, title="faults"))
    tell(f"{len(records) - len(missed)} of {len(records)} faults found")
    return finish(json, {"faults": records}, good=not missed)


@dataclass
class Gathered:
    results: list[Trial]
    interrupted: bool = False
    lost: WorkersLostError | None = None

    @property
    def failures(self) -> list[Trial]:
        return [result for result in self.results if result.verdict.reason is not Reason.PASS]

    def code(self, *, wrong: bool = False) -> int:
        """Tell whether the run was complete, and give the exit code, also of something else that is ``wrong``."""
        if self.interrupted or self.lost is not None:
            tell(f"INCOMPLETE: interrupted after {len(self.results)} programs")
            if self.lost is not None:
                raise self.lost
            return INTERRUPTED
        return FAILED if self.failures or wrong else OK


def gather(
    options: RandomPrograms,
    plans: list[Any],
    run: Trier,
    programs: Callable[[Runner], Iterator[Trial]] | None = None,
    *,
    dask: str = "",
) -> Gathered:
    """Run the programs of plans, or others, until there are enough instructions, with a bar of them."""
    gathered = Gathered([])
    with progress_bar("instructions", options.instructions) as bar, interruptible() as stop:
        try:
            with trials.runner(run, jobs=options.jobs, dask=dask) as pool:
                source = programs(pool) if programs else pool(trials.work(options.seed, plans))
                for result in trials.enough(source, options.instructions, keep_going=options.keep_going):
                    gathered.results.append(result)
                    bar.advance(result.verdict.instructions)
        except WorkersLostError as lost:
            gathered.lost = lost
    gathered.interrupted = stop.interrupted
    return gathered


def report_trials(options: RandomPrograms, plans: list[Plan], gathered: Gathered, engine: str) -> dict[str, Any]:
    """Tell the failures and what was run; the same as a record."""
    for failure in gathered.failures:
        _report(failure, options, engine)
    summary = _summary(gathered.results, plans) | {"complete": not (gathered.interrupted or gathered.lost)}
    _print(summary)
    return summary


def _report(failed: Trial, options: RandomPrograms, engine: str) -> None:
    failure = replace(failed)
    tell(f"program {failure.seed} fails:", failure.verdict.text)
    design = DESIGNS[engine]
    case = failure.plan.case(failure.seed)
    if not options.no_shrink:
        with progress_bar("shrinking", None) as bar:
            case = trials.shrink(failure, design, bar.reach)
        failure.verdict = trials.run_trial_case(case, failure.plan, design)
    tell(trials.excerpt(case, failure))
    hint = "tables, handlers and prologue around it: use --output DIR\n"
    keep_failure(options, failure.seed, lambda: trials.program_listing(case, failure), case.program, hint)


def keep_failure(
    options: RandomPrograms, seed: int, text: Callable[[], str], program: BareProgram, without_folder: str
) -> None:
    """Write a failing program as text and as an ELF file, or tell how to have it written."""
    if options.output is None:
        tell(without_folder)
        return
    write_text(options.output / f"fail{seed}.S", text())
    (options.output / f"fail{seed}.elf").write_bytes(elf_bytes(program.executable()))


def totals(results: Sequence[Trial]) -> dict[str, Any]:
    """Sums over programs, as fields of their record, and the speed of a process."""
    wall = sum(result.wall_s for result in results)
    instructions = sum(result.verdict.instructions for result in results)
    failing = [result.seed for result in results if result.verdict.reason is not Reason.PASS]
    return {
        "programs": len(results),
        "instructions": instructions,
        "cycles": sum(result.verdict.cycles for result in results),
        "differences": len(failing),
        "failing_seeds": failing,
        "instructions_per_s": round(instructions / wall) if wall else 0,
    }


def _summary(results: Sequence[Trial], plans: list[Plan]) -> dict[str, Any]:
    total = Coverage()
    for result in results:
        total.merge(result.coverage)
    rows: dict[str, list[int]] = {}
    for plan in plans:
        for extension, figures in total.by_extension(plan.config).items():
            rows[extension] = max(rows.get(extension, [0, 0, 0]), list(figures))
    sums, missing = totals(results), {key for plan in plans for key in total.missing(plan.config)}
    return {
        **sums,
        "rows": {name: dict(zip(("rows", "executed", "retirements"), row, strict=True)) for name, row in rows.items()},
        "missing_rows": sorted(" ".join(key) for key in missing),
        "traps": {str(cause): number for cause, number in sorted(total.traps.items())},
        "interrupts": {str(line): number for line, number in sorted(total.interrupts.items())},
        "loop_ends": total.loop_ends,
        "taken_branches": total.taken,
        "misaligned": total.misaligned,
        "requantised": total.requantised,
        "requantised_inside": total.inside,
        "compressed": total.compressed,
        "stalls": sums["cycles"] - sums["instructions"],
    }


def _print(summary: dict[str, Any]) -> None:
    rows = ([name, row["rows"], row["executed"], row["retirements"]] for name, row in summary["rows"].items())
    tell(table(("extension", "rows", "executed", "retirements"), rows, title="instructions executed"))
    lines = summary["interrupts"]
    figures = {name: summary[name] for name in ("programs", "instructions", "cycles")} | {
        "traps": ", ".join(f"cause {cause}: {number}" for cause, number in summary["traps"].items()) or "0",
        "interrupts": f"{sum(lines.values())} on {len(lines)} lines",
    }
    for name in ("loop_ends", "taken_branches", "misaligned", "compressed", "stalls"):
        figures[name.replace("_", " ")] = summary[name]
    if summary["requantised"]:
        inside = summary["requantised_inside"]
        figures["results of pv.rq*"] = f"{summary['requantised']}, {inside} of them within the bounds"
    tell(pairs(figures | {"differences": summary["differences"]}))


_HOLES_SHOWN = 20  # Holes told on the terminal


@arguments
class CoverageOptions(StressedPrograms, Report):
    aim: Numbers = ()
    """Numbers of the crosses that one program aims at, as a failing program names them; with --seed."""
    no_steering: bool = False
    """No programs that aim at what is missing."""

    def plan(self) -> Plan:
        """The core, aimed if the options say so."""
        plans = self.plans()
        if len(plans) > 1:
            raise InputError(f"--preset must be one for coverage, not {len(plans)}")
        (plan,) = plans
        if not self.aim:
            return plan
        states = crosses_of(plan.config).states
        if any(aim >= len(states) or states[aim] for aim in self.aim):
            raise InputError(f"--aim must be numbers of crosses to reach, not {'+'.join(map(str, self.aim))}")
        return covered.aimed(plan, self.aim)


@command("verify coverage")
def verify_coverage_command(options: CoverageOptions) -> int:
    """Run programs until there are enough instructions, and tell what they reach; fails if one of them does.

    xpulpnn verify coverage --preset xpulpnn2 --report build/coverage.html  # a page of what is reached
    """
    plan = options.plan()
    total = Total(plan.config)

    def programs(pool: Runner) -> Iterator[Trial]:
        """Results without end, which the next programs may depend on."""
        if options.aim or options.no_steering:
            results = pool(work(options.seed, [plan]))
        else:
            results = covered.steered(pool, plan, options.seed, total.collector)
        for result in results:
            total.add(result)
            yield result

    outcome = gather(options, [plan], covered.run_covered, programs)
    summary = report_trials(options, [plan], outcome, "rtl")
    reached = _reached(total)
    _show_reached(reached)
    summary |= {"coverage": reached}
    if options.report is not None:
        share = 100 * reached["reached"] / max(reached["crosses"], 1)
        facts = {
            "Core": plan.label.removeprefix("--preset "),
            **{name: f"{summary[name.lower()]:,}" for name in ("Programs", "Instructions", "Cycles")},
            "Interrupts": f"{sum(summary['interrupts'].values()):,}",
            "Differences": str(summary["differences"]),
            "Crosses reached": f"{reached['reached']:,} of {reached['crosses']:,}, {share:.2f} %",
        }
        command = f"xpulpnn verify coverage {plan.label} --seed {options.seed} --instructions {options.instructions}"
        write_page(options.report, total, reached, facts, command)
    write_json(options.json, summary)
    return outcome.code(wrong=bool(reached["impossible"]))


def _reached(total: Total) -> dict[str, Any]:
    collector, families = total.collector, total.families()
    modules = covered.module_table(total.used_points, total.components)
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


def _show_reached(reached: dict[str, Any]) -> None:
    rows = (
        (
            name,
            family["crosses"],
            family["reached"],
            _share(family["reached"], family["crosses"]),
            family["out_of_reach"],
        )
        for name, family in (*reached["families"].items(), ("all", reached))
    )
    tell(table(("of", "to reach", "reached", "", "out of reach"), rows, title="crosses"))
    kinds = {"lines": "lines", "branches": "branches", "changes": "changes of bits"}
    rows = (
        (kinds[kind], pair["counted"], pair["used"], _share(pair["used"], pair["counted"]))
        for kind, pair in reached["verilog"].items()
    )
    tell(table(("of", "counted", "used", ""), rows, title="Verilog"))
    for title, names in (("not reached", reached["holes"]), ("reached, and cannot be", reached["impossible"])):
        if names:
            tell(f"{title}:", *(f"  {name}" for name in names[:_HOLES_SHOWN]))
            if len(names) > _HOLES_SHOWN:
                tell(f"  and {len(names) - _HOLES_SHOWN} more: --json names them")


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.2f} %"
