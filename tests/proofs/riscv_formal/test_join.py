"""Checks beside cores, both written here by hand."""

import time
from pathlib import Path

import pytest
from tests.abc_program import needs_abc

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.clocked_gates import ClockedGates
from xpulpnn_sim.proofs.engine.gate_graph import FALSE
from xpulpnn_sim.proofs.engine.outcomes import PASSED, VACUOUS, Outcome
from xpulpnn_sim.proofs.engine.solvers import CycleSearch
from xpulpnn_sim.proofs.riscv_formal.model_check import BmcProblem, bmc_problem, with_claims
from xpulpnn_sim.proofs.riscv_formal.suite import OWN, Check
from xpulpnn_sim.tools.netlists import ONE, ZERO, NetlistCell, NetlistModule, NetlistWire
from xpulpnn_sim.tools.yosys import find_abc


def netlist(inputs: dict[str, list[int]], outputs: dict[str, list[int]], **cells: dict[str, int]) -> ClockedGates:
    """Gates by their types, with the net of each pin; what drives has the pin Y or Q."""
    ports = [{name: NetlistWire(name, nets) for name, nets in each.items()} for each in (inputs, outputs)]
    made = [
        NetlistCell(
            name=kind,
            type=f"${kind}",
            pins={pin: [net] for pin, net in pins.items()},
            parameters={},
            outputs=frozenset("YQ") & pins.keys(),
        )
        for kind, pins in cells.items()
    ]
    return ClockedGates(NetlistModule(name="", inputs=ports[0], outputs=ports[1], wires={}, cells=made, initial={}))


RST, GO, LEVEL, TOGGLED, NEXT = range(2, 7)
# the level is inverted when the input `go` is 1, and 0 after reset
CELLS = {
    "_XOR_": {"A": GO, "B": LEVEL, "Y": TOGGLED},
    "_ANDNOT_": {"A": TOGGLED, "B": RST, "Y": NEXT},
    "_DFF_P_": {"C": RST, "D": NEXT, "Q": LEVEL},
}
TOGGLE, FAIR, CONSTANT = (
    netlist({"rst": [RST], name: [GO]}, {"level": [LEVEL]}, **CELLS) for name in ("go", "fair", "boot_addr")
)
# fails if the level is 1 while it looks; assumes nothing
SEEN = {"reset": [2], "check": [3], "core_level": [4]}
LOOKS = {"_NOT_": {"A": 4, "Y": 6}, "assert": {"A": 6, "EN": 3}}
WATCHED = netlist(SEEN, {}, **LOOKS)


def join(core: ClockedGates, *checks: ClockedGates, checker: str = OWN, **more: object) -> BmcProblem:
    return bmc_problem([Check(name="check", checker=checker, cycle=9, **more)], checks, core)


def shown(problem: BmcProblem, frames: list[list[int]], signal: str = "bad") -> list[int]:
    """The signal that must not be 1, or another one, in each cycle."""
    inputs = problem.graph.aiger([*problem.bad, *problem.signals["level"]]).inputs
    ones = [{literal for literal, bit in zip(inputs, frame, strict=True) if bit} for frame in frames]
    return [each[signal] for each in problem.graph.replay(ones, {"bad": [*problem.bad], **problem.signals})]


def test_check_beside_core():
    """The level is 0 after reset, and 1 in the cycle after the input."""
    problem = join(TOGGLE, WATCHED)
    frames = [[1], [0], [1], [0]]
    assert shown(problem, frames) == shown(problem, frames, "level") == [0, 1, 1, 0]


def test_several_checks_beside_core():
    """Each has a failure of its own: the second one never looks at the level."""
    blind = netlist({"reset": [2], "check": [3], "choice": [4]}, {}, **LOOKS)
    problem = join(TOGGLE, WATCHED, blind)
    assert shown(problem, [[0, 1], [1, 0], [0, 0]]) == [0b10, 0, 0b01]


def test_tied_and_constant_inputs():
    assert shown(join(FAIR, WATCHED), [[], [], []]) == [0, 0, 0]
    assert shown(join(FAIR, WATCHED, defines=("RISCV_FORMAL_FAIRNESS",)), [[], [], []]) == [0, 1, 0]
    assert shown(join(CONSTANT, WATCHED), [[1], [0], [0], [0]]) == [0, 1, 0, 1]


def test_what_stays():
    """A state that reset does not tell is any at first."""
    design = netlist({"reset": [2], "check": [3]}, {}, anyconst={"Y": 4}, **LOOKS)
    assert shown(join(FAIR, design), [[1], [0]]) == [1, 1]


def test_assumptions_hold_from_the_first_cycle_on():
    """After a cycle in which the level is 1 nothing fails, although the level must be 1 whenever it looks."""
    cells = {"_NOT_": {"A": 4, "Y": 6}, "assume": {"A": 6, "EN": ONE}, "assert": {"A": 4, "EN": 3}}
    assert shown(join(TOGGLE, netlist(SEEN, {}, **cells)), [[1], [1], [0]]) == [1, 0, 0]


def test_trigger():
    """A check of an instruction: it fails two cycles after its trigger only, or from there on."""
    watched = netlist(SEEN | {"trig": [5]}, {}, **LOOKS)
    frames = [[1, 0], [0, 1], [0, 0], [0, 0]]
    assert shown(join(TOGGLE, watched, checker="unique", delay=2), frames) == [0, 0, 0, 1]
    assert shown(join(TOGGLE, watched, checker="unique"), frames) == [0, 1, 1, 1]


def test_sliced():
    """Each of two bits has a check, which sees the other one as 0."""
    two = netlist({"rst": [RST], "go": [GO]}, {"level": [LEVEL, LEVEL]}, **CELLS)
    cells = {"_NAND_": {"A": 4, "B": 5, "Y": 6}, "assert": {"A": 6, "EN": 3}}
    watched = netlist(SEEN | {"core_level": [4, 5]}, {}, **cells)
    # it would fail if both were 1: apart it cannot
    assert join(two, watched, sliced=("level",)).bad == [FALSE, FALSE]


def test_a_check_that_always_looks():
    with pytest.raises(ToolError, match=r"^the check must not fail in a cycle in which it does not look$"):
        join(TOGGLE, netlist(SEEN, {}, _NOT_={"A": 4, "Y": 6}, **{"assert": {"A": 6, "EN": 4}}))


@pytest.mark.flow
@needs_abc
@pytest.mark.parametrize(("made", "assumed", "verdict"), [(3, 6, PASSED), (3, ZERO, VACUOUS), (2, 6, VACUOUS)])
def test_a_check_that_claims_nothing(tmp_path: Path, made: int, assumed: int, verdict: str):
    """Nothing meets what it assumes, or it claims something during a reset only."""
    cells = {"_NOT_": {"A": 4, "Y": 6}, "assume": {"A": assumed, "EN": ONE}, "assert": {"A": ONE, "EN": made}}
    problem, check = join(TOGGLE, netlist(SEEN, {}, **cells)), Check(name="check", checker=OWN, cycle=9)
    passed = Outcome(name="check", verdict=PASSED, seconds=0)
    searching = CycleSearch(find_abc(), tmp_path, time.monotonic() + 10)
    assert with_claims(passed, check, problem.claims[0], problem.graph, searching).verdict == verdict
