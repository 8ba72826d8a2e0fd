import random
from itertools import combinations, product
from typing import get_args

import pytest
from amaranth.hdl import Fragment
from amaranth.sim import Simulator, SimulatorContext

from xpulpnn.config import ALL_WIDTHS, Adders, DotpConfig
from xpulpnn.dotp.ctrl import dotp_control
from xpulpnn.dotp.region import DotpRegion
from xpulpnn.dotp.unit import DotpUnit
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.table import INSNS, find

pytestmark = pytest.mark.unit

SEED = 23
ADDERS = get_args(Adders)
STRUCTURES = [
    *product(("replicated", "shared"), ("none", "and"), ADDERS),
    *product(["replicated"], ["register"], ADDERS),
]
SUBSETS = [frozenset(s) for n in range(1, 5) for s in combinations(sorted(ALL_WIDTHS, reverse=True), n)]


def elements(word: int, fmt: ElemFmt, signed: bool) -> list[int]:
    digits = [word // 2 ** (fmt.width * lane) % 2**fmt.width for lane in range(fmt.lanes)]
    half = 2 ** (fmt.width - 1)
    return [(digit + half) % (2 * half) - half if signed else digit for digit in digits]


def expected(fmt: ElemFmt, a_signed: bool, b_signed: bool, accumulate: bool, rs1: int, rs2: int, rd: int) -> int:
    products = zip(elements(rs1, fmt, a_signed), elements(rs2, fmt, b_signed), strict=True)
    return (rd * accumulate + sum(x * y for x, y in products)) % 2**32


def splat(fmt: ElemFmt, element: int) -> int:
    return sum(element << (fmt.width * lane) for lane in range(fmt.lanes))


def operations(config: DotpConfig, count: int) -> list[tuple]:
    """Corners of every format and sign combination and random operations, shuffled so that formats alternate."""
    rng = random.Random(SEED)
    found = []
    for fmt, a_signed, b_signed in product(config.formats, (False, True), (False, True)):
        top = 1 << (fmt.width - 1)
        corners = [splat(fmt, value) for value in (top, 2 * top - 1)]
        found += [(fmt, a_signed, b_signed, True, a, b, 2**32 - 1) for a, b in product(corners, repeat=2)]
    for _ in range(count):
        signs = (bool(rng.getrandbits(1)) for _ in range(3))
        found.append((rng.choice(config.formats), *signs, *(rng.getrandbits(32) for _ in range(3))))
    rng.shuffle(found)
    return found


def simulate(dut: DotpUnit, testbench) -> None:
    simulator = Simulator(dut)
    if dut.registered:
        simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


def set_factors(ctx: SimulatorContext, dut: DotpUnit, operation: tuple) -> None:
    fmt, a_signed, b_signed, accumulate, rs1, rs2, _ = operation
    ctx.set(dut.ctrl, {"fmt": fmt, "a_signed": a_signed, "b_signed": b_signed, "accumulate": accumulate})
    ctx.set(dut.rs1, rs1)
    ctx.set(dut.rs2, rs2)


def check(config: DotpConfig, found: list[tuple]) -> None:
    dut = DotpUnit(config)

    async def combinational(ctx: SimulatorContext) -> None:
        for operation in found:
            set_factors(ctx, dut, operation)
            ctx.set(dut.rd, operation[-1])
            assert ctx.get(dut.result) == expected(*operation), f"{operation} seed {SEED}"

    async def registered(ctx: SimulatorContext) -> None:
        ctx.set(dut.enable, 1)
        set_factors(ctx, dut, found[0])
        for operation, following in zip(found, found[1:] + found[:1], strict=True):
            await ctx.tick()
            set_factors(ctx, dut, following)
            ctx.set(dut.rd, operation[-1])
            assert ctx.get(dut.result) == expected(*operation), f"{operation} seed {SEED}"

    simulate(dut, registered if config.isolation == "register" else combinational)


@pytest.mark.parametrize(
    ("structure", "widths"),
    [
        (structure, widths)
        for structure in STRUCTURES
        for widths in SUBSETS
        if structure == STRUCTURES[-1] or widths == ALL_WIDTHS
    ],
    ids=lambda value: "+".join(map(str, value)),
)
def test_formats_of_every_structure(structure: tuple[str, str, str], widths: frozenset[int]) -> None:
    """Few vectors each: the benches run many more, and ``xpulpnn prove units`` proves the structures equal."""
    multipliers, isolation, adders = structure
    config = DotpConfig(widths=widths, multipliers=multipliers, isolation=isolation, adders=adders)
    check(config, operations(config, 10))


def test_registered_result_stays_while_not_enabled() -> None:
    dut = DotpUnit(DotpConfig(multipliers="replicated", isolation="register"))

    async def testbench(ctx: SimulatorContext) -> None:
        operation = (ElemFmt.B, False, True, True, 0x0102_0304, 0xFF02_FF03, 100)
        set_factors(ctx, dut, operation)
        ctx.set(dut.enable, 1)
        await ctx.tick()
        ctx.set(dut.enable, 0)
        for fmt, rd in ((ElemFmt.B, 100), (ElemFmt.C, 7), (ElemFmt.H, 2**31)):
            set_factors(ctx, dut, (fmt, True, False, False, 0x5555_5555, 0xAAAA_AAAA, 0))
            ctx.set(dut.rd, rd)
            assert ctx.get(dut.result) == expected(*operation[:-1], rd)
            await ctx.tick()

    simulate(dut, testbench)


@pytest.mark.parametrize("adders", ADDERS)
@pytest.mark.parametrize("isolation", ["and", "register"])
def test_idle_regions_are_quiet(isolation: str, adders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    regions: list[DotpRegion] = []

    def region(fmt: ElemFmt, **structure) -> DotpRegion:
        regions.append(DotpRegion(fmt, **structure))
        return regions[-1]

    monkeypatch.setattr("xpulpnn.dotp.unit.DotpRegion", region)
    config = DotpConfig(multipliers="replicated", isolation=isolation, adders=adders)
    dut = DotpUnit(config)

    async def testbench(ctx: SimulatorContext) -> None:
        for operation in operations(config, 50):
            set_factors(ctx, dut, operation)
            ctx.set(dut.rd, operation[-1])
            idle = [region for region in regions if region.fmt != operation[0]]
            assert len(idle) == len(ElemFmt) - 1
            if isolation == "register":
                ctx.set(dut.enable, 1)
                assert not any(ctx.get(region.load) for region in idle)
                await ctx.tick()
            else:
                inputs = [(region.a, region.b, region.a_signed, region.b_signed) for region in idle]
                assert not any(ctx.get(port) for ports in inputs for port in ports)
            if adders == "inferred":
                assert not any(ctx.get(region.acc) for region in idle)
            elif isolation == "and":
                assert not any(ctx.get(word) for region in idle for word in (region.partial, region.carry))

    simulate(dut, testbench)


def test_enable_exists_only_with_registers() -> None:
    for isolation, present in (("register", True), ("and", False), ("none", False)):
        dut = DotpUnit(DotpConfig(multipliers="replicated", isolation=isolation))
        Fragment.get(dut, None)
        assert ("enable" in dut.signature.members) is present


@pytest.mark.parametrize(
    ("mnemonic", "a_signed", "b_signed", "accumulate"),
    [
        ("pv.dotusp.h", False, True, False),
        ("pv.sdotup.sc.c", False, False, True),
        ("pv.mlsdotsup.n", True, False, True),
        ("pv.cusdotusp.b.2", True, False, True),
    ],
)
def test_control_word(mnemonic: str, a_signed: bool, b_signed: bool, accumulate: bool) -> None:
    insn = find(mnemonic)
    control = {"fmt": insn.fmt, "a_signed": a_signed, "b_signed": b_signed, "accumulate": accumulate}
    assert dotp_control(insn) == control


def test_control_word_covers_the_table() -> None:
    rows = [insn for insn in INSNS if dotp_control(insn) is not None]
    assert all("dot" in insn.mnemonic for insn in rows)
    assert len(rows) == sum("dot" in insn.mnemonic for insn in INSNS)
