"""Meaning of each operation of the instruction table: a phrase, and statements in the notation of the guide.

The statements have Python syntax (guide, "Notation of the operations"). Each instruction fills in the braces, see
:mod:`xpulpnn.isa.semantics`: ``{b}`` is the second operand, ``{sb}`` and ``{ub}`` are its signed and unsigned values,
``{n}`` is a shift amount, ``{at}`` the address of an access, ``{lanes}`` and ``{width}`` belong to the format.
"""

from typing import NamedTuple


class Operation(NamedTuple):
    phrase: str
    statements: str  # template of the statements, one per line; empty if software sees no effect


def _shift(kind: str, value: str) -> Operation:
    return Operation(f"shift {kind}", f"rd = {value} {{n}}")


def _load(noun: str, value: str) -> Operation:
    return Operation(f"load {noun}", f"rd = {value}")


def _branch(condition: str, test: str) -> Operation:
    return Operation(f"branch if {condition}", f"if {test}: pc = pc + boff13")


_BASE = {
    "lui": Operation("upper immediate", "rd = uimm20 << 12"),
    "auipc": Operation("upper immediate and pc", "rd = pc + (uimm20 << 12)"),
    "jal": Operation("jump and link", "rd = pc + size\npc = pc + joff21"),
    "jalr": Operation("jump to a register and link", "t = (rs1 + imm12) & ~1\nrd = pc + size\npc = t"),
    "beq": _branch("equal", "{sa} == {sb}"),
    "bne": _branch("not equal", "{sa} != {sb}"),
    "blt": _branch("less, signed", "s(rs1) < s(rs2)"),
    "bge": _branch("greater or equal, signed", "s(rs1) >= s(rs2)"),
    "bltu": _branch("less, unsigned", "rs1 < rs2"),
    "bgeu": _branch("greater or equal, unsigned", "rs1 >= rs2"),
    "lb": _load("a byte, sign-extended", "s(mem8[{at}])"),
    "lh": _load("a half-word, sign-extended", "s(mem16[{at}])"),
    "lw": _load("a word", "mem32[{at}]"),
    "lbu": _load("a byte, zero-extended", "mem8[{at}]"),
    "lhu": _load("a half-word, zero-extended", "mem16[{at}]"),
    "elw": _load("a word from the event unit, which may hold back the answer", "mem32[{at}]"),
    "sb": Operation("store a byte", "mem8[{at}] = rs2"),
    "sh": Operation("store a half-word", "mem16[{at}] = rs2"),
    "sw": Operation("store a word", "mem32[{at}] = rs2"),
    "add": Operation("sum", "rd = rs1 + {b}"),
    "sub": Operation("difference", "rd = rs1 - {b}"),
    "sll": _shift("left", "rs1 <<"),
    "srl": _shift("right, logical", "rs1 >>"),
    "sra": _shift("right, arithmetic", "s(rs1) >>"),
    "slt": Operation("1 if less, signed, else 0", "rd = s(rs1) < {sb}"),
    "sltu": Operation("1 if less, unsigned, else 0", "rd = rs1 < {ub}"),
    "xor": Operation("bitwise exclusive or", "rd = rs1 ^ {b}"),
    "or": Operation("bitwise or", "rd = rs1 | {b}"),
    "and": Operation("bitwise and", "rd = rs1 & {b}"),
    "fence": Operation("order memory accesses: nothing that software sees here", ""),
    "mul": Operation("product, low word", "rd = rs1 * rs2"),
    "mulh": Operation("product, high word, signed by signed", "rd = s(rs1) * s(rs2) >> 32"),
    "mulhsu": Operation("product, high word, signed by unsigned", "rd = s(rs1) * rs2 >> 32"),
    "mulhu": Operation("product, high word, unsigned by unsigned", "rd = rs1 * rs2 >> 32"),
    "div": Operation("quotient, signed", "rd = quotient(s(rs1), s(rs2)) if rs2 != 0 else -1"),
    "divu": Operation("quotient, unsigned", "rd = quotient(rs1, rs2) if rs2 != 0 else -1"),
    "rem": Operation("remainder, signed", "rd = remainder(s(rs1), s(rs2)) if rs2 != 0 else rs1"),
    "remu": Operation("remainder, unsigned", "rd = remainder(rs1, rs2) if rs2 != 0 else rs1"),
}

_SYSTEM = {
    "csrrw": Operation("write a CSR", "t = CSR[csr]\nCSR[csr] = {csr}\nrd = t"),
    "csrrs": Operation("set bits of a CSR", "t = CSR[csr]\nif {writes}: CSR[csr] = t | {csr}\nrd = t"),
    "csrrc": Operation("clear bits of a CSR", "t = CSR[csr]\nif {writes}: CSR[csr] = t & ~{csr}\nrd = t"),
    "fence.i": Operation("later fetches see all earlier stores: what was fetched ahead is dropped", ""),
    "ecall": Operation("call of the environment", "trap(11)"),
    "ebreak": Operation("breakpoint", "trap(3)"),
    "mret": Operation("return from a trap", "MIE = MPIE\nMPIE = 1\npc = mepc"),
    "dret": Operation("return from debug mode, outside of which it is illegal", "pc = dpc"),
    "wfi": Operation("sleep until an enabled interrupt is pending, whatever MIE is", "wait(mip & mie)"),
}

_LOOPS = {
    "lp.starti": Operation("start of a hardware loop", "lpstart[L] = pc + lpoff12"),
    "lp.endi": Operation("last instruction of a hardware loop", "lpend[L] = pc + lpoff12"),
    "lp.count": Operation("iterations of a hardware loop", "lpcount[L] = {count}"),
    "lp.setup": Operation(
        "a hardware loop that starts behind this instruction",
        "lpstart[L] = pc + 4\nlpend[L] = pc + {end}\nlpcount[L] = {count}",
    ),
}

_CLIP_BOUND = "b = {bound}\n"
_FIELD = "W = {w}\nS = {s}\n"
_MASK = _FIELD + "K = (2 ** W - 1) << S\n"

_SCALAR = {
    "slet": Operation("1 if less or equal, signed, else 0", "rd = s(rs1) <= s(rs2)"),
    "sletu": Operation("1 if less or equal, unsigned, else 0", "rd = rs1 <= rs2"),
    "min": Operation("minimum, signed", "rd = min(s(rs1), s(rs2))"),
    "minu": Operation("minimum, unsigned", "rd = min(rs1, rs2)"),
    "max": Operation("maximum, signed", "rd = max(s(rs1), s(rs2))"),
    "maxu": Operation("maximum, unsigned", "rd = max(rs1, rs2)"),
    "abs": Operation("absolute value; 0x80000000 stays", "rd = abs(s(rs1))"),
    "exths": Operation("sign-extend a half-word", "rd = sx(rs1, 16)"),
    "exthz": Operation("zero-extend a half-word", "rd = zx(rs1, 16)"),
    "extbs": Operation("sign-extend a byte", "rd = sx(rs1, 8)"),
    "extbz": Operation("zero-extend a byte", "rd = zx(rs1, 8)"),
    "clip": Operation("clip to [-b-1, b]", _CLIP_BOUND + "rd = -b - 1 if s(rs1) <= -b - 1 else min(s(rs1), b)"),
    "clipu": Operation("clip to [0, b]", _CLIP_BOUND + "rd = 0 if s(rs1) <= 0 else min(s(rs1), b)"),
    "ror": Operation("rotate right", "n = rs2[4:0]\nrd = (rs1 >> n) | (rs1 << (32 - n))"),
    "ff1": Operation("number of the lowest set bit; 32 if none", "rd = min((k for k in bits if rs1[k]), default=32)"),
    "fl1": Operation("number of the highest set bit; 32 if none", "rd = max((k for k in bits if rs1[k]), default=32)"),
    "clb": Operation(
        "bits below bit 31 that equal it, in a row; 0 for 0",
        "d = min((k for k in range(31) if rs1[30 - k] != rs1[31]), default=31)\nrd = d if rs1 != 0 else 0",
    ),
    "cnt": Operation("number of set bits", "rd = sum(rs1[k] for k in bits)"),
    "extract": Operation("W bits from bit S, sign-extended", _FIELD + "rd = sx(s(rs1) >> S, W)"),
    "extractu": Operation("W bits from bit S, zero-extended", _FIELD + "rd = zx(rs1 >> S, W)"),
    "insert": Operation("replace W bits from bit S of rd", _MASK + "rd = (rd & ~K) | ((rs1 << S) & K)"),
    "bclr": Operation("clear W bits from bit S", _MASK + "rd = rs1 & ~K"),
    "bset": Operation("set W bits from bit S", _MASK + "rd = rs1 | K"),
    "mac": Operation("multiply and add", "rd = rd + rs1 * rs2"),
    "msu": Operation("multiply and subtract", "rd = rd - rs1 * rs2"),
}


def _shifted(plain: str, rounded: str, noun: str, total: str, tail: str = "") -> dict[str, Operation]:
    """Return operations that shift right at the end; ``%s`` in ``total`` stands for the rounding constant."""
    rounding = "r = 2 ** ({n} - 1) if {n} > 0 else 0\n"
    return {
        plain: Operation(f"{noun}, shifted right{tail}", f"rd = {total % ''} >> {{n}}"),
        rounded: Operation(f"{noun}, rounded and shifted right{tail}", f"{rounding}rd = {total % ' + r'} >> {{n}}"),
    }


def _normalising() -> dict[str, Operation]:
    """Return the additions whose sum is shifted right; ``{x}`` and ``{y}`` are the operands."""
    operations: dict[str, Operation] = {}
    for name, sign, noun in (("add", "+", "sum"), ("sub", "-", "difference")):
        for letter, extend, word in (("", "sx", "arithmetic"), ("u", "zx", "logical")):
            stem, total = f"{name}{letter}", f"{extend}({{x}} {sign} {{y}}%s, 32)"
            operations |= _shifted(f"{stem}N", f"{stem}RN", noun, total, f", {word}")
    return operations


def _half_words() -> dict[str, Operation]:
    operations: dict[str, Operation] = {}
    for name, accumulator, added in (("mul", "", ""), ("mac", "rd + ", ", added to rd")):
        for half, bits, which in (("", "15:0", "low"), ("hh", "31:16", "high")):
            for letter, extend, word in (("s", "sx", "signed"), ("u", "zx", "unsigned")):
                a, b = (f"sx({r}[{bits}], 16)" if letter == "s" else f"{r}[{bits}]" for r in ("rs1", "rs2"))
                noun = f"product of {which} half-words, {word}{added}"
                stem, total = f"{name}{half}{letter}", f"{extend}({accumulator}{a} * {b}%s, 32)"
                operations |= _shifted(f"{stem}N", f"{stem}NR", noun, total)
    return operations


def _compare(condition: str, test: str) -> Operation:
    return Operation(f"all ones if {condition}, else 0", f"rd[i] = ones if {test} else 0")


_LANES = {
    "pv.add": Operation("sums", "rd[i] = rs1[i] + {b}"),
    "pv.sub": Operation("differences", "rd[i] = rs1[i] - {b}"),
    "pv.avg": Operation("half of the wrapped sums, signed", "rd[i] = sx(rs1[i] + {b}, {width}) >> 1"),
    "pv.avgu": Operation("half of the wrapped sums, unsigned", "rd[i] = zx(rs1[i] + {b}, {width}) >> 1"),
    "pv.min": Operation("minima, signed", "rd[i] = min(s(rs1[i]), {sb})"),
    "pv.minu": Operation("minima, unsigned", "rd[i] = min(rs1[i], {b})"),
    "pv.max": Operation("maxima, signed", "rd[i] = max(s(rs1[i]), {sb})"),
    "pv.maxu": Operation("maxima, unsigned", "rd[i] = max(rs1[i], {b})"),
    "pv.srl": Operation("shift right, logical", "rd[i] = rs1[i] >> ({b} % {width})"),
    "pv.sra": Operation("shift right, arithmetic", "rd[i] = s(rs1[i]) >> ({b} % {width})"),
    "pv.sll": Operation("shift left", "rd[i] = rs1[i] << ({b} % {width})"),
    "pv.or": Operation("bitwise or", "rd[i] = rs1[i] | {b}"),
    "pv.xor": Operation("bitwise exclusive or", "rd[i] = rs1[i] ^ {b}"),
    "pv.and": Operation("bitwise and", "rd[i] = rs1[i] & {b}"),
    "pv.cmpeq": _compare("equal", "s(rs1[i]) == {sb}"),
    "pv.cmpne": _compare("not equal", "s(rs1[i]) != {sb}"),
    "pv.cmpgt": _compare("greater, signed", "s(rs1[i]) > {sb}"),
    "pv.cmpge": _compare("greater or equal, signed", "s(rs1[i]) >= {sb}"),
    "pv.cmplt": _compare("less, signed", "s(rs1[i]) < {sb}"),
    "pv.cmple": _compare("less or equal, signed", "s(rs1[i]) <= {sb}"),
    "pv.cmpgtu": _compare("greater, unsigned", "rs1[i] > {b}"),
    "pv.cmpgeu": _compare("greater or equal, unsigned", "rs1[i] >= {b}"),
    "pv.cmpltu": _compare("less, unsigned", "rs1[i] < {b}"),
    "pv.cmpleu": _compare("less or equal, unsigned", "rs1[i] <= {b}"),
    "pv.abs": Operation("absolute values; the most negative one stays", "rd[i] = abs(s(rs1[i]))"),
    "pv.extract": Operation("one lane, sign-extended", "rd = s(rs1[uimm6 % {lanes}])"),
    "pv.extractu": Operation("one lane, zero-extended", "rd = rs1[uimm6 % {lanes}]"),
    "pv.insert": Operation("replace one lane", "rd[uimm6 % {lanes}] = rs1[0]"),
    "pv.shuffle": Operation("pick lanes of rs1", "rd[i] = rs1[rs2[i] % {lanes}]"),
    "pv.shufflei": Operation(
        "pick lanes of rs1; the digit in the name is that of lane 3",
        "rd[3] = rs1[{entry}]\nrd[2] = rs1[uimm6[5:4]]\nrd[1] = rs1[uimm6[3:2]]\nrd[0] = rs1[uimm6[1:0]]",
    ),
    "pv.shuffle2": Operation(
        "pick lanes of rs1 and of the old rd",
        "rd[i] = rs1[rs2[i] % {lanes}] if rs2[i] & {lanes} else rd[rs2[i] % {lanes}]",
    ),
    "pv.pack": Operation("low half-words of both", "rd[1] = rs1[0]\nrd[0] = rs2[0]"),
    "pv.packhi": Operation("low bytes of both into the upper half", "rd[3] = rs1[0]\nrd[2] = rs2[0]"),
    "pv.packlo": Operation("low bytes of both into the lower half", "rd[1] = rs1[0]\nrd[0] = rs2[0]"),
}

PICKED_HALVES = "rd[1] = rs1[uimm6[1]]\nrd[0] = rs1[uimm6[0]]"
"""Statements of ``pv.shuffle.sci.h``, whose immediate holds one bit per lane."""

_SIGNS = {"up": "unsigned", "usp": "rs1 unsigned, the other signed", "sp": "signed"}

_DOTS = {
    f"pv.{s}dot{signs}": Operation(
        f"dot product, {words}{', added to rd' if s else ''}",
        "rd = " + "rd + " * bool(s) + "sum({fa} * {fb} for i in lanes)",
    )
    for s in ("", "s")
    for signs, words in _SIGNS.items()
}

_ENTRIES = "act = NN[nnimm5[0]]\nwgt = NN[2 + nnimm5[2:1]]\n"

RELOAD = (
    "if nnimm5[3]: NN[nnimm5[0]] = mem32[rs1]\nif nnimm5[4]: NN[2 + nnimm5[2:1]] = mem32[rs1]\n"
    "if nnimm5[4:3] != 0: rs1 = rs1 + 4"
)
"""Statements of the optional reload of an NN-RF entry that a Mac&Load multiplies."""

RELOAD_OTHER = "NN[nnimm5[0] ^ 1] = mem32[rs1]\nrs1 = rs1 + 4"  # reload of the activation that the product does not use

_PAIR = (
    "first = NN[8 * p]\nsecond = NN[8 * p + 1]\nwgt = NN[2 + w]\n{reload}"
    "rd = {old}sum({fa} * {first} for i in lanes)\nrd1 = {old1}sum({fa} * {second} for i in lanes)"
)

RELOAD_ANY = "NN[t] = mem32[rs1]\nrs1 = rs1 + 4\n"  # load of any Mac&Load operand

_REQUANTISE = "t = sx(NN[6] * rs1 + NN[7], 32) >> rs2[4:0]\nrd[lane] = min(max(t, {least}), {most})"

_REQUANTISE_EXACTLY = (
    "n = rs2[5:0]\nr = 2 ** (n - 1) if n > 0 else 0\nt = sx(rs1 + NN[7], 32) * sx(NN[6], 32)\n"
    "t = ((t + r) >> n) + sx(rs2[15:8], 8)\nrd[lane] = min(max(t, {least}), {most})"
)

_MAC_LOAD = {
    "pv.mlsdot": Operation(
        "dot product of two entries, added to rd; reload of one of them",
        f"{_ENTRIES}{{reload}}\nrd = rd + sum({{fa}} * {{fb}} for i in lanes)",
    ),
    "pv.mldot": Operation(
        "dot product of two entries; reload of one of them",
        f"{_ENTRIES}{{reload}}\nrd = sum({{fa}} * {{fb}} for i in lanes)",
    ),
    "pv.mlsduo": Operation(
        "two dot products of an entry and a pair of entries, added to rd and the register behind it", _PAIR
    ),
    "pv.mlduo": Operation("two dot products of an entry and a pair of entries", _PAIR),
    "pv.cusdot": Operation(
        "dot product of an entry and rs2, added to rd; reload of the entry",
        "wgt = NN[{entry}]\nNN[{entry}] = mem32[rs1]\nrs1 = rs1 + 4\nrd = rd + sum({fa} * {fb} for i in lanes)",
    ),
    "pv.rqld": Operation(
        "load the factor (0) or the summand (1) of the requantisation", "NN[6 + uimm1] = mem32[rs1]\nrs1 = rs1 + 4"
    ),
    "pv.rqu": Operation("scale, add, shift, clip to an unsigned element, put into a lane", _REQUANTISE),
    "pv.rqs": Operation("scale, add, shift, clip to a signed element, put into a lane", _REQUANTISE),
    "pv.rqxu": Operation(
        "add, scale in 64 bits, shift with rounding, add the zero point, clip to an unsigned element, put into a lane",
        _REQUANTISE_EXACTLY,
    ),
    "pv.rqxs": Operation(
        "add, scale in 64 bits, shift with rounding, add the zero point, clip to a signed element, put into a lane",
        _REQUANTISE_EXACTLY,
    ),
    "pv.qnt": Operation(
        "codes of two pixels by search among thresholds",
        "codes = 0\n"
        "for pixel in range(2):\n"
        "    u = sx(rs1 >> (16 * pixel), 16)\n"
        "    p = (rs2[31:16] << 16) | (zx(rs2 + {distance} * pixel, 16) & ~1)\n"
        "    q = 0\n"
        "    for level in range({width}):\n"
        "        above = u > s(mem16[p])\n"
        "        step = {step} >> level\n"
        "        q = 2 * q + above\n"
        "        p = (p[31:6] << 6) | zx(p + step if above else p - step, 6)\n"
        "    codes = codes | ((q ^ {inverted}) << ({width} * pixel))\n"
        "rd = codes",
    ),
}

_INTO_LANE = (
    "    word = ACC[4 * p] if f != 0 else 0\n"
    "    code = zx(min(max(t, {least}), {most}), {width}) << ({width} * f)\n"
    "    ACC[4 * p] = word & ~({mask} << ({width} * f)) | code"
)

_BLOCK_PARAMETER = 0xFF3F  # bits of NN[6] that exist: shift and zero point

_RQ = "n = NN[6]\nfor p in range(4):\n    t = sx(rs1 * ACC[4 * p + f] + rs2, 32) >> n[4:0]\n" + _INTO_LANE

_RQ_EXACTLY = (
    "n = NN[6]\nr = 2 ** (n[5:0] - 1) if n[5:0] > 0 else 0\nfor p in range(4):\n"
    "    t = sx(ACC[4 * p + f] + rs2, 32) * sx(rs1, 32)\n    t = ((t + r) >> n[5:0]) + sx(n[15:8], 8)\n" + _INTO_LANE
)

_COPROCESSOR = {
    "pa.acc": Operation("dot product, added to an accumulator", "ACC[k] = ACC[k] + sum({fa} * {fb} for i in lanes)"),
    "pa.ld": Operation(
        "load a pair of entries, or the shift of the requantisation",
        "at = 8 * e if e < 2 else 2 * e - 2\n"
        f"NN[at] = rs1 & {_BLOCK_PARAMETER:#x} if e == 4 else rs1\nif e < 4: NN[at + 1] = rs2",
    ),
    "pa.blk": Operation(
        "dot products of two weight words and the activations of four pixels, added to eight accumulators",
        "for p in range(4):\n"
        "    act = NN[8 * (p >> 1) + p % 2]\n"
        "    ACC[4 * p + 2 * h] = ACC[4 * p + 2 * h] + sum({act} * {first} for i in lanes)\n"
        "    ACC[4 * p + 2 * h + 1] = ACC[4 * p + 2 * h + 1] + sum({act} * {second} for i in lanes)",
    ),
    "pa.ptr": Operation("set the pointers to activations and weights", "PTR[0] = rs1 & ~3\nPTR[1] = rs2 & ~3"),
    "pa.step": Operation(
        "rs1[9:0] steps, with these statements each: load four activation words and four weight words, add their "
        "sixteen dot products to the accumulators; narrower weights are used part by part, and their pointer moves "
        "after the last part",
        "for f in range(4): NN[2 + f] = mem32[PTR[1] + 4 * f]\n"
        "for p in range(4):\n"
        "    act = mem32[PTR[0] + 4 * p]\n"
        "    NN[8 * (p >> 1) + p % 2] = act\n"
        "    for f in range(4):\n"
        "        wgt = mem32[PTR[1] + 4 * f]\n"
        "        ACC[4 * p + f] = ACC[4 * p + f] + sum({act} * {wgt} for i in lanes)\n"
        "PTR[0] = PTR[0] + 16{advance}",
    ),
    "pa.rd": Operation("read a word of the state", "rd = ACC[r] if r < 16 else NN[r - 16] if r < 26 else PTR[r - 26]"),
    "pa.wr": Operation(
        "write a word of the state",
        "if r < 16: ACC[r] = rs1\n"
        f"if (r >= 16) & (r < 26): NN[r - 16] = rs1 & {_BLOCK_PARAMETER:#x} if r == 22 else rs1\n"
        "if r >= 26: PTR[r - 26] = rs1 & ~3",
    ),
    "pa.clr": Operation("clear the accumulators", "for k in range(16): ACC[k] = 0"),
    "pa.sync": Operation("wait for all loads; 1 if one was answered with an error", "rd = FAILED\nFAILED = 0"),
    **dict.fromkeys(
        ("pa.rqu", "pa.rqs"),
        Operation(
            "scale, add, shift, clip the sums of a filter, put them into a lane of accumulators 0, 4, 8, 12", _RQ
        ),
    ),
    **dict.fromkeys(
        ("pa.rqxu", "pa.rqxs"),
        Operation(
            "add, scale in 64 bits, shift with rounding, add the zero point, clip the sums of a filter, put them into "
            "a lane of accumulators 0, 4, 8, 12",
            _RQ_EXACTLY,
        ),
    ),
}

OPERATIONS: dict[str, Operation] = {
    **_BASE,
    **_SYSTEM,
    **_LOOPS,
    **_SCALAR,
    **_normalising(),
    **_half_words(),
    **_LANES,
    **_DOTS,
    **_MAC_LOAD,
    **_COPROCESSOR,
}
