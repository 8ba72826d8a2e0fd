"""``xpulpnn prove instructions``: every instruction of the core against the statements of the instruction table."""

from collections.abc import Sequence
from dataclasses import field, replace
from itertools import groupby
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import enabled
from xpulpnn_sim.cli.command import arguments, command
from xpulpnn_sim.cli.common import OK, finish, interruptible, matching, output, progress_bar, table, tell
from xpulpnn_sim.cli.option_groups import Jobs, ProofOptions
from xpulpnn_sim.cli.proof_options import workplace
from xpulpnn_sim.cli.wrong_instructions import self_test
from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.proofs.instructions.backend import backend_gates, fields_of, source_of
from xpulpnn_sim.proofs.instructions.instruction_proofs import PROVED, Ledger, Proofs, Verdict, name_of, provable
from xpulpnn_sim.proofs.instructions.instruction_proofs import run as run_proofs
from xpulpnn_sim.proofs.instructions.passage import Control

_FOOT = (
    "for any state of the core, any operands and any timing of memory; without products, whose proofs are `prove units`"
)


@arguments
class InstructionOptions(ProofOptions, Jobs):
    """Options of the command."""

    mnemonics: Annotated[tuple[str, ...], Parameter(metavar="MNEMONIC")] = field(default=("*",), kw_only=False)
    """Instructions such as pv.add.b or p.clip*."""


@command
def run(options: InstructionOptions) -> int:
    """Print the table; fails unless all chosen instructions are proved, or with ``--self-test`` all faults found."""
    config = options.core
    rows = [row for row in enabled(config.extensions, config.widths) if row.size == 4]
    chosen = _chosen(options.mnemonics, rows)
    if options.listing:
        tell(*(name_of(row) for row in chosen if provable(row)))
        return OK
    with workplace(options, "formal") as work:
        verilog, manifest = cached_emission("core", replace(config, rvfi=True))
        source = source_of(verilog, manifest["hierarchy"])
        layouts = [fields_of(manifest["modules"][unit]["ports"], "ctrl") for unit in ("dotp_unit", "mult")]
        with progress_bar("gates", None):
            backend = backend_gates(source, work.yosys)
        control = Control(dotp=layouts[0], mult=layouts[1])
        proofs = Proofs(backend=backend, control=control, abc=work.abc, timeout_s=options.timeout)
        if options.self_test:
            return self_test(options, proofs, config, chosen, work.yosys)
        return _run(options, proofs, chosen, Ledger(work.folder, source))


def _run(options: InstructionOptions, proofs: Proofs, chosen: Sequence[Insn], ledger: Ledger) -> int:
    """The proofs, and what came of them."""
    provers = [row for row in chosen if provable(row)]
    found: dict[str, Verdict] = {}
    granted: list[Verdict] = []
    with progress_bar("instructions", len(provers)) as bar, interruptible() as stop:
        granted += proofs.granted()
        results = run_proofs(proofs, provers, ledger, options.jobs, resume=not options.fresh)
        for verdict in bar.each(results, lambda one: one.name):
            found[verdict.name] = verdict
    output().print(f"instructions of {options.title} against their statements")
    output().print(_table(provers, found))
    tell(_FOOT, *(f"of every state: {each.name}: {each.verdict}" for each in granted))
    for verdict in found.values():
        if verdict.verdict != PROVED:
            tell(f"{verdict.name}: {verdict.verdict}", *verdict.example)
    left = [name_of(row) for row in chosen if not provable(row)]
    if left:
        tell(f"not of this kind: {'; '.join(left)}")
    proved = sum(verdict.verdict == PROVED for verdict in found.values())
    seconds = sum(verdict.seconds for verdict in found.values())
    tell(f"{proved} of {len(provers)} instructions proved in {seconds:.0f} s")
    record = {
        "complete": not stop.interrupted,
        "granted": [_record(each) for each in granted],
        "instructions": [_record(found[name_of(row)]) for row in provers if name_of(row) in found],
        "left": left,
    }
    good = all(each.verdict == PROVED for each in (*granted, *found.values()))
    return finish(options.json, record, good=good, stop=stop, done=f"{len(found)} of {len(provers)} instructions")


def _chosen(patterns: Sequence[str], rows: Sequence[Insn]) -> list[Insn]:
    """The rows of a list of mnemonics and patterns."""
    taken = matching(patterns, [row.mnemonic for row in rows], "MNEMONIC must be one or more that the core has")
    return [row for row in rows if row.mnemonic in taken]


def _table(rows: Sequence[Insn], found: dict[str, Verdict]) -> Table:
    """A line for each operation, with all its instructions."""
    lines: list[tuple[object, ...]] = []
    for op, group in groupby(rows, key=lambda row: row.op):
        members = list(group)
        verdicts = [found[name_of(row)] for row in members if name_of(row) in found]
        names = " ".join(dict.fromkeys(row.mnemonic for row in members))
        proved = sum(each.verdict == PROVED for each in verdicts)
        seconds = sum(each.seconds for each in verdicts)
        lines.append((op, names, f"{proved} of {len(members)}", f"{seconds:.1f}"))
    return table(("operation", "instructions", "proved", "seconds"), lines)


def _record(verdict: Verdict) -> dict[str, Any]:
    return {
        "instruction": verdict.name,
        "verdict": verdict.verdict,
        "seconds": round(verdict.seconds, 3),
        "example": list(verdict.example),
    }
