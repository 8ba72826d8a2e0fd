"""``xpulpnn formal --instructions --faults``: wrong statements and faults of the core, which the proofs must find."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.table import Table

from xpulpnn.config import CoreConfig
from xpulpnn.isa.insn import Insn
from xpulpnn_sim.commands.common import FAILED, INTERRUPTED, OK, core_title, output, progress_bar, write_json
from xpulpnn_sim.interrupts import single_interrupt
from xpulpnn_sim.semantics.backend import backend_gates, source_of
from xpulpnn_sim.semantics.instruction_proofs import REFUTED, Proofs, Verdict, provable
from xpulpnn_sim.semantics.seeded import seeded
from xpulpnn_sim.yosys import Yosys

STATEMENTS = "statements"
"""What has the fault, if not a module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """A fault and what its proof said: what is wrong, in which module, and the verdict on which instruction."""

    fault: str
    where: str
    verdict: Verdict

    @property
    def found(self) -> bool:
        """Whether the proof fails."""
        return self.verdict.verdict == REFUTED


def run(arguments: argparse.Namespace, proofs: Proofs, config: CoreConfig, rows: Sequence[Insn], yosys: Yosys) -> int:
    """Print the tables; fails unless every fault was found."""
    chosen = [row for row in rows if provable(row)]
    tries = [*_wrong_statements(proofs, chosen), *_wrong_gates(proofs, config, chosen, yosys)]
    found: list[Seed] = []
    stopped = False
    with progress_bar("faults", len(tries)) as (progress, task):
        try:
            with single_interrupt():
                for attempt in tries:
                    found.append(attempt())
                    progress.update(task, description=found[-1].verdict.name)
                    progress.advance(task)
        except KeyboardInterrupt:
            stopped = True
    console = output()
    console.print(f"faults seeded into {core_title(arguments)}, and into the statements of its instructions")
    console.print(_table([seed for seed in found if seed.where != STATEMENTS]))
    missed = [seed for seed in found if not seed.found]
    for seed in missed:
        console.print(f"NOT FOUND: {seed.verdict.name}: {seed.fault}: {seed.verdict.verdict}", markup=False)
    for name, is_statement in (("wrong statements", True), ("faults of the core", False)):
        seeds = [seed for seed in found if (seed.where == STATEMENTS) is is_statement]
        console.print(f"{sum(seed.found for seed in seeds)} of {len(seeds)} {name} found")
    records = [
        {"fault": seed.fault, "where": seed.where, "instruction": seed.verdict.name, "found": seed.found}
        for seed in found
    ]
    write_json(arguments.json, {"complete": not stopped, "faults": records})
    if stopped:
        return INTERRUPTED
    return FAILED if missed else OK


def _wrong_statements(proofs: Proofs, rows: Sequence[Insn]) -> Iterator[Callable[[], Seed]]:
    for row in rows:
        body = seeded(row)
        if body is not None:
            yield lambda row=row, body=body: Seed(
                fault="one bit wrong in one case", where=STATEMENTS, verdict=proofs.instruction(row, body)
            )


def _wrong_gates(
    proofs: Proofs, config: CoreConfig, rows: Sequence[Insn], yosys: Yosys
) -> Iterator[Callable[[], Seed]]:
    # Amaranth takes long to import
    from xpulpnn_sim.faulty.instructions import INSTRUCTION_FAULTS, PARAMETER_FAULTS
    from xpulpnn_sim.tops import emit_top

    for fault in (*INSTRUCTION_FAULTS, *PARAMETER_FAULTS):
        concerned = [row for row in rows if row.mnemonic == fault.check]
        if not concerned:
            continue

        def attempt(fault=fault, concerned=concerned) -> Seed:
            with fault.seeded():
                core = emit_top("core", replace(config, rvfi=True))
            backend = backend_gates(source_of(core.text, core.manifest["hierarchy"]), yosys)
            faulty = replace(proofs, backend=backend)
            verdicts = [faulty.instruction(row) for row in concerned]
            wrong = next((verdict for verdict in verdicts if verdict.verdict == REFUTED), verdicts[0])
            return Seed(fault=fault.name, where=fault.module, verdict=wrong)

        yield attempt


def _table(found: Sequence[Seed]) -> Table:
    table = Table(box=None)
    for heading in ("fault", "module", "instruction", "seconds", "verdict"):
        table.add_column(heading, justify="right" if heading == "seconds" else "left")
    for seed in found:
        verdict = "found" if seed.found else "NOT FOUND"
        table.add_row(seed.fault, seed.where, seed.verdict.name, f"{seed.verdict.seconds:.1f}", verdict)
    return table
