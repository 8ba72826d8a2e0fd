"""The header ``pulp_builtins.h``: built-in functions of the PULP compilers in terms of ``xpulpnn.h``.

The public PULP-NN libraries (pulp-nn, pulp-nn-mixed) and the PULP runtimes call them. The number in a name counts the
lanes: 2 half-words, 4 bytes, 8 nibbles, 16 crumbs. A built-in function whose instruction the core lacks is not defined.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.insn import Insn
from xpulpnn_sw.toolchain.headers.intrinsics import c_name

GENERATOR = "xpulpnn_sw.toolchain.headers.generate"
_NARROWEST_ELEMENT = 8  # bits of a char
_LANE_WISE = "add sub avg avgu min minu max maxu srl sra sll and or xor"
_UNSIGNED = "avgu minu maxu srl"  # with unsigned results
_ENTRIES = "weight_update, activation_update, weight, activation"
_HALVES, _SHIFTED, _ROUNDED = "s u hhs hhu", "addN adduN subN subuN", "addRN adduRN subRN subuRN"
# only bounds of the form 2^n - 1 have an immediate form
_CLIPPED = "XP_CHOOSE(XP_IS_CLIP_BOUND(bound), xp_{0}i(x, XP_CLIP_BITS(XP_CONSTANT(bound))), xp_{0}(x, bound))"
_EXTRACTED = (
    "XP_CHOOSE(__builtin_constant_p((size) + (offset)), xp_{0}i(x, XP_CONSTANT((size) - 1), XP_CONSTANT(offset)), "
    "xp_{0}(x, ((size) - 1) << 5 | (offset)))"
)
# macros: name and arguments, value, and replacements of the braces
_MACROS = (
    ("{}si(x, y)", "xp_{}(x, y)", "min minu max maxu"),
    ("rotr(x, y)", "xp_ror(x, y)", "-"),
    ("{}(x)", "xp_{}(x)", "abs ff1 fl1 clb cnt"),
    ("{}(x, y, sum)", "xp_{}(x, y, sum)", "mac msu macs macu machhs machhu"),
    ("mul{}(x, y)", "xp_mul{}(x, y)", _HALVES),
    ("mul{}N(x, y, n)", "xp_mul{}N(x, y, n)", _HALVES),
    ("mul{}RN(x, y, n, rounding)", "xp_mul{}NR(x, y, n)", _HALVES),
    ("mac{}N(x, y, sum, n)", "xp_mac{}N(x, y, n, sum)", _HALVES),
    ("mac{}RN(x, y, sum, n, rounding)", "xp_mac{}NR(x, y, n, sum)", _HALVES),
    ("{}(x, y, n)", "xp_{}i(x, y, n)", _SHIFTED),
    ("{}(x, y, n, rounding)", "xp_{}i(x, y, n)", _ROUNDED),
    # the first operand is the register that receives the result
    ("{}_r(x, y, n)", "xp_{}(y, n, x)", f"{_SHIFTED} {_ROUNDED}"),
    # bit fields and clipping: the immediate form where the arguments are constant expressions
    ("b{}(x, size, offset)", _EXTRACTED, "extract extractu"),
    ("b{}_r(x, control)", "xp_{}(x, control)", "extract extractu"),
    ("binsert(target, keep, source, mask, offset)", "xp_pulp_binsert(target, keep, source, mask, offset)", "-"),
    ("binsert_r(target, source, control)", "xp_insert(source, control, target)", "-"),
    ("bset(x, mask)", "((int32_t)((x) | (mask)))", "-"),
    ("bclr(x, mask)", "((int32_t)((x) & (mask)))", "-"),
    ("{}_r(x, control)", "((int32_t)xp_{}(x, control))", "bset bclr"),
    ("{}_r(x, bound)", _CLIPPED, "clip clipu"),
    ("{}(x, low, bound)", _CLIPPED, "clip clipu"),
    ("pack2(x, y)", "((v2s)xp_pack_h(y, x))", "-"),
    ("pack4(x, y, z, t)", "((v4s)xp_pulp_pack4(x, y, z, t))", "-"),
    (f"mlinitspr_v3({_ENTRIES}, pointer)", f"xp_pulp_nn_load({_ENTRIES}, pointer)", "-"),
    ("CoreId()", "((int)(xp_hart_id() & 0x1F))", "-"),
    ("ClusterId()", "((int)(xp_hart_id() >> 5 & 0x3F))", "-"),
    ("{}(csr)", "((int32_t)XP_CSR_READ(csr))", "spr_read spr_read_vol"),
    ("spr_write(csr, value)", "XP_CSR_WRITE(csr, value)", "-"),
    ("{}(base, offset)", "XP_AT(int32_t, base, offset)", "read_base_off OffsetedRead"),
    ("OffsetedReadHalf(base, offset)", "XP_AT(int16_t, base, offset)", "-"),
    ("OffsetedReadByte(base, offset)", "XP_AT(int8_t, base, offset)", "-"),
    ("write_base_off(base, offset, value)", "(XP_AT(int32_t, base, offset) = (value))", "-"),
    ("OffsetedWrite(value, base, offset)", "(XP_AT(int32_t, base, offset) = (value))", "-"),
    ("OffsetedWriteHalf(value, base, offset)", "(XP_AT(int16_t, base, offset) = (value))", "-"),
    ("OffsetedWriteByte(value, base, offset)", "(XP_AT(int8_t, base, offset) = (value))", "-"),
)
_CALL = re.compile(r"\b(xp_\w+)\(")
_PACK4 = """\
XP_INLINE uint32_t xp_pulp_pack4(int x, int y, int z, int t) {
    uint32_t lanes;
    __asm__("" : "=r"(lanes)); /* every lane is written below */
    return xp_packhi_b(t, z, xp_packlo_b(y, x, lanes));
}
"""
_INSERT = """\
/* Sources of mixed precision call it without the name of the platform. */
#define __builtin_binsert __builtin_pulp_binsert
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
#define __builtin_pulp_mlupdatespr_v3(pointer) (pointer)
#define __builtin_pulp_mlassignspr_v3(pointer) (pointer)
"""
# helper functions with an intrinsic that the core must have for it
_HELPERS = {
    "xp_pulp_pack4": ("xp_packhi_b", _PACK4),
    "xp_pulp_binsert": ("xp_insert", _INSERT),
    "xp_pulp_nn_load": ("xp_nn_load", _NN_LOAD),
}
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


def _macro(signature: str, body: str) -> str:
    return f"#define __builtin_pulp_{signature} {body}"


def _on_vectors(fmt: ElemFmt, name: str, vectors: Sequence[str], numbers: Sequence[str], body: str, result: str) -> str:
    """Return the C definition of a built-in function; it is a macro if C has no vectors of the element format."""
    if fmt.width < _NARROWEST_ELEMENT:
        return _macro(f"{name}({', '.join([*vectors, *numbers])})", f"(({result}){body})")
    arguments = [f"v{fmt.lanes}s {item}" for item in vectors] + [f"int32_t {item}" for item in numbers]
    return f"XP_INLINE {result} __builtin_pulp_{name}({', '.join(arguments)}) {{ return ({result}){body}; }}"


def _vectors() -> Iterator[str]:
    for fmt in ElemFmt:
        lanes, letter, is_known = fmt.lanes, fmt.suffix, fmt.width >= _NARROWEST_ELEMENT
        # nibbles and crumbs are passed in words
        signed, unsigned = (f"v{lanes}s", f"v{lanes}u") if is_known else ("int32_t", "uint32_t")
        for op in _LANE_WISE.split():
            name, result = "exor" if op == "xor" else op, unsigned if op in _UNSIGNED.split() else signed
            yield _on_vectors(fmt, f"{name}{lanes}", "xy", "", f"xp_{op}_{letter}(x, y)", result)
        yield _on_vectors(fmt, f"abs{lanes}", "x", "", f"xp_abs_{letter}(x)", signed)
        yield _on_vectors(fmt, f"neg{lanes}", "x", "", f"xp_sub_{letter}(0, x)", signed)
        for signs in ("up", "usp", "sp"):
            result = "uint32_t" if signs == "up" else "int32_t"
            for op, sums, rest in (("dot", [], ""), ("sdot", ["sum"], ", sum")):
                body, scalar = (f"xp_{op}{signs}_{form}{letter}(x, y{rest})" for form in ("", "sc_"))
                yield _on_vectors(fmt, f"{op}{signs}{lanes}", "xy", sums, body, result)
                yield _on_vectors(fmt, f"{op}{signs}sc{lanes}", "x", ["y", *sums], scalar, result)
        if is_known:
            lists = ["x", "lanes"], ["x", "y", "lanes"]
            yield _on_vectors(fmt, f"shuffle{letter}", lists[0], "", f"xp_shuffle_{letter}(x, lanes)", signed)
            # a set selector bit takes the lane from y, which is not the register that receives the result
            body = f"xp_shuffle2_{letter}(y, lanes, x)"
            yield _on_vectors(fmt, f"shuffle{lanes}{letter}", lists[1], "", body, signed)
        for signs in ("up", "usp", "sup", "sp"):
            # the pointer is incremented in place; the update function does nothing
            body = f"xp_mlsdot{signs}_{letter}(sum, &(pointer), XP_PULP_ENTRIES({_ENTRIES}))"
            yield _macro(f"mlsdot{signs}{lanes}_v3({_ENTRIES}, pointer, sum)", body)


BUILTINS = (
    *_vectors(),
    *(_macro(form.format(name), body.format(name)) for form, body, names in _MACROS for name in names.split()),
)


def pulp_header(insns: Iterable[Insn]) -> str:
    names = {c_name(insn) for insn in insns} | {"xp_nn_load" for insn in insns if insn.op == "pv.mlsdot"}
    helpers = {name: text for name, (need, text) in _HELPERS.items() if need in names}
    known = names | helpers.keys() | {"xp_hart_id"}
    definitions = [line for line in BUILTINS if known.issuperset(_CALL.findall(line))]
    return _HEADER.format(generator=GENERATOR, helpers="\n".join(helpers.values()), definitions="\n".join(definitions))
