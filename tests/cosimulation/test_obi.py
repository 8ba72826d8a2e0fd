"""The memory on the buses of a model, cycle by cycle, compiled alone."""

import shutil
import subprocess
from collections import Counter
from itertools import pairwise

import pytest

from xpulpnn_sim.cosimulation.model.build import NATIVE
from xpulpnn_sim.cosimulation.model.schema import cpp_header

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")

GOOD, BAD, MASK = 0x1234_5678, 0xFFFF_FFFF, 0xFFFF_FFFF

# reads a word that is there and one that fails in turn; prints rvalid, rdata and err of each cycle
PROGRAM = """
#include <cstdio>
#include <cstdlib>
#include "obi.hpp"
int main(int, char** settings) {
    harness::Memory memory(false);
    uint8_t bytes[] = {0x78, 0x56, 0x34, 0x12};
    memory.add_window(0, sizeof bytes, bytes);
    memory.add_errors(4, 4);
    harness::Obi bus(memory, 1, strtoul(settings[1], nullptr, 0), 1, strtoul(settings[2], nullptr, 0), 0xFFFFFFFFu);
    uint32_t address = 0;
    for (uint64_t cycle = 1; cycle < 200; ++cycle) {
        if (cycle % 3 && bus.grant) bus.request(cycle, address ^= 4, false, 0, 0);
        bus.advance(cycle + 1);
        printf("%d %u %d\\n", bus.rvalid, bus.rdata, bus.err);
    }
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bus")
    (folder / "schema.hpp").write_text(cpp_header(Counter(), both_edges=False))
    source, made = folder / "bus.cpp", folder / "bus"
    source.write_text(PROGRAM)
    subprocess.run(["g++", "-std=c++17", f"-I{NATIVE}", f"-I{folder}", source, "-o", made], check=True)
    return made


@pytest.mark.parametrize(("stall", "spread"), [(0, 1), (1 << 30, 1), (0, 4)])
def test_an_answer_stays_on_a_bus_with_ideal_timing_alone(program, stall, spread):
    lines = subprocess.run([program, str(stall), str(spread)], capture_output=True, text=True, check=True).stdout
    cycles = [tuple(map(int, line.split())) for line in lines.splitlines()]
    assert {(word, err) for valid, word, err in cycles if valid} == {(GOOD, 0), (BAD, 1)}
    gaps = [(before, now) for before, now in pairwise(cycles) if before[0] and not now[0]]
    assert len(gaps) > 10
    ideal = (stall, spread) == (0, 1)
    assert all(now[1:] == (before[1:] if ideal else (before[1] ^ MASK, 1 - before[2])) for before, now in gaps)
