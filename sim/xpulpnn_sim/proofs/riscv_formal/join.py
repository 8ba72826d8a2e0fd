"""A check and the core as one graph, whose outputs must never be 1."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.aiger import UNKNOWN, Aiger, ClockedGraph, Named, at
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE

CORE = "core_"  # what the names of outputs of the core begin with as inputs of a check

CHECK, TRIGGER, RESET = "check", "trig", "reset"
"""Inputs of a check: it looks in this cycle; the instruction that it is about retires in this one."""

_CORE_RESET = "rst"
_CLOCK = "clock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Graph that is searched."""

    searched: Aiger  # what must not become 1: a literal for each check, or for each bit of data
    shown: Named  # the same with the signals of the core as outputs, for the same inputs


def join_netlists(
    core: Named,
    checks: Sequence[Named],
    *,
    constants: Collection[str] = (),
    tied: Mapping[str, int] | None = None,
    sliced: Collection[str] = (),
    width: int = 1,
    triggered: bool = False,
    delay: int | None = None,
) -> Problem:
    """Put checks beside the core, all right after a cycle of reset.

    A check looks in one cycle, after which nothing counts, so that its state follows from cycles in which it does not
    look, and its failure from one in which it does.
    """
    joining = _Joining()
    outputs = joining.core(core, constants, tied or {})
    bad: list[int] = []
    for check, bit in product(checks, range(width)):
        failure, trigger = joining.check(check, outputs, sliced, bit)
        bad.append(joining.after(trigger, failure, delay) if triggered else failure)
    graph = joining.graph
    signals: dict[str, dict[int, int]] = {}
    shown: list[int] = []
    for name, bits in outputs.items():
        signals[name] = {bit: len(shown) + index for index, bit in enumerate(bits)}
        shown += bits.values()
    named = Named(graph=graph.aiger(shown), inputs={}, outputs=signals)
    return Problem(searched=graph.aiger(bad=bad), shown=named)


class _Joining:
    """The graph as it grows."""

    def __init__(self) -> None:
        self.graph = ClockedGraph()
        self._first = self.graph.latch(TRUE)
        self.graph.follow(self._first, FALSE)

    def core(self, core: Named, constants: Collection[str], tied: Mapping[str, int]) -> Mapping[str, Mapping[int, int]]:
        """The core; returns its outputs."""
        source, known = core.graph, {_CORE_RESET: 0, **tied}
        fixed = {
            index: known.get(name, 0) >> bit & 1
            for name, bits in core.inputs.items()
            if name in known
            for bit, index in bits.items()
        }
        kept = {index for name, bits in core.inputs.items() if name in constants for index in bits.values()}
        leaves = [
            fixed[index] if index in fixed else self._constant() if index in kept else self.graph.input()
            for index in range(source.inputs)
        ]
        (reset,) = core.inputs[_CORE_RESET].values()
        latches, values = self._states(source.after({reset: 1}))
        variables = self.graph.copy(source, leaves + values)
        self._follow(source, latches, variables)
        return {
            name: {bit: at(variables, source.outputs[index]) for bit, index in sorted(bits.items())}
            for name, bits in core.outputs.items()
        }

    def check(
        self, check: Named, outputs: Mapping[str, Mapping[int, int]], sliced: Collection[str], bit: int
    ) -> tuple[int, int]:
        """A check; returns its failure and its trigger."""
        source, graph = check.graph, self.graph
        known: dict[int, int] = {}
        looks, trigger, resets = -1, -1, {}
        for name, bits in check.inputs.items():
            for place, index in bits.items():
                signal = name.removeprefix(CORE)
                if name.startswith(CORE):
                    known[index] = FALSE if signal in sliced and place != bit else outputs[signal][place]
                elif name == TRIGGER:
                    trigger, known[index] = index, graph.input()
                elif name in (CHECK, RESET, _CLOCK):
                    known[index] = FALSE
                    looks = index if name == CHECK else looks
                    resets |= {index: 1} if name == RESET else {}
        leaves = [known[index] if index in known else graph.input() for index in range(source.inputs)]
        latches, values = self._states(source.after(resets))
        idle = graph.copy(source, [*leaves, *values])
        if looks >= 0:
            leaves[looks] = TRUE
        looking = graph.copy(source, [*leaves, *values])
        if looks >= 0 and any(at(idle, literal) != FALSE for literal in source.bad):
            raise ToolError("the check must not fail in a cycle in which it does not look")
        self._follow(source, latches, idle)
        assumed = graph.all([at(idle, literal) for literal in source.constraints])
        assumed_so_far = graph.latch(TRUE)
        graph.follow(assumed_so_far, graph.and_(assumed_so_far, assumed))
        here = graph.all([at(looking, literal) for literal in source.constraints])
        fine = graph.all([at(looking, literal) ^ 1 for literal in source.bad])
        failure = graph.and_(graph.and_(here, fine ^ 1), assumed_so_far if assumed != TRUE else TRUE)
        return failure, leaves[trigger] if trigger >= 0 else FALSE

    def after(self, trigger: int, failure: int, delay: int | None) -> int:
        """A failure that counts some cycles after a trigger only, or in any cycle from there on."""
        if delay is None:
            earlier = self.graph.latch(FALSE)
            awaited = self.graph.or_(earlier, trigger)
            self.graph.follow(earlier, awaited)
            return self.graph.and_(failure, awaited)
        for _ in range(delay):
            later = self.graph.latch(FALSE)
            self.graph.follow(later, trigger)
            trigger = later
        return self.graph.and_(failure, trigger)

    def _states(self, resets: Sequence[int]) -> tuple[list[int], list[int]]:
        """Latches of a graph after reset, and their values: free in the first cycle where reset does not tell."""
        latches = [self.graph.latch(FALSE if reset == UNKNOWN else reset) for reset in resets]
        values = [
            self.graph.mux(self._first, latch, self.graph.input()) if reset == UNKNOWN else latch
            for latch, reset in zip(latches, resets, strict=True)
        ]
        return latches, values

    def _follow(self, source: Aiger, latches: Sequence[int], variables: Sequence[int]) -> None:
        for latch, (following, _) in zip(latches, source.latches, strict=True):
            self.graph.follow(latch, at(variables, following))

    def _constant(self) -> int:
        """An input that stays what it is in the first cycle."""
        latch = self.graph.latch(FALSE)
        value = self.graph.mux(self._first, latch, self.graph.input())
        self.graph.follow(latch, value)
        return value
