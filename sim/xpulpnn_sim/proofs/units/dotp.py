"""Gates of an operation of the dot-product unit, its definition, and claims that both are equal."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.formats import ElemFmt
from xpulpnn_sim.proofs.engine import algebra
from xpulpnn_sim.proofs.engine.adders import AdderGraph
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, Word
from xpulpnn_sim.proofs.engine.integers import Integers, Number, constant, low, unsigned
from xpulpnn_sim.proofs.units.unit_proof import Claim, ProvenUnit
from xpulpnn_sim.reference.golden.dotp import unpack

_WORD = 32


@dataclass(frozen=True, slots=True)
class Signs:
    a: bool
    b: bool

    def __str__(self) -> str:
        return ("s" if self.a else "u") + ("s" if self.b else "u")


ALL_SIGNS = tuple(Signs(a, b) for a in (False, True) for b in (False, True))


@dataclass(frozen=True, slots=True, kw_only=True)
class DotpOperation:
    """Gates and operands of a dot product in one format with fixed signs."""

    graph: AdderGraph
    fmt: ElemFmt
    signs: Signs
    # literals of the operands; unused lanes are constants
    rs1: Word
    rs2: Word
    rd: Word
    accumulate: int  # literal of the control bit
    result: Word  # literals of the result
    # if the result is kept until the next operation (always true for units without registers)
    holds: bool

    def definition(self) -> algebra.Polynomial:
        products = (
            (1, algebra.times(algebra.word(x, signed=self.signs.a), algebra.word(y, signed=self.signs.b)))
            for x, y in self._lanes()
        )
        accumulator = algebra.times(algebra.word(self.rd), algebra.literal(self.accumulate))
        return algebra.plus([(1, accumulator), *products])

    def plain_gates(self) -> list[int]:
        """Return the result computed by the simplest structure: one multiplier per lane and a chain of adders."""
        z = Integers(self.graph)
        products = lane_products(z, self.fmt, (self.rs1, self.rs2), (int(self.signs.a), int(self.signs.b)))
        return low(z.add(z.choose(self.accumulate, unsigned(self.rd), constant(0)), products), _WORD)

    def case(self, ones: frozenset[int]) -> str:
        words = {"rs1": self.rs1, "rs2": self.rs2, "rd": self.rd, "accumulate": [self.accumulate]}
        rs1, rs2, rd, accumulate = values = [self.graph.number(ones, word) for word in words.values()]
        expected = int(golden(self.fmt, self.signs, *(np.array([value], np.uint32) for value in values))[0])
        result = self.graph.number(ones, self.result)
        return (
            f"rs1=0x{rs1:08x} rs2=0x{rs2:08x} rd=0x{rd:08x} accumulate={accumulate}: "
            f"result must be 0x{expected:08x}, not 0x{result:08x}"
        )

    def sample(self, cases: int, seed: int) -> frozenset[int] | None:
        """Return the input literals that are 1 in a random case in which gates and golden model differ, or None."""
        generator = np.random.default_rng(seed)
        rs1, rs2, rd = generator.integers(0, 1 << _WORD, (3, cases), np.uint32)
        accumulate = generator.integers(0, 2, cases, np.uint32)
        given: dict[int, int] = {}
        for literals, words in ((self.rs1, rs1), (self.rs2, rs2), (self.rd, rd), ([self.accumulate], accumulate)):
            for place, literal in enumerate(literals):
                if literal > TRUE:
                    given[literal] = _column(words, place)
                else:
                    words &= ~np.uint32(1 << place)
        expected = golden(self.fmt, self.signs, rs1, rs2, rd, accumulate)
        got = self.graph.evaluate(given, self.result, (1 << cases) - 1)
        wrong = 0
        for place, bits in enumerate(got):
            wrong |= bits ^ _column(expected, place)
        case = (wrong & -wrong).bit_length() - 1
        return frozenset(literal for literal, bits in given.items() if bits >> case & 1) if wrong else None

    def _lanes(self) -> list[tuple[list[int], list[int]]]:
        width = self.fmt.width
        return [(self.rs1[low : low + width], self.rs2[low : low + width]) for low in range(0, _WORD, width)]


def lane_products(z: Integers, fmt: ElemFmt, factors: tuple[Word, Word], signed: tuple[int, int]) -> Number:
    """Return ``sum(rs1[i] * rs2[i])``; a factor is signed if its literal in ``signed`` is 1."""
    total = constant(0)
    for lowest in range(0, _WORD, fmt.width):
        lanes = (word[lowest : lowest + fmt.width] for word in factors)
        total = z.add(total, z.multiply(*(z.extended(*each) for each in zip(lanes, signed, strict=True))))
    return total


def golden(
    fmt: ElemFmt,
    signs: Signs,
    rs1: NDArray[np.uint32],
    rs2: NDArray[np.uint32],
    rd: NDArray[np.uint32],
    accumulate: NDArray[np.uint32],
) -> NDArray[np.uint32]:
    products = unpack(rs1, fmt, signed=signs.a) * unpack(rs2, fmt, signed=signs.b)
    return products.sum(axis=0, dtype=np.int32).view(np.uint32) + rd * accumulate


def operation(unit: ProvenUnit, fmt: ElemFmt, signs: Signs, lane: int | None = None) -> DotpOperation:
    """Return the gates of one operation; with ``lane``, the operands of all other lanes are zero.

    A unit with operand registers runs for two cycles: the operation enters in the first cycle, from any register
    contents, and leaves in the second, with any inputs except the accumulator.
    """
    graph = AdderGraph()
    used = range(_WORD) if lane is None else range(lane * fmt.width, (lane + 1) * fmt.width)
    rs1, rs2 = ([graph.input() if bit in used else FALSE for bit in range(_WORD)] for _ in range(2))
    rd, accumulate = graph.inputs(_WORD), graph.input()
    fields = {"fmt": int(fmt), "a_signed": int(signs.a), "b_signed": int(signs.b), "accumulate": [accumulate]}
    words, ctrl = {"rs1": rs1, "rs2": rs2, "rd": rd}, unit.control(fields)
    last, holds = unit.cycle(graph, words, ctrl=ctrl, enable=[TRUE]), True
    if "enable" in unit.gates.ports:
        entered = unit.cycle(graph, words | {"rd": graph.inputs(_WORD)}, ctrl=ctrl, enable=[TRUE]).next_state()
        last = unit.cycle(graph, {"rd": rd}, entered, enable=[FALSE])
        holds = last.next_state() == entered
    result = last.port("result")
    return DotpOperation(graph=graph, fmt=fmt, signs=signs, **words, accumulate=accumulate, result=result, holds=holds)


def _column(words: NDArray[np.uint32], place: int) -> int:
    """Return an integer made of bit ``place`` of each word; the first word gives the lowest bit."""
    bits = (words >> np.uint32(place) & np.uint32(1)).astype(np.uint8)
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")


ARRAY_CLAIMS = "two sums of products"


def array_format(fmt: ElemFmt, *signs: int) -> dict[str, list[int]]:
    """Return the format ports of both dot-product units: one-hot format bits, and such bits for each signed factor."""
    bits = [sign if each is fmt else FALSE for sign in (TRUE, *signs) for each in ElemFmt]
    return dict.fromkeys(("dotp_format", "dotp2_format"), bits)


def array_claims(unit: ProvenUnit) -> list[Claim]:
    """Return claims about both dot products of a unit that also multiplies words."""

    def wrong(fmt: ElemFmt, signs: Signs, timeout_s: float) -> str:
        graph, names = AdderGraph(), ("dotp_a", "act2", "dotp_b", "second_sum", "op_c")
        words, accumulate = {name: graph.inputs(_WORD) for name in names}, graph.input()
        # control of a pair product, not of a multiplication
        control = {
            "dotp_form": [FALSE, FALSE, TRUE, TRUE],
            "requantise": [FALSE],
            "ctrl": unit.control({}),
            "pair": [TRUE],
        }
        control |= {"dotp_accumulate": [accumulate], **array_format(fmt, int(signs.a), int(signs.b))}
        cycle = unit.cycle(graph, {**words, **control})
        for name, factor, old in (("first", "dotp_a", "op_c"), ("second", "act2", "second_sum")):
            given = {"rs1": words[factor], "rs2": words["dotp_b"], "rd": words[old], "accumulate": accumulate}
            dotp = DotpOperation(graph=graph, fmt=fmt, signs=signs, **given, result=cycle.port(name), holds=True)
            ones = algebra.prove(graph, dotp.result, dotp.definition(), timeout_s=timeout_s)
            if ones is not None:
                return f"{name}, {signs}: {dotp.case(ones)}"
        return ""

    def of_format(fmt: ElemFmt) -> Claim:
        def decide(timeout_s: float) -> str:
            return next(filter(None, (wrong(fmt, signs, timeout_s) for signs in ALL_SIGNS)), "")

        return Claim(statement=f"{ARRAY_CLAIMS} .{fmt.suffix}, all signs", method="algebra", decide=decide)

    return [of_format(fmt) for fmt in unit.config.dotp.formats]
