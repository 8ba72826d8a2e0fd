"""``xpulpnn prove emitter``, ``cluster`` and ``coprocessor``: modules against their RTLIL, and properties of units."""

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from xpulpnn.config import CLUSTER_PRESETS, DEFAULT_PRESET, PRESETS
from xpulpnn.field_values import apply_settings
from xpulpnn.verilog import Reset, Separator
from xpulpnn.xif.config import XIF_PRESETS, xif_preset
from xpulpnn_sim.cli.common import Columns, finish, progress_bar
from xpulpnn_sim.cli.configurations import Configuration, Settings
from xpulpnn_sim.cli.options import Json, Seconds, Timeout, Words, arguments, command
from xpulpnn_sim.cli.proof_shell import VERDICT, ProofRun, Result, outcome_record
from xpulpnn_sim.proofs.cluster.obligation import Obligation
from xpulpnn_sim.proofs.cluster.parts import PARTS
from xpulpnn_sim.proofs.coprocessor.offload import coprocessor_claims
from xpulpnn_sim.proofs.emitter.emission import EmissionSource, elaborate, emission_sources, prove_emission
from xpulpnn_sim.proofs.units.induction import prove_by_induction
from xpulpnn_sim.tools.component_names import ALL_TOPS, CLUSTER_NAMES
from xpulpnn_sim.tools.components import AnyConfig, emit_top
from xpulpnn_sim.tools.name_lists import select_names


@arguments
class ClusterProofOptions(Settings, Timeout, Json):
    parts: Annotated[tuple[str, ...], Parameter(choices=tuple(PARTS), metavar="PART")] = field(
        default=(), kw_only=False
    )
    """Parts of the cluster (default all): the arbiter of a bank, in all kinds; the event unit's mutex and barrier, and
    its part for each core; debugging."""
    preset: Annotated[str, Parameter(choices=tuple(CLUSTER_PRESETS), metavar="NAME")] = "cluster"
    """Configuration to start from."""
    timeout: Seconds = 120.0
    """Seconds for each half of the proof of a claim."""


@command("prove cluster")
def prove_cluster_command(options: ClusterProofOptions) -> int:
    """
    xpulpnn prove cluster  # what arbiters and event unit of the 8-core cluster promise
    xpulpnn prove cluster event-unit --set cores=16 --json build/proofs.json  # of another cluster
    """
    config = apply_settings(CLUSTER_PRESETS[options.preset], options.assignments)
    return _prove([each for part in PARTS if part in (options.parts or PARTS) for each in PARTS[part](config)], options)


@arguments
class CoprocessorProofOptions(Settings, Timeout, Json):
    preset: Annotated[str, Parameter(choices=tuple(XIF_PRESETS), metavar="NAME")] = "xif"
    """Configuration to start from: the interface as specified, or a core."""
    timeout: Seconds = 240.0
    """Seconds for each half of the proof of a claim."""


@command("prove coprocessor")
def prove_coprocessor_command(options: CoprocessorProofOptions) -> int:
    """
    xpulpnn prove coprocessor  # one result for each committed instruction, behind any core that keeps to CV-X-IF
    xpulpnn prove coprocessor --preset cv32e40x --set memory=obi  # behind one that drops instructions, with loads
    """
    config = apply_settings(xif_preset(options.preset), options.assignments)
    return _prove(coprocessor_claims(options.preset, config), options)


def _prove(obligations: Sequence[Obligation], options: ClusterProofOptions | CoprocessorProofOptions) -> int:
    run = ProofRun(count=len(obligations))
    with progress_bar("proving", len(obligations)) as bar:
        for obligation in bar.each(obligations, lambda obligation: obligation.title):
            outcomes = prove_by_induction(obligation, obligation.emit().text, timeout_s=int(options.timeout))
            run.results += [Result(obligation, outcome) for outcome in outcomes]
    claims = {name for obligation in obligations for name in obligation.claims}
    good = run.show(
        "what holds in every cycle after a reset, by induction over the clock edges",
        _CLAIM_COLUMNS,
        hidden=[*claims],
        is_good=lambda result: result.outcome.verdict == result.subject.expected(result.outcome.name),
    )
    return finish(options.json, [_claims_record(obligation, run.results) for obligation in obligations], good=good)


def _claim_verdict(result: Result) -> str:
    obligation, outcome = result.subject, result.outcome
    is_refuted = outcome.name in obligation.refuted and outcome.verdict == obligation.expected(outcome.name)
    return f"{outcome.verdict}, as must be" if is_refuted else outcome.verdict


_CLAIM_COLUMNS: Columns = {
    "unit": "{.subject.title}",
    "claim": "{.outcome.statement}",
    "cycles": "{.outcome.cycle}",
    **VERDICT,
    "verdict": _claim_verdict,
}


def _claims_record(obligation: Obligation, results: Sequence[Result]) -> dict[str, Any]:
    outcomes = [result.outcome for result in results if result.subject is obligation]
    return {
        "unit": obligation.title,
        "seconds": max((round(outcome.seconds, 3) for outcome in outcomes), default=0.0),
        "claims": [
            {
                "claim": outcome.name,
                "text": outcome.statement,
                "cycles": outcome.cycle,
                "verdict": outcome.verdict,
                "expected": obligation.expected(outcome.name),
                "example": [dict(ports) for ports in outcome.trace],
            }
            for outcome in outcomes
        ],
    }


_ALL = "all"


@arguments
class EmitterOptions(Configuration, Timeout, Json):
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
        known = CLUSTER_PRESETS if self.top in CLUSTER_NAMES else PRESETS
        names = list(known) if self.preset == _ALL else [self.preset]
        return {name: replace(self, preset=name).for_top(self.top) for name in names}


@command("prove emitter")
def prove_emitter_command(options: EmitterOptions) -> int:
    """xpulpnn prove emitter --preset ri5cy  # the emitted Verilog against Amaranth's own"""
    designs = options.designs()
    presets: dict[EmissionSource, list[str]] = {}
    run = ProofRun(count=0)
    with progress_bar("emitting", len(designs)) as bar:
        batches = [
            _new_modules(name, designs[name], options, presets) for name in bar.each(designs, "emitting {}".format)
        ]
        bar.reach(0, len(presets))
        for batch in batches:
            bar.describe("reading")
            for module in bar.each(elaborate(batch) if batch else (), lambda module: module[0].name):
                outcome = prove_emission(module, timeout_s=options.timeout, initial=options.initial == "on")
                run.results.append(Result(module[0], outcome, presets=presets[module[0]]))
    equal = sum(result.is_good for result in run.results)
    seconds = sum(result.outcome.seconds for result in run.results)
    good = run.show(
        "each module against its RTLIL: outputs and registers, by induction over the clock edges",
        _columns(len(designs)),
        f"{equal} of {len(run.results)} different modules equal, {seconds:.0f} s of proving",
    )
    return finish(options.json, list(map(_module_record, run.results)), good=good)


def _new_modules(
    preset: str, config: AnyConfig, options: EmitterOptions, presets: dict[EmissionSource, list[str]]
) -> list[EmissionSource]:
    """Return the modules that no earlier preset has; add ``preset`` to the presets of each of its modules."""
    initial, separator = options.initial == "on", options.separator
    design = emit_top(options.top, config, reset=options.reset, initial=initial, separator=separator)
    known = list(design.modules)
    chosen = select_names("+".join(options.modules), known, "--modules") if options.modules else known
    new: list[EmissionSource] = []
    for source in emission_sources(design):
        if source.name in chosen:
            if source not in presets:
                new.append(source)
            presets.setdefault(source, []).append(preset)
    return new


def _columns(designs: int) -> Columns:
    return {
        "module": "{.outcome.name}",
        "presets": lambda result: _ALL if len(result.presets) == designs > 1 else " ".join(result.presets),
        "bits": "{.outcome.facts[bits]}",
        "method": "{.outcome.method}",
        **VERDICT,
    }


def _module_record(result: Result) -> dict[str, Any]:
    return outcome_record("module", result.outcome, presets=list(result.presets), **result.outcome.facts)
