"""Claims about a unit, verdicts on them, and the fault that each proof meets first."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xpulpnn_sim.proofs.engine.gate_graph import GateGraph
from xpulpnn_sim.proofs.engine.solvers import GaveUpError

EQUAL, DIFFERENT, UNDECIDED = "equal", "different", "undecided"
"""Verdicts: proved for all inputs, refuted, not finished."""

Ports = Mapping[str, Sequence[int]]  # literals of each port, lowest bit first

Fault = Callable[[GateGraph, dict[str, list[int]]], None]
"""Changes the literals that a unit gets at its ports; its definition keeps the true ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One equality of a unit with its definition."""

    what: str  # the operations, or what is equal
    method: str  # how it is proved
    # given the seconds it may take: an empty text if it is proved, else a case in which it is wrong
    decide: Callable[[float], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitProof:
    """Verdict on a claim about a unit."""

    unit: str  # the unit, with its structure if it has several
    what: str  # see Claim
    method: str  # see Claim
    seconds: float  # how long it took
    verdict: str  # see EQUAL
    example: str = ""  # with the verdict `different`: inputs, and what is wrong with them


def proofs(unit: str, claims: Sequence[Claim], *, timeout_s: float) -> Iterator[UnitProof]:
    """Decide each claim in turn."""
    for claim in claims:
        began = time.monotonic()
        example, verdict = "", UNDECIDED
        try:
            example = claim.decide(timeout_s)
            verdict = DIFFERENT if example else EQUAL
        except GaveUpError:
            pass
        yield UnitProof(
            unit=unit,
            what=claim.what,
            method=claim.method,
            seconds=time.monotonic() - began,
            verdict=verdict,
            example=example,
        )


def none(_graph: GateGraph, _ports: dict[str, list[int]]) -> None:
    """No fault."""


def rare(port: str, others: int, bit: int = 0) -> Fault:
    """Bit ``bit`` of ``port`` arrives inverted if its other bits are those of ``others``, and else as it is.

    Random operands do not find it: one word of 32 bits in ``2**31`` has it.
    """

    def apply(graph: GateGraph, ports: dict[str, list[int]]) -> None:
        literals = ports[port]
        rest = [one ^ (others >> place & 1) ^ 1 for place, one in enumerate(literals) if place != bit]
        ports[port] = [*literals[:bit], graph.xor(literals[bit], graph.all(rest)), *literals[bit + 1 :]]

    return apply


def shown(graph: GateGraph, ports: Ports, ones: frozenset[int]) -> str:
    """Values of the ports where the input literals ``ones`` are 1 and the others are 0; those that are 0 left out."""
    values = {name: graph.number(ones, literals) for name, literals in ports.items()}
    return ", ".join(f"{name}={value:#x}" for name, value in values.items() if value) or "all inputs 0"
