"""Operands of instructions for benches: corner cases, random operands, and directed operands."""

from collections.abc import Sequence
from dataclasses import fields, replace
from random import Random

import numpy as np

from xpulpnn.isa.insn import HALF_PRODUCT_OPS, Insn
from xpulpnn.isa.machine import WORD_MASK, XLEN
from xpulpnn_sim.reference.golden.effects import U32, Sources, immediate
from xpulpnn_sim.reference.golden.execute import half_product_sum
from xpulpnn_sim.reference.stimuli import (
    element_width,
    instruction_words,
    operand_columns,
    paired_corners,
    random_words,
    requantisation,
)

_SHIFT_MASK = np.uint32(31)
NORMALISING_STEMS = ("addN", "addRN", "subN", "subRN", "adduN", "adduRN", "subuN", "subuRN")
BIT_FIELDS = ("extract", "extractu", "insert", "bclr", "bset")
_COUNTS = ("ff1", "fl1", "clb", "cnt")
FIELD_WIDTH_LSB = 5  # lowest bit of the width in the operand that describes a bit field
IS3_LSB, IS2_LSB = 25, 20  # lowest bits of the fields of an instruction
_IS3_IS2 = _SHIFT_MASK << IS3_LSB | _SHIFT_MASK << IS2_LSB
_FIELD_MASK = np.uint32(0x3FF)
_TOP = np.uint32(1 << XLEN - 1)
_HALF_SUMS = frozenset(name for name in HALF_PRODUCT_OPS if name.startswith("mac"))
_DECIDED = frozenset({*_COUNTS, *BIT_FIELDS, *NORMALISING_STEMS, *HALF_PRODUCT_OPS})


def _carrying_factors(rng: Random) -> tuple[int, int]:
    """Return factors whose product is next to a multiple of ``2**32``, so that the carry between its words matters."""
    factor = rng.getrandbits(rng.randint(1, XLEN)) or 1
    return factor, (rng.getrandbits(XLEN) << XLEN) // factor + rng.randrange(2) & WORD_MASK


def sources(insn: Insn, count: int, rng: Random) -> Sources:
    rs1, rs2, rd = operand_columns(element_width(insn), count, rng)
    if insn.multiplies_high:
        # the first half are corner cases
        for place in range(count // 2, count):
            rs1[place], rs2[place] = _carrying_factors(rng)
    activation, weight = rs2, rs1
    if insn.requantises:
        operands = [requantisation(insn, *pair, rng) for pair in zip(rs1.tolist(), rs2.tolist(), strict=True)]
        activation, weight, rs2 = (np.array(column, np.uint32) for column in zip(*operands, strict=True))
    drawn = Sources(
        word=instruction_words(insn, count, rng),
        rs1=rs1,
        rs2=rs2,
        rd=rd,
        pc=random_words(rng, count) & np.uint32(0xFFFF_FFFE),
        loaded=random_words(rng, count),
        act=activation,
        wgt=weight,
        act2=random_words(rng, count),
    )
    if insn.op in _HALF_SUMS:
        near = _near_multiple(insn, drawn, rng)
        drawn.rd[1::2] = near[1::2]
    return drawn


def executions(insn: Insn, count: int, rng: Random, *, corners: int, places: int) -> Sources:
    parts = [sources(insn, count, rng)]
    if corners and not insn.requantises:
        left, right = (column[:corners] for column in paired_corners(element_width(insn), rng))
        pairs = sources(insn, len(left), rng)
        parts.append(replace(pairs, rs1=left, rs2=right, act=right, wgt=left))
    if places and insn.op in _DECIDED:
        parts.append(_decided_at(insn, rng.sample(range(XLEN), places), rng))
        if insn.op == "extract":
            parts.append(replace(parts[-1], rs1=~parts[-1].rs1))
    columns = [part.name for part in fields(Sources) if part.name != "length"]
    return replace(parts[0], **{name: np.concatenate([getattr(part, name) for part in parts]) for name in columns})


def _decided_at(insn: Insn, places: Sequence[int], rng: Random) -> Sources:
    """Return operands whose result depends on the bit at each of ``places``: a count, a bit field or a rounded sum."""
    drawn = sources(insn, len(places), rng)
    words, at = random_words(rng, len(places)), np.array(places, np.uint32)
    first = np.array([rng.randrange(place + 1) for place in places], np.uint32)
    by_word = "Is3" in insn.operands
    if insn.op == "ff1":
        return replace(drawn, rs1=(words | 1) << at)
    if insn.op in _COUNTS:
        flip = np.array([rng.choice((0, WORD_MASK)) for _ in places], np.uint32)
        return replace(drawn, rs1=(words | _TOP) >> at ^ flip)
    if insn.op in BIT_FIELDS and by_word:
        return replace(drawn, word=drawn.word & ~_IS3_IS2 | at - first << IS3_LSB | first << IS2_LSB)
    if insn.op in BIT_FIELDS:
        return replace(drawn, rs2=words & ~_FIELD_MASK | at - first << np.uint32(FIELD_WIDTH_LSB) | first)
    if by_word:
        drawn = replace(drawn, word=drawn.word & ~(_SHIFT_MASK << IS3_LSB) | at << IS3_LSB)
    else:
        drawn = replace(drawn, rs2=words & ~_SHIFT_MASK | at)
    if insn.op in HALF_PRODUCT_OPS:
        return replace(drawn, rd=_near_multiple(insn, drawn, rng)) if insn.op in _HALF_SUMS else drawn
    rounding = (np.uint32(1) << at) >> np.uint32(1) if "R" in insn.op else np.uint32(0)
    total = _multiples(at, (-1, 0), rng) - rounding
    augend = drawn.rs1 if by_word else drawn.rd
    addend = augend - total if insn.op.startswith("sub") else total - augend
    return replace(drawn, rs2=addend) if by_word else replace(drawn, rs1=addend)


def _multiples(places: U32, away: Sequence[int], rng: Random) -> U32:
    numbers = [(rng.getrandbits(XLEN) << place) + rng.choice(away) & WORD_MASK for place in places.tolist()]
    return np.array(numbers, np.uint32)


def _near_multiple(insn: Insn, drawn: Sources, rng: Random) -> U32:
    """Return addends that bring the sum before its shift next to a multiple of ``2**shift``, so that carries matter."""
    bare = half_product_sum(insn, replace(drawn, rd=np.zeros_like(drawn.rd)))
    return _multiples(immediate("is3", drawn.word), (-1, 0, 1), rng) - bare
