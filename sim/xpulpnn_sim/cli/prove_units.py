"""``xpulpnn prove units``: prove units of the core against their definitions."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Annotated, Any, get_args

from cyclopts import Parameter

from xpulpnn.config import CLUSTER_PRESETS, DEFAULT_PRESET, PRESETS, CoreConfig, Multiplier, RegFileStorage, preset
from xpulpnn.errors import ConfigError, InputError, require
from xpulpnn.field_values import apply_settings
from xpulpnn.isa.formats import ElemFmt
from xpulpnn_sim.cli.common import Columns, finish, progress_bar
from xpulpnn_sim.cli.configurations import Configuration
from xpulpnn_sim.cli.options import Json, Seconds, Timeout, Words, arguments, command, listed
from xpulpnn_sim.cli.proof_shell import VERDICT, ProofRun, Result
from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.proofs.cluster.obligation import Obligation
from xpulpnn_sim.proofs.cluster.parts import PARTS
from xpulpnn_sim.proofs.engine.clocked_gates import clocked_gates
from xpulpnn_sim.proofs.units.decoder import COMPRESSED, DECODER
from xpulpnn_sim.proofs.units.divider import DIVIDER
from xpulpnn_sim.proofs.units.dotp import LANES, METHODS, SAMPLED, dot_products, unit_structures
from xpulpnn_sim.proofs.units.induction import faulty_induction_claims, induction_claims
from xpulpnn_sim.proofs.units.multiplier import MULTIPLIER
from xpulpnn_sim.proofs.units.quantiser import QUANTISER
from xpulpnn_sim.proofs.units.register_file import RegFileClaims
from xpulpnn_sim.proofs.units.unit_proof import DIFFERENT, EQUAL, Claim, Definition, ProvenUnit
from xpulpnn_sim.tools.name_lists import select_names

DOTP, EVERY = "dotp", "all"
_CLUSTER = "cluster"  # preset of the cluster units


@arguments
class UnitOptions(Configuration, Timeout, Json):
    unit: Annotated[
        str,
        Parameter(
            choices=(DOTP, "mult", "div", "quantiser", "decoder", "compressed", "regfile", "cluster", EVERY),
            metavar="UNIT",
        ),
    ] = field(default=DOTP, kw_only=False)
    """dotp: each structure of the dot-product unit against its definition; mult: every operation of the multiplier;
    div: the divider; quantiser: pv.qnt, for any thresholds and memory; decoder: every 32-bit word
    against the instruction table; compressed: every 16-bit word; regfile: registers in each storage, over any cycles;
    cluster: arbiters and event unit; all: all of them in one table."""
    preset: Annotated[str, Parameter(choices=(*PRESETS, EVERY), metavar="NAME")] = DEFAULT_PRESET
    """Configuration to start from, or all."""
    formats: Words = ()
    """dotp: element formats out of h, b, n, c (default: all configured)."""
    method: Annotated[tuple[str, ...], listed(METHODS, "dotp: methods, all of which run (default one decides)")] = ()
    timeout: Seconds = 120.0
    """Seconds for one method on one operation, or for one claim."""
    all_widths: bool = False
    """dotp: also units with every subset of the configured element widths."""

    @property
    def fixed(self) -> list[str]:
        return [text.partition("=")[0].removeprefix("dotp.").replace("-", "_") for text in self.settings]


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnitStructure:
    name: str  # unit and structure
    key: Hashable  # equal for the same unit in other configurations
    claims: Callable[[], Sequence[Claim]]
    broken: Callable[[], Sequence[Sequence[Claim]]]  # for each fault, the claims that it refutes


Structures = Callable[[CoreConfig, UnitOptions], Iterator[_UnitStructure]]


def _structure(name: str, top: str, config: CoreConfig, definition: Definition, key: object = None) -> _UnitStructure:
    verilog, manifest = cached_emission(top, config)

    def unit() -> ProvenUnit:
        return ProvenUnit(gates=clocked_gates(verilog, manifest["top"]), ports=manifest["ports"], config=config)

    return _UnitStructure(
        name=name,
        # without the comment that names the configuration
        key=(top, verilog.partition("\n\n")[2], key),
        claims=lambda: definition.claims(unit()),
        broken=lambda: definition.broken(unit()),
    )


def _dot_products(config: CoreConfig, options: UnitOptions) -> Iterator[_UnitStructure]:
    # here the dot-product unit does not multiply words
    alone = replace(config, multiplier="booth")
    suffixes = [fmt.suffix for fmt in config.dotp.formats]
    chosen = select_names("+".join(options.formats), suffixes, "--formats") if options.formats else suffixes
    definition = dot_products([fmt for fmt in ElemFmt if fmt.suffix in chosen], options.method)
    for label, structure in unit_structures(alone, options.fixed, widths=options.all_widths).items():
        yield _structure(f"dotp {label}", "dotp", structure, definition)


def _multipliers(config: CoreConfig, options: UnitOptions) -> Iterator[_UnitStructure]:
    for structure in (config.multiplier,) if "multiplier" in options.fixed else get_args(Multiplier):
        with suppress(ConfigError):
            yield _structure(f"mult {structure}", "mult", replace(config, multiplier=structure), MULTIPLIER)


def _quantiser(config: CoreConfig, _options: UnitOptions) -> Iterator[_UnitStructure]:
    if config.widths & {4, 2}:
        yield _structure("quantiser", "quantiser", config, QUANTISER)


def _obligation(obligation: Obligation) -> _UnitStructure:
    text = obligation.emit().text
    return _UnitStructure(
        name=obligation.title,
        key=text,
        claims=partial(induction_claims, obligation, text),
        broken=partial(faulty_induction_claims, obligation),
    )


def _regfiles(config: CoreConfig, options: UnitOptions) -> Iterator[_UnitStructure]:
    for storage in (config.regfile,) if "regfile" in options.fixed else get_args(RegFileStorage):
        yield _obligation(RegFileClaims(storage, pairs=config.mac_load_pair))


def _cluster(_config: CoreConfig, _options: UnitOptions) -> Iterator[_UnitStructure]:
    for part in PARTS.values():
        yield from map(_obligation, part(CLUSTER_PRESETS[_CLUSTER]))


UNITS: Mapping[str, Structures] = {
    "mult": _multipliers,
    "div": lambda config, _: iter([_structure("divider", "div", config, DIVIDER)]),
    "quantiser": _quantiser,
    "decoder": lambda config, _: iter(
        [_structure("decoder", "decoder", config, DECODER, (config.extensions, config.widths))]
    ),
    "compressed": lambda config, _: iter([_structure("compressed decoder", "compressed-decoder", config, COMPRESSED)]),
    "regfile": _regfiles,
    "cluster": _cluster,
    DOTP: _dot_products,
}
"""Functions that yield the structures of a unit, by name of the unit."""


def _unit_structures(options: UnitOptions, describe: Callable[[str], None]) -> list[tuple[_UnitStructure, list[str]]]:
    names = PRESETS if options.preset == EVERY else [options.preset]
    structures: dict[Hashable, tuple[_UnitStructure, list[str]]] = {}
    for unit, name in product(UNITS if options.unit == EVERY else [options.unit], names):
        describe(f"reading {unit} of {name}")
        for structure in UNITS[unit](apply_settings(preset(name), options.assignments), options):
            presets = structures.setdefault(structure.key, (structure, []))[1]
            # two structures may have the same gates
            if name not in presets:
                presets.append(name)
    require(structures, f"preset must have the unit {options.unit}, not be {options.preset}")
    return list(structures.values())


def _is_shown(result: Result) -> bool:
    return result.outcome.verdict in (EQUAL, LANES, SAMPLED)


@command("prove units")
def prove_units_command(options: UnitOptions) -> int:
    """xpulpnn prove units  # all structures of the dot-product unit against its definition"""
    if options.unit != DOTP and (options.formats or options.method or options.all_widths):
        raise InputError(f"--formats, --method and --all-widths must be left out for {options.unit}")
    run, faults = ProofRun(count=0), list[dict[str, Any]]()
    with progress_bar("reading", None) as bar:
        structures = _unit_structures(options, bar.describe)
        bar.reach(0, len(structures))
        for structure, presets in bar.each(structures):
            bar.describe(f"{structure.name}: faults")
            for broken in structure.broken():
                refuted = any(claim.prove(structure.name, options.timeout).verdict == DIFFERENT for claim in broken)
                faults.append({"unit": structure.name, "presets": presets, "found": refuted})
            for claim in structure.claims():
                bar.describe(f"{structure.name}: {claim.statement}")
                outcome = claim.prove(structure.name, options.timeout)
                run.results.append(Result(structure, outcome, presets=presets))
    outcomes = [result.outcome for result in run.results]
    shown = sum(map(_is_shown, run.results))
    caught = sum(fault["found"] for fault in faults)
    good = run.show(
        "each unit against its definition, for all inputs",
        _COLUMNS,
        f"{shown} of {len(outcomes)} proved in {sum(outcome.seconds for outcome in outcomes):.0f} s; before that "
        f"{caught} of {len(faults)} injected faults were found",
        *(f"NOT FOUND: fault of {fault['unit']}" for fault in faults if not fault["found"]),
        is_good=_is_shown,
    )
    record = {"proofs": list(map(_record, run.results)), "faults": faults}
    return finish(options.json, record, good=good and caught == len(faults))


_COLUMNS: Columns = {
    "unit": "{.outcome.name}",
    "presets": lambda result: EVERY if len(result.presets) == len(PRESETS) else " ".join(result.presets),
    "what": "{.outcome.statement}",
    "method": "{.outcome.method}",
    **VERDICT,
}


def _record(result: Result) -> dict[str, Any]:
    outcome, seconds = result.outcome, round(result.outcome.seconds, 3)
    unit = {"unit": outcome.name, "presets": list(result.presets), "what": outcome.statement}
    verdict = {"method": outcome.method, "seconds": seconds, "verdict": outcome.verdict}
    return {**unit, **verdict, "counterexample": next(iter(outcome.parts), None)}
