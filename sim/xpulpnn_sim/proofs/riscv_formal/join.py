"""A check and the core as one graph, whose outputs must never be 1."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.elaborate import ClockCycle, ClockedGates, ClockedGraph
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, Word
from xpulpnn_sim.proofs.riscv_formal.suite import FAIR, Check

CORE = "core_"  # what the names of outputs of the core begin with as inputs of a check

CHECK, TRIGGER, RESET = "check", "trig", "reset"
"""Inputs of a check: it looks in this cycle; the instruction that it is about retires in this one."""

CONSTANT = ("boot_addr", "hart_id", "watched", "watched_first", "watched_register")
"""Inputs of the core between its memories that do not change."""

_CORE_RESET, _FAIR, _CLOCK = "rst", "fair", "clock"


class Problem(NamedTuple):
    """Graph that is searched."""

    graph: ClockedGraph
    bad: Sequence[int]  # what must not become 1: a literal for each check, or for each bit of data
    signals: Mapping[str, Word]  # outputs of the core


def pose(checks: Sequence[Check], netlists: Sequence[ClockedGates], core: ClockedGates) -> Problem:
    """Put a check beside the core, or some that can be searched together, all right after a cycle of reset.

    A check looks in one cycle, after which nothing counts, so that its state follows from cycles in which it does not
    look, and its failure from one in which it does.
    """
    graph, (alike, *_) = ClockedGraph(), checks
    known = {name: graph.constants(len(core.inputs[name])) for name in CONSTANT if name in core.inputs}
    known |= {_CORE_RESET: [FALSE], _FAIR: [int(FAIR in alike.defines)]}
    cycle = graph.place(core, known, _after_reset(graph, core, _CORE_RESET))
    signals = {name: cycle.port(name) for name in core.outputs}
    bad: list[int] = []
    for netlist, bit in product(netlists, range(len(signals[alike.sliced[0]]) if alike.sliced else 1)):
        trigger = graph.input() if alike.triggered else FALSE
        seen = {f"{CORE}{name}": _only(bit, word) if name in alike.sliced else word for name, word in signals.items()}
        failure = _failure(graph, netlist, seen | {TRIGGER: [trigger]})
        bad.append(_after(graph, trigger, failure, alike.delay) if alike.triggered else failure)
    return Problem(graph, bad, signals)


def _only(bit: int, word: Sequence[int]) -> list[int]:
    """A word of which the other bits are 0."""
    return [literal if place == bit else FALSE for place, literal in enumerate(word)]


def _after_reset(graph: ClockedGraph, gates: ClockedGates, reset: str) -> dict[int, int]:
    """State after a cycle of reset, as far as reset tells."""
    following = ClockCycle(graph, gates, {reset: [TRUE]}, {}).next_state()
    return {net: literal for net, literal in following.items() if literal <= TRUE}


def _failure(graph: ClockedGraph, check: ClockedGates, seen: Mapping[str, Sequence[int]]) -> int:
    """Literal of a check that fails."""
    given = {**seen, _CLOCK: [FALSE], RESET: [FALSE]}
    idle = graph.place(check, {**given, CHECK: [FALSE]}, _after_reset(graph, check, RESET))
    looking = ClockCycle(graph, check, {**given, CHECK: [TRUE]}, idle.variables())
    if CHECK in check.inputs and any(_hold(graph, idle, [one]) != TRUE for one in check.asserted):
        raise ToolError("the check must not fail in a cycle in which it does not look")
    assumed, so_far = _hold(graph, idle, check.assumed), graph.register(TRUE)
    graph.follow(so_far, graph.and_(so_far, assumed))
    here = graph.and_(_hold(graph, looking, check.assumed), TRUE if assumed == TRUE else so_far)
    return graph.and_(here, _hold(graph, looking, check.asserted) ^ 1)


def _hold(graph: ClockedGraph, cycle: ClockCycle, claims: Sequence[tuple[int, int]]) -> int:
    """Literal of claims that are right where they are made."""
    return graph.all(graph.or_(claim, made ^ 1) for claim, made in map(cycle.nets, claims))


def _after(graph: ClockedGraph, trigger: int, failure: int, delay: int | None) -> int:
    """A failure that counts some cycles after a trigger only, or in any cycle from there on."""
    if delay is None:
        earlier = graph.register(FALSE)
        awaited = graph.or_(earlier, trigger)
        graph.follow(earlier, awaited)
        return graph.and_(failure, awaited)
    for _ in range(delay):
        later = graph.register(FALSE)
        graph.follow(later, trigger)
        trigger = later
    return graph.and_(failure, trigger)
