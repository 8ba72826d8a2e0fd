"""``xpulpnn prove instructions``: every instruction of the core against the statements of the instruction table."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter
from rich.table import Table

from xpulpnn.config import CoreConfig
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import enabled
from xpulpnn_sim.cli.common import (
    INTERRUPTED,
    OK,
    Columns,
    finish,
    interruptible,
    matching,
    progress_bar,
    record_table,
    table,
    tell,
)
from xpulpnn_sim.cli.options import Jobs, arguments, command
from xpulpnn_sim.cli.prove_core import ProofOptions, is_found, outcome_record, workplace
from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.proofs.engine.outcomes import PROVED, Ledger, Outcome
from xpulpnn_sim.proofs.instructions.instruction_proofs import (
    InstructionProver,
    faulty_statements,
    proof_name,
    provable,
)
from xpulpnn_sim.proofs.instructions.instruction_proofs import run as run_proofs
from xpulpnn_sim.proofs.instructions.unrolling import BackendGates
from xpulpnn_sim.tools.yosys import Yosys

STATEMENTS = "statements"  # what has the fault, if not a module


class _Seed(NamedTuple):
    """A fault and what its proof said: what is wrong, in which module, and the verdict on which instruction."""

    fault: str
    where: str
    outcome: Outcome


def self_test(
    options: ProofOptions, proofs: InstructionProver, config: CoreConfig, rows: Sequence[Insn], yosys: Yosys
) -> int:
    """Print the tables; fails unless every fault was found."""
    chosen = [row for row in rows if provable(row)]
    tries = [*_wrong_statements(proofs, chosen), *_wrong_gates(proofs, config, chosen, yosys)]
    found: list[_Seed] = []
    with progress_bar("faults", len(tries)) as bar, interruptible() as stop:
        found.extend(bar.each((attempt() for attempt in tries), lambda seed: seed.outcome.name))
    tell(f"faults seeded into {options.title}, and into the statements of its instructions")
    tell(record_table(_COLUMNS, (seed for seed in found if seed.where != STATEMENTS)))
    missed = [seed for seed in found if not is_found(seed.outcome)]
    for seed in missed:
        tell(f"NOT FOUND: {seed.outcome.name}: {seed.fault}: {seed.outcome.verdict}")
    for name, is_statement in (("wrong statements", True), ("faults of the core", False)):
        seeds = [is_found(seed.outcome) for seed in found if (seed.where == STATEMENTS) is is_statement]
        tell(f"{sum(seeds)} of {len(seeds)} {name} found")
    records = [
        {"fault": fault, "where": where, "instruction": outcome.name, "found": is_found(outcome)}
        for fault, where, outcome in found
    ]
    code = finish(options.json, {"complete": not stop.interrupted, "faults": records}, good=not missed)
    return INTERRUPTED if stop.interrupted else code


def _wrong_statements(proofs: InstructionProver, rows: Sequence[Insn]) -> Iterator[Callable[[], _Seed]]:
    for row in rows:
        body = faulty_statements(row)
        if body is not None:
            yield lambda row=row, body=body: _Seed(
                "one bit wrong in one case", STATEMENTS, proofs.instruction(row, body)
            )


def _wrong_gates(
    proofs: InstructionProver, config: CoreConfig, rows: Sequence[Insn], yosys: Yosys
) -> Iterator[Callable[[], _Seed]]:
    # Amaranth takes long to import
    from xpulpnn_sim.proofs.faults import instructions as of
    from xpulpnn_sim.tools.tops import emit_top

    def attempt(fault: Any, concerned: Sequence[Insn]) -> _Seed:
        with fault.seeded():
            core = emit_top("core", replace(config, rvfi=True))
        backend = BackendGates(core.text, core.manifest, yosys)
        outcomes = [replace(proofs, backend=backend).instruction(row) for row in concerned]
        return _Seed(fault.name, fault.module, next(filter(is_found, outcomes), outcomes[0]))

    faults = (*of.INSTRUCTION_FAULTS, *of.PARAMETER_FAULTS)
    faults += of.EXACT_FAULTS if config.requantise_exact else of.CLIP_FAULTS
    faults += of.PAIR_FAULTS if config.mac_load_pair else ()
    for fault in (*faults, *(of.MIXED_FAULTS if config.mixed_weights else ())):
        concerned = [row for row in rows if row.mnemonic == fault.check]
        if concerned:
            yield partial(attempt, fault, concerned)


_COLUMNS: Columns = {
    "fault": "{.fault}",
    "module": "{.where}",
    "instruction": "{.outcome.name}",
    "seconds": "{.outcome.seconds:.1f}",
    "verdict": lambda seed: "found" if is_found(seed.outcome) else "NOT FOUND",
}


_FOOT = (
    "for any state of the core, any operands and any timing of memory; "
    "without the products of multiplier and dot-product units, whose proofs are `prove units`"
)


@arguments
class InstructionOptions(ProofOptions, Jobs):
    """Options of the command."""

    mnemonics: Annotated[tuple[str, ...], Parameter(metavar="MNEMONIC")] = field(default=("*",), kw_only=False)
    """Instructions such as pv.add.b or p.clip*."""


@command
def prove_instructions_command(options: InstructionOptions) -> int:
    """Print the table; fails unless all chosen instructions are proved, or with ``--self-test`` all faults found."""
    config = options.core
    rows = [row for row in enabled(config.extensions, config.widths) if row.size == 4]
    chosen = matching(options.mnemonics, rows, "MNEMONIC must be one or more that the core has", "mnemonic")
    if options.listing:
        tell(*(proof_name(row) for row in chosen if provable(row)))
        return OK
    with workplace(options, "formal") as work:
        verilog, manifest = cached_emission("core", replace(config, rvfi=True))
        with progress_bar("gates", None):
            backend = BackendGates(verilog, manifest, work.yosys)
        proofs = InstructionProver(backend=backend, abc=work.abc, timeout_s=options.timeout)
        if options.self_test:
            return self_test(options, proofs, config, chosen, work.yosys)
        return _run(options, proofs, chosen, verilog, work.folder)


def _run(
    options: InstructionOptions, proofs: InstructionProver, chosen: Sequence[Insn], verilog: str, folder: Path
) -> int:
    """The proofs, and what came of them."""
    provers = [row for row in chosen if provable(row)]
    found: dict[str, Outcome] = {}
    granted: list[Outcome] = []
    ledger = Ledger(folder / "instructions", options.timeout, not options.fresh)
    with progress_bar("instructions", len(provers)) as bar, interruptible() as stop:
        granted += proofs.invariants()
        results = run_proofs(proofs, provers, verilog, ledger, options.jobs)
        for verdict in bar.each(results, lambda one: one.name):
            found[verdict.name] = verdict
    tell(f"instructions of {options.title} against their statements")
    tell(_table(provers, found))
    tell(_FOOT, *(f"of every state: {each.name}: {each.verdict}" for each in granted))
    for verdict in found.values():
        if verdict.verdict != PROVED:
            tell(f"{verdict.name}: {verdict.verdict}", *verdict.parts)
    left = [proof_name(row) for row in chosen if not provable(row)]
    if left:
        tell(f"not of this kind: {'; '.join(left)}")
    proved = sum(verdict.verdict == PROVED for verdict in found.values())
    seconds = sum(verdict.seconds for verdict in found.values())
    tell(f"{proved} of {len(provers)} instructions proved in {seconds:.0f} s")

    def record(verdict: Outcome) -> dict[str, Any]:
        return outcome_record("instruction", verdict, example=list(verdict.parts))

    result = {
        "complete": not stop.interrupted,
        "granted": [record(each) for each in granted],
        "instructions": [record(found[proof_name(row)]) for row in provers if proof_name(row) in found],
        "left": left,
    }
    good = all(each.verdict == PROVED for each in (*granted, *found.values()))
    return finish(options.json, result, good=good, stop=stop, done=f"{len(found)} of {len(provers)} instructions")


def _table(rows: Sequence[Insn], found: dict[str, Outcome]) -> Table:
    """A line for each operation, with all its instructions."""
    lines: list[tuple[object, ...]] = []
    for op, group in groupby(rows, key=lambda row: row.op):
        members = list(group)
        verdicts = [found[proof_name(row)] for row in members if proof_name(row) in found]
        names = " ".join(dict.fromkeys(row.mnemonic for row in members))
        proved = sum(each.verdict == PROVED for each in verdicts)
        seconds = sum(each.seconds for each in verdicts)
        lines.append((op, names, f"{proved} of {len(members)}", f"{seconds:.1f}"))
    return table(("operation", "instructions", "proved", "seconds"), lines)
