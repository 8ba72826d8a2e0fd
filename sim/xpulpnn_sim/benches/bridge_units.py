"""The bridges to AXI4 and Wishbone that have a bench."""

from collections.abc import Callable
from functools import partial
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import wiring

from xpulpnn.cluster.axi.bridge import AxiBridge
from xpulpnn.cluster.axi.refill import AxiRefill
from xpulpnn.cluster.ports import LINE_OFFSET_BITS, DmaPortSignature, LineSignature, RefillSignature
from xpulpnn.component import PortSignature
from xpulpnn.config import EXT_DATA_BITS
from xpulpnn.core.obi import InstructionPortSignature, ObiSignature
from xpulpnn.isa.machine import XLEN
from xpulpnn.wishbone.bridge import WishboneBridge

Bridge = tuple[str, Callable[[], wiring.Component], dict[str, Any]]


def _axi(make: Callable[[], wiring.Component], bits: int, *, writes: bool = True, runs: bool = False) -> Bridge:
    return "axi_bridge", make, {"bits": bits, "writes": writes, "runs": runs, "slack": 1.2}


def _wishbone(signature: PortSignature, shift: int = 0, *, registered: bool = False) -> Bridge:
    """``shift``: the address is the number of a block of as many bytes, as a power of two."""
    words = Shape.cast(signature.members["rdata"].shape).width // XLEN
    told = {"words": words, "writes": "we" in signature.members, "shift": shift, "late": int(registered)}
    return "wishbone_bridge", partial(WishboneBridge, signature, registered=registered), told


def bridge_units() -> dict[str, Bridge]:
    """Bench, component and what the bench is told, by the name of the unit."""
    return {
        "axi-dma": _axi(lambda: AxiBridge(EXT_DATA_BITS), EXT_DATA_BITS, runs=True),
        "axi-ext": _axi(lambda: AxiBridge(XLEN), XLEN),
        "axi-refill": _axi(AxiRefill, EXT_DATA_BITS, writes=False),
        "wishbone": _wishbone(ObiSignature()),
        "wishbone-registered": _wishbone(ObiSignature(), registered=True),
        "wishbone-instr": _wishbone(InstructionPortSignature()),
        "wishbone-lines": _wishbone(LineSignature(), shift=LINE_OFFSET_BITS),
        "wishbone-lines-registered": _wishbone(LineSignature(), shift=LINE_OFFSET_BITS, registered=True),
        "wishbone-refill": _wishbone(RefillSignature()),
        "wishbone-dma": _wishbone(DmaPortSignature()),
    }
