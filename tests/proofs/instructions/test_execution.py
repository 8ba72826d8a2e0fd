"""The statements of every row, executed on gates, give what they give on integers."""

from collections.abc import Iterator, Sequence
from random import Random

import pytest
from tests.hart import Hart
from tests.isa.rows import covering, in_groups

from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_MASK
from xpulpnn.isa.semantics import definition
from xpulpnn.isa.table import enabled
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, GateGraph
from xpulpnn_sim.proofs.engine.integers import Integers
from xpulpnn_sim.proofs.instructions.instruction_proofs import faulty_statements
from xpulpnn_sim.proofs.instructions.interpreter import GateEffects, execute_statements
from xpulpnn_sim.proofs.instructions.statement_gates import PriorState, is_executable
from xpulpnn_sim.reference.stimuli import element_width, instruction_words, operand_columns, random_word

CASES = 6
ENTRIES = 10
READ_AS = {"rs3": "rd", "rd1": "rs2"}  # registers read through the port of another
ROWS = [
    row
    for row in enabled(frozenset(Extension), frozenset({2, 4, 8, 16}), aliases=True)
    # division is a function that nothing is said of
    if row.size == 4 and is_executable(row) and not row.divides
]


class Columns:
    """Words of variables with a value for each case."""

    def __init__(self) -> None:
        self.graph = GateGraph()
        self.given: dict[int, int] = {}

    def word(self, values: list[int], width: int = 32) -> list[int]:
        literals = self.graph.inputs(width)
        for place, literal in enumerate(literals):
            self.given[literal] = sum((value >> place & 1) << case for case, value in enumerate(values))
        return literals

    def numbers(self, literals: list[int]) -> list[int]:
        bits = self.graph.evaluate(self.given, literals, (1 << CASES) - 1)
        return [sum((bit >> case & 1) << place for place, bit in enumerate(bits)) for case in range(CASES)]

    def cases(self, *words: Sequence[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The numbers that words are in each case, behind the case."""
        return enumerate(zip(*(self.numbers(list(word)) for word in words), strict=True))


def numbers_of_registers(insn: Insn, word: int) -> dict[str, int]:
    fields = (token.field for token in insn.tokens if token.field.kind is FieldKind.REGISTER)
    numbers = {field.name: field.extract(word) for field in fields}
    # the second of two sums, which is none behind x0
    return numbers | {"rd1": numbers["rd"] and numbers["rd"] + 1} if insn.is_pair else numbers


def registers(insn: Insn, word: int, sources: dict[str, int]) -> list[int]:
    regs = [0] * 32
    for name, number in numbers_of_registers(insn, word).items():
        regs[number] = sources[READ_AS.get(name, name)] if number else 0
    return regs


def outcome(insn: Insn, word: int, sources: dict[str, int], entries: list[int], loaded: int, pc: int) -> Hart:
    """The machine that the statements make of another one, on integers."""
    at = []

    def read(address: int) -> int:
        at.append(address)
        return loaded >> 8 * (address - at[0] & 3) & 0xFF

    machine = Hart(regs=registers(insn, word, sources), nn=list(entries), pc=pc, read=read)
    machine.execute(insn, word)
    return machine


def gates(
    columns: Columns, insn: Insn, effects: GateEffects, words: list[int], pcs: list[int]
) -> list[dict[str, object]]:
    """The same by the effects of the gates, case by case."""
    results: list[dict[str, object]] = [
        {"regs": {}, "pc": (pc + 4) & WORD_MASK, "stored": {}, "nn": {}, "loops": {}} for pc in pcs
    ]
    for name, condition, value in effects.registers:
        for case, (holds, number) in columns.cases([condition], value):
            if holds:
                results[case]["regs"][numbers_of_registers(insn, words[case])[name]] = number
    for condition, value in effects.pc:
        for case, (holds, number) in columns.cases([condition], value):
            if holds:
                results[case]["pc"] = number
    for condition, address, size, data in effects.stores:
        for case, (holds, first, number) in columns.cases([condition], address, data):
            assert holds
            for byte in range(size):
                results[case]["stored"][(first + byte) & WORD_MASK] = number >> 8 * byte & 0xFF
    for condition, index, value in effects.entries:
        for case, (holds, entry, number) in columns.cases([condition], index, value):
            if holds:
                results[case]["nn"][entry] = number
    for name, loop, value in effects.loops:
        for case, (which, number) in columns.cases(loop[:1], value):
            results[case]["loops"][f"{name}{which}"] = number
    return results


@pytest.mark.flow
@in_groups(covering(ROWS))
def test_statements_on_gates_are_those_on_integers(insn):
    rng, columns = Random(f"{insn.key}"), Columns()
    words = [int(word) for word in instruction_words(insn, CASES, rng)]
    operands = zip(("rs1", "rs2", "rd"), operand_columns(element_width(insn), CASES, rng), strict=True)
    sources = {name: [int(value) for value in column] for name, column in operands}
    for case, word in enumerate(words):
        # fields that name the same register have the same value, x0 has none
        values: dict[int, int] = {0: 0}
        for name, number in numbers_of_registers(insn, word).items():
            field = READ_AS.get(name, name)
            sources[field][case] = values.setdefault(number, sources[field][case])
    entries = [[random_word(rng) for _ in range(CASES)] for _ in range(ENTRIES)]
    loaded, pcs = ([random_word(rng) & ~1 for _ in range(CASES)] for _ in range(2))
    before = PriorState(
        word=columns.word(words),
        compressed=FALSE,
        pc=columns.word(pcs),
        registers={name: columns.word(values) for name, values in sources.items()},
        entries=[columns.word(values) for values in entries],
        loaded=columns.word(loaded),
    )
    effects = execute_statements(insn, definition(insn), before, Integers(columns.graph))
    for case, got in enumerate(gates(columns, insn, effects, words, pcs)):
        given = {name: values[case] for name, values in sources.items()}
        old = [values[case] for values in entries]
        expected = outcome(insn, words[case], given, old, loaded[case], pcs[case])
        regs = registers(insn, words[case], given)
        for number, value in got["regs"].items():
            regs[number] = value if number else 0
        assert regs == expected.regs, hex(words[case])
        assert got["pc"] == expected.pc
        assert got["stored"] == expected.stored
        assert [got["nn"].get(entry, value) for entry, value in enumerate(old)] == expected.nn
        assert got["loops"] == expected.loops


@pytest.mark.flow
def test_every_row_but_the_fence_can_have_a_wrong_statement():
    assert [row.mnemonic for row in ROWS if faulty_statements(row) is None] == ["fence"]
