"""Ways to multiply packed operands: instruction, register, and the blocks of results computed together."""

from dataclasses import dataclass

from xpulpnn.errors import LayerError
from xpulpnn.isa.formats import Extension
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS
from xpulpnn_sw.ulppack.packing import Scheme

ISAS = ("rv32im", "xpulpv2")
"""Instruction sets, the poorer first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Results computed together."""

    nch: int  # channels and pixels, powers of two
    npx: int  # channels and pixels, powers of two

    @property
    def size(self) -> int:
        """Results."""
        return self.nch * self.npx

    def __str__(self) -> str:
        return f"{self.nch}x{self.npx}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A way to multiply."""

    isa: str
    register: int  # bits of a packed operand
    lanes: int = 1  # packed operands that one instruction multiplies and adds up
    first: str  # instruction that sets an accumulator to a product
    accumulating: str | None = None  # instruction that adds a product to an accumulator; None if that takes an addition
    load: str  # what loads the operands of one product
    blocks: tuple[Block, ...]
    schemes: tuple[Scheme, ...]  # those of which the product holds the result

    @property
    def product(self) -> str:
        """The instruction that stands for the method."""
        return self.accumulating or self.first

    @property
    def xpulp(self) -> bool:
        """Tell whether XpulpV2 is used: hardware loops, post-increment, bit fields."""
        return self.isa != ISAS[0]

    @property
    def extensions(self) -> frozenset[Extension]:
        """Extensions that the core needs besides the base set."""
        return frozenset({Extension.XPULPV2}) if self.xpulp else frozenset()

    @property
    def operand_bytes(self) -> int:
        """Bytes that one load moves."""
        return self.register * self.lanes // BYTE_BITS


_HALF_BITS = 16
_BOTH = (Scheme.P1, Scheme.P2)
_SCALAR = (Block(nch=2, npx=2), Block(nch=4, npx=2))
_SIMD = (Block(nch=4, npx=2), Block(nch=4, npx=4))

METHODS: tuple[Method, ...] = (
    Method(isa="rv32im", register=BYTE_BITS, first="mul", load="lbu", blocks=_SCALAR, schemes=(Scheme.BYTES,)),
    # P2 needs the upper half of the product: mulhu takes five cycles
    Method(isa="rv32im", register=WORD_BITS, first="mul", load="lw", blocks=_SCALAR, schemes=(Scheme.P1,)),
    Method(isa="rv32im", register=_HALF_BITS, first="mul", load="lhu", blocks=_SCALAR, schemes=_BOTH),
    Method(
        isa="xpulpv2",
        register=WORD_BITS,
        first="mul",
        accumulating="p.mac",
        load="p.lw",
        blocks=_SIMD,
        schemes=(Scheme.P1,),
    ),
    Method(
        isa="xpulpv2",
        register=_HALF_BITS,
        lanes=2,
        first="pv.dotup.h",
        accumulating="pv.sdotup.h",
        load="p.lw",
        blocks=_SIMD,
        schemes=_BOTH,
    ),
    Method(
        isa="xpulpv2",
        register=BYTE_BITS,
        lanes=4,
        first="pv.dotup.b",
        accumulating="pv.sdotup.b",
        load="p.lw",
        blocks=_SIMD,
        schemes=(*_BOTH, Scheme.BYTES),
    ),
)
"""All methods; an instruction set has one for each register."""


def methods(isa: str) -> tuple[Method, ...]:
    """The methods of an instruction set; raises :class:`LayerError` for an unknown one."""
    if isa not in ISAS:
        raise LayerError(f"isa must be one of {', '.join(ISAS)}, not {isa}")
    return tuple(method for method in METHODS if method.isa == isa)
