"""The ALU against the formulas of the instruction-set manual on plain integers, for every instruction that uses it."""

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from amaranth.hdl import Cat
from amaranth.sim import Simulator

from xpulpnn.config import PRESETS, CoreConfig, DotpConfig
from xpulpnn.core.alu import Alu
from xpulpnn.core.alu_ctrl import AluCtrl, alu_control
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.table import INSNS, Insn, enabled

pytestmark = pytest.mark.unit

WORD = 1 << 32
CORNERS = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xAAAAAAAA, 0x80808080, 0x7FFF8001)
RANDOM_VECTORS = 8
STRIDE = 12
"""Every twelfth vector runs: this shows that nothing a configuration needs is missing; the benches run thousands."""
PLAIN = CoreConfig(
    xpulpv2=False, xpulpnn=False, mac_load_nn=False, dotp=DotpConfig(widths=frozenset({16, 8}), isolation="none")
)
CONFIGS = {
    "xpulpnn": PRESETS["xpulpnn"],
    "inferred": replace(PRESETS["xpulpnn"], shifter="inferred"),
    "ri5cy": PRESETS["ri5cy"],
    "rv32": PLAIN,
    "byte and crumb": CoreConfig(dotp=DotpConfig(widths=frozenset({8, 2}))),
    "half and nibble": CoreConfig(dotp=DotpConfig(widths=frozenset({16, 4}))),
    "nibble": CoreConfig(dotp=DotpConfig(widths=frozenset({4}))),
}

Operands = tuple[int, int, int, int]
"""op_a, op_b, op_c, shamt."""


def signed(value: int, width: int = 32) -> int:
    value %= 1 << width
    return value - (1 << width) if value >> (width - 1) else value


def lanes(word: int, width: int) -> list[int]:
    return [(word >> low) % (1 << width) for low in range(0, 32, width)]


def pack(values: Iterable[int], width: int) -> int:
    return sum((value % (1 << width)) << (place * width) for place, value in enumerate(values))


COMPARES: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def lane_operation(op: str, a: int, b: int, w: int) -> int:
    """Sections 3.1, 4.4 and 5.1: one lane of ``w`` bits, operands unsigned."""
    sa, sb, k = signed(a, w), signed(b, w), b % w
    if op.startswith("cmp"):
        relation = COMPARES[op.removeprefix("cmp")[:2]]
        return -int(relation(a, b) if op.endswith("u") else relation(sa, sb))
    return {
        "add": a + b,
        "sub": a - b,
        "avg": signed(a + b, w) >> 1,
        "avgu": (a + b) % (1 << w) >> 1,
        "min": min(sa, sb),
        "max": max(sa, sb),
        "minu": min(a, b),
        "maxu": max(a, b),
        "srl": a >> k,
        "sra": sa >> k,
        "sll": a << k,
        "or": a | b,
        "xor": a ^ b,
        "and": a & b,
        "abs": -sa if sa < 0 else sa,
    }[op]


def lane_move(op: str, fmt: ElemFmt, a: int, b: int, c: int) -> int:
    """Section 5.3 with the selectors of ``shuffle*`` one per lane."""
    w, n = fmt.width, fmt.lanes
    la, lb, lc = lanes(a, w), lanes(b, w), lanes(c, w)
    match op:
        case "extract":
            return signed(la[b % n], w)
        case "extractu":
            return la[b % n]
        case "insert":
            lc[b % n] = la[0]
            return pack(lc, w)
        case "shuffle" | "shufflei":
            return pack([la[s % n] for s in lb], w)
        case "shuffle2":
            return pack([(la if s // n % 2 else lc)[s % n] for s in lb], w)
        case "pack" | "packlo":
            return pack([lb[0], la[0], *lc[2:]], w)
        case "packhi":
            return pack([*lc[:2], lb[0], la[0]], w)
    raise AssertionError(op)


def bit_field(op: str, a: int, b: int, c: int) -> int:
    start, width = b % 32, b // 32 % 32 + 1
    field = (((1 << width) - 1) << start) % WORD
    return {
        "extract": signed(signed(a) >> start, width),
        "extractu": (a >> start) % (1 << width),
        "insert": (c & ~field) | ((a << start) & field),
        "bclr": a & ~field,
        "bset": a | field,
    }[op]


def normalised(op: str, a: int, b: int, shamt: int) -> int:
    total = a + b if op.startswith("add") else a - b
    if "R" in op and shamt:
        total += 1 << (shamt - 1)
    return (total % WORD if "u" in op.removeprefix("sub") else signed(total)) >> shamt


def counted(op: str, a: int) -> int:
    bits = f"{a:032b}"
    match op:
        case "ff1":
            return bits[::-1].find("1") if a else 32
        case "fl1":
            return 31 - bits.find("1") if a else 32
        case "cnt":
            return bits.count("1")
    return len(bits) - len(bits.lstrip(bits[0])) - 1 if a else 0


def scalar(op: str, a: int, b: int, c: int, shamt: int) -> int:
    sa, sb = signed(a), signed(b)
    if op in ("add", "sub", "min", "max", "minu", "maxu", "srl", "sra", "sll", "or", "xor", "and", "abs"):
        return lane_operation(op, a, b, 32)
    if op in ("ff1", "fl1", "clb", "cnt"):
        return counted(op, a)
    if op in ("extract", "extractu", "insert", "bclr", "bset"):
        return bit_field(op, a, b, c)
    if op.rstrip("NRu") in ("add", "sub"):
        return normalised(op, a, b, shamt)
    match op:
        case "slt" | "slet":
            return sa < sb if op == "slt" else sa <= sb
        case "sltu" | "sletu":
            return a < b if op == "sltu" else a <= b
        case "exths" | "extbs":
            return signed(a, 16 if op == "exths" else 8)
        case "exthz" | "extbz":
            return a % (1 << (16 if op == "exthz" else 8))
        case "clip":
            return -sb - 1 if sa <= -sb - 1 else min(sa, sb)
        case "clipu":
            return 0 if sa <= 0 else min(sa, sb)
        case "ror":
            return (a >> (b % 32)) | (a << (32 - b % 32))
    return a + b


def expected(insn: Insn, operands: Operands) -> tuple[str, int]:
    """Name of the observed output and its value."""
    a, b, c, shamt = operands
    if insn.is_branch:
        relation = COMPARES[insn.op[1:3]]
        return "comparison", int(relation(a, b) if insn.op.endswith("u") else relation(signed(a), signed(b)))
    op = insn.op.removeprefix("pv.")
    if insn.fmt is None or op in ("mlsdot", "cusdot"):
        value = scalar(insn.op, a, b, c, shamt)
    elif op.removesuffix("u") in ("extract", "insert") or op.startswith(("shuffle", "pack")):
        value = lane_move(op, insn.fmt, a, b, c)
    else:
        w = insn.fmt.width
        value = pack((lane_operation(op, x, y, w) for x, y in zip(lanes(a, w), lanes(b, w), strict=True)), w)
    return "result", value % WORD


def one_operand(insn: Insn) -> bool:
    return insn.op.removeprefix("pv.")[:3] in ("abs", "ext", "ff1", "fl1", "clb", "cnt") and (
        "rs2" not in insn.operands and "imm6" not in insn.operands and "Is" not in insn.operands
    )


def vectors(insn: Insn, rng: random.Random) -> list[Operands]:
    """Corner operands against each other, then random ones."""
    pairs = [(a, b) for a in CORNERS for b in (rng.choice(CORNERS), rng.choice((a, ~a % WORD)))]
    for _ in range(RANDOM_VECTORS):
        a = rng.getrandbits(32) >> rng.choice((0, 0, 8, 24))
        pairs.append((rng.choice((a, -a % WORD)), rng.choice((rng.getrandbits(32), rng.getrandbits(5), a ^ 1))))
    if one_operand(insn):
        pairs = [(a, 0) for a, _ in pairs]
    return [(a, b, rng.getrandbits(32), rng.choice((0, 1, 31, rng.getrandbits(5)))) for a, b in pairs]


def distinct_users(config: CoreConfig) -> list[Insn]:
    """One instruction for every control word that uses the ALU; branches apart, for they show another output."""
    rows: dict[tuple[str, bool], Insn] = {}
    for insn in enabled(config.extensions, config.widths):
        fields = alu_control(insn)
        if fields is not None:
            rows[str(sorted(fields.items())), insn.is_branch] = insn
    return list(rows.values())


@pytest.mark.parametrize("name", CONFIGS)
def test_every_instruction(name: str) -> None:
    config, seed = CONFIGS[name], 2020
    rng = random.Random(seed)
    dut = Alu(config)
    operand_ports = Cat(dut.op_a, dut.op_b, dut.op_c, dut.shamt)
    checked = 0

    async def testbench(ctx: object) -> None:
        nonlocal checked
        for insn in distinct_users(config):
            ctx.set(dut.ctrl, AluCtrl.const(alu_control(insn)))
            for operands in vectors(insn, rng)[rng.randrange(STRIDE) :: STRIDE]:
                a, b, c, shamt = operands
                ctx.set(operand_ports, a | b << 32 | c << 64 | shamt << 96)
                output, value = expected(insn, operands)
                got = ctx.get(getattr(dut, output))
                shown = " ".join(f"{operand:#x}" for operand in operands)
                assert got == value, f"{insn.mnemonic} {shown}: {got:#x}, expected {value:#x} (seed {seed})"
                checked += 1

    simulator = Simulator(dut)
    simulator.add_testbench(testbench)
    simulator.run()
    assert checked == len(distinct_users(config)) * (len(CORNERS) * 2 + RANDOM_VECTORS) // STRIDE


def test_additions_need_no_control() -> None:
    sums = {insn.op for insn in INSNS if alu_control(insn) == {}}
    memory = {insn.op for insn in INSNS if insn.is_load or insn.is_store}
    assert sums == memory | {"add", "lui", "auipc", "jal", "jalr", "pv.mlsdot", "pv.cusdot"}


def test_users_of_the_alu() -> None:
    idle = {insn.op for insn in INSNS if alu_control(insn) is None}
    others = {op for op in idle if not op.startswith(("mul", "mac", "pv.dot", "pv.sdot", "csr", "lp."))}
    assert others == {
        "div", "divu", "rem", "remu", "msu", "pv.mldot", "pv.qnt", "pv.rqld", "pv.rqs", "pv.rqu",
        "fence", "fence.i", "ecall", "ebreak", "mret", "wfi",
    }  # fmt: skip
    for insn in INSNS:
        fields = alu_control(insn)
        if fields is not None:
            AluCtrl.const(fields)
