"""C intrinsics, inline functions or macros, for all instructions beyond RV32IMC.

The registers of an instruction are arguments; an accumulator is both argument and result. Instructions with immediates
are macros, since immediates must be constants. So are accesses that increment their base register; the pointer is
passed by address: ``xp_lw_post(&pointer, 4)``.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from xpulpnn.isa.fields import FUNCT3, FUNCT7, OPCODE, WORD_FIELDS, Field, FieldKind
from xpulpnn.isa.formats import STOCK_EXTENSIONS
from xpulpnn.isa.insn import Insn, InsnClass

BRANCH_OFFSET, LOAD_OFFSET, STORE_OFFSET = "boff13", "imm12", "stimm12"


RD, RS1, RS2 = (WORD_FIELDS[name] for name in ("rd", "rs1", "rs2"))
_REGISTER_SLOTS = {"rd": RD, "rs1": RS1, "rs2": RS2, "rs3": RD}
# suffixes of loads and stores: immediate or register increment, register offset
_FORMS = {"(rs1!)": "_post", "rs2(rs1!)": "_postr", "rs3(rs1!)": "_postr", "rs2(rs1)": "_rr", "rs3(rs1)": "_rr"}
_VOLATILE = frozenset({InsnClass.LOAD, InsnClass.STORE, InsnClass.QUANTISE, InsnClass.LOOP})
_LOADING = frozenset({"pa.step", "pa.sync"})  # instructions of the coprocessor around which memory must be up to date
# operations with a signed result, other than dot products with a signed factor
_SIGNED = frozenset(
    ["abs", "min", "max", "clip", "exths", "extbs", "extract", "mac", "msu", "lb", "lh", "lw", "elw", "pv.extract"]
    + [f"{op}{suffix}" for op in ("add", "sub") for suffix in ("N", "RN")]
    + [f"{op}{half}{suffix}" for op in ("mul", "mac") for half in ("s", "hhs") for suffix in ("N", "NR")]
)
_SUMS = {"xp_rd": "a0", "xp_rd1": "a1"}
"""C variables of the two sums of a Mac&Load of two products, and their registers: an even one and the next one."""


@dataclass(frozen=True, slots=True)
class InsnPart:
    operand: str = ""  # register operand, or empty
    constant: int = 0  # fixed bits of the instruction
    names: tuple[str, ...] = ()  # immediate operands with bits here
    immediates: tuple[str, ...] = ()  # these bits as C expressions, to be or-ed

    @property
    def expression(self) -> str:
        parts = [*self.immediates, *([hex(self.constant)] if self.constant else [])]
        return " | ".join(parts) or "0"


def immediate_fields(insn: Insn) -> list[Field]:
    return [token.field for token in insn.tokens if token.field.kind is not FieldKind.REGISTER]


def _checked(field: Field, bits: str) -> str:
    """Return the C expression ``bits`` with a check that makes the assembler fail if the operand is out of range."""
    name = field.name
    rule = f"XP_WITHIN({name}, {field.low}, {field.high})"
    if field.only:
        legal = sum(1 << value for value in field.values)
        rule += f" && XP_BITS({legal:#x}, {name}, 1)"
    elif field.not_both:
        rule += f" && XP_UPDATES({name}, {field.not_both})"
    elif field.step > 1:
        rule += f" && ({name}) % {field.step} == 0"
    return f"XP_CHECKED({rule}, {bits})"


def _slot_bits(field: Field, slot: Field) -> str | None:
    ((slot_low, _, slot_width),) = slot.parts
    terms: list[str] = []
    for word_low, value_low, width in field.parts:
        low, high = max(word_low, slot_low), min(word_low + width, slot_low + slot_width)
        if low < high:
            shift, mask = value_low + low - word_low, (1 << (high - low)) - 1
            term = f"XP_BITS({field.name}, {shift}, {mask})"
            terms.append(f"{term} << {low - slot_low}" if low > slot_low else term)
    return _checked(field, " | ".join(terms)) if terms else None


def insn_part(insn: Insn, slot: Field) -> InsnPart:
    """Return the operand that ``.insn r`` takes for the field ``slot`` of the instruction word."""
    for token in insn.tokens:
        if _REGISTER_SLOTS.get(token.field.name) == slot:
            return InsnPart(operand=token.field.name)
    parts = {field.name: _slot_bits(field, slot) for field in immediate_fields(insn)}
    bits = {name: text for name, text in parts.items() if text is not None}
    return InsnPart(constant=slot.extract(insn.match), names=tuple(bits), immediates=tuple(bits.values()))


def is_whole(field: Field) -> bool:
    """Return whether ``.insn`` takes the immediate as one unshifted operand, so that it may be a symbol."""
    if field.name in (LOAD_OFFSET, STORE_OFFSET):
        return True
    (low, value_low, width), *others = field.parts
    is_slot = low in {slot.shift for slot in (RD, RS1, RS2, FUNCT7)} and (1 << width) - 1 <= RS2.high
    return is_slot and not (others or value_low or field.low)


def directive(insn: Insn, register: Callable[[str], str], number: Callable[[InsnPart], str]) -> str:
    """Return the ``.insn`` directive of an instruction; ``register`` and ``number`` format its operands."""
    start = f"{insn_part(insn, OPCODE).constant:#04x}, {insn_part(insn, FUNCT3).constant}"
    fields = {field.name: field for field in immediate_fields(insn)}
    if BRANCH_OFFSET in fields:
        compared = next(field for name, field in fields.items() if name != BRANCH_OFFSET)
        bits = InsnPart(names=(compared.name,), immediates=(_checked(compared, f"XP_BITS({compared.name}, 0, 31)"),))
        # labels are numbered after the two operands
        return f".insn sb {start}, {register('rs1')}, x{number(bits)}, %l2"
    if STORE_OFFSET in fields:
        offset = number(InsnPart(names=(STORE_OFFSET,), immediates=(STORE_OFFSET,)))
        return f".insn s {start}, {register('rs2')}, {offset}({register('rs1')})"
    if LOAD_OFFSET in fields:
        offset = number(InsnPart(names=(LOAD_OFFSET,), immediates=(LOAD_OFFSET,)))
        return f".insn i {start}, {register('rd')}, {register('rs1')}, {offset}"
    slots: list[str] = []
    for slot, mark in ((FUNCT7, ""), (RD, "x"), (RS1, "x"), (RS2, "x")):
        part = insn_part(insn, slot)
        if part.operand:
            slots.append(register(part.operand))
        elif part.immediates:
            slots.append(mark + number(part))
        else:
            slots.append(f"{mark}{part.constant}" if mark else f"{part.constant:#04x}")
    return f".insn r {start}, {', '.join(slots)}"


def c_name(insn: Insn) -> str:
    """Return the C name: ``xp_``, the mnemonic without its prefix, and the addressing of loads and stores."""
    stem = "xp_" + insn.mnemonic.removeprefix("p.").removeprefix("pv.").replace(".", "_")
    if insn.is_pair and not insn.writes_base:
        return f"{stem}_noload"
    if not insn.is_load and not insn.is_store:
        return stem
    address = insn.operands.split(",")[1].removeprefix(STORE_OFFSET).removeprefix(LOAD_OFFSET)
    return stem + _FORMS.get(address, "")


def is_signed(insn: Insn) -> bool:
    return insn.op in _SIGNED or insn.a_signed or insn.b_signed


@dataclass(frozen=True, slots=True)
class Intrinsic:
    insn: Insn

    @property
    def name(self) -> str:
        return c_name(self.insn)

    @property
    def _constants(self) -> list[str]:
        return [field.name for field in immediate_fields(self.insn)]

    @property
    def accumulator(self) -> bool:
        return any(token.updated and token.field.name == "rd" for token in self.insn.tokens)

    @property
    def parameters(self) -> tuple[str, ...]:
        names = [token.field.name for token in self.insn.tokens if token.field.name != "rd"]
        if self.insn.is_load and self.insn.operands.startswith("rd,"):
            # the address of the base, then the offset
            names.sort(key=lambda name: name != "rs1")
        elif self.insn.is_store:
            names = ["rs2", "rs1", *(name for name in names if name not in ("rs1", "rs2"))]
        if self.accumulator:
            names = ["rd", *names] if self.insn.writes_base else [*names, "rd"]
        return tuple(names)

    def assembler_macro(self) -> list[str]:
        """Return the macro for asm statements; branches, loops and instructions with split operands have none."""
        insn = self.insn
        if insn.insn_class is InsnClass.LOOP or not all(is_whole(field) for field in immediate_fields(insn)):
            return []

        def number(part: InsnPart) -> str:
            constant = f"{part.constant:#04x} + " if part.constant else ""
            return f'{constant}" {part.names[0]} "'

        names = ", ".join(token.field.name for token in insn.tokens)
        text = directive(insn, lambda name: f'" {name} "', number)
        return [f'#define XP_ASM_{self.name.removeprefix("xp_")}({names}) "{text}\\n\\t"']

    def _asm(self) -> list[str]:
        """Return the lines of the asm statement; the C variables of registers are called ``xp_<name>``."""
        insn = self.insn
        constants: list[tuple[str, str]] = []

        def number(part: InsnPart) -> str:
            constants.append((f"i{len(constants)}", part.expression))
            return f"%[{constants[-1][0]}]"

        text = directive(insn, lambda name: f"%[x{name}]", number)
        outputs: list[str] = []
        inputs: list[str] = []
        for name in dict.fromkeys(t.field.name for t in insn.tokens if t.field.kind is FieldKind.REGISTER):
            if name == "rd":
                results = ("xrd", "xrd1") if insn.is_pair else ("xrd",)
                outputs += [
                    f'[{result}] "{"+" if self.accumulator else "="}r"({result.replace("x", "xp_")})'
                    for result in results
                ]
            elif name == "rs1" and insn.writes_base:
                outputs.append(f'[xrs1] "+r"({"*xp_base" if insn.is_pair else "*(rs1)"})')
            else:
                inputs.append(f'[x{name}] "r"(xp_{name})')
        inputs += [f'[{name}] "i"({value})' for name, value in constants]
        if BRANCH_OFFSET in self._constants:
            kind, tail = " goto", [f": : {', '.join(inputs)} : : {BRANCH_OFFSET}"]
        else:
            # side effects, or operands in memory, the NN-RF or loop registers
            is_volatile = insn.uses_nnrf or insn.insn_class in _VOLATILE or insn.op.startswith("pa.")
            kind = " volatile" if is_volatile else ""
            tail = [f": {', '.join(outputs)}".rstrip(), f": {', '.join(inputs)}"]
            touches_memory = is_volatile and insn.insn_class is not InsnClass.LOOP and not insn.requantises
            touches_memory = insn.op in _LOADING if insn.op.startswith("pa.") else touches_memory
            tail += [': "memory"'] if touches_memory else []
        return [f'__asm__{kind}("{text}"', *(f"        {line}" for line in tail[:-1]), f"        {tail[-1]});"]

    @property
    def _type(self) -> str:
        return "int32_t" if is_signed(self.insn) else "uint32_t"

    def function(self) -> list[str]:
        arguments = ", ".join(f"{self._type if name == 'rd' else 'uint32_t'} xp_{name}" for name in self.parameters)
        result = self._type if self.insn.writes_rd else "void"
        lines = [f"XP_INLINE {result} {self.name}({arguments or 'void'}) {{"]
        if self.insn.writes_rd and not self.accumulator:
            lines.append(f"    {self._type} xp_rd;")
        lines += [f"    {line}" for line in self._asm()]
        if self.insn.writes_rd:
            lines.append("    return xp_rd;")
        lines.append("}")
        words = ", ".join(f"XP_WORD({name})" for name in self.parameters)
        lines.append(f"#define {self.name}({', '.join(self.parameters)}) {self.name}({words})")
        return lines

    def _sums(self) -> list[str]:
        """Return declarations of the two sums as register variables, after statements that evaluate the arguments."""
        lines = ["__typeof__(rs1) xp_base = (rs1);"] if self.insn.writes_base else []
        starts = ("", "")
        if self.accumulator:
            lines.append("xp_sums xp_old = (rd);")
            starts = (" = xp_old.first", " = xp_old.second")
        for (name, register), start in zip(_SUMS.items(), starts, strict=True):
            lines.append(f'register int32_t {name} __asm__("{register}"){start};')
        return lines

    def macro(self) -> list[str]:
        head = f"#define {self.name}({', '.join(self.parameters)})"
        body: list[str] = self._sums() if self.insn.is_pair else []
        for token in () if self.insn.is_pair else self.insn.tokens:
            name = token.field.name
            if token.field.kind is not FieldKind.REGISTER or (name == "rs1" and self.insn.writes_base):
                continue
            if name == "rd":
                body.append(f"{self._type} xp_rd = ({self._type})(rd);" if self.accumulator else f"{self._type} xp_rd;")
            else:
                body.append(f"uint32_t xp_{name} = XP_WORD({name});")
        body += self._asm()
        if self.insn.writes_rd:
            body.append("(xp_sums){xp_rd, xp_rd1};" if self.insn.is_pair else "xp_rd;")
        opening, closing = ("do {", "} while (0)") if BRANCH_OFFSET in self._constants else ("({", "})")
        return [f"{head} \\", f"    {opening} \\", *(f"        {line} \\" for line in body), f"    {closing}"]

    def lines(self) -> list[str]:
        definition = self.macro() if self._constants or self.insn.writes_base else self.function()
        return [f"/* {self.insn.mnemonic} {self.insn.operands} */", *definition, *self.assembler_macro()]


def intrinsics(insns: Iterable[Insn]) -> list[Intrinsic]:
    """Return the intrinsics of the instructions beyond RV32IMC; a Mac&Load has one for all selectors."""
    return [Intrinsic(insn) for insn in insns if insn.extension not in STOCK_EXTENSIONS and not insn.reloads_other]
