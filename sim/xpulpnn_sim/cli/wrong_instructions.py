"""``xpulpnn prove instructions --self-test``: wrong statements and faults of the core, which the proofs must find."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from xpulpnn.config import CoreConfig
from xpulpnn.isa.insn import Insn
from xpulpnn_sim.cli.common import (
    INTERRUPTED,
    Columns,
    finish,
    interruptible,
    output,
    progress_bar,
    record_table,
    tell,
)
from xpulpnn_sim.cli.option_groups import ProofOptions
from xpulpnn_sim.proofs.instructions.backend import backend_gates, source_of
from xpulpnn_sim.proofs.instructions.instruction_proofs import REFUTED, Proofs, Verdict, provable
from xpulpnn_sim.proofs.instructions.seeded import seeded
from xpulpnn_sim.tools.yosys import Yosys

STATEMENTS = "statements"  # what has the fault, if not a module


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """A fault and what its proof said: what is wrong, in which module, and the verdict on which instruction."""

    fault: str
    where: str
    verdict: Verdict

    @property
    def found(self) -> bool:
        """True if the proof fails."""
        return self.verdict.verdict == REFUTED


def self_test(options: ProofOptions, proofs: Proofs, config: CoreConfig, rows: Sequence[Insn], yosys: Yosys) -> int:
    """Print the tables; fails unless every fault was found."""
    chosen = [row for row in rows if provable(row)]
    tries = [*_wrong_statements(proofs, chosen), *_wrong_gates(proofs, config, chosen, yosys)]
    found: list[Seed] = []
    with progress_bar("faults", len(tries)) as bar, interruptible() as stop:
        found.extend(bar.each((attempt() for attempt in tries), lambda seed: seed.verdict.name))
    output().print(f"faults seeded into {options.title}, and into the statements of its instructions")
    output().print(record_table(_COLUMNS, (seed for seed in found if seed.where != STATEMENTS)))
    missed = [seed for seed in found if not seed.found]
    for seed in missed:
        tell(f"NOT FOUND: {seed.verdict.name}: {seed.fault}: {seed.verdict.verdict}")
    for name, is_statement in (("wrong statements", True), ("faults of the core", False)):
        seeds = [seed for seed in found if (seed.where == STATEMENTS) is is_statement]
        tell(f"{sum(seed.found for seed in seeds)} of {len(seeds)} {name} found")
    records = [
        {"fault": seed.fault, "where": seed.where, "instruction": seed.verdict.name, "found": seed.found}
        for seed in found
    ]
    result = {"complete": not stop.interrupted, "faults": records}
    code = finish(options.json, result, good=not missed)
    return INTERRUPTED if stop.interrupted else code


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
    from xpulpnn_sim.proofs.faults.instructions import INSTRUCTION_FAULTS, PARAMETER_FAULTS
    from xpulpnn_sim.tools.tops import emit_top

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


_COLUMNS: Columns = {
    "fault": "{.fault}",
    "module": "{.where}",
    "instruction": "{.verdict.name}",
    "seconds": "{.verdict.seconds:.1f}",
    "verdict": lambda seed: "found" if seed.found else "NOT FOUND",
}
