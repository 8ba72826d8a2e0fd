"""Prove that every structure of the dot-product unit computes the sum of products."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from random import Random
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig, DotpConfig
from xpulpnn.errors import ConfigError
from xpulpnn.field_values import setting_text
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sim.proofs.engine import algebra
from xpulpnn_sim.proofs.engine.adders import AdderGraph
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, Word, first_case
from xpulpnn_sim.proofs.engine.integers import Integers
from xpulpnn_sim.proofs.engine.solvers import GaveUpError, prove_equal
from xpulpnn_sim.proofs.units.unit_models import dot_product, with_fields
from xpulpnn_sim.proofs.units.unit_proof import (
    DIFFERENT,
    EQUAL,
    UNDECIDED,
    Claim,
    Decision,
    Definition,
    InputFault,
    ProvenUnit,
)
from xpulpnn_sim.reference.golden.dotp import unpack

METHODS = ("algebra", "sat", "exhaustive", "random")
LANES, SAMPLED = "equal lane by lane", "no difference"
"""Additional verdicts: proved for each lane separately; not refuted by random operands."""

ALL_SIGNS = ("uu", "us", "su", "ss")  # signs of rs1 and rs2: signed or unsigned

_WORD = 32
_FIRST_CASES = 1024
_BLOCK_BITS = 18  # log2 of the cases evaluated at a time
_RANDOM_BLOCKS = 256
_SAT_WIDTH = 4  # default limit of element widths for SAT, which takes minutes for 8-bit products


@dataclass(frozen=True, slots=True, kw_only=True)
class DotpOperation:
    """Gates and operands of a dot product in one format with fixed signs."""

    graph: AdderGraph
    fmt: ElemFmt
    signs: str
    # literals of the operands; unused lanes are constants
    rs1: Word
    rs2: Word
    rd: Word
    accumulate: int  # literal of the control bit
    result: Word  # literals of the result
    expected: Word  # the result by the model of the unit
    holds: bool = True  # if the result is kept until the next operation (always true for units without registers)

    @property
    def signed(self) -> tuple[int, int]:
        a, b = (int(sign == "s") for sign in self.signs)
        return a, b

    def golden(self, operands: NDArray[np.uint32]) -> NDArray[np.uint32]:
        rs1, rs2, rd, accumulate = operands
        a_signed, b_signed = map(bool, self.signed)
        products = unpack(rs1, self.fmt, signed=a_signed) * unpack(rs2, self.fmt, signed=b_signed)
        return products.sum(axis=0, dtype=np.int32).view(np.uint32) + rd * accumulate

    def case(self, ones: frozenset[int]) -> str:
        words = (self.rs1, self.rs2, self.rd, [self.accumulate], self.result)
        rs1, rs2, rd, accumulate, result = self.graph.numbers(ones, words)
        expected = int(self.golden(np.array([[rs1], [rs2], [rd], [accumulate]], np.uint32))[0])
        return (
            f"rs1=0x{rs1:08x} rs2=0x{rs2:08x} rd=0x{rd:08x} accumulate={accumulate}: "
            f"result must be 0x{expected:08x}, not 0x{result:08x}"
        )

    def sample(self, cases: int, seed: int, lane: int | None = None) -> frozenset[int] | None:
        """Return the input literals that are 1 in a case in which gates and golden model differ, or None.

        Operands are random; with ``lane``, both factors in this lane count instead, from ``seed * cases`` on.
        """
        operands, width = np.random.default_rng(seed).integers(0, 1 << _WORD, (4, cases), np.uint32), self.fmt.width
        operands[3] &= 1
        if lane is not None:
            numbers = np.arange(seed * cases, (seed + 1) * cases, dtype=np.uint64)
            for factor in range(2):
                operands[factor] = (numbers >> (width * factor)) % (1 << width) << (width * lane)
        # what else gates read may have any value
        given = {bit: Random(f"{seed} {bit}").getrandbits(cases) for bit in self.graph.variables(self.result)}
        for literals, words in zip((self.rs1, self.rs2, self.rd, [self.accumulate]), operands, strict=True):
            for place, literal in enumerate(literals):
                if literal > TRUE:
                    given[literal] = _column(words, place)
                else:
                    words &= ~np.uint32(1 << place)
        expected, wrong = self.golden(operands), 0
        for place, bits in enumerate(self.graph.evaluate(given, self.result, (1 << cases) - 1)):
            wrong |= bits ^ _column(expected, place)
        return first_case(given, wrong) if wrong else None


def _column(words: NDArray[np.uint32], place: int) -> int:
    """Return an integer made of bit ``place`` of each word; the first word gives the lowest bit."""
    bits = (words >> np.uint32(place) & np.uint32(1)).astype(np.uint8)
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")


def operation(unit: ProvenUnit, fmt: ElemFmt, signs: str, lane: int | None = None) -> DotpOperation:
    """Return the gates of one operation; with ``lane``, the operands of all other lanes are zero.

    A unit with operand registers runs for two cycles: the operation enters in the first cycle, from any register
    contents, and leaves in the second, with any inputs except the accumulator.
    """
    graph = AdderGraph()
    used = range(_WORD) if lane is None else range(lane * fmt.width, (lane + 1) * fmt.width)
    rs1, rs2 = ([graph.input() if bit in used else FALSE for bit in range(_WORD)] for _ in range(2))
    rd, accumulate = graph.inputs(_WORD), graph.input()
    a_signed, b_signed = (int(sign == "s") for sign in signs)
    fields = {"fmt": int(fmt), "a_signed": a_signed, "b_signed": b_signed, "accumulate": [accumulate]}
    words, ctrl = {"rs1": rs1, "rs2": rs2, "rd": rd}, unit.control(fields)
    last, holds = unit.cycle(graph, words, ctrl=ctrl, enable=[TRUE]), True
    if "enable" in unit.gates.ports:
        entered = unit.cycle(graph, words | {"rd": graph.inputs(_WORD)}, ctrl=ctrl, enable=[TRUE]).next_state()
        last = unit.cycle(graph, {"rd": rd}, entered, enable=[FALSE])
        holds = last.next_state() == entered
    results = {
        "result": last.port("result"),
        "expected": dot_product(with_fields(words | {"ctrl": ctrl}, unit.ports), Integers(graph)),
    }
    return DotpOperation(graph=graph, fmt=fmt, signs=signs, **words, accumulate=accumulate, **results, holds=holds)


def unit_structures(config: CoreConfig, fixed: Sequence[str] = (), *, widths: bool = False) -> dict[str, CoreConfig]:
    """Return every structure of the dot-product unit, by its settings.

    Structures are all combinations of :class:`DotpConfig` choices that its constructor accepts. Fields in ``fixed``
    stay as in ``config``. With ``widths``, each is combined with every non-empty subset of the configured widths.
    """
    choices: dict[str, tuple[Any, ...]] = {}
    if widths:
        configured = sorted(config.dotp.widths, reverse=True)
        sizes = range(1, len(configured) + 1)
        choices["widths"] = tuple(frozenset(subset) for size in sizes for subset in combinations(configured, size))
    for name, hint in get_type_hints(DotpConfig).items():
        values = get_args(hint) if get_origin(hint) is Literal else (False, True) if hint is bool else ()
        if values:
            choices[name] = (getattr(config.dotp, name),) if name in fixed else values
    structures: dict[str, CoreConfig] = {}
    for values in product(*choices.values()):
        settings = dict(zip(choices, values, strict=True))
        try:
            changed = replace(config, dotp=replace(config.dotp, **settings))
        except ConfigError:
            continue
        structures[" ".join(f"{name}={setting_text(value)}" for name, value in settings.items())] = changed
    return structures


def dot_products(formats: Sequence[ElemFmt] = tuple(ElemFmt), methods: Sequence[str] = ()) -> Definition:
    """Return claims about all sums of products in some formats, with all signs, with and without accumulator.

    A few random operands are compared with the golden model first. The method ``algebra`` proves the result for all
    operands (:mod:`~xpulpnn_sim.proofs.engine.algebra`). ``sat`` proves each lane separately, with any accumulator and
    zeros in other lanes. ``exhaustive`` evaluates all operands of each lane separately, with random accumulators and
    zeros in other lanes. ``random`` evaluates random operands in all lanes.

    Each of ``methods`` makes a separate claim. By default, the first method that decides is used: algebra, then SAT for
    narrow elements, then exhaustive evaluation; the last two are followed by random operands.
    """

    def decide(unit: ProvenUnit, fmt: ElemFmt, method: str, timeout_s: float) -> Decision:
        chain = ["algebra", *(["sat"] if fmt.width <= _SAT_WIDTH else []), "exhaustive"]
        tried = chain if method == "any" else [method]
        decisions = [_decide(partial(operation, unit, fmt, signs), tried, timeout_s) for signs in ALL_SIGNS]
        worst = (DIFFERENT, UNDECIDED, SAMPLED, LANES, EQUAL)
        return min(decisions, key=lambda decision: worst.index(decision.verdict))

    def claims(unit: ProvenUnit) -> list[Claim]:
        return [
            Claim(f"sums of products .{fmt.suffix}, all signs", method, partial(decide, unit, fmt, method))
            for method, fmt in product(methods or ("any",), unit.config.dotp.formats)
            if fmt in formats
        ]

    # the fault confuses accumulators of -1 and -2
    return Definition(claims, [InputFault("rd", WORD_MASK)])


_Build = partial[DotpOperation]  # takes a lane, or nothing for all lanes
_Answer = tuple[str, str]  # verdict, and a counterexample for DIFFERENT


def _decide(build: _Build, methods: Sequence[str], timeout_s: float) -> Decision:
    whole = build()
    ones = whole.sample(_FIRST_CASES, seed=1)
    if ones is not None:
        return Decision(DIFFERENT, "random", f"{whole.signs}: {whole.case(ones)}")
    if not whole.holds:
        return Decision(DIFFERENT, methods[0], f"{whole.signs}: the result must stay until the next operation")
    run = {"algebra": _algebra, "sat": _sat, "exhaustive": _exhaustive, "random": _random}
    verdict, text, method = UNDECIDED, "", methods[0]
    for method in methods:
        try:
            verdict, text = run[method](build, time.monotonic() + timeout_s)
        except GaveUpError:
            continue
        break
    if verdict == LANES and len(methods) > 1:
        _, text = _random(build, time.monotonic() + timeout_s)
        verdict, method = (DIFFERENT, "random") if text else (verdict, method)
    return Decision(verdict, method, f"{whole.signs}: {text}" if text else "")


def _algebra(build: _Build, deadline: float) -> _Answer:
    whole = build()
    timeout_s = deadline - time.monotonic()
    ones = algebra.prove(whole.graph, whole.result, algebra.word(whole.expected), timeout_s=timeout_s)
    return (EQUAL, "") if ones is None else (DIFFERENT, whole.case(ones))


def _sat(build: _Build, deadline: float) -> _Answer:
    for lane in map(build, range(build().fmt.lanes)):
        left_s = int(deadline - time.monotonic())
        if left_s < 1:
            raise GaveUpError
        ones = prove_equal(lane.graph, (lane.result, lane.expected), timeout_s=left_s)
        if ones is not None:
            return DIFFERENT, lane.case(ones)
    return LANES, ""


def _exhaustive(build: _Build, deadline: float) -> _Answer:
    fmt = build().fmt
    cases = 1 << min(2 * fmt.width, _BLOCK_BITS)
    for lane in range(fmt.lanes):
        if text := _sampled(build(lane), cases, (1 << 2 * fmt.width) // cases, deadline, lane):
            return DIFFERENT, text
    return LANES, ""


def _random(build: _Build, deadline: float) -> _Answer:
    text = _sampled(build(), 1 << _BLOCK_BITS, _RANDOM_BLOCKS, deadline)
    return (DIFFERENT, text) if text else (SAMPLED, "")


def _sampled(dotp: DotpOperation, cases: int, blocks: int, deadline: float, lane: int | None = None) -> str:
    for block in range(blocks):
        if time.monotonic() > deadline:
            raise GaveUpError
        if (ones := dotp.sample(cases, block, lane)) is not None:
            return dotp.case(ones)
    return ""
