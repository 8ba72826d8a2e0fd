"""``xpulpnn prove instructions``: prove every instruction of the core against the instruction table."""

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

from cyclopts import Parameter

from xpulpnn.errors import InputError
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import INSNS, enabled
from xpulpnn_sim.cli.common import OK, Columns, matching, progress_bar, table, tell
from xpulpnn_sim.cli.options import Jobs, arguments, command
from xpulpnn_sim.cli.proof_shell import FAULT, VERDICT, ProofOptions, ProofRun, Result, outcome_record, workplace
from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.proofs.engine.outcomes import PROVED, Ledger, Outcome
from xpulpnn_sim.proofs.instructions import instruction_proofs
from xpulpnn_sim.proofs.instructions.instruction_proofs import InstructionProver, proof_name, provable
from xpulpnn_sim.proofs.instructions.unrolling import BackendGates
from xpulpnn_sim.tools.named_table import TerminalTable
from xpulpnn_sim.tools.yosys import Yosys

_STATEMENT_FAULT = SimpleNamespace(name="one bit wrong in one case", module="statements")


@arguments
class InstructionOptions(ProofOptions, Jobs):
    mnemonics: Annotated[tuple[str, ...], Parameter(metavar="MNEMONIC")] = field(default=("*",), kw_only=False)
    """Instructions such as pv.add.b or p.clip*."""


@command("prove instructions")
def prove_instructions_command(options: InstructionOptions) -> int:
    """
    xpulpnn prove instructions 'pv.add.*'  # the packed additions
    xpulpnn prove instructions --self-test  # whether the proofs find wrong statements and faults
    """
    config = options.core
    rows = [row for row in enabled(config.extensions, config.widths) if row.size == 4]
    must = "MNEMONIC must be one or more that the core has"
    for row in INSNS:
        if row.mnemonic in options.mnemonics and not config.extensions.issuperset(row.needs):
            raise InputError(f"{must}, not {row.mnemonic}, which is of {row.extension.value}")
    chosen = matching(options.mnemonics, rows, must, "mnemonic")
    if options.listing:
        tell(*(proof_name(row) for row in chosen if provable(row)))
        return OK
    with workplace(options, "formal") as work:
        verilog, manifest = cached_emission("core", replace(config, rvfi=True))
        with progress_bar("gates", None):
            backend = BackendGates(verilog, manifest, work.yosys)
        prover = InstructionProver(backend=backend, abc=work.abc, timeout_s=options.timeout)
        if options.self_test:
            return _self_test(options, prover, chosen, work.yosys)
        return _prove(options, prover, chosen, verilog, work.folder)


def _prove(
    options: InstructionOptions, prover: InstructionProver, chosen: Sequence[Insn], verilog: str, folder: Path
) -> int:
    rows = {proof_name(row): row for row in chosen if provable(row)}
    ledger = Ledger(folder / "instructions", options.timeout, not options.fresh)
    run, invariants = ProofRun(count=len(rows)), list[Outcome]()

    def results() -> Iterator[Result]:
        invariants.extend(prover.invariants())
        for outcome in instruction_proofs.prove_instructions(prover, [*rows.values()], verilog, ledger, options.jobs):
            yield Result(rows[outcome.name], outcome)

    run.collect("instructions", results())
    run.results.sort(key=lambda result: [*rows].index(result.outcome.name))
    outcomes = [result.outcome for result in run.results]
    proved = sum(outcome.verdict == PROVED for outcome in outcomes)
    left = [proof_name(row) for row in chosen if not provable(row)]
    tell(f"instructions of {options.title} against their statements", _table([*rows.values()], run.results))
    tell(
        "for any state of the core, any operands and any timing of memory; "
        "without the products of multiplier and dot-product units, whose proofs are `prove units`",
        *(f"of every state: {invariant.name}: {invariant.verdict}" for invariant in invariants),
    )
    for result in run.results:
        if not result.is_good:
            tell(*result.counterexample())
    if left:
        tell(f"not of this kind: {'; '.join(left)}")
    tell(f"{proved} of {len(rows)} instructions proved in {sum(outcome.seconds for outcome in outcomes):.0f} s")
    record = {"granted": [*map(_record, invariants)], "instructions": [*map(_record, outcomes)], "left": left}
    return run.finish(options, record, good=all(each.verdict == PROVED for each in (*invariants, *outcomes)))


def _record(outcome: Outcome) -> dict[str, Any]:
    return outcome_record("instruction", outcome, example=list(outcome.parts))


def _table(rows: Sequence[Insn], results: Sequence[Result]) -> TerminalTable:
    known = {result.outcome.name: result.outcome for result in results}
    lines: list[tuple[object, ...]] = []
    for op, group in groupby(rows, key=lambda row: row.op):
        members = list(group)
        outcomes = [known[proof_name(row)] for row in members if proof_name(row) in known]
        names = " ".join(dict.fromkeys(row.mnemonic for row in members))
        proved = sum(outcome.verdict == PROVED for outcome in outcomes)
        seconds = sum(outcome.seconds for outcome in outcomes)
        lines.append((op, names, f"{proved} of {len(members)}", f"{seconds:.1f}"))
    return table(("operation", "instructions", "proved", "seconds"), lines)


def _self_test(options: InstructionOptions, prover: InstructionProver, chosen: Sequence[Insn], yosys: Yosys) -> int:
    # slow import
    from xpulpnn_sim.proofs.faults.catalog import faults_for
    from xpulpnn_sim.proofs.faults.fault import Fault
    from xpulpnn_sim.tools.components import emit_top

    rows = [row for row in chosen if provable(row)]
    statements = [(row, body) for row in rows if (body := instruction_proofs.faulty_statements(row)) is not None]
    faults = faults_for(options.core, {row.mnemonic for row in rows})

    def of_fault(fault: Fault) -> Result:
        with fault.seeded():
            core = emit_top("core", replace(options.core, rvfi=True))
        faulty = replace(prover, backend=BackendGates(core.text, core.manifest, yosys))
        results = [Result(row, faulty.instruction(row), fault) for row in rows if row.mnemonic in fault.checks]
        return next((result for result in results if result.is_found), results[0])

    def results() -> Iterator[Result]:
        for row, body in statements:
            yield Result(row, prover.instruction(row, body), _STATEMENT_FAULT)
        yield from map(of_fault, faults)

    run = ProofRun(count=len(statements) + len(faults))
    run.collect("faults", results())
    of_statements = [result for result in run.results if result.fault is _STATEMENT_FAULT]
    of_core = [result for result in run.results if result.fault is not _STATEMENT_FAULT]
    ProofRun(count=len(of_core), results=of_core).show(
        f"faults seeded into {options.title}, and into the statements of its instructions",
        _FAULT_COLUMNS,
        is_good=lambda _: True,
    )
    missed = [result for result in run.results if not result.is_found]
    tell(*(f"NOT FOUND: {result.fault.name}" for result in missed))
    for name, group in (("wrong statements", of_statements), ("faults of the core", of_core)):
        tell(f"{sum(result.is_found for result in group)} of {len(group)} {name} found")
    return run.finish(options, {"faults": list(map(_fault_record, run.results))}, good=not missed)


def _fault_record(result: Result) -> dict[str, Any]:
    fault = {"fault": result.fault.name, "where": result.fault.module}
    return {**fault, "instruction": result.outcome.name, "found": result.is_found}


_FAULT_COLUMNS: Columns = {**FAULT, "instruction": "{.outcome.name}", **VERDICT}
