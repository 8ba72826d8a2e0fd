"""Which CSR accesses are legal; the registers themselves have a bench."""

from dataclasses import replace

import pytest
from amaranth.sim import Simulator, SimulatorContext

from xpulpnn.config import CoreConfig, preset
from xpulpnn.core.csr_check import CsrCheck
from xpulpnn.core.csr_file import StoredCsr
from xpulpnn.isa.csr import CSR_BY_NAME

pytestmark = pytest.mark.unit

ADDRESSES = 1 << 12
BASE = {0x300, 0x301, 0x304, 0x305, 0x320, 0x340, 0x341, 0x342, 0x343, 0x344, 0xB00, 0xB02, 0xB80, 0xB82}
BASE |= {0x310, *range(0x323, 0x340), *range(0xB03, 0xB20), *range(0xB83, 0xBA0)}
READ_ONLY = {0xC00, 0xC02, 0xC80, 0xC82, 0xF11, 0xF12, 0xF13, 0xF14, 0xF15}
HWLOOP = {0x7C0, 0x7C1, 0x7C2, 0x7C4, 0x7C5, 0x7C6}
PERFORMANCE = {*range(0x780, 0x791), 0x79F, 0xCC0, 0xCC1}
"""Addresses of the manual's tables, typed from there."""

PLAIN = replace(preset("ri5cy"), xpulpv2=False)


@pytest.mark.parametrize(
    ("config", "writable"),
    [
        (PLAIN, BASE),
        (preset("ri5cy"), BASE | HWLOOP),
        (replace(PLAIN, performance_counters=True), BASE | PERFORMANCE),
        (replace(preset("xpulpnn"), performance_counters=True), BASE | HWLOOP | PERFORMANCE),
    ],
)
def test_every_address_for_reading_and_writing(config: CoreConfig, writable: set[int]) -> None:
    dut = CsrCheck(config)
    legal: dict[int, set[int]] = {0: set(), 1: set()}

    async def testbench(ctx: SimulatorContext) -> None:
        for address in range(ADDRESSES):
            ctx.set(dut.addr, address)
            for write, addresses in legal.items():
                ctx.set(dut.write, write)
                if ctx.get(dut.legal):
                    addresses.add(address)

    simulator = Simulator(dut)
    simulator.add_testbench(testbench)
    simulator.run()
    assert legal == {0: writable | READ_ONLY, 1: writable}


@pytest.mark.parametrize(
    ("name", "flip_flops"),
    [("mstatus", 2), ("mie", 19), ("mtvec", 25), ("mcountinhibit", 2), ("mscratch", 32), ("mepc", 31), ("mcause", 6)],
)
def test_only_writable_bits_are_stored(name: str, flip_flops: int) -> None:
    register = StoredCsr(CSR_BY_NAME[name])
    assert sum(len(statement.lhs) for statement in register.set(register.value)) == flip_flops
