"""An entry of the instruction table, and the properties derived from it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

from xpulpnn.errors import EncodingError
from xpulpnn.isa.fields import FieldKind, Operand, Token, parse_operands, parse_tokens
from xpulpnn.isa.formats import ElemFmt, Extension, Op2Mode


class InsnClass(IntEnum):
    """Class of instructions that the pipeline treats in the same way; every instruction belongs to one."""

    ALU = 0
    MULTIPLY = 1
    MULTIPLY_HIGH = 2
    DIVISION = 3
    LOAD = 4
    STORE = 5
    BRANCH = 6
    JUMP = 7
    LOOP = 8
    CSR = 9
    SYSTEM = 10
    MAC_LOAD = 11  # Mac&Load that accesses memory; a product of NN-RF entries alone is MULTIPLY
    PARAMETER = 12
    REQUANTISE = 13
    QUANTISE = 14


LOAD_OPS = frozenset({"lb", "lh", "lw", "lbu", "lhu", "elw"})
STORE_OPS = frozenset({"sb", "sh", "sw"})
NN_FORM_OPS = frozenset({"pv.mlsdot", "pv.mldot"})  # Mac&Load with both factors from the NN-RF
PAIR_OPS = frozenset({"pv.mlsduo", "pv.mlduo"})  # Mac&Load of a weight with two activations
MAC_LOAD_OPS = NN_FORM_OPS | PAIR_OPS | {"pv.cusdot"}
EXACT_OPS = frozenset({"pv.rqxu", "pv.rqxs"})  # requantisation with a product of 64 bits
REQUANTISE_OPS = frozenset({"pv.rqu", "pv.rqs"}) | EXACT_OPS
DOT_PRODUCT_OPS = frozenset(f"pv.{form}dot{signs}" for form in ("", "s") for signs in ("up", "usp", "sp"))
HIGH_PRODUCT_OPS = frozenset({"mulh", "mulhsu", "mulhu"})
WORD_PRODUCT_OPS = frozenset({"mul", "mac", "msu"})
HALF_PRODUCT_OPS = frozenset(  # products of half-words, which are shifted
    f"{stem}{half}{sign}N{rounds}"
    for stem in ("mul", "mac")
    for half in ("", "hh")
    for sign in "us"
    for rounds in ("", "R")
)
_NORMALISED_SUM_OPS = {f"{op}{sign}{form}" for op in ("add", "sub") for sign in ("", "u") for form in ("N", "RN")}
_LATE_STEP_OPS = (
    *(WORD_PRODUCT_OPS | HIGH_PRODUCT_OPS | HALF_PRODUCT_OPS | REQUANTISE_OPS | _NORMALISED_SUM_OPS),
    *("pv.avg", "pv.avgu", "ff1", "fl1", "clb", "cnt"),
)
_CLASSES = {
    InsnClass.MULTIPLY: WORD_PRODUCT_OPS | HALF_PRODUCT_OPS | DOT_PRODUCT_OPS | MAC_LOAD_OPS,
    InsnClass.MULTIPLY_HIGH: HIGH_PRODUCT_OPS,
    InsnClass.DIVISION: frozenset({"div", "divu", "rem", "remu"}),
    InsnClass.LOAD: LOAD_OPS,
    InsnClass.STORE: STORE_OPS,
    InsnClass.BRANCH: frozenset({"beq", "bne", "blt", "bge", "bltu", "bgeu"}),
    InsnClass.JUMP: frozenset({"jal", "jalr"}),
    InsnClass.LOOP: frozenset({"lp.starti", "lp.endi", "lp.count", "lp.setup"}),
    InsnClass.CSR: frozenset({"csrrw", "csrrs", "csrrc"}),
    InsnClass.SYSTEM: frozenset({"ecall", "ebreak", "mret", "dret", "wfi", "fence", "fence.i"}),
    InsnClass.PARAMETER: frozenset({"pv.rqld"}),
    InsnClass.REQUANTISE: REQUANTISE_OPS,
    InsnClass.QUANTISE: frozenset({"pv.qnt"}),
}
_CLASS_OF_OP = {op: insn_class for insn_class, ops in _CLASSES.items() for op in ops}


class _OpIn:
    """Cached property of an instruction that is true if its operation is one of ``ops``."""

    def __init__(self, ops: Iterable[str]) -> None:
        self._ops = frozenset(ops)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, insn: "Insn | None", owner: type | None = None) -> bool:
        if insn is None:
            return False
        return vars(insn).setdefault(self._name, insn.op in self._ops)


def pattern(
    opcode: str,
    funct3: str = "---",
    funct7: str = "-------",
    *,
    rs2: str = "-----",
    rs1: str = "-----",
    rd: str = "-----",
) -> str:
    """Return the 32-character pattern of a word from its fields, bit 31 first; ``-`` is a free bit."""
    text = f"{funct7}{rs2}{rs1}{funct3}{rd}{opcode}"
    assert len(text) == 32, text
    return text


@dataclass(frozen=True)
class Insn:
    """An instruction: mnemonic and operand form, bit pattern, and operation."""

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
    #: entry: Number in the mnemonic: NN-RF entry of ``pv.cusdot*``, top selector of ``pv.shufflei``, part of a word.
    entry: int | None = None
    #: wgt_fmt: Element format of the weights, where narrower than ``fmt``; ``entry`` is the part of the weight word.
    wgt_fmt: ElemFmt | None = None
    second_extension: Extension | None = None  #: A second extension that the row needs.
    #: mask, match: A word fits the pattern if ``word & mask == match``.
    mask: int = field(init=False, repr=False, compare=False)
    match: int = field(init=False, repr=False, compare=False)
    tokens: tuple[Token, ...] = field(init=False, repr=False, compare=False)  #: The fields of the operands.
    restricted: tuple[Token, ...] = field(init=False, repr=False, compare=False)  #: Fields with excluded values.
    insn_class: InsnClass = field(init=False, repr=False, compare=False)  #: Class of the instruction in the pipeline.
    #: is_load: Memory is loaded into rd; false for Mac&Load, which loads into the NN-RF.
    is_load = _OpIn(LOAD_OPS)
    is_store = _OpIn(STORE_OPS)  #: Memory is written.
    is_byte_access = _OpIn({"lb", "lbu", "sb"})  #: A single byte is loaded or stored.
    is_branch = _OpIn(_CLASSES[InsnClass.BRANCH])  #: Conditional branch.
    is_jump = _OpIn(_CLASSES[InsnClass.JUMP])  #: Unconditional jump.
    is_mac_load = _OpIn(MAC_LOAD_OPS)  #: Mac&Load of any form.
    is_nn_form = _OpIn(NN_FORM_OPS)  #: Mac&Load of one product, both factors in the NN-RF.
    #: is_pair: Mac&Load of two products, a weight with both activations of a pair; the sums are in rd and rd + 1.
    is_pair = _OpIn(PAIR_OPS)
    uses_dotp = _OpIn(DOT_PRODUCT_OPS | MAC_LOAD_OPS)  #: The dot-product unit computes the result.
    multiplies_high = _OpIn(HIGH_PRODUCT_OPS)  #: The upper half of a product is written.
    #: multiplies_late: mulh* or a shifted product of half-words, written in WB with multiplier ``dot-product``.
    multiplies_late = _OpIn(HIGH_PRODUCT_OPS | HALF_PRODUCT_OPS)
    divides = _OpIn(_CLASSES[InsnClass.DIVISION])  #: The divider computes the result.
    loads_parameter = _OpIn(_CLASSES[InsnClass.PARAMETER])  #: Loads a parameter of requantisation into the NN-RF.
    #: requantises: Multiplies, adds, shifts and clips, and puts the result into a lane of rd.
    requantises = _OpIn(REQUANTISE_OPS)
    is_exact = _OpIn(EXACT_OPS)  #: Requantises by a product of 64 bits, rounded once.
    #: is_early: With late results, the next instruction can use the result without a stall: sums of words, and logic.
    is_early = _OpIn({"lui", "auipc", "add", "sub", "and", "or", "xor", "pv.and", "pv.or", "pv.xor"})
    has_late_step = _OpIn(_LATE_STEP_OPS)  #: With late results, the instruction takes one more cycle.

    def __post_init__(self) -> None:
        fixed = self.pattern.replace("0", "1").replace("-", "0")
        tokens = parse_tokens(self.operands, self.size)
        object.__setattr__(self, "mask", int(fixed, 2))
        object.__setattr__(self, "match", int(self.pattern.replace("-", "0"), 2))
        object.__setattr__(self, "tokens", tokens)
        object.__setattr__(self, "restricted", tuple(token for token in tokens if token.restricted))
        own = InsnClass.MAC_LOAD if self.is_mac_load and self.writes_base else _CLASS_OF_OP.get(self.op, InsnClass.ALU)
        object.__setattr__(self, "insn_class", own)

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def elements(self) -> ElemFmt:
        """Element format of a row that has one."""
        assert self.fmt is not None, self
        return self.fmt

    @property
    def reloads_other(self) -> bool:
        """True if a Mac&Load has both update bits set: it reloads the activation that its product does not use."""
        return self.extension is Extension.XPULPML_CROSS

    @cached_property
    def size(self) -> int:
        return len(self.pattern) // 8

    @property
    def needs(self) -> tuple[Extension, ...]:
        """Extensions that a core must have to execute the instruction."""
        return tuple(filter(None, (self.extension, self.second_extension)))

    @cached_property
    def key(self) -> tuple[str, str]:
        return self.mnemonic, self.operands

    @cached_property
    def forms(self) -> tuple[Operand, ...]:
        return parse_operands(self.operands, self.size)

    def _registers(self) -> Iterator[Token]:
        return (token for token in self.tokens if token.field.kind is FieldKind.REGISTER)

    @cached_property
    def reads(self) -> frozenset[str]:
        """Register fields read: ``rs1`` [19:15], ``rs2`` [24:20], ``rd`` [11:7] (accumulators and ``rs3``).

        Compressed instructions read fields of the compressed word; registers that they imply are not included.
        """
        names = {token.field.name for token in self._registers() if token.updated or token.field.name != "rd"}
        return frozenset("rd" if name == "rs3" else name for name in names)

    @cached_property
    def writes_rd(self) -> bool:
        return any(token.updated or token.field.name == "rd" for token in self._registers())

    @cached_property
    def writes_base(self) -> bool:
        """True if the instruction writes its base register (post-increment, Mac&Load)."""
        return any(operand.increment for operand in self.forms)

    @property
    def uses_nnrf(self) -> bool:
        return self.is_mac_load or self.loads_parameter or self.requantises

    @property
    def accumulates(self) -> bool:
        """True if a product or sum of products is added to, or subtracted from, rd."""
        return self.op.startswith(("pv.sdot", "pv.mlsdot", "pv.mlsduo", "pv.cusdot", "mac", "msu"))

    def matches(self, word: int) -> bool:
        return word & self.mask == self.match and all(
            token.accepts(token.field.extract(word)) for token in self.restricted
        )

    def decode(self, word: int) -> dict[str, int]:
        return {token.field.name: token.field.extract(word) for token in self.tokens}

    def takes(self, values: Mapping[str, int]) -> bool:
        tokens = {token.field.name: token for token in self.tokens}
        return values.keys() <= tokens.keys() and all(tokens[name].accepts(value) for name, value in values.items())

    def encode(self, **values: int) -> int:
        """Return the word with the given operand values; don't-care bits are 0.

        Raises :class:`EncodingError` for a missing or unknown operand and for a value out of range.
        """
        names = [token.field.name for token in self.tokens]
        if values.keys() != set(names):
            expected = ", ".join(names) or "none"
            raise EncodingError(f"operands of {self.mnemonic} must be {expected}, not {', '.join(values) or 'none'}")
        word = self.match
        for token in self.tokens:
            word |= token.encode(values[token.field.name])
        return word
