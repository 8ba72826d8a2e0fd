# amaranth: UnusedElaboratable=no
# A constructor that raises leaves an object behind, of which Amaranth would warn.

import random

import pytest
from amaranth.hdl import Fragment
from amaranth.sim import Simulator, SimulatorContext

from xpulpnn.dotp.nnrf import NnRf
from xpulpnn.errors import ConfigError

pytestmark = pytest.mark.unit

SEED = 22


@pytest.mark.parametrize("entries", [4, 6])
def test_random_traffic_against_a_list(entries: int) -> None:
    dut = NnRf(entries)
    rng = random.Random(SEED)
    model = [0] * entries
    first_weight = entries - 4

    async def testbench(ctx: SimulatorContext) -> None:
        for index in range(4):
            ctx.set(dut.wgt_addr, index)
            assert ctx.get(dut.wgt) == 0
        for _ in range(500):
            writes, address, word = rng.getrandbits(1), rng.randrange(entries), rng.getrandbits(32)
            weight, activation = rng.randrange(4), rng.randrange(2)
            ctx.set(dut.we, writes)
            ctx.set(dut.waddr, address)
            ctx.set(dut.wdata, word)
            ctx.set(dut.wgt_addr, weight)
            if writes:
                model[address] = word
            assert ctx.get(dut.wgt) == model[first_weight + weight], f"seed {SEED}"
            if entries == 6:
                ctx.set(dut.act_addr, activation)
                assert ctx.get(dut.act) == model[activation], f"seed {SEED}"
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


def test_parameters_are_registers_of_their_own() -> None:
    dut = NnRf(8)

    async def testbench(ctx: SimulatorContext) -> None:
        for entry in range(8):
            ctx.set(dut.waddr, entry)
            ctx.set(dut.wdata, 0x1234_5670 + entry)
            ctx.set(dut.we, 1)
            # a parameter shows a new word only from the next cycle on
            assert (ctx.get(dut.nn_kappa), ctx.get(dut.nn_lambda)) == (0x1234_5676 if entry > 6 else 0, 0)
            await ctx.tick()
        ctx.set(dut.we, 0)
        assert (ctx.get(dut.nn_kappa), ctx.get(dut.nn_lambda)) == (0x1234_5676, 0x1234_5677)
        assert (ctx.get(dut.act), ctx.get(dut.wgt)) == (0x1234_5670, 0x1234_5672)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


def test_only_the_nn_form_has_an_activation_port() -> None:
    for entries, present in ((6, True), (4, False)):
        dut = NnRf(entries)
        Fragment.get(dut, None)
        assert ("act" in dut.signature.members) is present


def test_number_of_entries_is_checked() -> None:
    with pytest.raises(ConfigError) as error:
        NnRf(5)
    assert str(error.value) == "entries must be 4, 6 or 8, not 5"
