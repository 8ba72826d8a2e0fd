"""Prove that every structure of the dot-product unit computes the sum of products."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from random import Random
from typing import Any, Literal, get_args, get_origin, get_type_hints

from xpulpnn.config import CoreConfig, DotpConfig
from xpulpnn.errors import ConfigError
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sim.proofs.engine import algebra
from xpulpnn_sim.proofs.engine.gate_graph import counting_pattern
from xpulpnn_sim.proofs.engine.solvers import GaveUpError, prove_equal
from xpulpnn_sim.proofs.units.dotp import ALL_SIGNS, DotpOperation, Signs, operation
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

METHODS = ("algebra", "sat", "exhaustive", "random")

LANES, SAMPLED = "equal lane by lane", "no difference"
"""Additional verdicts: proved for each lane separately; not refuted by random operands."""

_FIRST_CASES = 1024
_BLOCK_BITS = 18  # log2 of the cases evaluated at a time
_RANDOM_BLOCKS = 256
_SAT_WIDTH = 4  # default limit of element widths for SAT, which takes minutes for 8-bit products


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
        structures[" ".join(f"{name}={_shown(value)}" for name, value in settings.items())] = changed
    return structures


def _shown(value: object) -> str:
    return ",".join(map(str, sorted(value, reverse=True))) if isinstance(value, frozenset) else str(value).lower()


def dot_products(formats: Sequence[ElemFmt] = tuple(ElemFmt), methods: Sequence[str] = ()) -> Definition:
    """Return claims about all sums of products in some formats, with all signs, with and without accumulator.

    A few random operands are compared with the golden model first. The method ``algebra`` proves the result for all
    operands (:mod:`~xpulpnn_sim.proofs.engine.algebra`). ``sat`` proves each lane separately, with any accumulator and
    zeros in other lanes. ``exhaustive`` evaluates all operands of each lane separately, with random accumulators and
    zeros in other lanes. ``random`` evaluates random operands in all lanes.

    Each of ``methods`` makes a separate claim. By default, the first method that decides is used: algebra, then SAT for
    narrow elements, then exhaustive evaluation; the last two are followed by random operands.
    """

    def claims(unit: ProvenUnit) -> list[Claim]:
        chosen = [fmt for fmt in unit.config.dotp.formats if fmt in formats]
        return [
            Claim(
                statement=f"sums of products .{fmt.suffix}, all signs",
                method=method,
                decide=partial(_decide, unit, fmt, _chain(fmt) if method == "any" else [method]),
            )
            for method, fmt in product(methods or ("any",), chosen)
        ]

    # the fault confuses accumulators of -1 and -2
    return Definition(claims, [InputFault("rd", WORD_MASK)])


def _chain(fmt: ElemFmt) -> list[str]:
    return ["algebra", *(["sat"] if fmt.width <= _SAT_WIDTH else []), "exhaustive"]


def _decide(unit: ProvenUnit, fmt: ElemFmt, methods: Sequence[str], timeout_s: float) -> Decision:
    """Return the worst decision over all combinations of signs; for each, the first method that decides is used."""
    decisions = [_decide_signs(partial(operation, unit, fmt), signs, methods, timeout_s) for signs in ALL_SIGNS]
    order = (DIFFERENT, UNDECIDED, SAMPLED, LANES, EQUAL)
    return min(decisions, key=lambda decision: order.index(decision.verdict))


def _decide_signs(build: "partial[DotpOperation]", signs: Signs, methods: Sequence[str], timeout_s: float) -> Decision:
    whole = build(signs)
    ones = whole.sample(_FIRST_CASES, seed=1)
    if ones is not None:
        return Decision(DIFFERENT, "random", f"{signs}: {whole.case(ones)}")
    if not whole.holds:
        return Decision(DIFFERENT, methods[0], f"{signs}: the result must stay until the next operation")
    run = {"algebra": _algebra, "sat": _sat, "exhaustive": _exhaustive, "random": _random}
    decision = Decision(UNDECIDED, methods[0])
    for method in methods:
        try:
            verdict, text = run[method](partial(build, signs), time.monotonic() + timeout_s)
        except GaveUpError:
            verdict, text = UNDECIDED, ""
        decision = Decision(verdict, method, f"{signs}: {text}" if text else "")
        if verdict != UNDECIDED:
            break
    if decision.verdict == LANES and len(methods) > 1:
        _, text = _random(partial(build, signs), time.monotonic() + timeout_s)
        if text:
            return Decision(DIFFERENT, "random", f"{signs}: {text}")
    return decision


_Answer = tuple[str, str]  # verdict, and a counterexample for DIFFERENT


def _algebra(build: "partial[DotpOperation]", deadline: float) -> _Answer:
    whole = build()
    timeout_s = deadline - time.monotonic()
    ones = algebra.prove(whole.graph, whole.result, whole.definition(), timeout_s=timeout_s)
    return (EQUAL, "") if ones is None else (DIFFERENT, whole.case(ones))


def _lanes(build: "partial[DotpOperation]", fmt: ElemFmt) -> Iterator[tuple[DotpOperation, slice]]:
    for lane in range(fmt.lanes):
        yield build(lane), slice(lane * fmt.width, (lane + 1) * fmt.width)


def _sat(build: "partial[DotpOperation]", deadline: float) -> _Answer:
    for lane, _ in _lanes(build, build().fmt):
        left_s = int(deadline - time.monotonic())
        if left_s < 1:
            raise GaveUpError
        ones = prove_equal(lane.graph, (lane.result, lane.plain_gates()), timeout_s=left_s)
        if ones is not None:
            return DIFFERENT, lane.case(ones)
    return LANES, ""


def _exhaustive(build: "partial[DotpOperation]", deadline: float) -> _Answer:
    for lane, bits in _lanes(build, build().fmt):
        counted = [*lane.rs1[bits], *lane.rs2[bits]]
        if text := _evaluated(lane, counted, 1 << max(len(counted) - _BLOCK_BITS, 0), deadline):
            return DIFFERENT, text
    return LANES, ""


def _random(build: "partial[DotpOperation]", deadline: float) -> _Answer:
    text = _evaluated(build(), [], _RANDOM_BLOCKS, deadline)
    return (DIFFERENT, text) if text else (SAMPLED, "")


def _evaluated(dotp: DotpOperation, counted: Sequence[int], blocks: int, deadline: float) -> str:
    """Return text on a case in which unit and simplest structure differ, or an empty string.

    Inputs in ``counted`` take all values, other inputs are random. Raises :class:`GaveUpError` on timeout.
    """
    plain, rng = dotp.plain_gates(), Random(1)
    cases = 1 << (min(len(counted), _BLOCK_BITS) or _BLOCK_BITS)
    ones = (1 << cases) - 1
    pairs = [pair for pair in zip(dotp.result, plain, strict=True) if pair[0] != pair[1]]
    flat = [literal for pair in pairs for literal in pair]
    variables = dotp.graph.variables(flat)
    patterns = {literal: counting_pattern(place, cases) for place, literal in enumerate(counted[:_BLOCK_BITS])}
    for block in range(blocks):
        if time.monotonic() > deadline:
            raise GaveUpError
        high = {literal: ones * (block >> place & 1) for place, literal in enumerate(counted[_BLOCK_BITS:])}
        known = patterns | high
        given = {literal: known[literal] if literal in known else rng.getrandbits(cases) for literal in variables}
        values = dotp.graph.evaluate(given, flat, ones)
        wrong = next((a ^ b for a, b in zip(values[::2], values[1::2], strict=True) if a != b), 0)
        if wrong:
            case = (wrong & -wrong).bit_length() - 1
            return dotp.case(frozenset(literal for literal, value in given.items() if value >> case & 1))
    return ""
