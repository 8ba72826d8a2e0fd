# amaranth: UnusedElaboratable=no
# A constructor that raises leaves an object behind, of which Amaranth would warn.
"""The dot-product unit of sets of widths; results of formats apart from each other; idle regions are quiet."""

import random
from itertools import product

import pytest
from amaranth.sim import SimulatorContext
from tests.rtl.replay import simulate

from xpulpnn.config import ALL_WIDTHS, DotpConfig
from xpulpnn.dotp.nnrf import NnRf
from xpulpnn.dotp.region import DotpRegion
from xpulpnn.dotp.unit import DotpUnit
from xpulpnn.errors import ConfigError
from xpulpnn.isa.formats import ElemFmt

SEED = 23
SUBSETS = [*({width} for width in sorted(ALL_WIDTHS)), {8, 2}, {16, 4}, {16, 4, 2}]


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
    rows = []
    for fmt, a_signed, b_signed in product(config.formats, (False, True), (False, True)):
        top = 1 << (fmt.width - 1)
        corners = [splat(fmt, value) for value in (top, 2 * top - 1)]
        rows += [(fmt, a_signed, b_signed, True, a, b, 2**32 - 1) for a, b in product(corners, repeat=2)]
    for _ in range(count):
        signs = (bool(rng.getrandbits(1)) for _ in range(3))
        rows.append((rng.choice(config.formats), *signs, *(rng.getrandbits(32) for _ in range(3))))
    rng.shuffle(rows)
    return rows


def set_factors(ctx: SimulatorContext, dut: DotpUnit, operation: tuple) -> None:
    fmt, a_signed, b_signed, accumulate, rs1, rs2, _ = operation
    ctx.set(dut.ctrl, {"fmt": fmt, "a_signed": a_signed, "b_signed": b_signed, "accumulate": accumulate})
    ctx.set(dut.rs1, rs1)
    ctx.set(dut.rs2, rs2)


def operate(config: DotpConfig, count: int) -> None:
    dut, rows = DotpUnit(config), operations(config, count)

    async def testbench(ctx: SimulatorContext) -> None:
        ctx.set(dut.enable, 1)
        set_factors(ctx, dut, rows[0])
        for operation, successor in zip(rows, rows[1:] + rows[:1], strict=True):
            await ctx.tick()
            set_factors(ctx, dut, successor)
            ctx.set(dut.rd, operation[-1])
            assert ctx.get(dut.result) == expected(*operation), f"{operation} seed {SEED}"

    simulate(dut, testbench, clocked=dut.registered)


@pytest.mark.parametrize("widths", SUBSETS, ids=lambda widths: "+".join(map(str, sorted(widths))))
@pytest.mark.flow
def test_formats_of_sets_of_widths(widths: set[int]) -> None:
    """A structure of each kind runs here or in a bench; ``xpulpnn prove units`` proves all of them equal."""
    operate(DotpConfig(widths=frozenset(widths), multipliers="replicated", isolation="register"), 10)


@pytest.mark.parametrize(("widths", "isolation"), [(ALL_WIDTHS, "none"), (ALL_WIDTHS, "and"), ({16}, "none")])
def test_results_apart(widths: set[int], isolation: str) -> None:
    config = DotpConfig(widths=frozenset(widths), multipliers="signed", isolation=isolation, adders="inferred")
    dut = DotpUnit(config, apart=True)

    async def testbench(ctx: SimulatorContext) -> None:
        for operation in operations(config, 10):
            set_factors(ctx, dut, operation)
            ctx.set(dut.rd, operation[-1])
            result = expected(*operation)
            assert ctx.get(dut.result) == result
            assert [ctx.get(word) for word in dut.apart] == [result * (fmt == operation[0]) for fmt in config.formats]

    simulate(dut, testbench, clocked=False)


@pytest.mark.parametrize(
    ("multipliers", "isolation", "adders"), [("replicated", "and", "carry-save"), ("signed", "register", "inferred")]
)
@pytest.mark.flow
def test_idle_regions_are_quiet(multipliers: str, isolation: str, adders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    regions: list[DotpRegion] = []

    def region(fmt: ElemFmt, **structure) -> DotpRegion:
        regions.append(DotpRegion(fmt, **structure))
        return regions[-1]

    monkeypatch.setattr("xpulpnn.dotp.unit.DotpRegion", region)
    config = DotpConfig(multipliers=multipliers, isolation=isolation, adders=adders)
    dut = DotpUnit(config)

    async def testbench(ctx: SimulatorContext) -> None:
        for operation in operations(config, 20):
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
            assert ctx.get(dut.result) == expected(*operation), f"{operation} seed {SEED}"
            if adders == "inferred":
                assert not any(ctx.get(region.acc) for region in idle)
            elif isolation == "and":
                assert not any(ctx.get(word) for region in idle for word in (region.partial, region.carry))

    simulate(dut, testbench, clocked=dut.registered)


def test_number_of_entries_is_checked() -> None:
    with pytest.raises(ConfigError, match=r"^entries must be 4, 6 or 8, not 5$"):
        NnRf(5)
