"""The header ``pulp_builtins.h``: the built-in functions of the PULP compilers over those of ``xpulpnn.h``.

The public PULP-NN libraries (pulp-nn, pulp-nn-mixed) and the PULP runtimes call them. The number in a name counts the
lanes: 2 half-words, 4 bytes, 8 nibbles, 16 crumbs. A built-in function whose instruction the core lacks is not defined.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.insn import Insn
from xpulpnn_sw.toolchain.headers.intrinsics import c_name


class Builtin(NamedTuple):
    """A built-in function."""

    name: str  # without `__builtin_pulp_`
    arguments: str  # of a macro their names, of a function also their types
    body: str  # the expression that is its value
    needs: tuple[str, ...]  # functions of `xpulpnn.h` that must exist
    result: str = ""  # type of the value if it is a function, empty for a macro

    def definition(self) -> str:
        """The line of C."""
        name = f"__builtin_pulp_{self.name}"
        if self.result:
            return f"XP_INLINE {self.result} {name}({self.arguments}) {{ return ({self.result}){self.body}; }}"
        return f"#define {name}({self.arguments}) {self.body}"


def _vector(fmt: ElemFmt, *, signed: bool) -> str:
    """The C type of a register of lanes; nibbles and crumbs have none and are passed as numbers."""
    if fmt.width < _NARROWEST_ELEMENT:
        return "int32_t" if signed else "uint32_t"
    return f"v{fmt.lanes}{'s' if signed else 'u'}"


def _of_vectors(
    name: str,
    fmt: ElemFmt,
    call: str,
    vectors: Sequence[str],
    numbers: Sequence[str] = (),
    *,
    kind: str,
    order: Sequence[str] = (),
) -> Builtin:
    """A call of ``call`` with vectors and numbers; a macro for the formats whose vectors C does not know."""
    body = f"{call}({', '.join(order or [*vectors, *numbers])})"
    if fmt.width < _NARROWEST_ELEMENT:
        return Builtin(name, ", ".join([*vectors, *numbers]), f"(({kind}){body})", (call,))
    vector = _vector(fmt, signed=True)
    arguments = [f"{vector} {item}" for item in vectors] + [f"int32_t {item}" for item in numbers]
    return Builtin(name, ", ".join(arguments), body, (call,), kind)


_NARROWEST_ELEMENT = 8  # bits of a char

# their name, ours, whether the lanes of the result are signed
_LANE_WISE = (
    ("add", "add", True),
    ("sub", "sub", True),
    ("avg", "avg", True),
    ("avgu", "avgu", False),
    ("min", "min", True),
    ("minu", "minu", False),
    ("max", "max", True),
    ("maxu", "maxu", False),
    ("srl", "srl", False),
    ("sra", "sra", True),
    ("sll", "sll", True),
    ("and", "and", True),
    ("or", "or", True),
    ("exor", "xor", True),
)


def _lanes() -> Iterator[Builtin]:
    for fmt in ElemFmt:
        for name, op, signed in _LANE_WISE:
            call, kind = f"xp_{op}_{fmt.suffix}", _vector(fmt, signed=signed)
            yield _of_vectors(f"{name}{fmt.lanes}", fmt, call, ["x", "y"], kind=kind)
        kind = _vector(fmt, signed=True)
        yield _of_vectors(f"abs{fmt.lanes}", fmt, f"xp_abs_{fmt.suffix}", ["x"], kind=kind)
        yield _of_vectors(f"neg{fmt.lanes}", fmt, f"xp_sub_{fmt.suffix}", ["x"], kind=kind, order=["0", "x"])


def _dots() -> Iterator[Builtin]:
    for fmt in ElemFmt:
        for signs in ("up", "usp", "sp"):
            kind = "uint32_t" if signs == "up" else "int32_t"
            for op, numbers in (("dot", []), ("sdot", ["sum"])):
                call = f"xp_{op}{signs}_{fmt.suffix}"
                yield _of_vectors(f"{op}{signs}{fmt.lanes}", fmt, call, ["x", "y"], numbers, kind=kind)
                call = f"xp_{op}{signs}_sc_{fmt.suffix}"
                yield _of_vectors(f"{op}{signs}sc{fmt.lanes}", fmt, call, ["x"], ["y", *numbers], kind=kind)


def _direct() -> Iterator[Builtin]:
    for name, op in (("minsi", "min"), ("minusi", "minu"), ("maxsi", "max"), ("maxusi", "maxu"), ("rotr", "ror")):
        yield Builtin(name, "x, y", f"xp_{op}(x, y)", (f"xp_{op}",))
    for name in ("abs", "ff1", "fl1", "clb", "cnt"):
        yield Builtin(name, "x", f"xp_{name}(x)", (f"xp_{name}",))
    for name in ("mac", "msu", "macs", "macu", "machhs", "machhu"):
        yield Builtin(name, "x, y, sum", f"xp_{name}(x, y, sum)", (f"xp_{name}",))
    for half in ("s", "u", "hhs", "hhu"):
        mul, mac = f"mul{half}", f"mac{half}"
        yield Builtin(mul, "x, y", f"xp_{mul}(x, y)", (f"xp_{mul}",))
        yield Builtin(f"{mul}N", "x, y, n", f"xp_{mul}N(x, y, n)", (f"xp_{mul}N",))
        yield Builtin(f"{mul}RN", "x, y, n, rounding", f"xp_{mul}NR(x, y, n)", (f"xp_{mul}NR",))
        yield Builtin(f"{mac}N", "x, y, sum, n", f"xp_{mac}N(x, y, n, sum)", (f"xp_{mac}N",))
        yield Builtin(f"{mac}RN", "x, y, sum, n, rounding", f"xp_{mac}NR(x, y, n, sum)", (f"xp_{mac}NR",))
    for op in ("add", "sub"):
        for sign in ("", "u"):
            plain, rounded = f"{op}{sign}N", f"{op}{sign}RN"
            yield Builtin(plain, "x, y, n", f"xp_{plain}i(x, y, n)", (f"xp_{plain}i",))
            yield Builtin(rounded, "x, y, n, rounding", f"xp_{rounded}i(x, y, n)", (f"xp_{rounded}i",))
            for name in (plain, rounded):
                # the first operand is the register that receives the result
                yield Builtin(f"{name}_r", "x, y, n", f"xp_{name}(y, n, x)", (f"xp_{name}",))


def _bits() -> Iterator[Builtin]:
    """Bit fields and clipping: the immediate form where the arguments are constant expressions."""
    for name in ("extract", "extractu"):
        control = "((size) - 1) << 5 | (offset)"
        immediate = f"xp_{name}i(x, XP_CONSTANT((size) - 1), XP_CONSTANT(offset))"
        body = f"XP_CHOOSE(__builtin_constant_p((size) + (offset)), {immediate}, xp_{name}(x, {control}))"
        yield Builtin(f"b{name}", "x, size, offset", body, (f"xp_{name}i", f"xp_{name}"))
        yield Builtin(f"b{name}_r", "x, control", f"xp_{name}(x, control)", (f"xp_{name}",))
    arguments = "target, keep, source, mask, offset"
    yield Builtin("binsert", arguments, f"xp_pulp_binsert({arguments})", ("xp_insert",))
    yield Builtin("binsert_r", "target, source, control", "xp_insert(source, control, target)", ("xp_insert",))
    yield Builtin("bset", "x, mask", "((int32_t)((x) | (mask)))", ())
    yield Builtin("bclr", "x, mask", "((int32_t)((x) & (mask)))", ())
    for name in ("bset", "bclr"):
        yield Builtin(f"{name}_r", "x, control", f"((int32_t)xp_{name}(x, control))", (f"xp_{name}",))
    for name in ("clip", "clipu"):
        # only bounds of the form 2^n - 1 have an immediate form
        immediate = f"xp_{name}i(x, XP_CLIP_BITS(XP_CONSTANT(bound)))"
        body = f"XP_CHOOSE(XP_IS_CLIP_BOUND(bound), {immediate}, xp_{name}(x, bound))"
        needs = (f"xp_{name}i", f"xp_{name}")
        yield Builtin(f"{name}_r", "x, bound", body, needs)
        yield Builtin(name, "x, low, high", f"__builtin_pulp_{name}_r(x, high)", needs)


def _moves() -> Iterator[Builtin]:
    yield Builtin("pack2", "x, y", "((v2s)xp_pack_h(y, x))", ("xp_pack_h",))
    yield Builtin("pack4", "x, y, z, t", "((v4s)xp_pulp_pack4(x, y, z, t))", ("xp_packhi_b", "xp_packlo_b"))
    for fmt in (ElemFmt.H, ElemFmt.B):
        kind, letter = _vector(fmt, signed=True), fmt.suffix
        one, two = f"xp_shuffle_{letter}", f"xp_shuffle2_{letter}"
        yield _of_vectors(f"shuffle{letter}", fmt, one, ["x", "lanes"], kind=kind)
        # a set selector bit takes the lane from y, which is not the register that receives the result
        swapped = ["y", "lanes", "x"]
        yield _of_vectors(f"shuffle{fmt.lanes}{letter}", fmt, two, ["x", "y", "lanes"], kind=kind, order=swapped)


def _mac_load() -> Iterator[Builtin]:
    """Mac&Load: the pointer is incremented in place, and the update function has nothing left to do."""
    entries = "weight_update, activation_update, weight, activation"
    yield Builtin("mlinitspr_v3", f"{entries}, pointer", f"xp_pulp_nn_load({entries}, pointer)", ("xp_nn_load",))
    for name in ("mlupdatespr_v3", "mlassignspr_v3"):
        yield Builtin(name, "pointer", "(pointer)", ("xp_nn_load",))
    for fmt in ElemFmt:
        for signs in ("up", "usp", "sup", "sp"):
            call = f"xp_mlsdot{signs}_{fmt.suffix}"
            body = f"{call}(sum, &(pointer), XP_PULP_ENTRIES({entries}))"
            yield Builtin(f"mlsdot{signs}{fmt.lanes}_v3", f"{entries}, pointer, sum", body, (call,))


def _system() -> Iterator[Builtin]:
    yield Builtin("CoreId", "", "((int)(xp_hart_id() & 0x1F))", ())
    yield Builtin("ClusterId", "", "((int)(xp_hart_id() >> 5 & 0x3F))", ())
    yield Builtin("spr_read", "csr", "((int32_t)XP_CSR_READ(csr))", ())
    yield Builtin("spr_read_vol", "csr", "((int32_t)XP_CSR_READ(csr))", ())
    yield Builtin("spr_write", "csr, value", "XP_CSR_WRITE(csr, value)", ())
    yield Builtin("read_base_off", "base, offset", "XP_AT(int32_t, base, offset)", ())
    yield Builtin("write_base_off", "base, offset, value", "(XP_AT(int32_t, base, offset) = (value))", ())
    for suffix, kind in (("", "int32_t"), ("Half", "int16_t"), ("Byte", "int8_t")):
        yield Builtin(f"OffsetedRead{suffix}", "base, offset", f"XP_AT({kind}, base, offset)", ())
        body = f"(XP_AT({kind}, base, offset) = (value))"
        yield Builtin(f"OffsetedWrite{suffix}", "value, base, offset", body, ())


BUILTINS = (*_lanes(), *_dots(), *_direct(), *_bits(), *_moves(), *_mac_load(), *_system())  # every built-in function
_PACK4 = """\
XP_INLINE uint32_t xp_pulp_pack4(int x, int y, int z, int t) {
    uint32_t lanes;
    __asm__("" : "=r"(lanes)); /* every lane is written below */
    return xp_packhi_b(t, z, xp_packlo_b(y, x, lanes));
}
"""

_INSERT = """\
/* keep is the complement of mask; a mask that is known and has no holes is one p.insert. */
XP_INLINE int32_t xp_pulp_binsert(uint32_t target, uint32_t keep, uint32_t source, uint32_t mask, uint32_t offset) {
    uint32_t field = mask >> (offset & 31);
    if (__builtin_constant_p(mask) && __builtin_constant_p(offset) && keep == ~mask && field != 0 &&
        (field & (field + 1)) == 0 && field << (offset & 31) == mask)
        return (int32_t)xp_insert(source, (uint32_t)(31 - __builtin_clz(field)) << 5 | offset, target);
    return (int32_t)((target & keep) | ((source << (offset & 31)) & mask));
}
"""

_NN_LOAD = """\
#define XP_PULP_ENTRIES(weight_update, activation_update, weight, activation) \\
    ((weight_update) << 4 | (activation_update) << 3 | (weight) << 1 | (activation))
#define xp_pulp_nn_load(weight_update, activation_update, weight, activation, pointer) \\
    ({ \\
        __typeof__(pointer) xp_pointer = (pointer); \\
        xp_nn_load(&xp_pointer, XP_PULP_ENTRIES(weight_update, activation_update, weight, activation)); \\
        xp_pointer; \\
    })
"""

# what some macros are made of, with a function that the core must have for it
_HELPERS = (("xp_packhi_b", _PACK4), ("xp_insert", _INSERT), ("xp_nn_load", _NN_LOAD))
_SHORT_NAME = """\
/* Sources of mixed precision call it without the name of the platform. */
#define __builtin_binsert __builtin_pulp_binsert"""

_HEADER = """\
/* Generated by {generator}: built-in functions of the PULP compilers for stock compilers. */
#ifndef PULP_BUILTINS_H
#define PULP_BUILTINS_H

#include "xpulpnn.h"
#include "xpulpnn_rt.h"

/* The built-in condition is known to the front end, at every optimisation level. */
#define XP_CHOOSE(condition, yes, no) __builtin_choose_expr(condition, yes, no)
/* An immediate in a branch of XP_CHOOSE, which must be valid also where it is not taken. */
#define XP_CONSTANT(value) __builtin_choose_expr(__builtin_constant_p(value), value, 0)
#define XP_IS_CLIP_BOUND(bound) \\
    (__builtin_constant_p(bound) && XP_CONSTANT(bound) >= 0 && (XP_CONSTANT(bound) & (XP_CONSTANT(bound) + 1)) == 0)
#define XP_CLIP_BITS(bound) ((bound) == 0 ? 1 : 33 - __builtin_clz((bound) | 1))
#define XP_AT(type, base, offset) (*(volatile type *)((char *)(base) + (offset)))

{helpers}
{definitions}
#endif
"""


def pulp_header(insns: Iterable[Insn], generator: str) -> str:
    """The text of the header for the instructions of ``insns``."""
    names = {c_name(insn) for insn in insns} | {"xp_nn_load" for insn in insns if insn.op == "pv.mlsdot"}
    definitions = [item.definition() for item in BUILTINS if names.issuperset(item.needs)]
    if "xp_insert" in names:
        definitions.append(_SHORT_NAME)
    helpers = [text for need, text in _HELPERS if need in names]
    return _HEADER.format(generator=generator, helpers="\n".join(helpers), definitions="\n".join(definitions))
