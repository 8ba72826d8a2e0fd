"""``xpulpnn equivalence mult``, ``compressed`` …: units of the core against their definitions."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from rich.table import Table

from xpulpnn.config import CoreConfig, Multiplier
from xpulpnn_sim.commands.common import FAILED, OK, configuration, output, progress_bar, write_json
from xpulpnn_sim.formal import compressed, decoder, multiplier
from xpulpnn_sim.formal.elaborate import clocked_gates
from xpulpnn_sim.formal.unit_proof import DIFFERENT, EQUAL, Claim, UnitProof, proofs
from xpulpnn_sim.harness.models import cached_emission

_TITLE = "each unit against its definition, for all inputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A unit in one structure: the claims about it, and for each fault some about the unit with it."""

    name: str
    claims: Sequence[Claim]
    broken: Sequence[Sequence[Claim]]


def _multipliers(config: CoreConfig, fixed: Sequence[str]) -> Iterator[Subject]:
    for structure in (config.multiplier,) if "multiplier" in fixed else get_args(Multiplier):
        verilog, manifest = cached_emission("mult", replace(config, multiplier=structure))
        gates, ports = clocked_gates(verilog, manifest["top"]), manifest["ports"]
        yield Subject(
            name=f"mult {structure}", claims=multiplier.claims(gates, ports), broken=multiplier.broken(gates, ports)
        )


def _compressed(config: CoreConfig, _fixed: Sequence[str]) -> Iterator[Subject]:
    verilog, manifest = cached_emission("compressed-decoder", config)
    gates = clocked_gates(verilog, manifest["top"])
    yield Subject(name="compressed decoder", claims=compressed.claims(gates), broken=compressed.broken(gates))


def _decoder(config: CoreConfig, _fixed: Sequence[str]) -> Iterator[Subject]:
    verilog, manifest = cached_emission("decoder", config)
    gates, ports = clocked_gates(verilog, manifest["top"]), manifest["ports"]
    yield Subject(
        name="decoder", claims=decoder.claims(gates, ports, config), broken=decoder.broken(gates, ports, config)
    )


UNITS: dict[str, Callable[[CoreConfig, Sequence[str]], Iterator[Subject]]] = {
    "mult": _multipliers,
    "decoder": _decoder,
    "compressed": _compressed,
}
"""Subjects of each unit, given a configuration and its fields that are fixed."""


def run(arguments: argparse.Namespace) -> int:
    """Print the table; fails unless every fault was found and every claim proved."""
    config = configuration(arguments)
    fixed = [text.partition("=")[0].replace("-", "_") for text in arguments.settings]
    wanted = list(UNITS) if arguments.what == "all" else [arguments.what]
    found: list[UnitProof] = []
    faults: list[tuple[str, bool]] = []
    with progress_bar("reading", None) as (progress, task):
        subjects = [one for name in wanted for one in UNITS[name](config, fixed)]
        progress.reset(task, total=sum(len(one.claims) + len(one.broken) for one in subjects))
        for one in subjects:
            progress.update(task, description=f"{one.name}: faults")
            for broken in one.broken:
                outcomes = proofs(one.name, broken, timeout_s=arguments.timeout)
                faults.append((one.name, any(outcome.verdict == DIFFERENT for outcome in outcomes)))
                progress.advance(task)
            progress.update(task, description=one.name)
            for outcome in proofs(one.name, one.claims, timeout_s=arguments.timeout):
                found.append(outcome)
                progress.advance(task)
    console = output()
    console.print(_table(found))
    for outcome in found:
        if outcome.verdict == DIFFERENT:
            console.print(f"{outcome.unit} {outcome.what}: {outcome.example}", markup=False, soft_wrap=True)
    missed = [name for name, seen in faults if not seen]
    equal = sum(outcome.verdict == EQUAL for outcome in found)
    seconds = sum(outcome.seconds for outcome in found)
    console.print(
        f"{equal} of {len(found)} proved in {seconds:.0f} s; before that {len(faults) - len(missed)} of {len(faults)} "
        "injected faults were found"
    )
    write_json(
        arguments.json,
        {
            "proofs": [_record(outcome) for outcome in found],
            "faults": [{"unit": name, "found": seen} for name, seen in faults],
        },
    )
    return OK if equal == len(found) and not missed else FAILED


def _table(found: Sequence[UnitProof]) -> Table:
    table = Table(box=None, title=_TITLE, title_justify="left")
    for heading in ("unit", "what", "method", "seconds", "verdict"):
        table.add_column(heading, justify="right" if heading == "seconds" else "left")
    for one in found:
        table.add_row(one.unit, one.what, one.method, f"{one.seconds:.1f}", one.verdict)
    return table


def _record(one: UnitProof) -> dict[str, Any]:
    return {
        "unit": one.unit,
        "what": one.what,
        "method": one.method,
        "seconds": round(one.seconds, 3),
        "verdict": one.verdict,
        "counterexample": one.example or None,
    }
