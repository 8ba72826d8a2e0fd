"""Legal accesses to CSRs; the registers themselves have a bench."""

from dataclasses import replace

import pytest
from amaranth.sim import SimulatorContext
from tests.isa.test_machine import BASE, HWLOOP, PERFORMANCE, TRIGGER, nn_words
from tests.rtl.replay import simulate

from xpulpnn.config import CoreConfig, preset
from xpulpnn.core.csr_check import CsrCheck
from xpulpnn.core.csr_file import StoredCsr
from xpulpnn.isa.csr import CSR_BY_NAME

ADDRESSES = 1 << 12
READ_ONLY = {address for address, (_, access, *_) in BASE.items() if access == "RO"}
PLAIN = replace(preset("ri5cy"), xpulpv2=False)


@pytest.mark.flow
@pytest.mark.parametrize(
    ("config", "present"),
    [
        (PLAIN, {*BASE}),
        (replace(PLAIN, performance_counters=True), {*BASE, *PERFORMANCE}),
        (replace(preset("xpulpnn"), performance_counters=True), {*BASE, *HWLOOP, *PERFORMANCE}),
        (replace(preset("xpulpnn2"), debug=True), {*BASE, *HWLOOP, *TRIGGER}),
        (replace(preset("xpulpnn2"), debug=True, triggers=0), {*BASE, *HWLOOP}),
        (replace(preset("xpulpnn-cu"), nn_csrs=True), {*BASE, *HWLOOP, *nn_words(2, 3, 4, 5)}),
        (replace(preset("xpulpnn2"), nn_csrs=True), {*BASE, *HWLOOP, *nn_words(*range(8))}),
        (replace(preset("xpulpnn3"), nn_csrs=True), {*BASE, *HWLOOP, *nn_words(*range(10))}),
    ],
)
def test_every_address_for_reading_and_writing(config: CoreConfig, present: set[int]) -> None:
    dut = CsrCheck(config)
    legal: dict[int, set[int]] = {0: set(), 1: set()}

    async def testbench(ctx: SimulatorContext) -> None:
        for address in range(ADDRESSES):
            ctx.set(dut.addr, address)
            for write, addresses in legal.items():
                ctx.set(dut.write, write)
                if ctx.get(dut.legal):
                    addresses.add(address)

    simulate(dut, testbench)
    assert legal == {0: present, 1: present - READ_ONLY}


@pytest.mark.parametrize(
    ("name", "flip_flops"),
    [("mstatus", 2), ("mie", 19), ("mtvec", 25), ("mcountinhibit", 2), ("mscratch", 32), ("mepc", 31), ("mcause", 6)],
)
def test_only_writable_bits_are_stored(name: str, flip_flops: int) -> None:
    register = StoredCsr(CSR_BY_NAME[name])
    assert sum(len(statement.lhs) for statement in register.set(register.value)) == flip_flops
