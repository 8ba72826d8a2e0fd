"""What multiplies packed operands: the instruction, its register, the block of results computed together."""

from dataclasses import dataclass

from xpulpnn.errors import LayerError
from xpulpnn.isa.formats import Extension
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS
from xpulpnn_sw.ulppack.packing import Scheme

ISAS = ("rv32im", "xpulpv2")
"""Instruction sets, the poorer first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A way to multiply.

    Parameters
    ----------
    isa : str
        Out of :data:`ISAS`.
    product : str
        The instruction.
    register : int
        Bits of a packed operand.
    lanes : int
        Packed operands that one instruction multiplies and adds up.
    first, accumulating : tuple of str
        Instructions that set an accumulator to a product, and that add one to it.
    load : str
        What loads the operands of one product.
    nch, npx : int
        Channels and pixels computed together.
    schemes : tuple of Scheme
        Those of which the product holds the result.
    """

    isa: str
    product: str
    register: int
    lanes: int = 1
    first: str
    accumulating: str | None
    load: str
    nch: int
    npx: int
    schemes: tuple[Scheme, ...]

    @property
    def xpulp(self) -> bool:
        """Whether XpulpV2 is used: hardware loops, post-increment, bit fields."""
        return self.isa != ISAS[0]

    @property
    def extensions(self) -> frozenset[Extension]:
        """What the core needs besides the base set."""
        return frozenset({Extension.XPULPV2}) if self.xpulp else frozenset()

    @property
    def operand_bytes(self) -> int:
        """Bytes that one load moves."""
        return self.register * self.lanes // BYTE_BITS

    @property
    def block(self) -> str:
        """Channels x pixels."""
        return f"{self.nch}x{self.npx}"

    @property
    def block_size(self) -> int:
        """Results computed together."""
        return self.nch * self.npx

    @property
    def word_cycles(self) -> int:
        """Cycles to multiply one packed word of each row of a block; none of the instructions waits."""
        return self.nch + self.npx + self.block_size * (1 if self.accumulating else 2)


_BOTH = (Scheme.P1, Scheme.P2)

METHODS: tuple[Method, ...] = (
    Method(
        isa="rv32im",
        product="mul",
        register=WORD_BITS,
        first="mul",
        accumulating=None,
        load="lw",
        nch=2,
        npx=2,
        # the upper half of the product would be that of mulhu, five cycles
        schemes=(Scheme.P1,),
    ),
    Method(
        isa="rv32im", product="mul", register=16, first="mul", accumulating=None, load="lhu", nch=2, npx=2, schemes=_BOTH
    ),
    Method(
        isa="xpulpv2",
        product="p.mac",
        register=WORD_BITS,
        first="mul",
        accumulating="p.mac",
        load="p.lw",
        nch=4,
        npx=2,
        schemes=(Scheme.P1,),
    ),
    Method(
        isa="xpulpv2",
        product="pv.sdotup.h",
        register=16,
        lanes=2,
        first="pv.dotup.h",
        accumulating="pv.sdotup.h",
        load="p.lw",
        nch=4,
        npx=2,
        schemes=_BOTH,
    ),
    Method(
        isa="xpulpv2",
        product="pv.sdotup.b",
        register=8,
        lanes=4,
        first="pv.dotup.b",
        accumulating="pv.sdotup.b",
        load="p.lw",
        nch=4,
        npx=2,
        schemes=_BOTH,
    ),
)
"""All methods; an instruction set has one for each register."""


def methods(isa: str) -> tuple[Method, ...]:
    """Those of an instruction set; raises :class:`LayerError` for an unknown one."""
    if isa not in ISAS:
        raise LayerError(f"isa must be one of {', '.join(ISAS)}, not {isa}")
    return tuple(method for method in METHODS if method.isa == isa)
