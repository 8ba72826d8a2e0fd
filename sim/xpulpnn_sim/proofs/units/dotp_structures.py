"""Equality of all structures of the dot-product unit, by proof or by simulation of all operands."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from typing import Any, Literal, get_args, get_origin, get_type_hints

from xpulpnn.config import CoreConfig, DotpConfig
from xpulpnn.errors import ConfigError
from xpulpnn.isa.formats import ElemFmt
from xpulpnn_sim.proofs.engine import algebra, solvers
from xpulpnn_sim.proofs.engine.clocked_gates import clocked_gates
from xpulpnn_sim.proofs.engine.exhaustive import simulate_gates
from xpulpnn_sim.proofs.units.dotp import ALL_SIGNS, Counterexample, DotpOperation, Signs, operation
from xpulpnn_sim.proofs.units.unit_proof import DIFFERENT, EQUAL, UNDECIDED, ProvenUnit

METHODS = ("algebra", "sat", "exhaustive", "random")  # ways to compare a structure with the definition; see `check`

LANES, SAMPLED = "equal lane by lane", "no difference"
"""Further verdicts: shown for all operands of each lane alone; not refuted by random operands."""

_FIRST_CASES = 1024
_RANDOM_BLOCKS = 1 << 18
_SAT_WIDTH = 4  # Widest elements that SAT is tried on unless asked for: it takes minutes for products of 8 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Finding of one method about one operation of one structure."""

    structure: str  # settings of the unit
    fmt: ElemFmt
    signs: Signs
    method: str
    covered: str  # which operands
    seconds: float  # how long it took
    verdict: str  # see EQUAL
    counterexample: Counterexample | None = None  # with the verdict `different`


def unit_structures(config: CoreConfig, fixed: Sequence[str] = (), *, widths: bool = False) -> dict[str, CoreConfig]:
    """Every structure of the dot-product unit, by its settings.

    All combinations of the choices among the fields of :class:`DotpConfig` that its constructor accepts. The fields in
    ``fixed`` stay as they are in ``config``. With ``widths`` each is combined with every non-empty subset of the
    widths configured.
    """
    choices: dict[str, tuple[Any, ...]] = {}
    if widths:
        wide = sorted(config.dotp.widths, reverse=True)
        choices["widths"] = tuple(frozenset(some) for n in range(len(wide)) for some in combinations(wide, n + 1))
    for name, kind in get_type_hints(DotpConfig).items():
        known = get_args(kind) if get_origin(kind) is Literal else (False, True) if kind is bool else ()
        if known:
            choices[name] = (getattr(config.dotp, name),) if name in fixed else known
    found: dict[str, CoreConfig] = {}
    for values in product(*choices.values()):
        settings = dict(zip(choices, values, strict=True))
        try:
            changed = replace(config, dotp=replace(config.dotp, **settings))
        except ConfigError:
            continue
        label = " ".join(f"{name}={_shown(value)}" for name, value in settings.items())
        found[label] = changed
    return found


def _shown(value: object) -> str:
    return ",".join(map(str, sorted(value, reverse=True))) if isinstance(value, frozenset) else str(value).lower()


def check(
    verilog: str,
    manifest: Mapping[str, Any],
    *,
    structure: str = "",
    formats: Sequence[ElemFmt] = tuple(ElemFmt),
    signs: Sequence[Signs] = ALL_SIGNS,
    methods: Sequence[str] = (),
    timeout_s: float = 60.0,
    advance: Callable[[float], None] = lambda share: None,
) -> Iterator[Comparison]:
    """Compare the dot-product unit in ``verilog`` with its definition, operation by operation.

    The definition is the naive structure: sign or zero extended elements, one product per lane, all added to the
    accumulator modulo ``2**32``. A few random operands come first, against the golden model. Then

    ``algebra``
        proves the result equal for all operands (:mod:`~xpulpnn_sim.proofs.engine.algebra`);
    ``sat``
        proves each lane alone, with any accumulator and the other lanes zero;
    ``exhaustive``
        simulates all operands of each lane alone, with random accumulators and the other lanes zero;
    ``random``
        simulates random operands of all lanes.

    Without ``methods`` the first one that decides is taken: algebra, else SAT for narrow elements, else exhaustive
    simulation; the latter two are followed by random operands, which is not a proof for all lanes together.
    """
    unit = ProvenUnit(gates=clocked_gates(verilog, manifest["top"]), ports=manifest["ports"], config=CoreConfig())
    for fmt, sign in product(formats, signs):
        yield from _Check(unit, structure, fmt, sign, timeout_s, advance).run(methods)


_Found = tuple[str, str, Counterexample | None]  # what is covered, the verdict, and a case that is different


class _Check:
    """One operation of one structure."""

    def __init__(
        self,
        unit: ProvenUnit,
        structure: str,
        fmt: ElemFmt,
        signs: Signs,
        timeout_s: float,
        advance: Callable[[float], None],
    ) -> None:
        self._fmt, self._timeout_s, self._advance = fmt, timeout_s, advance
        self._operation = partial(operation, unit, fmt, signs)
        self._comparison = partial(Comparison, structure=structure, fmt=fmt, signs=signs)
        self._started = time.monotonic()
        self._whole = self._operation()
        self._building_s = time.monotonic() - self._started

    def run(self, methods: Sequence[str]) -> Iterator[Comparison]:
        whole = self._whole
        different = whole.sample(_FIRST_CASES, seed=1)
        if different is not None:
            yield self._found("random", f"{_FIRST_CASES} random operands", DIFFERENT, whole.case(different))
        elif not whole.holds:
            yield self._found("algebra", "result until the next operation", DIFFERENT)
        elif methods:
            yield from self._until(DIFFERENT, methods)
        else:
            lanes = ("sat", "exhaustive") if self._fmt.width <= _SAT_WIDTH else ("exhaustive",)
            found = self._by("algebra")
            yield found
            if found.verdict == UNDECIDED:
                for found in self._until(LANES, lanes):
                    yield found
                if found.verdict != DIFFERENT:
                    yield self._by("random")

    def _until(self, verdict: str, methods: Sequence[str]) -> Iterator[Comparison]:
        """One method after the other until one says so, or finds a difference."""
        for method in methods:
            found = self._by(method)
            yield found
            if found.verdict in (verdict, DIFFERENT):
                return

    def _by(self, method: str) -> Comparison:
        run = {"algebra": self._algebra, "sat": self._sat, "exhaustive": self._exhaustive, "random": self._random}
        self._started = time.monotonic() - (self._building_s if method == "algebra" else 0)
        return self._found(method, *run[method]())

    def _found(self, method: str, covered: str, verdict: str, case: Counterexample | None = None) -> Comparison:
        seconds = time.monotonic() - self._started
        return self._comparison(method=method, covered=covered, seconds=seconds, verdict=verdict, counterexample=case)

    @property
    def _left_s(self) -> float:
        return self._timeout_s - (time.monotonic() - self._started)

    def _algebra(self) -> _Found:
        whole, covered = self._whole, "all operands"
        try:
            ones = algebra.prove(whole.graph, whole.result, whole.definition(), timeout_s=self._timeout_s)
        except solvers.GaveUpError:
            return covered, UNDECIDED, None
        return _judged(covered, EQUAL, whole, ones)

    def _sat(self) -> _Found:
        covered = f"each of {self._fmt.lanes} lanes alone, any accumulator"
        for lane in range(self._fmt.lanes):
            left, one = self._left_s, self._operation(lane)
            try:
                if left < 1:
                    raise solvers.GaveUpError
                ones = solvers.prove_equal(one.graph, (one.result, one.plain_gates()), timeout_s=int(left))
            except solvers.GaveUpError:
                return f"{lane} of {self._fmt.lanes} lanes", UNDECIDED, None
            if ones is not None:
                return _judged(covered, DIFFERENT, one, ones)
        return covered, LANES, None

    def _exhaustive(self) -> _Found:
        lanes, width = self._fmt.lanes, self._fmt.width
        covered = f"all 2^{2 * width} operands of each of {lanes} lanes alone, random accumulators"
        for lane in range(lanes):
            one, bits = self._operation(lane), slice(lane * width, (lane + 1) * width)
            found = simulate_gates(
                one.graph,
                (one.result, one.plain_gates()),
                counted=[*one.rs1[bits], *one.rs2[bits]],
                blocks=0,
                timeout_s=max(self._left_s, 0),
                advance=lambda share, lane=lane: self._advance((lane + share) / lanes),
            )
            if found.different is not None:
                return _judged(covered, DIFFERENT, one, found.different)
            if not found.complete:
                return f"{lane} of {lanes} lanes and {found.cases} operands of the next", UNDECIDED, None
        return covered, LANES, None

    def _random(self) -> _Found:
        whole, limits = self._operation(), {"timeout_s": self._timeout_s, "advance": self._advance}
        words = (whole.result, whole.plain_gates())
        found = simulate_gates(whole.graph, words, counted=(), blocks=_RANDOM_BLOCKS, **limits)
        return _judged(f"{found.cases} random operands of all lanes", SAMPLED, whole, found.different)


def _judged(covered: str, verdict: str, one: DotpOperation, ones: frozenset[int] | None) -> _Found:
    """A verdict, unless some inputs that are 1 show a difference."""
    return (covered, verdict, None) if ones is None else (covered, DIFFERENT, one.case(ones))
