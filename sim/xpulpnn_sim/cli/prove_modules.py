"""``xpulpnn prove emitter`` and ``cluster``: modules against their RTLIL, and what parts of a cluster promise."""

import time
from dataclasses import asdict, field, replace
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.table import Table

from xpulpnn.config import CLUSTER_PRESETS, DEFAULT_PRESET, PRESETS
from xpulpnn.field_values import apply_settings
from xpulpnn.verilog import Reset, Separator
from xpulpnn_sim.cli.common import finish, progress_bar, table, tell
from xpulpnn_sim.cli.configurations import Configuration, Settings
from xpulpnn_sim.cli.options import Json, Seconds, Timeout, Words, arguments, command
from xpulpnn_sim.proofs.cluster.obligation import Obligation
from xpulpnn_sim.proofs.cluster.parts import PARTS
from xpulpnn_sim.proofs.emitter.emission import (
    EmissionOutcome,
    EmissionSource,
    elaborate,
    emission_sources,
    prove_emission,
)
from xpulpnn_sim.proofs.units.induction import Finding, prove_by_induction
from xpulpnn_sim.proofs.units.unit_proof import EQUAL
from xpulpnn_sim.tools.top_names import ALL_TOPS, CLUSTER_NAMES, chosen_names
from xpulpnn_sim.tools.tops import AnyConfig, emit_top

_CLUSTER_TITLE = "what holds in every cycle after a reset, by induction over the clock edges"


@arguments
class ClusterProofOptions(Settings, Timeout, Json):
    """Options of the command."""

    parts: Annotated[tuple[str, ...], Parameter(choices=tuple(PARTS), metavar="PART")] = field(
        default=(), kw_only=False
    )
    """Parts of the cluster (default all): the arbiter of a bank, in all kinds; the event unit's mutex and barrier, and
    its part for each core; debugging."""
    preset: Annotated[str, Parameter(choices=tuple(CLUSTER_PRESETS), metavar="NAME")] = "cluster"
    """Configuration to start from."""
    timeout: Seconds = 120.0
    """Seconds for each half of the proof of a claim."""


@command
def prove_cluster_command(options: ClusterProofOptions) -> int:
    """Print the table; fails unless every claim is proved, or refuted where it must be."""
    config = apply_settings(CLUSTER_PRESETS[options.preset], options.assignments)
    found: list[tuple[Obligation, list[Finding], float]] = []
    obligations = [each for part in PARTS if part in (options.parts or PARTS) for each in PARTS[part](config)]
    with progress_bar("proving", len(obligations)) as bar:
        for obligation in bar.each(obligations, lambda one: one.title):
            began = time.monotonic()
            findings = prove_by_induction(obligation, obligation.emit().text, timeout_s=int(options.timeout))
            found.append((obligation, findings, time.monotonic() - began))
    tell(_claims_table(found))
    every = [(obligation, finding) for obligation, findings, _ in found for finding in findings]
    wrong = [_shown(*each) for each in every if each[1].verdict != each[0].expected(each[1].claim)]
    for text in wrong:
        tell(text)
    return finish(options.json, [_claims_record(*each) for each in found], good=not wrong)


def _claims_table(found: list[tuple[Obligation, list[Finding], float]]) -> Table:
    rows: list[tuple[object, ...]] = []
    for obligation, findings, seconds in found:
        unit, spent = obligation.title, f"{seconds:.1f}"
        for finding in findings:
            verdict = finding.verdict
            if finding.claim in obligation.refuted and verdict == obligation.expected(finding.claim):
                verdict += ", as must be"
            rows.append((unit, obligation.claims[finding.claim], finding.cycles, spent, verdict))
            unit = spent = ""
    return table(("unit", "claim", "cycles", "seconds", "verdict"), rows, title=_CLUSTER_TITLE)


def _shown(obligation: Obligation, finding: Finding) -> str:
    """A claim that is not as it should be, and the cycles that show it: ports that are not 0."""
    lines = [f"{obligation.title}: {obligation.claims[finding.claim]}: {finding.verdict}"]
    for cycle, ports in enumerate(finding.example):
        values = [
            f"{name.removeprefix('io__')}={value:#x}"
            for name, value in ports.items()
            if value and name not in ("clk", *obligation.claims)
        ]
        lines.append(f"  cycle {cycle}: {' '.join(values) or 'all 0'}")
    return "\n".join(lines)


def _claims_record(obligation: Obligation, findings: list[Finding], seconds: float) -> dict[str, Any]:
    return {
        "unit": obligation.title,
        "seconds": round(seconds, 3),
        "claims": [
            {
                "claim": finding.claim,
                "text": obligation.claims[finding.claim],
                "cycles": finding.cycles,
                "verdict": finding.verdict,
                "expected": obligation.expected(finding.claim),
                "example": [dict(ports) for ports in finding.example],
            }
            for finding in findings
        ],
    }


_TITLE = "each module against its RTLIL: outputs and registers, by induction over the clock edges"
_ALL = "all"


@arguments
class EmitterOptions(Configuration, Timeout, Json):
    """Options of the command."""

    top: Annotated[str, Parameter(choices=ALL_TOPS)] = "core"
    """Component whose modules are proved."""
    preset: Annotated[str, Parameter(choices=(*PRESETS, *CLUSTER_PRESETS, _ALL), metavar="NAME")] = DEFAULT_PRESET
    """Configuration to start from, or all."""
    modules: Words = ()
    """Modules to prove, by name (default: all of the top)."""
    reset: Reset = "sync"
    """As in generate."""
    initial: Literal["on", "off"] = "on"
    """As in generate."""
    separator: Separator = "__"
    """As in generate."""
    timeout: Seconds = 120.0
    """Seconds for one module."""

    def designs(self) -> dict[str, AnyConfig]:
        """Configurations to emit, by preset."""
        known = CLUSTER_PRESETS if self.top in CLUSTER_NAMES else PRESETS
        names = list(known) if self.preset == _ALL else [self.preset]
        return {name: replace(self, preset=name).for_top(self.top) for name in names}


@command
def prove_emitter_command(options: EmitterOptions) -> int:
    """Print the table; fails unless every module was proved equal."""
    designs = options.designs()
    outcomes: list[tuple[EmissionSource, EmissionOutcome]] = []
    presets: dict[EmissionSource, list[str]] = {}
    with progress_bar("emitting", len(designs)) as bar:
        batches = [
            _new_modules(name, designs[name], options, presets) for name in bar.each(designs, "emitting {}".format)
        ]
        bar.restart(len(presets))
        for batch in batches:
            bar.describe("reading")
            for one in bar.each(elaborate(batch) if batch else (), lambda one: one[0].name):
                found = prove_emission(one, timeout_s=options.timeout, initial=options.initial == "on")
                outcomes.append((one[0], found))
    tell(_table(outcomes, presets, len(designs)))
    for source, outcome in outcomes:
        if outcome.verdict != EQUAL:
            tell(f"{source.name}: {outcome.reason}{_given(outcome)}")
    equal = sum(outcome.verdict == EQUAL for _, outcome in outcomes)
    seconds = sum(outcome.seconds for _, outcome in outcomes)
    tell(f"{equal} of {len(outcomes)} different modules equal, {seconds:.0f} s of proving")
    records = [_record(source, outcome, presets[source]) for source, outcome in outcomes]
    return finish(options.json, records, good=equal == len(outcomes))


def _new_modules(
    preset: str, config: AnyConfig, options: EmitterOptions, presets: dict[EmissionSource, list[str]]
) -> list[EmissionSource]:
    """Modules of a preset that no earlier one has; notes in ``presets`` which modules it has."""
    initial, separator = options.initial == "on", options.separator
    design = emit_top(options.top, config, reset=options.reset, initial=initial, separator=separator)
    known = list(design.modules)
    wanted = known if not options.modules else chosen_names("+".join(options.modules), known, "--modules")
    new: list[EmissionSource] = []
    for source in emission_sources(design):
        if source.name in wanted:
            if source not in presets:
                new.append(source)
            presets.setdefault(source, []).append(preset)
    return new


def _table(
    outcomes: list[tuple[EmissionSource, EmissionOutcome]], presets: dict[EmissionSource, list[str]], designs: int
) -> Table:
    rows: list[tuple[object, ...]] = []
    for source, outcome in outcomes:
        where = presets[source]
        names = _ALL if len(where) == designs > 1 else " ".join(where)
        cells = (outcome.bits, _method(outcome), f"{outcome.seconds:.1f}", outcome.verdict)
        rows.append((source.name, names, *cells))
    headings = ("module", "presets", "bits", "method", "seconds", "verdict")
    return table(headings, rows, title=_TITLE)


def _method(outcome: EmissionOutcome) -> str:
    if not outcome.bits_by_sat:
        return "same gates"
    return f"same gates, SAT for {outcome.bits_by_sat} bits"


def _given(outcome: EmissionOutcome) -> str:
    """The case that shows a difference."""
    if outcome.difference is None or not outcome.difference.given:
        return ""
    return " when " + ", ".join(f"{name}={value:#x}" for name, value in outcome.difference.given.items())


def _record(source: EmissionSource, outcome: EmissionOutcome, presets: list[str]) -> dict[str, Any]:
    return {
        "module": source.name,
        "presets": presets,
        "bits": outcome.bits,
        "bits_by_sat": outcome.bits_by_sat,
        "seconds": round(outcome.seconds, 3),
        "verdict": outcome.verdict,
        "reason": outcome.reason,
        "counterexample": outcome.difference and asdict(outcome.difference),
    }
