"""One inline function or macro of C for every instruction beyond RV32IMC.

Registers are arguments; an accumulator is both argument and result. Operands that the word holds (immediates, loop
numbers) must be constants, so these are macros; so are the accesses that increment their base, which is given by its
address: ``xp_lw_post(&pointer, 4)``.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.formats import BASE_EXTENSIONS
from xpulpnn.isa.insn import Insn
from xpulpnn_sw.toolchain.headers.encoding import (
    BRANCH_OFFSET,
    LOAD_OFFSET,
    STORE_OFFSET,
    InsnPart,
    directive,
    immediate_fields,
    is_whole,
)

_PREFIXES = ("p.", "pv.")
# what the name of a load or store says about its address: immediate or register increment, register offset
_FORMS = {"(rs1!)": "_post", "rs2(rs1!)": "_postr", "rs3(rs1!)": "_postr", "rs2(rs1)": "_rr", "rs3(rs1)": "_rr"}

# operations whose result is a signed number, next to the dot products with a signed factor
_SIGNED = frozenset(
    ["abs", "min", "max", "clip", "exths", "extbs", "extract", "mac", "msu", "lb", "lh", "lw", "elw", "pv.extract"]
    + [f"{op}{suffix}" for op in ("add", "sub") for suffix in ("N", "RN")]
    + [f"{op}{half}{suffix}" for op in ("mul", "mac") for half in ("s", "hhs") for suffix in ("N", "NR")]
)

_STEPS_OF_LOOPS = frozenset({"lp.starti", "lp.endi", "lp.count", "lp.setup"})


def c_name(insn: Insn) -> str:
    """The C name: ``xp_``, mnemonic without ``p.`` or ``pv.`` and with dots as underscores, form of the address."""
    stem = insn.mnemonic
    for prefix in _PREFIXES:
        stem = stem.removeprefix(prefix)
    return "xp_" + stem.replace(".", "_") + _address_form(insn)


def _address_form(insn: Insn) -> str:
    if not insn.is_load and not insn.is_store:
        return ""
    address = insn.operands.split(",")[1]
    for offset in (STORE_OFFSET, LOAD_OFFSET):
        address = address.removeprefix(offset)
    return _FORMS.get(address, "")


def is_signed(insn: Insn) -> bool:
    """Return whether the result is a signed number."""
    return insn.op in _SIGNED or insn.a_signed or insn.b_signed


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """An instruction as C."""

    insn: Insn

    @property
    def name(self) -> str:
        """The C name."""
        return c_name(self.insn)

    @property
    def _constants(self) -> list[str]:
        return [field.name for field in immediate_fields(self.insn)]

    @property
    def is_macro(self) -> bool:
        """Return whether it takes constants, labels or the address of a base."""
        return bool(self._constants) or self.insn.writes_base

    @property
    def is_volatile(self) -> bool:
        """Return whether it has effects beyond its result, or its result depends on more: memory, NN-RF, loop state."""
        insn = self.insn
        return insn.is_load or insn.is_store or insn.uses_nnrf or insn.op == "pv.qnt" or insn.op in _STEPS_OF_LOOPS

    @property
    def touches_memory(self) -> bool:
        """Return whether it loads or stores."""
        return self.is_volatile and self.insn.op not in _STEPS_OF_LOOPS and not self.insn.requantises

    @property
    def has_result(self) -> bool:
        """Return whether it returns the value of rd."""
        return self.insn.writes_rd

    @property
    def accumulator(self) -> bool:
        """Return whether rd is also an argument."""
        return any(token.updated and token.field.name == "rd" for token in self.insn.tokens)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the arguments in order."""
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
        """A macro for use inside asm statements, its operands strings in assembler order.

        There is none where an operand has to be split over the word, and for branches and loops, which belong to the
        code around them.
        """
        insn = self.insn
        if insn.op in _STEPS_OF_LOOPS or not all(is_whole(field) for field in immediate_fields(insn)):
            return []

        def number(part: InsnPart) -> str:
            constant = f"{part.constant:#04x} + " if part.constant else ""
            return f'{constant}" {part.names[0]} "'

        names = ", ".join(token.field.name for token in insn.tokens)
        text = directive(insn, lambda name: f'" {name} "', number)
        return [f'#define XP_ASM_{self.name.removeprefix("xp_")}({names}) "{text}\\n\\t"']

    def _asm(self) -> list[str]:
        """Lines of the asm statement; registers are variables ``xp_<name>``, an incremented base is ``*(rs1)``."""
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
                outputs.append(f'[xrd] "{"+" if self.accumulator else "="}r"(xp_rd)')
            elif name == "rs1" and insn.writes_base:
                outputs.append('[xrs1] "+r"(*(rs1))')
            else:
                inputs.append(f'[x{name}] "r"(xp_{name})')
        inputs += [f'[{name}] "i"({value})' for name, value in constants]
        if BRANCH_OFFSET in self._constants:
            kind, tail = " goto", [f": : {', '.join(inputs)} : : {BRANCH_OFFSET}"]
        else:
            kind = " volatile" if self.is_volatile else ""
            tail = [f": {', '.join(outputs)}".rstrip(), f": {', '.join(inputs)}"]
            tail += [': "memory"'] if self.touches_memory else []
        return [f'__asm__{kind}("{text}"', *(f"        {line}" for line in tail[:-1]), f"        {tail[-1]});"]

    @property
    def _type(self) -> str:
        return "int32_t" if is_signed(self.insn) else "uint32_t"

    def function(self) -> list[str]:
        """Lines of an inline function of registers."""
        arguments = ", ".join(f"{self._type if name == 'rd' else 'uint32_t'} xp_{name}" for name in self.parameters)
        result = self._type if self.has_result else "void"
        lines = [f"XP_INLINE {result} {self.name}({arguments}) {{"]
        if self.has_result and not self.accumulator:
            lines.append(f"    {self._type} xp_rd;")
        lines += [f"    {line}" for line in self._asm()]
        if self.has_result:
            lines.append("    return xp_rd;")
        lines.append("}")
        words = ", ".join(f"XP_WORD({name})" for name in self.parameters)
        lines.append(f"#define {self.name}({', '.join(self.parameters)}) {self.name}({words})")
        return lines

    def macro(self) -> list[str]:
        """Lines of a macro."""
        head = f"#define {self.name}({', '.join(self.parameters)})"
        body: list[str] = []
        for token in self.insn.tokens:
            name = token.field.name
            if token.field.kind is not FieldKind.REGISTER or (name == "rs1" and self.insn.writes_base):
                continue
            if name == "rd":
                body.append(f"{self._type} xp_rd = ({self._type})(rd);" if self.accumulator else f"{self._type} xp_rd;")
            else:
                body.append(f"uint32_t xp_{name} = XP_WORD({name});")
        body += self._asm()
        if self.has_result:
            body.append("xp_rd;")
        opening, closing = ("do {", "} while (0)") if BRANCH_OFFSET in self._constants else ("({", "})")
        return [f"{head} \\", f"    {opening} \\", *(f"        {line} \\" for line in body), f"    {closing}"]

    def lines(self) -> list[str]:
        """The definition."""
        return [*(self.macro() if self.is_macro else self.function()), *self.assembler_macro()]


def intrinsics(insns: Iterable[Insn]) -> list[Intrinsic]:
    """The instructions of ``insns`` that need one; that of a Mac&Load takes all selectors of the core."""
    return [Intrinsic(insn) for insn in insns if insn.extension not in BASE_EXTENSIONS and not insn.reloads_other]
