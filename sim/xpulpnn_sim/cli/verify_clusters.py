"""``xpulpnn verify cluster`` and ``litmus``: random programs and litmus tests on clusters."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Annotated, Any, get_args

from cyclopts import Parameter

from xpulpnn.config import Arbiter, ClusterConfig, preset
from xpulpnn.errors import require
from xpulpnn.field_values import apply_settings
from xpulpnn_sim.cli.common import finish, pairs, pick, plain, progress_bar, record_table, table, tell
from xpulpnn_sim.cli.configurations import IDEAL, icache_bytes
from xpulpnn_sim.cli.options import Count, Numbers, Words, arguments, command, listed, rule
from xpulpnn_sim.cli.verify_random import RandomPrograms, RunReport, keep_failure, print_faults, run_with_bar
from xpulpnn_sim.cosimulation.model.libraries import model_library, simulated
from xpulpnn_sim.verification.clusters.cluster_runs import ClusterSource, Reached, shrink_cluster
from xpulpnn_sim.verification.clusters.generator import require_programmable
from xpulpnn_sim.verification.clusters.litmus import MOST_ROUNDS, TESTS, Outcome, run_litmus
from xpulpnn_sim.verification.random.designs import CORE, WISHBONE
from xpulpnn_sim.verification.random.program_runs import ProgramRun

_ARBITERS: tuple[str, ...] = get_args(Arbiter)
_MODELS = {CORE: "cluster", WISHBONE: "cluster-wishbone"}
_STALLS_SHOWN = ("bank_conflict", "barrier", "event", "external", "fetch", "peripheral")


@arguments
class ClusterPrograms(RandomPrograms):
    cores: Count = 8
    """Cores of the cluster."""
    banks: Numbers = (4,)
    """Banks of its TCDM, numbers taken in turn."""
    icache: Words = (IDEAL, "512")
    """Bytes of each core's instruction cache, taken in turn, ideal for none."""
    arbiter: Annotated[tuple[str, ...], listed(_ARBITERS, "Arbiters, taken in turn")] = ("counter",)
    l2_latency: Count | None = None
    """Cycles of the memory outside (default: differs between programs)."""
    engine: Annotated[str, Parameter(choices=tuple(_MODELS))] = CORE
    """Hardware that runs the programs: the cluster, or the cluster with its bridges to Wishbone."""
    self_test: bool = False
    """Put faults into the bridges to Wishbone instead, which programs must find."""

    def sources(self) -> list[ClusterSource]:
        sources: list[ClusterSource] = []
        icaches = [icache_bytes(text, "--icache") for text in self.icache]
        for name, banks, icache, arbiter in product(self.preset, self.banks, icaches, self.arbiter):
            config = ClusterConfig(core=preset(name), cores=self.cores, banks=banks, icache_private=icache)
            config = apply_settings(config, {"arbiter": arbiter, **self.assignments})
            require_programmable(config)
            label = [f"--cores {self.cores} --preset {name} --banks {banks} --icache {icache or IDEAL}"]
            label += [f"--arbiter {arbiter}", *(f"--set {setting}" for setting in self.settings)]
            label += [] if self.engine == CORE else [f"--engine {self.engine}"]
            sources.append(ClusterSource(config=simulated(config), label=" ".join(label), l2_latency=self.l2_latency))
        return sources

    def with_models(self) -> list[ClusterSource]:
        sources, engine = self.sources(), _MODELS[self.engine]
        with progress_bar("compiling models", len(sources)) as bar:
            return [replace(source, library=model_library(engine, source.config)) for source in bar.each(sources)]


@command("verify cluster")
def verify_cluster_command(options: ClusterPrograms) -> int:
    """xpulpnn verify cluster --cores 4 --banks 4+8  # random programs of four cores"""
    if options.self_test:
        return _self_test(options)
    report = run_with_bar(options, options.with_models())
    for failure in report.failures:
        _print_failure(failure, options)
    summary = _cluster_summary(report)
    _print_summary(summary)
    return report.finish(options, summary)


def _self_test(options: ClusterPrograms) -> int:
    require(options.engine == WISHBONE, f"--engine must be {WISHBONE} for --self-test, not {options.engine}")
    # slow import
    from xpulpnn_sim.proofs.faults.catalog import CLUSTER_BRIDGE_FAULTS
    from xpulpnn_sim.verification.clusters.cluster_runs import find_bridge_faults

    sources, faults = options.sources(), CLUSTER_BRIDGE_FAULTS
    results = (find_bridge_faults(source, faults, options.instructions, options.seed) for source in sources)
    return print_faults(options, len(sources) * len(faults), chain.from_iterable(results))


def _print_failure(run: ProgramRun, options: ClusterPrograms) -> None:
    program, verdict = run.source.case(run.seed).program, run.verdict
    if not options.no_shrink:
        with progress_bar("shrinking", None) as bar:
            program, verdict = shrink_cluster(run, bar.reach)
    kinds = ", ".join(phase.kind for phase in program.phases) or "no phases"
    again = run.source.command(run.seed)
    tell(f"program {run.seed} fails:", verdict.text, f"phases left: {kinds}", f"again: {again}")
    heading = [f"program {run.seed}", again, *verdict.text.splitlines()]
    hint = "the program itself: use --output DIR\n"
    keep_failure(options, run.seed, lambda: program.listing(heading), program, hint)


def _cluster_summary(report: RunReport) -> dict[str, Any]:
    total = Reached()
    rows: dict[str, dict[str, int]] = {}
    for run in report.runs:
        total.merge(run.coverage)
        row = rows.setdefault(run.source.label, {"programs": 0, "instructions": 0, "cycles": 0})
        row["programs"] += 1
        row["instructions"] += run.verdict.instructions
        row["cycles"] += run.verdict.cycles
    return {
        **report.totals(),
        "configurations": rows,
        **pick(total, "accesses", "misaligned", "traps"),
        "phases": dict(sorted(total.meetings.items())),
        "stalls": total.stalls,
        "complete": report.complete,
    }


def _print_summary(summary: dict[str, Any]) -> None:
    rows = ({"configuration": label, **row} for label, row in summary["configurations"].items())
    columns = plain("configuration", "programs", "instructions", "cycles")
    stalls = {cause.replace("_", " "): summary["stalls"].get(cause, 0) for cause in _STALLS_SHOWN}
    figures = {
        **{name: summary[name] for name in ("programs", "instructions", "misaligned", "traps")},
        "accesses": _counts_text(summary["accesses"]),
        "phases": _counts_text(summary["phases"]),
        "stall cycles": _counts_text(stalls),
        "instructions/s": f"{summary['instructions_per_s']} in each process",
        "differences": summary["differences"],
    }
    tell(record_table(columns, rows, title="programs of all cores"), pairs(figures))


def _counts_text(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


@arguments
class LitmusOptions(ClusterPrograms):
    rounds: Annotated[int, rule(f"1 to {MOST_ROUNDS} rounds", lambda value: 1 <= value <= MOST_ROUNDS, "N")] = 500
    """Rounds of each test."""


@command("verify litmus")
def verify_litmus_command(options: LitmusOptions) -> int:
    """xpulpnn verify litmus --cores 4 --rounds 100  # what cores may see of each other's stores"""
    sources = options.with_models()
    counts = {test.name: Counter[Outcome]() for test in TESTS}
    reports: list[str] = []
    runs = [*product(enumerate(sources, options.seed), TESTS)]
    with progress_bar("litmus tests", len(runs)) as bar:
        for (seed, source), test in bar.each(runs):
            how = {"seed": seed, "library": source.library}
            outcomes, result = run_litmus(test, source.config, source.machine(seed), options.rounds, **how)
            if result.mismatches or not result.exit.ok:
                again = f"xpulpnn verify litmus {source.label} --seed {seed} --rounds {options.rounds}"
                reports.append(f"{test.name} fails: {result.difference or result.exit.text}\nagain: {again}")
            counts[test.name].update(outcomes)
    return _tell_litmus(options, sources, counts, reports)


def _tell_litmus(
    options: LitmusOptions, sources: Sequence[ClusterSource], counts: dict[str, Counter[Outcome]], reports: list[str]
) -> int:
    rows: list[tuple[object, ...]] = []
    records: list[dict[str, Any]] = []
    for test in TESTS:
        seen, allowed = sorted(counts[test.name].items()), test.allowed()
        forbidden = test.forbidden(counts[test.name])
        for line, (outcome, count) in enumerate(seen):
            head = (test.name, test.what) if line == 0 else ("", "")
            rows.append((*head, test.shown(outcome), count, "FORBIDDEN" if outcome in forbidden else ""))
        records.append(
            {
                "test": test.name,
                "outcomes": {test.shown(outcome): count for outcome, count in seen},
                "forbidden": sum(forbidden.values()),
                "allowed": len(allowed),
                "unseen": sorted(test.shown(outcome) for outcome in allowed - counts[test.name].keys()),
            }
        )
    rounds = options.rounds * len(sources)
    tell(*reports, table(("test", "what", "found", "rounds", ""), rows, title=f"litmus tests, {rounds} rounds"))
    total = sum(record["forbidden"] for record in records)
    unseen = sum(len(record["unseen"]) for record in records)
    tell(f"forbidden: {total}; allowed and not seen: {unseen} of {sum(record['allowed'] for record in records)}")
    labels = [source.label for source in sources]
    summary = {"rounds": rounds, "configurations": labels, "forbidden": total, "failures": reports, "tests": records}
    return finish(options.json, summary, good=not (total or reports))
