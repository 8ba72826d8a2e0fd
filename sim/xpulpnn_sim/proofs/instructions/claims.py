"""Equalities that a retirement must show of an instruction, by its statements."""

import ast
from collections.abc import Sequence

from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.semantics import definition
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE
from xpulpnn_sim.proofs.engine.integers import low
from xpulpnn_sim.proofs.instructions.execution import GateEffects, execute_statements
from xpulpnn_sim.proofs.instructions.passage import Passage
from xpulpnn_sim.proofs.units.unit_proof import Equality

_LOOP_WRITES = {"lpstart": (1, 5, 6), "lpend": (2, 5, 6), "lpcount": (3, 4, 5, 6)}
"""Codes of the set-up instructions that write each register of a loop."""

_SYSTEM = ("fence", "fence.i", "mret", "wfi")  # instructions that the controller hears of

_FIELDS = {"rs1": 15, "rs2": 20, "rd": 7, "rs3": 7}  # Lowest bit of each register field


def equalities(passage: Passage, body: Sequence[ast.stmt] | None = None) -> list[Equality]:
    """All that must be equal when an instruction retires."""
    insn = passage.insn
    statements = definition(insn) if body is None else body
    effects = execute_statements(insn, statements, passage.before(), passage.integers)
    return [
        *_identity(passage),
        *_registers(passage, effects),
        *_memory(passage, effects),
        *_entries(passage, effects),
        *_control(passage, effects),
        *_loops(passage, effects),
    ]


def _identity(passage: Passage) -> list[Equality]:
    """It is this instruction that retires."""
    issue, leave = passage.issue, passage.leave
    full = issue.bit("insn__payload__compressed") ^ 1
    return [
        Equality("word", leave.word("rvfi__insn"), passage.word, full),
        Equality("address", leave.word("rvfi__pc_rdata"), issue.word("insn__payload__pc")),
        Equality("number of rs1", leave.word("rvfi__rs1_addr"), passage.word[15:20]),
        Equality("number of rs2", leave.word("rvfi__rs2_addr"), passage.word[20:25]),
        Equality("exception", [passage.excepted], [FALSE]),
    ]


def _registers(passage: Passage, effects: GateEffects) -> list[Equality]:
    """Any register but x0 changes as the statements say. Of the two that a retirement reports that of rd stays."""
    graph, z, leave = passage.graph, passage.integers, passage.leave
    watched = graph.inputs(5)
    is_register = z.is_true(watched)
    hits: dict[str, int] = {}
    for name in ("rd", "base"):
        same = z.equal([*leave.word(f"rvfi__{name}_addr"), FALSE], [*watched, FALSE])
        hits[name] = graph.and_(leave.bit(f"rvfi__{name}_we"), same)
    got = z.choose(hits["rd"], leave.word("rvfi__rd_wdata"), leave.word("rvfi__base_wdata"))
    written, value = FALSE, [FALSE] * XLEN
    for name, condition, new in effects.registers:
        lowest = _FIELDS[name]
        hit = graph.and_(condition, z.equal([*passage.word[lowest : lowest + 5], FALSE], [*watched, FALSE]))
        written = graph.or_(written, hit)
        value = [graph.mux(hit, old, bit) for old, bit in zip(value, new, strict=True)]
    return [
        Equality("registers written", [graph.or_(*hits.values())], [written], is_register),
        Equality("value written", low(got, XLEN), value, graph.and_(is_register, written)),
    ]


def _memory(passage: Passage, effects: GateEffects) -> list[Equality]:
    """The access to memory, if any."""
    graph, leave = passage.graph, passage.leave
    found: list[Equality] = []
    masks = {"r": [FALSE] * 4, "w": [FALSE] * 4}
    address = leave.word("rvfi__mem_addr")
    accesses = [("r", *load, []) for load in effects.loads] + [("w", *store) for store in effects.stores]
    for kind, condition, where, size, data in accesses:
        masks[kind] = [graph.or_(bit, condition) if byte < size else bit for byte, bit in enumerate(masks[kind])]
        found.append(Equality("address of the access", address, where, condition))
        if data:
            found.append(
                Equality("data stored", leave.word("rvfi__mem_wdata")[: 8 * size], data[: 8 * size], condition)
            )
    found.append(Equality("bytes loaded", leave.word("rvfi__mem_rmask"), masks["r"]))
    found.append(Equality("bytes stored", leave.word("rvfi__mem_wmask"), masks["w"]))
    return found


def _entries(passage: Passage, effects: GateEffects) -> list[Equality]:
    """The entry of the NN-RF that is loaded, if any."""
    graph, leave = passage.graph, passage.leave
    found: list[Equality] = []
    written = FALSE
    for condition, index, value in effects.entries:
        written = graph.or_(written, condition)
        found.append(Equality("number of the entry", leave.word("rvfi__nn_addr"), low(index, 3), condition))
        found.append(Equality("word of the entry", leave.word("rvfi__nn_wdata"), value, condition))
    found.append(Equality("entry loaded", [leave.bit("rvfi__nn_we")], [written]))
    return found


def _control(passage: Passage, effects: GateEffects) -> list[Equality]:
    """Address that follows: jumps are asked for by ID, branches by EX; else the front end says."""
    insn, issue, execute, leave = passage.insn, passage.issue, passage.execute, passage.leave
    z = passage.integers
    follows = issue.word("info__next_pc")
    condition, target = effects.pc[-1] if effects.pc else (FALSE, follows)
    jumps = int(insn.is_jump)
    found = [Equality("jump", [issue.bit("jump__valid")], [jumps])]
    if insn.is_jump:
        found.append(Equality("target", issue.word("jump__target"), target, condition))
        condition, target = FALSE, follows
    return [
        *found,
        Equality("branch", [execute.bit("branch__valid")], [condition]),
        Equality("target", execute.word("branch__target"), target, condition),
        Equality("next address", leave.word("rvfi__pc_wdata"), low(z.choose(condition, [*target], [*follows]), XLEN)),
        Equality("access of a CSR", [execute.bit("csr__valid")], [FALSE]),
        Equality("system instruction", [issue.bit("system__valid")], [int(insn.op in _SYSTEM)]),
    ]


def _loops(passage: Passage, effects: GateEffects) -> list[Equality]:
    """The set-up of a hardware loop, as it goes to the unit that holds its registers."""
    graph, z, issue = passage.graph, passage.integers, passage.issue
    found = [Equality("set-up of a loop", [issue.bit("hwloop__valid")], [TRUE if effects.loops else FALSE])]
    if not effects.loops:
        return found
    op = issue.word("hwloop__op")
    for name, codes in _LOOP_WRITES.items():
        given = [(loop, value) for written, loop, value in effects.loops if written == name]
        writes = FALSE
        for code in codes:
            same = z.equal([*op, FALSE], [code & 1, code >> 1 & 1, code >> 2, FALSE])
            writes = graph.or_(writes, same)
        found.append(Equality(f"{name} written", [writes], [TRUE if given else FALSE]))
        for loop, value in given:
            found.append(Equality(f"loop of {name}", [issue.bit("hwloop__loop")], loop[:1]))
            found.append(Equality(name, issue.word(f"hwloop__{name.removeprefix('lp')}"), value))
    return found
