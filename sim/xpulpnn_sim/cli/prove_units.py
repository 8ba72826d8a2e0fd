"""``xpulpnn prove units``: units of the core against their definitions."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import groupby, product
from typing import Annotated, Any, get_args

from cyclopts import Parameter
from rich.table import Table

from xpulpnn.config import CLUSTER_PRESETS, DEFAULT_PRESET, PRESETS, CoreConfig, Multiplier, RegFileStorage, preset
from xpulpnn.errors import ConfigError, InputError
from xpulpnn.field_values import apply_settings
from xpulpnn.isa.formats import ElemFmt
from xpulpnn_sim.cli.common import finish, progress_bar, table, tell
from xpulpnn_sim.cli.configurations import Configuration
from xpulpnn_sim.cli.options import Json, Seconds, Timeout, Words, arguments, command, listed
from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.proofs.cluster.obligation import Obligation
from xpulpnn_sim.proofs.cluster.parts import PARTS
from xpulpnn_sim.proofs.engine.clocked_gates import clocked_gates
from xpulpnn_sim.proofs.units.decoder import COMPRESSED, DECODER
from xpulpnn_sim.proofs.units.divider import DIVIDER
from xpulpnn_sim.proofs.units.dotp import ALL_SIGNS, DOT_PRODUCTS
from xpulpnn_sim.proofs.units.dotp_structures import METHODS, Comparison, check, unit_structures
from xpulpnn_sim.proofs.units.induction import broken_promises, promises
from xpulpnn_sim.proofs.units.multiplier import MULTIPLIER
from xpulpnn_sim.proofs.units.quantiser import QUANTISER, REQUANTISER
from xpulpnn_sim.proofs.units.register_file import RegFileClaims
from xpulpnn_sim.proofs.units.unit_proof import (
    DIFFERENT,
    EQUAL,
    UNDECIDED,
    Claim,
    Definition,
    ProvenUnit,
    UnitProof,
    proofs,
)
from xpulpnn_sim.tools.top_names import chosen_names

_TITLE = "each unit against its definition, for all inputs"
_CLUSTER = "cluster"  # preset of the cluster whose parts are proved


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """A unit in one structure: the claims about it, and for each fault some about the unit with it."""

    name: str  # unit and structure
    key: Hashable  # same for the same unit in other configurations
    claims: Callable[[], Sequence[Claim]]
    broken: Callable[[], Sequence[Sequence[Claim]]]  # make the claims


Subjects = Callable[[CoreConfig, Sequence[str]], Iterator[_Subject]]  # of a configuration and its fields that are fixed


def _unit(name: str, top: str, config: CoreConfig, definition: Definition, key: object = None) -> _Subject:
    """A unit that has a definition."""
    verilog, manifest = cached_emission(top, config)

    def unit() -> ProvenUnit:
        return ProvenUnit(gates=clocked_gates(verilog, manifest["top"]), ports=manifest["ports"], config=config)

    return _Subject(
        name=name,
        # without the comment that tells the configuration
        key=(top, verilog.partition("\n\n")[2], key),
        claims=lambda: definition.claims(unit()),
        broken=lambda: definition.broken(unit()),
    )


def _dot_products(config: CoreConfig, fixed: Sequence[str]) -> Iterator[_Subject]:
    # structures that multiply no words are those of a unit on its own
    alone = replace(config, multiplier="booth")
    for label, one in unit_structures(alone, [name.removeprefix("dotp.") for name in fixed]).items():
        words = [text.partition("=")[2] for text in label.split()]
        yield _unit(f"dotp {' '.join(words)}", "dotp", one, DOT_PRODUCTS)


def _multipliers(config: CoreConfig, fixed: Sequence[str]) -> Iterator[_Subject]:
    for structure in (config.multiplier,) if "multiplier" in fixed else get_args(Multiplier):
        with suppress(ConfigError):
            yield _unit(f"mult {structure}", "mult", replace(config, multiplier=structure), MULTIPLIER)


def _single(
    name: str, top: str, definition: Definition, there: Callable[[CoreConfig], object] = lambda config: True
) -> Subjects:
    """A unit of which there is one in a core, if any."""
    return lambda config, fixed: iter([_unit(name, top, config, definition)] if there(config) else [])


def _decoder(config: CoreConfig, _fixed: Sequence[str]) -> Iterator[_Subject]:
    yield _unit("decoder", "decoder", config, DECODER, (config.extensions, config.widths))


def _promised(one: Obligation) -> _Subject:
    """A unit that promises something of every cycle."""
    text = one.emit().text
    return _Subject(name=one.title, key=text, claims=partial(promises, one, text), broken=partial(broken_promises, one))


def _cluster(_config: CoreConfig, _fixed: Sequence[str]) -> Iterator[_Subject]:
    for part in PARTS.values():
        yield from map(_promised, part(CLUSTER_PRESETS[_CLUSTER]))


def _regfiles(config: CoreConfig, fixed: Sequence[str]) -> Iterator[_Subject]:
    for storage in (config.regfile,) if "regfile" in fixed else get_args(RegFileStorage):
        yield _promised(RegFileClaims(storage, pairs=config.mac_load_pair))


UNITS: Mapping[str, Subjects] = {
    "mult": _multipliers,
    "div": _single("divider", "div", DIVIDER),
    "quantiser": _single("quantiser", "quantiser", QUANTISER, lambda config: config.widths & {4, 2}),
    "requantiser": _single("requantiser", "requantiser", REQUANTISER, lambda config: config.requantise),
    "decoder": _decoder,
    "compressed": _single("compressed decoder", "compressed-decoder", COMPRESSED),
    "regfile": _regfiles,
    "cluster": _cluster,
}
"""Subjects of each unit."""

_ALL: Mapping[str, Subjects] = {**UNITS, "dotp": _dot_products}  # the same with the dot products, which take longest


DOTP, EVERY = "dotp", "all"


@arguments
class UnitOptions(Configuration, Timeout, Json):
    """Options of the command."""

    unit: Annotated[str, Parameter(choices=(DOTP, *UNITS, EVERY), metavar="UNIT")] = field(default=DOTP, kw_only=False)
    """dotp: each structure of the dot-product unit against its definition; mult: every operation of the multiplier;
    div: the divider; quantiser: pv.qnt, for any thresholds and memory; requantiser: pv.rq*; decoder: every 32-bit word
    against the instruction table; compressed: every 16-bit word; regfile: registers in each storage, over any cycles;
    cluster: arbiters and event unit; all: all of them in one table."""
    preset: Annotated[str, Parameter(choices=(*PRESETS, EVERY), metavar="NAME")] = DEFAULT_PRESET
    """Configuration to start from; of all units but dotp also all."""
    formats: Words = ()
    """dotp: element formats out of h, b, n, c (default: all configured)."""
    method: Annotated[tuple[str, ...], listed(METHODS, "dotp: methods, all of which run (default one decides)")] = ()
    timeout: Seconds = 120.0
    """Seconds for one method on one operation, or for one claim."""
    all_widths: bool = False
    """dotp: also units with every subset of the configured element widths."""


_PRODUCTS_TITLE = "each structure against rd * accumulate + the sum of sign or zero extended products"
_SIGNS = "signs: of factor a (rs1) and b (rs2), u unsigned, s signed"


def prove_products(options: UnitOptions) -> int:
    """Print the table; fails if a structure is different or could not be decided by any method."""
    config = options.core
    suffixes = [fmt.suffix for fmt in config.dotp.formats]
    wanted = chosen_names("+".join(options.formats), suffixes, "--formats") if options.formats else suffixes
    formats = [fmt for fmt in ElemFmt if fmt.suffix in wanted]
    fixed = [text.partition("=")[0].removeprefix("dotp.").replace("-", "_") for text in options.settings]
    found = unit_structures(config, fixed, widths=options.all_widths)
    outcomes: list[Comparison] = []
    operations = sum(len({*one.dotp.formats}.intersection(formats)) for one in found.values()) * len(ALL_SIGNS)
    with progress_bar("structures", operations) as bar:
        for label, one in found.items():
            verilog, manifest = cached_emission("dotp", one)

            def advance(share: float, label: str = label) -> None:
                bar.describe(f"{label} {share:.0%}")

            for fmt, signs in product((fmt for fmt in one.dotp.formats if fmt in formats), ALL_SIGNS):
                bar.describe(f"{label} {fmt.suffix} {signs}")
                outcomes += check(
                    verilog,
                    manifest,
                    structure=label,
                    formats=[fmt],
                    signs=[signs],
                    methods=options.method,
                    timeout_s=options.timeout,
                    advance=advance,
                )
                bar.advance()
    tell(_products_table(outcomes))
    tell(_SIGNS)
    for outcome in outcomes:
        if outcome.verdict == DIFFERENT:
            what = outcome.counterexample or "the result must stay until the next operation, not change"
            text = f"{outcome.structure} {outcome.fmt.suffix} {outcome.signs}: {what}"
            tell(text)
    return finish(options.json, [_product_record(outcome) for outcome in outcomes], good=_all_shown(outcomes))


def _all_shown(outcomes: list[Comparison]) -> bool:
    """Say whether no operation is different and a method decided each, even if others gave up."""
    operations: dict[tuple[str, ElemFmt, str], set[str]] = {}
    for outcome in outcomes:
        operations.setdefault((outcome.structure, outcome.fmt, str(outcome.signs)), set()).add(outcome.verdict)
    return all(DIFFERENT not in verdicts and verdicts != {UNDECIDED} for verdicts in operations.values())


def _products_table(outcomes: list[Comparison]) -> Table:
    rows: list[tuple[object, ...]] = []

    def row(outcome: Comparison) -> tuple[str, ...]:
        return (outcome.structure, outcome.fmt.suffix, outcome.method, outcome.covered, outcome.verdict)

    for (structure, suffix, method, covered, verdict), group in groupby(sorted(outcomes, key=_order), key=row):
        same = list(group)
        signs = " ".join(str(outcome.signs) for outcome in same)
        seconds = f"{sum(one.seconds for one in same):.1f}"
        rows.append((structure, suffix, signs, method, covered, seconds, verdict))
    headings = ("structure", "format", "signs", "method", "covered", "seconds", "verdict")
    return table(headings, rows, title=_PRODUCTS_TITLE)


def _order(outcome: Comparison) -> tuple[Any, ...]:
    return (outcome.structure, outcome.fmt, METHODS.index(outcome.method), outcome.covered, outcome.verdict)


def _product_record(outcome: Comparison) -> dict[str, Any]:
    return {
        "structure": outcome.structure,
        "format": outcome.fmt.suffix,
        "signs": str(outcome.signs),
        "method": outcome.method,
        "covered": outcome.covered,
        "seconds": round(outcome.seconds, 3),
        "verdict": outcome.verdict,
        "counterexample": outcome.counterexample and asdict(outcome.counterexample),
    }


def _subjects(options: UnitOptions, told: Callable[[str], None]) -> list[tuple[_Subject, list[str]]]:
    """Return the units to prove, each with the presets that have it; ``told`` hears of what is being read."""
    fixed = [text.partition("=")[0].replace("-", "_") for text in options.settings]
    wanted = _ALL if options.unit == EVERY else {options.unit: UNITS[options.unit]}
    names = PRESETS if options.preset == EVERY else [options.preset]
    found: dict[Hashable, tuple[_Subject, list[str]]] = {}
    for (unit, subjects), name in product(wanted.items(), names):
        told(f"reading {unit} of {name}")
        for one in subjects(apply_settings(preset(name), options.assignments), fixed):
            presets = found.setdefault(one.key, (one, []))[1]
            # two structures of a unit may have the same gates
            if name not in presets:
                presets.append(name)
    if not found:
        raise InputError(f"preset must have the unit {options.unit}, not be {options.preset}")
    return list(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """Outcome for a unit: its presets, its claims, and for each fault whether it was found."""

    presets: Sequence[str]
    proofs: Sequence[UnitProof]
    faults: Sequence[bool]


@command
def prove_units_command(options: UnitOptions) -> int:
    """Print the table; fails unless every fault was found and every claim proved."""
    if options.unit == DOTP:
        return prove_products(options)
    if options.formats or options.method or options.all_widths:
        raise InputError(f"--formats, --method and --all-widths must be left out for {options.unit}")
    results: list[_Result] = []
    with progress_bar("reading", None) as bar:
        subjects = _subjects(options, bar.describe)
        bar.restart(len(subjects))
        for one, presets in bar.each(subjects):
            bar.describe(f"{one.name}: faults")
            faults: list[bool] = []
            for broken in one.broken():
                outcomes = proofs(one.name, broken, timeout_s=options.timeout)
                faults.append(any(outcome.verdict == DIFFERENT for outcome in outcomes))
            found: list[UnitProof] = []
            for claim in one.claims():
                bar.describe(f"{one.name}: {claim.what}")
                found += proofs(one.name, [claim], timeout_s=options.timeout)
            results.append(_Result(presets=presets, proofs=found, faults=faults))
    tell(_table(results, list(PRESETS) if options.preset == EVERY else [options.preset]))
    outcomes = [outcome for result in results for outcome in result.proofs]
    for outcome in outcomes:
        if outcome.verdict == DIFFERENT:
            tell(f"{outcome.unit} {outcome.what}: {outcome.example}")
    equal = sum(outcome.verdict == EQUAL for outcome in outcomes)
    caught = [seen for result in results for seen in result.faults]
    tell(
        f"{equal} of {len(outcomes)} proved in {sum(outcome.seconds for outcome in outcomes):.0f} s; before that "
        f"{sum(caught)} of {len(caught)} injected faults were found"
    )
    record = {
        "proofs": [_record(outcome, result.presets) for result in results for outcome in result.proofs],
        "faults": [
            {"unit": result.proofs[0].unit, "presets": list(result.presets), "found": seen}
            for result in results
            for seen in result.faults
        ],
    }
    return finish(options.json, record, good=equal == len(outcomes) and all(caught))


def _table(results: Sequence[_Result], presets: Sequence[str]) -> Table:
    """A row for each claim; the column of presets only if there are several."""
    several = len(presets) > 1
    rows: list[tuple[object, ...]] = []
    for result in results:
        where = EVERY if len(result.presets) == len(presets) else " ".join(result.presets)
        caught = f"{sum(result.faults)} of {len(result.faults)}"
        for number, one in enumerate(result.proofs):
            unit, preset_names, faults = ("", "", "") if number else (one.unit, where, caught)
            first = (unit, preset_names) if several else (unit,)
            rows.append((*first, one.what, one.method, f"{one.seconds:.1f}", one.verdict, faults))
    headings = ("unit", *(["presets"] if several else []), "what", "method", "seconds", "verdict", "faults found")
    return table(headings, rows, title=_TITLE)


def _record(one: UnitProof, presets: Sequence[str]) -> dict[str, Any]:
    return {
        "unit": one.unit,
        "presets": list(presets),
        "what": one.what,
        "method": one.method,
        "seconds": round(one.seconds, 3),
        "verdict": one.verdict,
        "counterexample": one.example or None,
    }
