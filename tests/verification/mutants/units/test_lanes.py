"""Mutants run through a record of a bench."""

from pathlib import Path

import numpy as np
import pytest

from xpulpnn.errors import ToolError
from xpulpnn_sim.tools.netlists import NetlistCell, NetlistModule, NetlistWire
from xpulpnn_sim.verification.mutants.units.lanes import KILLED, OPEN, SAME, Lanes, Trace
from xpulpnn_sim.verification.mutants.units.mutants import SELECT

pytestmark = pytest.mark.unit

A, B, FIRST, SECOND, BOTH, Y, Q = 2, 3, 4, 5, 6, 7, 8
COMPARES, DECIDES, NOTHING = range(3)


def cell(kind: str, **pins: int) -> NetlistCell:
    return NetlistCell(
        name=f"cell{pins}",
        type=kind,
        pins={pin: [net] for pin, net in pins.items()},
        parameters={},
        outputs=frozenset({"Q"} if "Q" in pins else {"Y"}),
    )


def netlist() -> NetlistModule:
    """y is a & b, or its inverse in mutant 1; q follows it, from 0 on; mutant 2 changes nothing."""
    wires = {"a": [A], "b": [B], SELECT: [FIRST, SECOND], "y": [Y], "q": [Q]}
    named = {name: NetlistWire(name, nets) for name, nets in wires.items()}
    return NetlistModule(
        name="unit",
        inputs={name: named[name] for name in ("a", "b", SELECT)},
        outputs={name: named[name] for name in ("y", "q")},
        wires=named,
        cells=[
            cell("$_DFF_P_", C=9, D=Y, Q=Q),
            cell("$_XOR_", A=BOTH, B=FIRST, Y=Y),
            cell("$_AND_", A=A, B=B, Y=BOTH),
        ],
        initial={Q: 0},
    )


def trace(*looks: tuple[int, int, int, int]) -> Trace:
    """a and b are 1, then a is 0; a rising edge after each. Rows of frame, port (0 is y), use and value."""
    ports = sorted({port for _, port, _, _ in looks})
    return Trace(
        test="test",
        kind=np.array([0, 1, 0, 1, 0], np.uint8),
        inputs=np.array([[1, 1], [1, 1], [0, 1], [0, 1], [0, 1]], np.uint8),
        looks={
            port: np.array([(frame, what) for frame, at, what, _ in looks if at == port], np.int32) for port in ports
        },
        bits={port: np.array([[value] for _, at, _, value in looks if at == port], np.uint8) for port in ports},
    )


@pytest.mark.parametrize(
    ("looks", "first"),
    [
        ([(0, 0, COMPARES, 1)], KILLED),
        ([(0, 0, NOTHING, 1)], SAME),
        ([(0, 1, COMPARES, 0)], SAME),
        ([(2, 1, COMPARES, 1)], KILLED),
        # the bench goes another way before it compares
        ([(0, 0, DECIDES, 1), (2, 1, COMPARES, 1)], OPEN),
        ([(0, 0, COMPARES, 1), (0, 1, DECIDES, 0), (2, 1, DECIDES, 1)], KILLED),
        ([(0, 0, COMPARES, 1), (0, 0, DECIDES, 1)], OPEN),
    ],
)
def test_what_a_bench_finds(
    looks: list[tuple[int, int, int, int]], first: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lanes = Lanes(netlist(), ["a", "b"], ["y", "q"], 2, tmp_path_factory.getbasetemp() / "lanes")
    assert lanes.judge(trace(*looks)) == [first, SAME]


def test_a_netlist_that_is_not_the_unit_is_told(tmp_path_factory: pytest.TempPathFactory) -> None:
    lanes = Lanes(netlist(), ["a", "b"], ["y", "q"], 2, tmp_path_factory.getbasetemp() / "lanes")
    with pytest.raises(ToolError, match="does not in frame 2"):
        lanes.judge(trace((0, 0, COMPARES, 1), (2, 0, COMPARES, 1)))


def test_other_cells_are_told(tmp_path: Path) -> None:
    module = netlist()
    module.cells.append(cell("$mem", A=A, Y=20))
    with pytest.raises(ToolError, match=r"must consist of gates and registers, not of \$mem"):
        Lanes(module, ["a", "b"], ["y", "q"], 2, tmp_path)
