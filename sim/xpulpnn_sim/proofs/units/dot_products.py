"""Dot products of a structure of the unit, one claim for each element format."""

from collections.abc import Mapping, Sequence
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.isa.formats import ElemFmt
from xpulpnn_sim.proofs.engine import algebra
from xpulpnn_sim.proofs.engine.elaborate import ClockedGates
from xpulpnn_sim.proofs.units.dotp import ALL_SIGNS, Signs, operation
from xpulpnn_sim.proofs.units.unit_proof import Claim, Fault, none, rare


def claims(
    gates: ClockedGates, ports: Sequence[Mapping[str, Any]], config: CoreConfig, *, fault: Fault = none
) -> list[Claim]:
    """Every sum of products on elements of a format, of either sign: all operands, with and without accumulator."""

    def of_format(fmt: ElemFmt) -> Claim:
        def decide(timeout_s: float) -> str:
            results = (_wrong(gates, ports, fmt, signs, fault, timeout_s) for signs in ALL_SIGNS)
            return next(filter(None, results), "")

        return Claim(what=f"sums of products .{fmt.suffix}, all signs", method="algebra", decide=decide)

    return [of_format(fmt) for fmt in config.dotp.formats]


def _wrong(
    gates: ClockedGates,
    ports: Sequence[Mapping[str, Any]],
    fmt: ElemFmt,
    signs: Signs,
    fault: Fault,
    timeout_s: float,
) -> str:
    one = operation(gates, ports, fmt, signs, fault=fault)
    if not one.holds:
        return f"{signs}: the result must stay until the next operation"
    found = algebra.prove(one.graph, one.result, one.definition(), timeout_s=timeout_s)
    if found is None:
        return ""
    given, result = one.values(found.ones)
    operands = f"rs1={given.rs1:#x}, rs2={given.rs2:#x}, rd={given.rd:#x}, accumulate={given.accumulate}"
    return f"{signs}: {operands}: must be 0x{one.expected(given):08x}, not 0x{result:08x}"


def broken(gates: ClockedGates, ports: Sequence[Mapping[str, Any]], config: CoreConfig) -> list[list[Claim]]:
    """Claims that are wrong: an accumulator of -1 arrives as -2, and vice versa, for the widest elements."""
    return [claims(gates, ports, config, fault=rare("rd", 0xFFFF_FFFF))[:1]]
