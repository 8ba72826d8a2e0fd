"""Invariants that simulation suggests and induction keeps."""

import shutil

import pytest

from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph
from xpulpnn_sim.proofs.engine.solvers import find_case
from xpulpnn_sim.proofs.units.invariants import InvariantSearch
from xpulpnn_sim.tools.yosys import ABC_PROGRAMS, find_abc

pytestmark = [
    pytest.mark.flow,
    pytest.mark.skipif(not any(map(shutil.which, ABC_PROGRAMS)), reason="berkeley-abc is not installed"),
]


def test_what_simulation_does_not_reach_is_no_invariant():
    graph = GateGraph()
    count = graph.inputs(8)
    late, one, other, waits, go, answer = graph.inputs(6)
    following = graph.add(count, [FALSE] * 8, TRUE)
    # "late" becomes 1 after 200 cycles; "one" and "other" are never equal; nothing is answered that does not wait
    latches = {
        **{bit: (after, 0) for bit, after in zip(count, following, strict=True)},
        late: (graph.is_value(count, 200), 0),
        one: (go, 0),
        other: (go ^ 1, 1),
        waits: (graph.or_(go, graph.and_(waits, answer ^ 1)), 0),
    }

    def solve(literal: int) -> frozenset[int] | None:
        return find_case(find_abc(), graph, literal, timeout_s=10)

    search = InvariantSearch(
        graph=graph,
        latches=latches,
        literals=[late, one, other, waits],
        inputs={"go": [go], "answer": [answer]},
        stimuli={"go": [0, 1]},
        after_requests={answer: [waits]},
        assumed=graph.or_(answer ^ 1, waits),
        solve=solve,
    )
    holds = search.find()
    assert solve(graph.and_(holds, graph.xor(one, other) ^ 1)) is None
    assert solve(graph.and_(holds, graph.and_(one, waits ^ 1))) is None
    assert solve(graph.and_(holds, graph.and_(late, waits))) is not None
    assert solve(graph.and_(holds, graph.and_(answer, waits ^ 1))) is None
