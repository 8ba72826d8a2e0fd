"""``xpulpnn formal --instructions``: every instruction of the core against the statements of the instruction table."""

import argparse
import fnmatch
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from rich.table import Table

from xpulpnn.errors import InputError
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import enabled
from xpulpnn_sim.commands import formal_seeded
from xpulpnn_sim.commands.common import (
    FAILED,
    INTERRUPTED,
    OK,
    configuration,
    core_title,
    output,
    progress_bar,
    write_json,
)
from xpulpnn_sim.commands.proof_options import workplace
from xpulpnn_sim.harness.models import cached_emission
from xpulpnn_sim.interrupts import single_interrupt
from xpulpnn_sim.semantics.backend import backend_gates, fields_of, source_of
from xpulpnn_sim.semantics.instruction_proofs import PROVED, Ledger, Proofs, Verdict, name_of, provable
from xpulpnn_sim.semantics.instruction_proofs import run as run_proofs
from xpulpnn_sim.semantics.passage import Control

_FOOT = (
    "for any state of the core, any operands and any timing of memory; without products, whose proofs are `equivalence`"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``formal`` that belong to this."""
    parser.add_argument(
        "--instructions",
        nargs="?",
        const="*",
        metavar="LIST",
        help="instead, prove instructions of the core against the statements of the instruction table, for any state, "
        "operands and timing: mnemonics such as pv.add.b,p.clip* (default all); needs no riscv-formal",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the table; fails unless all chosen instructions are proved, or with ``--faults`` all faults found."""
    config = configuration(arguments)
    rows = [row for row in enabled(config.extensions, config.widths) if row.size == 4]
    chosen = _chosen(arguments.instructions, rows)
    with workplace(arguments, "formal") as work:
        verilog, manifest = cached_emission("core", replace(config, rvfi=True))
        source = source_of(verilog, manifest["hierarchy"])
        layouts = [fields_of(manifest["modules"][unit]["ports"], "ctrl") for unit in ("dotp_unit", "mult")]
        with progress_bar("gates", None):
            backend = backend_gates(source, work.yosys)
        control = Control(dotp=layouts[0], mult=layouts[1])
        proofs = Proofs(backend=backend, control=control, abc=work.abc, timeout_s=arguments.timeout)
        if arguments.faults:
            return formal_seeded.run(arguments, proofs, config, chosen, work.yosys)
        return _run(arguments, proofs, chosen, Ledger(work.folder, source))


def _run(arguments: argparse.Namespace, proofs: Proofs, chosen: Sequence[Insn], ledger: Ledger) -> int:
    """The proofs, and what came of them."""
    provers = [row for row in chosen if provable(row)]
    found: dict[str, Verdict] = {}
    granted: list[Verdict] = []
    stopped = False
    with progress_bar("instructions", len(provers)) as (progress, task):
        try:
            with single_interrupt():
                granted += proofs.granted()
                for verdict in run_proofs(proofs, provers, ledger, arguments.jobs, resume=arguments.resume):
                    found[verdict.name] = verdict
                    progress.update(task, description=verdict.name)
                    progress.advance(task)
        except KeyboardInterrupt:
            stopped = True
    console = output()
    console.print(f"instructions of {core_title(arguments)} against their statements")
    console.print(_table(provers, found))
    console.print(_FOOT, soft_wrap=True, markup=False)
    for each in granted:
        console.print(f"of every state: {each.name}: {each.verdict}", markup=False)
    for verdict in found.values():
        if verdict.verdict != PROVED:
            console.print("\n".join([f"{verdict.name}: {verdict.verdict}", *verdict.example]), markup=False)
    left = [name_of(row) for row in chosen if not provable(row)]
    if left:
        console.print(f"not of this kind: {'; '.join(left)}", soft_wrap=True, markup=False)
    proved = sum(verdict.verdict == PROVED for verdict in found.values())
    seconds = sum(verdict.seconds for verdict in found.values())
    console.print(f"{proved} of {len(provers)} instructions proved in {seconds:.0f} s")
    write_json(
        arguments.json,
        {
            "complete": not stopped,
            "granted": [_record(each) for each in granted],
            "instructions": [_record(found[name_of(row)]) for row in provers if name_of(row) in found],
            "left": left,
        },
    )
    if stopped:
        console.print("INCOMPLETE: interrupted; --resume goes on")
        return INTERRUPTED
    return OK if all(each.verdict == PROVED for each in (*granted, *found.values())) else FAILED


def _chosen(text: str, rows: Sequence[Insn]) -> list[Insn]:
    """The rows of a list of mnemonics and patterns."""
    taken: set[str] = set()
    for pattern in text.split(","):
        names = fnmatch.filter([row.mnemonic for row in rows], pattern.strip())
        if not names:
            raise InputError(f"--instructions must be mnemonics that the core has, not {pattern}")
        taken |= {*names}
    return [row for row in rows if row.mnemonic in taken]


def _table(rows: Sequence[Insn], found: dict[str, Verdict]) -> Table:
    """A line for each operation, with all its instructions."""
    table = Table(box=None)
    for heading in ("operation", "instructions", "proved", "seconds"):
        table.add_column(heading, justify="left" if heading in ("operation", "instructions") else "right")
    for op, group in groupby(rows, key=lambda row: row.op):
        members = list(group)
        verdicts = [found[name_of(row)] for row in members if name_of(row) in found]
        names = " ".join(dict.fromkeys(row.mnemonic for row in members))
        proved = sum(each.verdict == PROVED for each in verdicts)
        seconds = sum(each.seconds for each in verdicts)
        table.add_row(op, names, f"{proved} of {len(members)}", f"{seconds:.1f}")
    return table


def _record(verdict: Verdict) -> dict[str, Any]:
    return {
        "instruction": verdict.name,
        "verdict": verdict.verdict,
        "seconds": round(verdict.seconds, 3),
        "example": list(verdict.example),
    }
