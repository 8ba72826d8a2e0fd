"""Shift, clip and insertion of ``pv.rq*``, for all operands.

The sum is shifted as a number of 32 bits with sign, compared with both bounds, and put into a lane: none of it as the
unit does, which complements negative sums and looks for ones above the result.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.core.requantiser import FORMATS
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.proofs.engine.elaborate import ClockCycle, ClockedGates
from xpulpnn_sim.proofs.engine.gate_claims import Equality, unequal
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph
from xpulpnn_sim.proofs.engine.words import Word, choose, constant, less, right
from xpulpnn_sim.proofs.units.unit_proof import Claim, Fault, none, rare


class _Unit:
    """The unit's ports as literals."""

    def __init__(self, gates: ClockedGates, ports: Sequence[Mapping[str, Any]], fault: Fault, **ctrl: int) -> None:
        self.graph = GateGraph()
        inputs = {port["name"]: port for port in ports if port["direction"] == "input"}
        control = constant(0, inputs["ctrl"]["width"])
        for field in inputs["ctrl"]["fields"]:
            width = field["width"]
            known = ctrl.get(field["name"])
            literals = self.graph.inputs(width) if known is None else constant(known, width)
            control[field["lsb"] : field["lsb"] + width] = literals
        self.ports = {name: self.graph.inputs(inputs[name]["width"]) for name in ("lane", "places", "sum", "old")}
        seen = {**self.ports, "ctrl": control}
        fault(self.graph, seen)
        self.result = ClockCycle(self.graph, gates, seen, {}).port("result")

    def wanted(self, fmt: ElemFmt, *, to_signed: bool) -> tuple[int, Word]:
        """Literal of the lane being one of the format, and the result."""
        graph, (lane, places, total, old) = self.graph, self.ports.values()
        least = -(1 << fmt.width - 1) if to_signed else 0
        bounds = (least, least + (1 << fmt.width) - 1)
        value = right(graph, total, places, signed=True)
        low, high = (constant(bound, XLEN) for bound in bounds)
        value = choose(graph, less(graph, value, low, signed=True), low, value)
        value = choose(graph, less(graph, high, value, signed=True), high, value)
        result: Word = []
        lanes = [graph.equal(lane, constant(number, len(lane))) for number in range(fmt.lanes)]
        for number, chosen in enumerate(lanes):
            first = number * fmt.width
            result += choose(graph, chosen, value[: fmt.width], old[first : first + fmt.width])
        return graph.any(lanes), result


def claims(
    gates: ClockedGates, ports: Sequence[Mapping[str, Any]], config: CoreConfig, *, fault: Fault = none
) -> list[Claim]:
    """Return what the unit makes of every sum, amount, word and lane."""

    def inserted(fmt: ElemFmt, *, to_signed: bool) -> Claim:
        def decide(timeout_s: float) -> str:
            unit = _Unit(gates, ports, fault, valid=1, load=0, to_signed=to_signed, fmt=fmt.value)
            occurs, wanted = unit.wanted(fmt, to_signed=to_signed)
            return unequal(unit.graph, occurs, [Equality("result", unit.result, wanted)], unit.ports, timeout_s)

        name = f"pv.rq{'s' if to_signed else 'u'}.{fmt.suffix}"
        return Claim(what=f"{name}: shift, clip and insertion", method="sat", decide=decide)

    def idle(timeout_s: float) -> str:
        unit = _Unit(gates, ports, fault, valid=0)
        nothing = [Equality("result", unit.result, [FALSE] * XLEN)]
        return unequal(unit.graph, TRUE, nothing, unit.ports, timeout_s)

    formats = [fmt for fmt in FORMATS if fmt.width in config.widths]
    found = [inserted(fmt, to_signed=to_signed) for fmt in formats for to_signed in (False, True)]
    return [*found, Claim(what="every other instruction: no result", method="sat", decide=idle)]


def broken(gates: ClockedGates, ports: Sequence[Mapping[str, Any]], config: CoreConfig) -> list[list[Claim]]:
    """Claims that are wrong: a sum of -2 arrives as -1, and vice versa."""
    wrong = claims(gates, ports, config, fault=rare("sum", 0xFFFF_FFFF))
    return [[claim for claim in wrong if claim.what.startswith("pv.rqs")]]
