"""Surroundings of a design: bad values are refused, memory is found where it is and answers when it must."""

import shutil
import subprocess
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.cosimulation.model.build import NATIVE
from xpulpnn_sim.cosimulation.model.machine import Machine, Memory, Waves, load_memory
from xpulpnn_sim.cosimulation.model.schema import SETTINGS, cpp_header


@pytest.mark.parametrize(
    ("values", "named"), [({"grant_stalls": 1.0}, "grant stalls"), ({"irq_rate": float("nan")}, "irq rate")]
)
def test_bad_values(values, named):
    with pytest.raises(InputError, match=f"^{named} must be a probability"):
        Machine(**values)


def test_settings_are_fields_of_the_driver():
    timing = {"grant_stalls": 0.25, "fetch_grant_stalls": 0.5, "response_latency": 3, "fetch_latency": 4}
    rates = {"irq_rate": 0.125, "halt_rate": 0.75}
    settings = Machine(**timing, **rates, l2_latency=5, seed=1 << 40 | 7, hart_id=5).settings()
    assert settings.keys() <= set(SETTINGS.names)
    del settings["watchdog"]
    assert (settings.pop("debug_halt_addr"), settings.pop("debug_exception_addr")) == (0x1A11_0800, 0x1A11_0808)
    assert settings == {
        "grant_stall": 1 << 30,
        "halt_rate": 3 << 30,
        "fetch_grant_stall": 1 << 31,
        "response_latency": 3,
        "fetch_latency": 4,
        "data_latency": 5,
        "irq_rate": 1 << 29,
        "seed": 7,
        "hart_id": 5,
        "reset_after": 0,
        "clint": 0,
    }


def test_windows_of_waveforms():
    assert Waves.window("5:25") == (5, 25)
    for text in ("5", "9:3", "a:b", ":", "-1:3", f"0:{1 << 64}"):
        with pytest.raises(InputError, match=rf" must be FROM:TO with FROM <= TO, not {text}$"):
            Waves.window(text)


def test_memory_is_bytes_at_addresses():
    memory = Memory({0x100: np.arange(8, dtype=np.uint8), 0x200: np.zeros(4, np.uint8)})
    assert memory.read(0x102, 3) == b"\2\3\4"
    memory.write(0x200, b"ab")
    assert memory.read(0x200, 4) == b"ab\0\0"
    assert memory.inside(0x107, 1)
    assert not memory.inside(0x107, 2)
    with pytest.raises(InputError) as caught:
        memory.read(0x1FF, 2)
    assert str(caught.value) == "address must be in memory, not 0x000001ff with 2 bytes"


def test_programs_are_loaded_beside_the_ram(core_program):
    program = core_program("nop")
    pieces = Memory(load_memory(program, ((0x4000_0000, 16),)))
    segment = program.segments[-1]
    assert pieces.read(segment.address, len(segment.data)) == segment.data
    assert pieces.read(0x4000_0000, 16) == bytes(16)


GOOD, BAD, MASK = 0x1234_5678, 0xFFFF_FFFF, 0xFFFF_FFFF

# reads over a bus a word that is there and one that fails in turn; prints rvalid, rdata and err of each cycle
BUS_PROGRAM = """
#include <cstdio>
#include <cstdlib>
#include "obi.hpp"
int main(int, char** settings) {
    uint8_t bytes[] = {0x78, 0x56, 0x34, 0x12};
    const harness::Window windows[] = {{reinterpret_cast<uint64_t>(bytes), 0, sizeof bytes}, {0, 4, 4}};
    harness::Memory memory(false, windows, 2);
    harness::Obi bus(memory, 1, strtoul(settings[1], nullptr, 0), 1, strtoul(settings[2], nullptr, 0), 0xFFFFFFFFu);
    uint32_t address = 0;
    for (uint64_t cycle = 1; cycle < 200; ++cycle) {
        if (cycle % 3 && bus.grant) bus.request(cycle, address ^= 4, false, 0, 0);
        bus.advance(cycle + 1);
        printf("%d %u %d\\n", bus.rvalid, bus.rdata, bus.err);
    }
}
"""


# requests that are never granted: kept, with other data that nobody reads, at another address, withdrawn, made anew,
# with other data; prints of each whether it is as the one before it
PROMISES_PROGRAM = """
#include <cstdio>
#include "obi.hpp"
int main() {
    harness::Memory memory(false, nullptr, 0);
    harness::Obi bus(memory, 1, ~0u, 1, 1, 0);
    const struct { bool req; uint32_t address; bool we; uint32_t data; } asked[] = {
        {true, 4, false, 0}, {true, 4, false, 9}, {true, 8, false, 9}, {false, 8, false, 9}, {true, 4, true, 5},
        {true, 4, true, 6}};
    for (const auto& one : asked) printf("%d", bus.kept(one.req, one.address, one.we, 0xF, one.data));
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    folder = tmp_path_factory.mktemp("bus")
    (folder / "schema.hpp").write_text(cpp_header(Counter(), both_edges=False))

    def build(text):
        source, made = folder / "bus.cpp", folder / "bus"
        source.write_text(text)
        subprocess.run(["g++", "-std=c++17", f"-I{NATIVE}", f"-I{folder}", source, "-o", made], check=True)
        return made

    return build


def test_a_request_stays_as_it_is_until_it_is_granted(compiled):
    lines = subprocess.run([compiled(PROMISES_PROGRAM)], capture_output=True, text=True, check=True).stdout
    assert lines == "110010"


@pytest.fixture(scope="module")
def bus(compiled):
    return compiled(BUS_PROGRAM)


@pytest.mark.flow
@pytest.mark.parametrize(("stall", "spread"), [(0, 1), (1 << 30, 1), (0, 4)])
def test_an_answer_stays_on_a_bus_with_ideal_timing_alone(bus, stall, spread):
    lines = subprocess.run([bus, str(stall), str(spread)], capture_output=True, text=True, check=True).stdout
    cycles = [tuple(map(int, line.split())) for line in lines.splitlines()]
    assert {(word, err) for valid, word, err in cycles if valid} == {(GOOD, 0), (BAD, 1)}
    gaps = [(before, now) for before, now in pairwise(cycles) if before[0] and not now[0]]
    assert len(gaps) > 10
    ideal = (stall, spread) == (0, 1)
    assert all(now[1:] == (before[1:] if ideal else (before[1] ^ MASK, 1 - before[2])) for before, now in gaps)
