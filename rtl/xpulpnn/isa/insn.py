"""One row of the instruction table, with everything that follows from it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from xpulpnn.errors import EncodingError
from xpulpnn.isa.fields import FieldKind, Operand, Token, parse_operands
from xpulpnn.isa.formats import ElemFmt, Extension, Op2Mode

LOAD_OPS = frozenset({"lb", "lh", "lw", "lbu", "lhu", "elw"})
STORE_OPS = frozenset({"sb", "sh", "sw"})
NN_FORM_OPS = frozenset({"pv.mlsdot", "pv.mldot"})  # Mac&Load with both factors from the NN-RF.
PAIR_OPS = frozenset({"pv.mlsduo", "pv.mlduo"})  # Mac&Load of a weight with two activations.
MAC_LOAD_OPS = NN_FORM_OPS | PAIR_OPS | {"pv.cusdot"}
EXACT_OPS = frozenset({"pv.rqxu", "pv.rqxs"})  # Requantisation with a product of 64 bits.
REQUANTISE_OPS = frozenset({"pv.rqu", "pv.rqs"}) | EXACT_OPS
DOT_PRODUCT_OPS = frozenset(f"pv.{form}dot{signs}" for form in ("", "s") for signs in ("up", "usp", "sp"))
HIGH_PRODUCT_OPS = frozenset({"mulh", "mulhsu", "mulhu"})
HALF_PRODUCT_OPS = frozenset(  # products of half-words, which are shifted
    f"{stem}{half}{sign}N{rounds}"
    for stem in ("mul", "mac")
    for half in ("", "hh")
    for sign in "us"
    for rounds in ("", "R")
)
_KINDS = {
    "is_load": LOAD_OPS,
    "is_store": STORE_OPS,
    "is_branch": frozenset({"beq", "bne", "blt", "bge", "bltu", "bgeu"}),
    "is_jump": frozenset({"jal", "jalr"}),
    "is_mac_load": MAC_LOAD_OPS,
    "is_nn_form": NN_FORM_OPS,
    "is_pair": PAIR_OPS,
    "uses_dotp": DOT_PRODUCT_OPS | MAC_LOAD_OPS,
    "multiplies_high": HIGH_PRODUCT_OPS,
    "multiplies_late": HIGH_PRODUCT_OPS | HALF_PRODUCT_OPS,
    "divides": frozenset({"div", "divu", "rem", "remu"}),
    "requantises": REQUANTISE_OPS,
    "is_exact": EXACT_OPS,
    "loads_parameter": frozenset({"pv.rqld"}),
}
"""Operations for which a property of the row holds."""


def pattern(
    opcode: str,
    funct3: str = "---",
    funct7: str = "-------",
    *,
    rs2: str = "-----",
    rs1: str = "-----",
    rd: str = "-----",
) -> str:
    """The 32 characters of a word pattern from its fields, bit 31 first; ``-`` is a free bit."""
    text = f"{funct7}{rs2}{rs1}{funct3}{rd}{opcode}"
    assert len(text) == 32, text
    return text


@dataclass(frozen=True, slots=True)
class Insn:
    """An instruction: mnemonic and operand form, bit pattern, and what the operation is."""

    #: mnemonic, operands: Spelling of the row; together they identify it.
    mnemonic: str
    pattern: str  #: 32 or 16 characters ``0``, ``1`` or ``-`` from the most significant bit down.
    operands: str
    extension: Extension  #: Extension the row belongs to.
    op: str  #: The operation, whatever the element format and the source of the second operand.
    alias: bool = False  #: The row is a second name for words of another row.
    fmt: ElemFmt | None = None  #: Element format of packed-SIMD rows.
    #: mode: Second-operand form of packed-SIMD rows; None where the immediate is no operand (``pv.extract``).
    mode: Op2Mode | None = None
    #: a_signed, b_signed: Signs of the factors of a dot product. ``pv.dot*`` and ``pv.sdot*``: a = rs1, b = rs2 or
    #:   immediate; ``pv.mlsdot*``, ``pv.mldot*``, ``pv.mlsduo*`` and ``pv.mlduo*``: a = weight, b = activation;
    #:   ``pv.cusdot*``: a = NN-RF entry, b = rs2.
    a_signed: bool = False
    b_signed: bool = False
    entry: int | None = (
        None  #: Number in the mnemonic: NN-RF entry of ``pv.cusdot*``, top selector of ``pv.shufflei``, slice.
    )
    wgt_fmt: ElemFmt | None = (
        None  #: Element format of the weights, where it is narrower than ``fmt``; ``entry`` is the slice.
    )
    also: Extension | None = None  #: A second one that it needs.
    #: mask, match: A word fits the pattern if ``word & mask == match``.
    mask: int = field(init=False, repr=False, compare=False)
    match: int = field(init=False, repr=False, compare=False)
    tokens: tuple[Token, ...] = field(init=False, repr=False, compare=False)  #: The fields of the operands.
    restricted: tuple[Token, ...] = field(init=False, repr=False, compare=False)  #: Those with excluded values.
    #: is_load: Memory is loaded into rd; false for Mac&Load, which loads into the NN-RF.
    is_load: bool = field(init=False, repr=False, compare=False)
    is_store: bool = field(init=False, repr=False, compare=False)  #: Memory is written.
    is_branch: bool = field(init=False, repr=False, compare=False)  #: It is a conditional branch.
    is_jump: bool = field(init=False, repr=False, compare=False)  #: It is an unconditional jump.
    is_mac_load: bool = field(init=False, repr=False, compare=False)  #: It is a Mac&Load of any form.
    #: is_nn_form: It is one of one product, both factors in the NN-RF.
    is_nn_form: bool = field(init=False, repr=False, compare=False)
    #: is_pair: It is one of two products, a weight with both activations of a pair; the sums are in rd and the next.
    is_pair: bool = field(init=False, repr=False, compare=False)
    uses_dotp: bool = field(init=False, repr=False, compare=False)  #: The dot-product unit computes its result.
    multiplies_high: bool = field(init=False, repr=False, compare=False)  #: The upper half of a product is written.
    #: multiplies_late: That, or a shifted product of half-words: on the arrays of dot products WB writes it.
    multiplies_late: bool = field(init=False, repr=False, compare=False)
    divides: bool = field(init=False, repr=False, compare=False)  #: The divider computes its result.
    #: reloads_other: It is a Mac&Load that reloads the activation it does not use: both update bits are set.
    reloads_other: bool = field(init=False, repr=False, compare=False)
    #: loads_parameter: It loads a parameter of the requantisation into the NN-RF.
    loads_parameter: bool = field(init=False, repr=False, compare=False)
    #: requantises: It multiplies, adds, shifts, clips and puts the result into a lane of rd.
    requantises: bool = field(init=False, repr=False, compare=False)
    is_exact: bool = field(init=False, repr=False, compare=False)  #: It does so by a product of 64 bits, rounded once.

    def __post_init__(self) -> None:
        fixed = self.pattern.replace("0", "1").replace("-", "0")
        tokens = tuple(token for operand in self.forms for token in operand.tokens)
        object.__setattr__(self, "mask", int(fixed, 2))
        object.__setattr__(self, "match", int(self.pattern.replace("-", "0"), 2))
        object.__setattr__(self, "tokens", tokens)
        object.__setattr__(self, "restricted", tuple(token for token in tokens if token.restricted))
        for name, ops in _KINDS.items():
            object.__setattr__(self, name, self.op in ops)
        object.__setattr__(self, "reloads_other", self.extension is Extension.XPULPML_CROSS)

    @property
    def size(self) -> int:
        """Bytes of the instruction: 2 or 4."""
        return len(self.pattern) // 8

    @property
    def needs(self) -> tuple[Extension, ...]:
        """The extensions that a core must have to have the row."""
        return (self.extension,) if self.also is None else (self.extension, self.also)

    @property
    def key(self) -> tuple[str, str]:
        """Mnemonic and operands, which identify the row."""
        return self.mnemonic, self.operands

    @property
    def forms(self) -> tuple[Operand, ...]:
        """The operands in assembler order."""
        return parse_operands(self.operands, self.size)

    def _registers(self) -> Iterator[Token]:
        return (token for token in self.tokens if token.field.kind is FieldKind.REGISTER)

    @property
    def reads(self) -> frozenset[str]:
        """Register fields read: ``rs1`` [19:15], ``rs2`` [24:20], ``rd`` [11:7] (accumulators and ``rs3``).

        Of compressed rows only the fields of their own operands, not the registers they imply.
        """
        names = {token.field.name for token in self._registers() if token.updated or token.field.name != "rd"}
        return frozenset("rd" if name == "rs3" else name for name in names)

    @property
    def writes_rd(self) -> bool:
        """Return whether the instruction writes the register in field rd."""
        return any(token.updated or token.field.name == "rd" for token in self._registers())

    @property
    def writes_base(self) -> bool:
        """Return whether the instruction writes its base register (post-increment, Mac&Load)."""
        return any(operand.increment for operand in self.forms)

    @property
    def uses_nnrf(self) -> bool:
        """Return whether it reads or writes the NN-RF."""
        return self.is_mac_load or self.loads_parameter or self.requantises

    @property
    def accumulates(self) -> bool:
        """Return whether a product or sum of products is added to (or subtracted from) rd."""
        return self.op.startswith(("pv.sdot", "pv.mlsdot", "pv.mlsduo", "pv.cusdot", "mac", "msu"))

    def matches(self, word: int) -> bool:
        """Return whether ``word`` is this instruction: it fits the pattern and holds no excluded value."""
        return word & self.mask == self.match and all(
            token.accepts(token.field.extract(word)) for token in self.restricted
        )

    def decode(self, word: int) -> dict[str, int]:
        """Values of the operand fields of ``word`` by field name, extended and scaled as the fields say."""
        return {token.field.name: token.field.extract(word) for token in self.tokens}

    def takes(self, values: Mapping[str, int]) -> bool:
        """Return whether these are operands of the instruction, all or some, with values that they can hold."""
        tokens = {token.field.name: token for token in self.tokens}
        return values.keys() <= tokens.keys() and all(tokens[name].accepts(value) for name, value in values.items())

    def encode(self, **values: int) -> int:
        """The word with the given operand values; bits without meaning are 0.

        Raises :class:`EncodingError` for a missing or unknown operand and for a value out of range.
        """
        names = [token.field.name for token in self.tokens]
        if values.keys() != set(names):
            wanted = ", ".join(names) or "none"
            raise EncodingError(f"operands of {self.mnemonic} must be {wanted}, not {', '.join(values) or 'none'}")
        word = self.match
        for token in self.tokens:
            word |= token.encode(values[token.field.name])
        return word
