"""Enumerations shared by hardware, golden models and software."""

from enum import Enum, IntEnum


class ElemFmt(IntEnum):
    """Element format of a packed-SIMD operand (guide, "Formats and lanes")."""

    H, B, N, C = range(4)

    @property
    def suffix(self) -> str:
        """Letter after the mnemonic: ``h``, ``b``, ``n`` or ``c``."""
        return self.name.lower()

    @property
    def width(self) -> int:
        """Element width in bits: 16, 8, 4 or 2."""
        return 16 >> self.value

    @property
    def lanes(self) -> int:
        """Elements in a 32-bit word: 2, 4, 8 or 16."""
        return 2 << self.value

    @classmethod
    def of_width(cls, width: int) -> "ElemFmt":
        """Return the format of ``width``-bit elements; raise ``KeyError`` for other widths."""
        return {fmt.width: fmt for fmt in cls}[width]


class Op2Mode(IntEnum):
    """Second operand of a SIMD instruction: register lanes, one lane replicated, or a replicated immediate."""

    VECTOR, SC, SCI = range(3)

    @property
    def suffix(self) -> str:
        """Part of the mnemonic before the format letter: empty, ``.sc`` or ``.sci``."""
        return "" if self is Op2Mode.VECTOR else f".{self.name.lower()}"


class Extension(Enum):
    """Instruction-set extensions by their names (guide, "Extensions and presets")."""

    RV32I = "RV32I"  # base integer instructions
    RV32M = "RV32M"  # multiplication and division
    RV32C = "RV32C"  # compressed instructions
    ZICSR = "Zicsr"  # CSR access
    ZIFENCEI = "Zifencei"  # fence.i
    PRIV = "Priv"  # machine mode
    SDEXT = "Sdext"  # debug mode
    XPULPV2 = "XpulpV2"  # post-increment and register-offset access, hardware loops, scalar DSP, SIMD on 16 and 8 bit
    XPULPNN = "XpulpNN"  # SIMD and dot products on 4 and 2 bit
    XPULPML_NN = "XpulpMLnn"  # Mac&Load, both factors from the NN-RF
    XPULPML_CU = "XpulpMLcu"  # Mac&Load, Compute&Update
    XPULPQNT = "XpulpQnt"  # threshold quantisation
    XPULPML_CROSS = "XpulpMLcross"  # Mac&Load of the nn form that reloads the activation it does not use
    XPULPML_DOT = "XpulpMLdot"  # Mac&Load of the nn form without accumulation
    XPULPML_PAIR = "XpulpMLpair"  # Mac&Load of two activations with one weight, two sums
    XPULPML_MIXED = "XpulpMLmixed"  # Mac&Load of two activations with weights of half or a quarter of their width
    XPULPRQ = "XpulpRq"  # requantisation by a factor, a summand and a shift
    XPULPRQ_EXACT = "XpulpRqx"  # requantisation with a product of 64 bits, rounded once, and a zero point
    XIF = "XpulpXif"  # coprocessor with accumulators, activation words and products of blocks
    XIF_STEP = "XpulpXifStep"  # coprocessor that loads the words of a block by itself
    XIF_RQ = "XpulpXifRq"  # requantisation of accumulators
    XIF_RQ_EXACT = "XpulpXifRqx"  # requantisation of accumulators with a product of 64 bits
    XIF_SIMD = "XpulpXifSimd"  # coprocessor with packed-SIMD instructions that read two registers
    XIF_MIXED = "XpulpXifMixed"  # coprocessor with weights of half or a quarter of the activations' width
    XIF_PULP = "XpulpXifPulp"  # coprocessor whose opcodes are 0x57 and 0x77
    XIF_CUSTOM = "XpulpXifCustom"  # coprocessor whose opcodes are custom-0 and custom-1


BASE_EXTENSIONS = frozenset(
    {Extension.RV32I, Extension.RV32M, Extension.RV32C, Extension.ZICSR, Extension.ZIFENCEI, Extension.PRIV}
)
STOCK_EXTENSIONS = BASE_EXTENSIONS | {Extension.SDEXT}  # extensions that stock compilers know
