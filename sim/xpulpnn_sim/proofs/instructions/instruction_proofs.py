"""Prove that every instruction of a core has the effects that its statements in the instruction table define."""

import ast
import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import xpulpnn_sim.proofs.instructions
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_BITS, XLEN
from xpulpnn.isa.semantics import definition, statements
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph
from xpulpnn_sim.proofs.engine.integers import low
from xpulpnn_sim.proofs.engine.outcomes import PROVED, REFUTED, UNDECIDED, VACUOUS, Ledger, Outcome, assembly_of
from xpulpnn_sim.proofs.engine.solvers import GaveUpError, find_case
from xpulpnn_sim.proofs.instructions.interpreter import GateEffects, execute_statements
from xpulpnn_sim.proofs.instructions.statement_gates import is_executable
from xpulpnn_sim.proofs.instructions.unrolling import BackendGates, Unrolling, register_field, stall_invariants
from xpulpnn_sim.proofs.units.unit_proof import Equality
from xpulpnn_sim.tools.results import digest

_LOOP_WRITES = {"lpstart": (1, 5, 6), "lpend": (2, 5, 6), "lpcount": (3, 4, 5, 6)}
"""Operation codes of the loop set-up instructions that write each type of loop register."""

_SYSTEM = ("fence", "fence.i", "mret", "wfi")  # instructions for the controller


def equalities(unrolling: Unrolling, body: Sequence[ast.stmt] | None = None) -> list[Equality]:
    insn = unrolling.insn
    effects = execute_statements(insn, body or definition(insn), unrolling.before(), unrolling.integers)
    return [
        *_identity(unrolling),
        *_registers(unrolling, effects),
        *_memory(unrolling, effects),
        *_entries(unrolling, effects),
        *_control(unrolling, effects),
        *_loops(unrolling, effects),
    ]


def _identity(unrolling: Unrolling) -> list[Equality]:
    issue, leave = unrolling.issue, unrolling.leave
    full = issue.bit("insn__payload__compressed") ^ 1
    return [
        Equality("word", leave.word("rvfi__insn"), unrolling.word, full),
        Equality("address", leave.word("rvfi__pc_rdata"), issue.word("insn__payload__pc")),
        Equality("number of rs1", leave.word("rvfi__rs1_addr"), register_field(unrolling.word, "rs1")),
        Equality("number of rs2", leave.word("rvfi__rs2_addr"), unrolling.read_as_rs2),
        Equality("exception", [unrolling.excepted], [FALSE]),
    ]


def _registers(unrolling: Unrolling, effects: GateEffects) -> list[Equality]:
    graph, z, leave = unrolling.graph, unrolling.integers, unrolling.leave
    watched = graph.inputs(5)
    is_register = z.is_true(watched)
    hits: dict[str, int] = {}
    for name in ("rd", "base"):
        same = graph.equal(leave.word(f"rvfi__{name}_addr"), watched)
        hits[name] = graph.and_(leave.bit(f"rvfi__{name}_we"), same)
    got = z.choose(hits["rd"], leave.word("rvfi__rd_wdata"), leave.word("rvfi__base_wdata"))
    numbers = {name: register_field(unrolling.word, name) for name in ("rs1", "rs2", "rd", "rs3")}
    if unrolling.insn.is_pair:
        numbers["rd1"] = unrolling.read_as_rs2
        hits["rd1"] = graph.and_(leave.bit("rvfi__rd2_we"), graph.equal(numbers["rd1"], watched))
        got = z.choose(hits["rd1"], leave.word("rvfi__rd2_wdata"), got)
    written, value = FALSE, [FALSE] * XLEN
    for name, condition, new in effects.registers:
        # with x0 as the first of two registers, both writes are dropped
        dropped = z.is_true(numbers["rd"]) ^ 1 if name == "rd1" else FALSE
        hit = graph.all([condition, dropped ^ 1, graph.equal(numbers[name], watched)])
        written = graph.or_(written, hit)
        value = [graph.mux(hit, old, bit) for old, bit in zip(value, new, strict=True)]
    return [
        Equality("registers written", [graph.any(hits.values())], [written], is_register),
        Equality("value written", low(got, XLEN), value, graph.and_(is_register, written)),
    ]


def _memory(unrolling: Unrolling, effects: GateEffects) -> list[Equality]:
    graph, leave = unrolling.graph, unrolling.leave
    results: list[Equality] = []
    masks = {"r": [FALSE] * 4, "w": [FALSE] * 4}
    address = leave.word("rvfi__mem_addr")
    accesses = [("r", *load, []) for load in effects.loads] + [("w", *store) for store in effects.stores]
    for kind, condition, where, size, data in accesses:
        masks[kind] = [graph.or_(bit, condition) if byte < size else bit for byte, bit in enumerate(masks[kind])]
        results.append(Equality("address of the access", address, where, condition))
        if data:
            stored, bits = leave.word("rvfi__mem_wdata"), BYTE_BITS * size
            results.append(Equality("data stored", stored[:bits], data[:bits], condition))
    results.append(Equality("bytes loaded", leave.word("rvfi__mem_rmask"), masks["r"]))
    results.append(Equality("bytes stored", leave.word("rvfi__mem_wmask"), masks["w"]))
    return results


def _entries(unrolling: Unrolling, effects: GateEffects) -> list[Equality]:
    leave, loads = unrolling.leave, unrolling.graph.any(condition for condition, _, _ in effects.entries)
    results = [Equality("entry loaded", [leave.bit("rvfi__nn_we")], [loads])]
    for condition, index, value in effects.entries:
        number = leave.word("rvfi__nn_addr")
        results.append(Equality("number of the entry", number, low(index, len(number)), condition))
        results.append(Equality("word of the entry", leave.word("rvfi__nn_wdata"), value, condition))
    return results


def _control(unrolling: Unrolling, effects: GateEffects) -> list[Equality]:
    """Return equalities of the next address, with jumps requested by ID and branches requested by EX."""
    insn, issue, execute, leave = unrolling.insn, unrolling.issue, unrolling.execute, unrolling.leave
    z = unrolling.integers
    follows = issue.word("info__next_pc")
    condition, target = effects.pc[-1] if effects.pc else (FALSE, follows)
    jumps = int(insn.is_jump)
    results = [Equality("jump", [issue.bit("jump__valid")], [jumps])]
    if insn.is_jump:
        results.append(Equality("target", issue.word("jump__target"), target, condition))
        condition, target = FALSE, follows
    return [
        *results,
        Equality("branch", [execute.bit("branch__valid")], [condition]),
        Equality("target", execute.word("branch__target"), target, condition),
        Equality("next address", leave.word("rvfi__pc_wdata"), low(z.choose(condition, [*target], [*follows]), XLEN)),
        Equality("access of a CSR", [execute.bit("csr__valid")], [FALSE]),
        Equality("system instruction", [issue.bit("system__valid")], [int(insn.op in _SYSTEM)]),
    ]


def _loops(unrolling: Unrolling, effects: GateEffects) -> list[Equality]:
    """Return equalities of the hardware-loop set-up, compared at the inputs of the hardware-loop unit."""
    graph, issue = unrolling.graph, unrolling.issue
    results = [Equality("set-up of a loop", [issue.bit("hwloop__valid")], [TRUE if effects.loops else FALSE])]
    if not effects.loops:
        return results
    op = issue.word("hwloop__op")
    for name, codes in _LOOP_WRITES.items():
        given = [(loop, value) for written, loop, value in effects.loops if written == name]
        writes = graph.any(graph.is_value(op, code) for code in codes)
        results.append(Equality(f"{name} written", [writes], [TRUE if given else FALSE]))
        for loop, value in given:
            results.append(Equality(f"loop of {name}", [issue.bit("hwloop__loop")], loop[:1]))
            results.append(Equality(name, issue.word(f"hwloop__{name.removeprefix('lp')}"), value))
    return results


_RARE = 0x5A3C_96F0  # value of a source in the one faulty case; even, as it may be an address

_SOURCES = ("rs1", "rs2", "rd")


def faulty_statements(insn: Insn) -> list[ast.stmt] | None:
    """Return an instruction's statements with one bit inverted in the last assignment; None if there is no assignment.

    The lowest bit is inverted for a single value of the first register read or, if no register is read, of the address.
    """
    body = copy.deepcopy(definition(insn))
    assigned = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Assign)]
    if not assigned:
        return None
    read = {token.field.name for token in insn.tokens if token.field.kind is FieldKind.REGISTER} & insn.reads
    # a taken branch may leave its operands no other value
    source = next((name for name in _SOURCES if name in read and not insn.is_branch), "pc")
    last = assigned[-1]
    wrong = ast.Compare(ast.Name(source, ast.Load()), [ast.Eq()], [ast.Constant(_RARE)])
    last.value = ast.BinOp(last.value, ast.BitXor(), wrong)
    return body


def proof_name(insn: Insn) -> str:
    return f"{insn.mnemonic} {insn.operands}".rstrip()


def provable(insn: Insn) -> bool:
    return insn.size == 4 and is_executable(insn)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionProver:
    backend: BackendGates
    abc: str
    timeout_s: float  # for each instruction

    def invariants(self) -> Iterator[Outcome]:
        for invariant in stall_invariants(self.backend):
            began = time.monotonic()
            pairs = [(TRUE, actual, other) for actual, other in zip(invariant.actual, invariant.expected, strict=True)]
            verdict, _ = self._differ(invariant.graph, invariant.assumed, pairs)
            yield Outcome(name=invariant.name, verdict=verdict, seconds=time.monotonic() - began)

    def instruction(self, insn: Insn, body: Sequence[ast.stmt] | None = None) -> Outcome:
        """Prove an instruction against its statements in the instruction table, or against ``body``."""
        began = time.monotonic()
        unrolling = Unrolling(self.backend, insn)
        claims = equalities(unrolling, body)
        pairs = [(each.condition, *bits) for each in claims for bits in zip(each.actual, each.expected, strict=True)]
        verdict, ones = self._differ(unrolling.graph, unrolling.assumed, pairs)
        counterexample = _counterexample(unrolling, claims, ones) if verdict == REFUTED else ()
        return Outcome(name=proof_name(insn), verdict=verdict, seconds=time.monotonic() - began, parts=counterexample)

    def _differ(
        self, graph: GateGraph, assumed: Sequence[int], pairs: Sequence[tuple[int, int, int]]
    ) -> tuple[str, frozenset[int]]:
        """Return a verdict, and the inputs that are 1 in a counterexample.

        The claim is that each pair of literals is equal if its condition and all assumptions hold.
        """
        differs = graph.any(graph.and_(condition, graph.xor(actual, other)) for condition, actual, other in pairs)
        ones, met = None, graph.all(assumed)
        try:
            ones = find_case(self.abc, graph, graph.and_(differs, met), timeout_s=self.timeout_s)
            is_met = ones is not None or find_case(self.abc, graph, met, timeout_s=self.timeout_s) is not None
        except GaveUpError:
            return UNDECIDED, frozenset()
        return (REFUTED, ones) if ones is not None else (PROVED if is_met else VACUOUS, frozenset())


def _counterexample(unrolling: Unrolling, claims: Sequence[Equality], ones: frozenset[int]) -> list[str]:

    def value(literals: Sequence[int]) -> int:
        return unrolling.graph.number(ones, literals)

    word, leave = value(unrolling.word), unrolling.leave
    sources = (f"{name}={value(leave.word(f'rvfi__{name}_rdata')):08x}" for name in ("rs1", "rs2", "rd"))
    loaded = f"loaded={value(leave.word('rvfi__mem_rdata')):08x}"
    lines = [f"{word:08x} {assembly_of(word, 0)}: {' '.join((*sources, loaded))}"]
    for each in claims:
        got, expected = value(each.actual), value(each.expected)
        if value([each.condition]) and got != expected:
            lines.append(f"{each.name} must be {expected:#x}, not {got:#x}")
    return lines


def prove_instructions(
    prover: InstructionProver, insns: Sequence[Insn], verilog: str, ledger: Ledger, jobs: int
) -> Iterator[Outcome]:
    common = digest(xpulpnn_sim.proofs.instructions, verilog)

    def key(insn: Insn) -> str:
        return digest(common, insn.pattern, insn.mnemonic, insn.operands, statements(insn))

    return ledger.prove(insns, _prove, prover, name=proof_name, key=key, jobs=jobs)


def _prove(insn: Insn, prover: InstructionProver) -> Outcome:
    return prover.instruction(insn)
