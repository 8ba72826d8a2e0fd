"""What instructions compute, on plain integers: the expected values that a package is delivered with.

Needs no package that generating Verilog does not need, and shares no arithmetic with the hardware or with the other
references. Words are unsigned 32-bit integers.
"""

import re
from collections.abc import Callable, Mapping

from xpulpnn.isa.formats import ElemFmt, Op2Mode
from xpulpnn.isa.insn import Insn

BITS = 32
WORD = (1 << BITS) - 1
HALF_BITS, BYTE_BITS = 16, 8


def low(value: int, width: int = BITS) -> int:
    """The low ``width`` bits, unsigned."""
    return value & (1 << width) - 1


def signed(value: int, width: int = BITS) -> int:
    """The low ``width`` bits as a two's complement number."""
    value = low(value, width)
    return value - (1 << width) if value >> width - 1 else value


def split(word: int, width: int, *, is_signed: bool) -> list[int]:
    """Elements of a word, lane 0 first."""
    read = signed if is_signed else low
    return [read(word >> lsb, width) for lsb in range(0, BITS, width)]


def join(lanes: list[int], width: int) -> int:
    """The word of the low ``width`` bits of each lane."""
    return sum(low(lane, width) << width * place for place, lane in enumerate(lanes))


def dot_product(fmt: ElemFmt, a: int, b: int, *, a_signed: bool, b_signed: bool, accumulator: int = 0) -> int:
    """Sum of the products of the elements and the accumulator, modulo 2**32."""
    factors = zip(split(a, fmt.width, is_signed=a_signed), split(b, fmt.width, is_signed=b_signed), strict=True)
    return low(accumulator + sum(x * y for x, y in factors))


def scaled(parameters: tuple[int, int], a: int) -> int:
    """``kappa * a + lambda`` modulo 2**32, the first half of a requantisation."""
    kappa, lam = parameters
    return low(kappa * a + lam)


def requantised(insn: Insn, parameters: tuple[int, int], a: int, b: int, lane: int, d: int) -> int:
    """The word that pv.rq* makes of rs1, rs2, the number of a lane and the old rd."""
    assert insn.fmt is not None
    width = insn.fmt.width
    least = -(1 << width - 1) if insn.a_signed else 0
    lanes = split(d, width, is_signed=False)
    lanes[lane] = min(max(signed(scaled(parameters, a)) >> b % BITS, least), least + (1 << width) - 1)
    return join(lanes, width)


def _divide(a: int, b: int) -> tuple[int, int]:
    """Quotient toward zero and remainder of exact integers; all ones and ``a`` for a divisor of 0."""
    if b == 0:
        return -1, a
    quotient = abs(a) // abs(b)
    quotient = quotient if (a < 0) == (b < 0) else -quotient
    return quotient, a - quotient * b


def _rotate(a: int, amount: int) -> int:
    return a >> amount | a << BITS - amount


_BINARY: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "slt": lambda a, b: signed(a) < signed(b),
    "sltu": lambda a, b: a < b,
    "slet": lambda a, b: signed(a) <= signed(b),
    "sletu": lambda a, b: a <= b,
    "sll": lambda a, b: a << b % BITS,
    "srl": lambda a, b: a >> b % BITS,
    "sra": lambda a, b: signed(a) >> b % BITS,
    "ror": lambda a, b: _rotate(a, b % BITS),
    "min": lambda a, b: min(signed(a), signed(b)),
    "minu": min,
    "max": lambda a, b: max(signed(a), signed(b)),
    "maxu": max,
    "mul": lambda a, b: a * b,
    "mulh": lambda a, b: signed(a) * signed(b) >> BITS,
    "mulhsu": lambda a, b: signed(a) * b >> BITS,
    "mulhu": lambda a, b: a * b >> BITS,
    "div": lambda a, b: _divide(signed(a), signed(b))[0],
    "divu": lambda a, b: _divide(a, b)[0],
    "rem": lambda a, b: _divide(signed(a), signed(b))[1],
    "remu": lambda a, b: _divide(a, b)[1],
    "beq": lambda a, b: a == b,
    "bne": lambda a, b: a != b,
    "blt": lambda a, b: signed(a) < signed(b),
    "bge": lambda a, b: signed(a) >= signed(b),
    "bltu": lambda a, b: a < b,
    "bgeu": lambda a, b: a >= b,
}
"""Operations of two words; of branches the condition."""


def _sign_bits(a: int) -> int:
    bits = f"{a:0{BITS}b}"
    return len(bits) - len(bits.lstrip(bits[0])) - 1 if a else 0


_UNARY: Mapping[str, Callable[[int], int]] = {
    "abs": lambda a: abs(signed(a)),
    "exths": lambda a: signed(a, HALF_BITS),
    "exthz": lambda a: low(a, HALF_BITS),
    "extbs": lambda a: signed(a, BYTE_BITS),
    "extbz": lambda a: low(a, BYTE_BITS),
    "ff1": lambda a: f"{a:0{BITS}b}"[::-1].find("1") if a else BITS,
    "fl1": lambda a: BITS - 1 - f"{a:0{BITS}b}".find("1") if a else BITS,
    "clb": _sign_bits,
    "cnt": lambda a: f"{a:b}".count("1"),
}
"""Operations of one word."""

_LANE_SIGNED: Mapping[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, width: a + b,
    "sub": lambda a, b, width: a - b,
    "avg": lambda a, b, width: signed(a + b, width) >> 1,
    "min": lambda a, b, width: min(a, b),
    "max": lambda a, b, width: max(a, b),
    "sra": lambda a, b, width: a >> b % width,
    "or": lambda a, b, width: a | b,
    "xor": lambda a, b, width: a ^ b,
    "and": lambda a, b, width: a & b,
    "abs": lambda a, b, width: abs(a),
    "cmpeq": lambda a, b, width: -(a == b),
    "cmpne": lambda a, b, width: -(a != b),
    "cmpgt": lambda a, b, width: -(a > b),
    "cmpge": lambda a, b, width: -(a >= b),
    "cmplt": lambda a, b, width: -(a < b),
    "cmple": lambda a, b, width: -(a <= b),
}
_LANE_UNSIGNED: Mapping[str, Callable[[int, int, int], int]] = {
    "avgu": lambda a, b, width: low(a + b, width) >> 1,
    "minu": lambda a, b, width: min(a, b),
    "maxu": lambda a, b, width: max(a, b),
    "srl": lambda a, b, width: a >> b % width,
    "sll": lambda a, b, width: a << b % width,
    "cmpgtu": lambda a, b, width: -(a > b),
    "cmpgeu": lambda a, b, width: -(a >= b),
    "cmpltu": lambda a, b, width: -(a < b),
    "cmpleu": lambda a, b, width: -(a <= b),
}
"""Operations on lanes of a width, by how the lanes are read."""


def _clip(insn: Insn, a: int, bound: int) -> int:
    lowest = -bound - 1 if insn.op == "clip" else 0
    return lowest if signed(a) <= lowest else min(signed(a), bound)


def _bit_field(op: str, a: int, start: int, width: int, d: int) -> int:
    mask = low(low(WORD, width) << start)
    return {
        "extract": signed(signed(a) >> start, width),
        "extractu": low(a >> start, width),
        "insert": d & ~mask | a << start & mask,
        "bclr": a & ~mask,
        "bset": a | mask,
    }[op]


def _normalise(total: int, places: int, *, is_signed: bool, rounds: bool) -> int:
    total += 1 << places - 1 if rounds and places else 0
    return (signed(total) if is_signed else low(total)) >> places


_SUM = re.compile(r"(?P<kind>add|sub)(?P<unsigned>u?)(?P<rounds>R?)N")
_PRODUCT = re.compile(r"(?P<kind>mul|mac)(?P<upper>hh)?(?P<sign>[su])N(?P<rounds>R?)")


def _move(insn: Insn, a: int, b: int, d: int) -> int:
    """Lane moves; ``b`` is the selector word or the immediate."""
    assert insn.fmt is not None
    width, count = insn.fmt.width, insn.fmt.lanes
    lanes, old = split(a, width, is_signed=False), split(d, width, is_signed=False)
    match insn.op:
        case "pv.extract":
            return signed(lanes[b % count], width)
        case "pv.extractu":
            return lanes[b % count]
        case "pv.insert":
            old[b % count] = lanes[0]
        case "pv.shuffle" if insn.mode is Op2Mode.SCI:
            old = [lanes[b & 1], lanes[b >> 1 & 1]]
        case "pv.shufflei":
            assert insn.entry is not None
            old = [lanes[b & 3], lanes[b >> 2 & 3], lanes[b >> 4 & 3], lanes[insn.entry]]
        case "pv.shuffle":
            old = [lanes[selector % count] for selector in split(b, width, is_signed=False)]
        case "pv.shuffle2":
            both = old + lanes
            old = [both[selector % (2 * count)] for selector in split(b, width, is_signed=False)]
        case "pv.pack":
            old = [low(b, width), lanes[0]]
        case "pv.packhi":
            old[2:] = [low(b, width), lanes[0]]
        case _:
            old[:2] = [low(b, width), lanes[0]]
    return join(old, width)


def _packed(insn: Insn, a: int, b: int, d: int) -> int:
    assert insn.fmt is not None
    width, name = insn.fmt.width, insn.op.removeprefix("pv.")
    if insn.mode is not None and insn.mode is not Op2Mode.VECTOR and not name.startswith("shuffle"):
        b = join([b] * insn.fmt.lanes, width)
    if "dot" in name:
        start = d if insn.accumulates else 0
        return dot_product(insn.fmt, a, b, a_signed=insn.a_signed, b_signed=insn.b_signed, accumulator=start)
    if name not in _LANE_SIGNED and name not in _LANE_UNSIGNED:
        return _move(insn, a, b, d)
    is_signed = name in _LANE_SIGNED
    operate = _LANE_SIGNED[name] if is_signed else _LANE_UNSIGNED[name]
    pairs = zip(split(a, width, is_signed=is_signed), split(b, width, is_signed=is_signed), strict=True)
    return join([operate(x, y, width) for x, y in pairs], width)


def result(insn: Insn, values: Mapping[str, int], rs1: int, rs2: int, rd: int) -> int:
    """The word that an instruction without memory access or jump computes; of a branch whether it is taken."""
    return low(_exact(insn, values, rs1, rs2, rd))


def _exact(insn: Insn, values: Mapping[str, int], rs1: int, rs2: int, rd: int) -> int:
    op = insn.op
    immediate = next((values[name] for name in ("imm12", "uimm5", "simm5", "imm6", "uimm6") if name in values), None)
    operand = rs2 if immediate is None else low(immediate)
    if op == "lui":
        return values["uimm20"] << 12
    if op.startswith("pv."):
        return _packed(insn, rs1, operand, rd)
    if op in _UNARY:
        return _UNARY[op](rs1)
    if op in ("mac", "msu"):
        return rd + rs1 * rs2 if op == "mac" else rd - rs1 * rs2
    if op in ("clip", "clipu"):
        bits = values.get("Is2")
        return _clip(insn, rs1, signed(rs2) if bits is None else (1 << bits >> 1) - 1 if bits else 0)
    if op in ("extract", "extractu", "insert", "bclr", "bset"):
        in_word = "Is2" in values
        start, width = (values["Is2"], values["Is3"] + 1) if in_word else (rs2 % BITS, (rs2 >> 5) % BITS + 1)
        return _bit_field(op, rs1, start, width, rd)
    if parts := _SUM.fullmatch(op):
        first, second, places = (rs1, rs2, values["Is3"]) if "Is3" in values else (rd, rs1, rs2 % BITS)
        total = first + second if parts["kind"] == "add" else first - second
        return _normalise(total, places, is_signed=not parts["unsigned"], rounds=bool(parts["rounds"]))
    if parts := _PRODUCT.fullmatch(op):
        is_signed, lsb = parts["sign"] == "s", HALF_BITS if parts["upper"] else 0
        read = signed if is_signed else low
        total = read(rs1 >> lsb, HALF_BITS) * read(rs2 >> lsb, HALF_BITS) + (rd if parts["kind"] == "mac" else 0)
        return _normalise(total, values["Is3"], is_signed=is_signed, rounds=bool(parts["rounds"]))
    return int(_BINARY[op](rs1, operand))
