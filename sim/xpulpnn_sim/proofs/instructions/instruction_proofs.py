"""Every instruction of a core against its statements, right or seeded with a fault; verdicts outlast a run."""

import ast
import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import xpulpnn_sim.proofs.instructions
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.semantics import definition, statements
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph
from xpulpnn_sim.proofs.engine.outcomes import PROVED, REFUTED, UNDECIDED, Ledger, Outcome, spelt
from xpulpnn_sim.proofs.engine.solvers import NEVER, SOMETIMES, UNKNOWN, find_case
from xpulpnn_sim.proofs.instructions.backend import BackendGates
from xpulpnn_sim.proofs.instructions.claims import equalities
from xpulpnn_sim.proofs.instructions.execution import understood
from xpulpnn_sim.proofs.instructions.passage import Layout, Passage, waiting
from xpulpnn_sim.proofs.units.unit_proof import Equality
from xpulpnn_sim.tools.jobs import completed, executor
from xpulpnn_sim.tools.results import digest

_RARE = 0x5A3C_96F0  # value of a source in the one case that is wrong; even, since it may be an address

_SOURCES = ("rs1", "rs2", "rd")


def seeded(insn: Insn) -> list[ast.stmt] | None:
    """The statements of a row, but the lowest bit of what the last one assigns is inverted if a source has one value.

    The source is the first register read; the address of a branch, and of an instruction that reads none. None if the
    row has no statements.
    """
    body = copy.deepcopy(definition(insn))
    assigned = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Assign)]
    if not assigned:
        return None
    read = {token.field.name for token in insn.tokens if token.field.kind is FieldKind.REGISTER} & insn.reads
    # a branch that is taken may leave its operands no other value
    source = next((name for name in _SOURCES if name in read and not insn.is_branch), "pc")
    last = assigned[-1]
    wrong = ast.Compare(ast.Name(source, ast.Load()), [ast.Eq()], [ast.Constant(_RARE)])
    last.value = ast.BinOp(last.value, ast.BitXor(), wrong)
    return body


_VERDICTS = {NEVER: PROVED, SOMETIMES: REFUTED, UNKNOWN: UNDECIDED}


def proof_name(insn: Insn) -> str:
    """Mnemonic and operands, which identify a row."""
    return f"{insn.mnemonic} {insn.operands}".rstrip()


def provable(insn: Insn) -> bool:
    """Return whether the row is a 32-bit instruction whose statements can be executed on gates."""
    return insn.size == 4 and understood(insn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proofs:
    """Core whose instructions are proved, and the tools that prove them."""

    backend: BackendGates  # the back end of the core
    control: Mapping[str, Layout]  # words of the units that are left out of it
    abc: str
    timeout_s: float  # seconds for each instruction

    def granted(self) -> Iterator[Outcome]:
        """Return what all instructions take for granted."""
        for invariant in waiting(self.backend):
            began = time.monotonic()
            pairs = [(TRUE, one, other) for one, other in zip(invariant.got, invariant.wanted, strict=True)]
            verdict, _ = self._differ(invariant.graph, invariant.assumed, pairs)
            yield Outcome(name=invariant.name, verdict=verdict, seconds=time.monotonic() - began)

    def instruction(self, insn: Insn, body: Sequence[ast.stmt] | None = None) -> Outcome:
        """An instruction against its statements, or against others."""
        began = time.monotonic()
        passage = Passage(self.backend, insn, self.control)
        found = equalities(passage, body)
        pairs = [(each.condition, *bits) for each in found for bits in zip(each.found, each.wanted, strict=True)]
        verdict, ones = self._differ(passage.graph, passage.assumed, pairs)
        example = _example(passage, found, ones) if verdict == REFUTED else ()
        return Outcome(name=proof_name(insn), verdict=verdict, seconds=time.monotonic() - began, parts=example)

    def _differ(
        self, graph: GateGraph, assumed: Sequence[int], pairs: Sequence[tuple[int, int, int]]
    ) -> tuple[str, frozenset[int]]:
        """Verdict on two literals of each pair being equal where its condition and all assumptions hold."""
        found = FALSE
        for condition, one, other in pairs:
            found = graph.or_(found, graph.and_(condition, graph.xor(one, other)))
        for literal in assumed:
            found = graph.and_(found, literal)
        verdict, ones = find_case(self.abc, graph, found, timeout_s=self.timeout_s)
        return _VERDICTS[verdict], ones


def _example(passage: Passage, found: Sequence[Equality], ones: frozenset[int]) -> list[str]:
    """A case in which an instruction does something else."""

    def value(literals: Sequence[int]) -> int:
        return passage.graph.number(ones, literals)

    word, leave = value(passage.word), passage.leave
    sources = (f"{name}={value(leave.word(f'rvfi__{name}_rdata')):08x}" for name in ("rs1", "rs2", "rd"))
    loaded = f"loaded={value(leave.word('rvfi__mem_rdata')):08x}"
    lines = [f"{word:08x} {spelt(word, 0)}: {' '.join((*sources, loaded))}"]
    for each in found:
        got, wanted = value(each.found), value(each.wanted)
        if value([each.condition]) and got != wanted:
            lines.append(f"{each.name} must be {wanted:#x}, not {got:#x}")
    return lines


def run(proofs: Proofs, insns: Sequence[Insn], verilog: str, ledger: Ledger, jobs: int) -> Iterator[Outcome]:
    """The verdicts, as they come."""
    common = digest(xpulpnn_sim.proofs.instructions, verilog)

    def key(insn: Insn) -> str:
        return digest(common, insn.pattern, insn.mnemonic, insn.operands, statements(insn))

    waiting_for = yield from ledger.taken_up(insns, proof_name, key)
    with executor(jobs) as pool:
        for insn, outcome in completed(pool, _prove, waiting_for, pool.share(proofs)):
            ledger.keep(outcome, key(insn))
            yield outcome


def _prove(insn: Insn, proofs: Proofs) -> Outcome:
    return proofs.instruction(insn)
