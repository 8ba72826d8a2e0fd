"""Graphs under construction, compared with truth tables, and checks beside cores, both written here by hand."""

from itertools import product

import pytest

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.aiger import UNKNOWN, Aiger, ClockedGraph, Named
from xpulpnn_sim.proofs.engine.gate_graph import FALSE
from xpulpnn_sim.proofs.riscv_formal.join import join_netlists

pytestmark = pytest.mark.unit


def test_gates_against_truth_tables():
    graph = ClockedGraph()
    a, b, c = graph.inputs(3)
    built = [graph.and_(a, b ^ 1), graph.or_(a, c), graph.mux(a, c, b), graph.all([a, b, c]), graph.any([a, b, c])]
    built += [graph.xor(a, b), graph.majority(a, b, c)]
    shown = graph.aiger(built)
    for x, y, z in product((0, 1), repeat=3):
        (found,) = shown.run([[x, y, z]])
        some = [x & (1 - y), x | z, y if x else z, x & y & z, x | y | z, x ^ y, int(x + y + z > 1)]
        assert found == some == graph.evaluate({a: x, b: y, c: z}, built)


def test_only_what_is_needed():
    graph = ClockedGraph()
    a, b = graph.inputs(2)
    used, unused = graph.latch(0), graph.latch(1)
    graph.follow(used, graph.and_(a, used ^ 1))
    graph.follow(unused, b)
    kept = graph.aiger(bad=[used])
    assert (kept.inputs, len(kept.latches), len(kept.gates)) == (2, 1, 1)


# a toggle: latch 1 is inverted when the input `go` is 1, and 0 after reset; its value is the output `level`.
# variables: 1 rst, 2 go, 3 the latch, 4 go and not latch, 5 not go and latch, 6 neither, 7 not rst and not 6
TOGGLE = Named(
    graph=Aiger(inputs=2, latches=[(14, UNKNOWN)], outputs=[6], gates=[(7, 4), (6, 5), (11, 9), (13, 3)]),
    inputs={"rst": {0: 0}, "go": {0: 1}},
    outputs={"level": {0: 0}},
)
# fails if the level is 1 while it looks; assumes nothing
LEVEL = Aiger(inputs=3, latches=[], outputs=[], bad=[8], gates=[(6, 4)])
WATCHED = Named(graph=LEVEL, inputs={"reset": {0: 0}, "check": {0: 1}, "core_level": {0: 2}}, outputs={})


def fails(problem, frames) -> list[int]:
    """What must not be 1 in each cycle, as outputs of the graph."""
    searched = problem.searched
    graph = Aiger(inputs=searched.inputs, latches=searched.latches, outputs=searched.bad, gates=searched.gates)
    return [max(values) for values in graph.run(frames)]


def test_check_beside_core():
    """The level is 0 after reset, and 1 in the cycle after the input."""
    problem = join_netlists(TOGGLE, [WATCHED])
    frames = [[value] + [0] * (problem.searched.inputs - 1) for value in (1, 0, 1, 0)]
    assert fails(problem, frames) == [0, 1, 1, 0]
    assert [level for (level,) in problem.shown.graph.run(frames)] == [0, 1, 1, 0]
    assert problem.shown.outputs == {"level": {0: 0}}


def test_several_checks_beside_core():
    """Each has a failure of its own: the second one never looks at the level."""
    blind = Named(graph=LEVEL, inputs={"reset": {0: 0}, "check": {0: 1}, "choice": {0: 2}}, outputs={})
    problem = join_netlists(TOGGLE, [WATCHED, blind])
    assert len(problem.searched.bad) == 2
    assert fails(problem, [[0, 1], [0, 0]]) == [1, 0]
    assert fails(problem, [[1, 0], [0, 0]]) == [0, 1]


def test_tied_and_constant_inputs():
    assert fails(join_netlists(TOGGLE, [WATCHED], tied={"go": 0}), [[], [], []]) == [0, 0, 0]
    assert fails(join_netlists(TOGGLE, [WATCHED], constants=["go"]), [[1], [0], [0], [0]]) == [0, 1, 0, 1]


def test_assumptions_hold_from_the_first_cycle_on():
    """Without a cycle in which the level is 1 nothing can fail after one."""
    assumes_low = Aiger(inputs=3, latches=[], outputs=[], bad=[8], constraints=[7], gates=[(6, 4)])
    problem = join_netlists(TOGGLE, [Named(graph=assumes_low, inputs=WATCHED.inputs, outputs={})])
    assert fails(problem, [[1], [0], [0]]) == [0, 0, 0]


def test_trigger():
    """A check of an instruction: it fails two cycles after its trigger only, or from there on."""
    inputs = {**WATCHED.inputs, "trig": {0: 3}}
    graph = Aiger(inputs=4, latches=[], outputs=[], bad=[10], gates=[(6, 4)])
    watched = Named(graph=graph, inputs=inputs, outputs={})
    frames = [[1, 0], [0, 1], [0, 0], [0, 0]]
    assert fails(join_netlists(TOGGLE, [watched], triggered=True, delay=2), frames) == [0, 0, 0, 1]
    assert fails(join_netlists(TOGGLE, [watched], triggered=True), frames) == [0, 1, 1, 1]


def test_sliced():
    """Of two bits each has a check, which sees the other one as 0."""
    two = Named(graph=TOGGLE.graph, inputs=TOGGLE.inputs, outputs={"level": {0: 0, 1: 0}})
    both = Aiger(inputs=4, latches=[], outputs=[], bad=[10], gates=[(8, 6)])
    watched = Named(graph=both, inputs={"reset": {0: 0}, "check": {0: 1}, "core_level": {0: 2, 1: 3}}, outputs={})
    # it would fail if both were 1: apart it cannot
    assert join_netlists(two, [watched], sliced=["level"], width=2).searched.bad == [FALSE, FALSE]


def test_a_check_that_always_looks():
    careless = Aiger(inputs=3, latches=[], outputs=[], bad=[6], gates=[])
    with pytest.raises(ToolError, match=r"^the check must not fail in a cycle in which it does not look$"):
        join_netlists(TOGGLE, [Named(graph=careless, inputs=WATCHED.inputs, outputs={})])
