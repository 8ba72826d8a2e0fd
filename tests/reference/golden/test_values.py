"""Values worked out by hand or typed from the guide, against the references and the statements."""

import csv
from dataclasses import fields
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest
from tests.hart import result
from tests.isa.rows import in_groups

from xpulpnn.isa.machine import WORD_MASK
from xpulpnn.isa.table import find
from xpulpnn_sim.reference.golden.effects import Effects, Sources
from xpulpnn_sim.reference.golden.execute import execute

REGISTERS = ("rs1", "rs2", "rd")
ELSEWHERE = {"pc", "loaded", "act", "wgt", "word", "length", "taken"}
"""Sources and effects beyond registers, immediates and rd."""

with Path(__file__).with_name("values.csv").open(newline="") as file:
    ROWS = list(csv.DictReader(file))


NUMBERS = {"rd": 10, "rs1": 11, "rs2": 12, "rs3": 10}  # of registers


def once(mnemonic: str, form: str | None = None, /, *, length: int = 4, **given: int) -> dict[str, int | None]:
    """Effects of one execution as integers; register values and other operands by name, or the whole ``word``."""
    insn = find(mnemonic, form)
    sources = {
        name: given.pop(name) & WORD_MASK for name in ("rs1", "rs2", "rd", *ELSEWHERE - {"word"}) if name in given
    }
    fields_given = {token.field.name: NUMBERS.get(token.field.name, 0) for token in insn.tokens} | given
    word = given.get("word") or insn.encode(**fields_given)
    columns = {name: np.array([value], np.uint32) for name, value in {"word": word, **sources}.items()}
    effects = execute(insn, Sources(length=length, **columns))
    values = {item.name: getattr(effects, item.name) for item in fields(Effects)}
    return {name: value if value is None or isinstance(value, int) else int(value[0]) for name, value in values.items()}


def numbers(text: str) -> dict[str, int | None]:
    pairs = (part.split("=") for part in text.split())
    return {name: None if value == "none" else int(value, 0) for name, value in pairs}


@in_groups(ROWS, name=itemgetter("mnemonic"))
def test_references(row):
    given, expected = numbers(row["given"]), numbers(row["expected"])
    effects = once(row["mnemonic"], row["operands"] or None, **given)
    assert {name: effects[name] for name in expected} == expected, row["what"]


@in_groups(
    [row for row in ROWS if [*numbers(row["expected"])] == ["rd"] and not {*numbers(row["given"])} & ELSEWHERE],
    name=itemgetter("mnemonic"),
)
def test_statements(row):
    insn, given = find(row["mnemonic"], row["operands"] or None), numbers(row["given"])
    immediates = {name: value for name, value in given.items() if name not in REGISTERS}
    words = [given.get(name, 0) & WORD_MASK for name in REGISTERS]
    assert result(insn, immediates, *words) == numbers(row["expected"])["rd"], row["what"]


@pytest.mark.parametrize("mnemonic", ["fence", "fence.i", "ecall", "ebreak", "mret", "wfi", "csrrw", "lp.setup"])
def test_sequencer_operations_have_no_effect(mnemonic):
    assert set(once(mnemonic).values()) == {None}
