"""Compiled simulation of gate graphs, 256 cases at a time: all operands of one lane, or random operands of all."""

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.cosimulation.model.build import require_tools
from xpulpnn_sim.proofs.engine.gate_graph import GateGraph

CASES = 256  # Cases simulated at once, one per bit of a vector

_LANE_BITS = 8
_SLICE_S = 0.5

_SOURCE = """\
#include <cstdint>
typedef uint64_t V __attribute__((vector_size(32)));
static constexpr int COUNTED = {counted}, INPUTS = {inputs};
static constexpr uint64_t STEPS[6] = {{0xAAAAAAAAAAAAAAAAu, 0xCCCCCCCCCCCCCCCCu, 0xF0F0F0F0F0F0F0F0u,
                                      0xFF00FF00FF00FF00u, 0xFFFF0000FFFF0000u, 0xFFFFFFFF00000000u}};
static V all(uint64_t bit) {{ const uint64_t x = -(bit & 1); return V{{x, x, x, x}}; }}
static uint64_t state;
static uint64_t random64() {{
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    return state;
}}
static V differences(const V* in) {{
    const V ones = all(1), zero = all(0);
{gates}
    return {result};
}}
// Runs blocks first..last-1 of 256 cases. The counted inputs take all values: the lower 8 of them within a block, the
// others are the number of the block; the rest are random. Without counted inputs everything is random in each case.
// Returns the number of the first block with a difference, or last; the inputs of its case are then in `found`.
extern "C" __attribute__((visibility("default"))) uint64_t run_blocks(uint64_t first, uint64_t last, uint64_t seed,
                                                                      uint8_t* found) {{
    V in[INPUTS + 1];
    for (uint64_t block = first; block < last; ++block) {{
        state = (seed + block) * 0x9E3779B97F4A7C15u | 1;
        random64();
        for (int i = 0; i < INPUTS; ++i) {{
            if (COUNTED == 0) in[i] = V{{random64(), random64(), random64(), random64()}};
            else if (i >= COUNTED) in[i] = all(random64() >> 40);
            else if (i < 6) in[i] = V{{STEPS[i], STEPS[i], STEPS[i], STEPS[i]}};
            else if (i == 6) in[i] = V{{0, ~0ull, 0, ~0ull}};
            else if (i == 7) in[i] = V{{0, 0, ~0ull, ~0ull}};
            else in[i] = all(block >> (i - 8));
        }}
        const V wrong = differences(in);
        for (int part = 0; part < 4; ++part) {{
            if (!wrong[part]) continue;
            const int place = __builtin_ctzll(wrong[part]);
            for (int i = 0; i < INPUTS; ++i) found[i] = in[i][part] >> place & 1;
            return block;
        }}
    }}
    return last;
}}
"""


@dataclass(frozen=True, slots=True)
class _Simulated:
    """Cases that a run covered: how many, all or not, and the inputs (literals that are 1) that differ."""

    cases: int
    complete: bool
    different: frozenset[int] | None


def simulate_gates(
    graph: GateGraph,
    words: tuple[Sequence[int], Sequence[int]],
    *,
    counted: Sequence[int],
    blocks: int,
    timeout_s: float,
    seed: int = 1,
    advance: Callable[[float], None] = lambda share: None,
) -> _Simulated:
    """Compare two words of literals in compiled code."""
    found = graph.variables([*words[0], *words[1]])
    inputs = [*counted, *(literal for literal in found if literal not in set(counted))]
    total = 1 << max(len(counted) - _LANE_BITS, 0) if counted else blocks
    end = time.monotonic() + timeout_s
    with tempfile.TemporaryDirectory(prefix="xpulpnn-simulate-") as name:
        run = _compile(_source(graph, words, inputs, len(counted)), Path(name))
        values = (ctypes.c_uint8 * max(len(inputs), 1))()
        done, size = 0, 64
        while done < total:
            began = time.monotonic()
            if began > end:
                return _Simulated(done * CASES, False, None)
            last = min(done + size, total)
            stopped = run(done, last, seed, values)
            if stopped < last:
                ones = frozenset(literal for literal, value in zip(inputs, values, strict=False) if value)
                return _Simulated((stopped + 1) * CASES, False, ones)
            done = last
            advance(done / total)
            size = size * 2 if time.monotonic() - began < _SLICE_S else size
    return _Simulated(1 << len(counted) if counted else total * CASES, True, None)


@dataclass(frozen=True, slots=True)
class _Vector:
    """A vector of cases in C++, by its name; what is computed of it is written into a line of its own."""

    lines: list[str]
    name: str

    def _new(self, text: str) -> "_Vector":
        found = _Vector(self.lines, f"n{len(self.lines)}")
        self.lines.append(f"    const V {found.name} = {text};")
        return found

    def __and__(self, other: "_Vector") -> "_Vector":
        return self._new(f"{self.name} & {other.name}")

    def __or__(self, other: "_Vector") -> "_Vector":
        return self._new(f"{self.name} | {other.name}")

    def __xor__(self, other: "_Vector") -> "_Vector":
        return self._new(f"{self.name} ^ {other.name}")


def _source(graph: GateGraph, words: tuple[Sequence[int], Sequence[int]], inputs: list[int], counted: int) -> str:
    """The gates in C++, as the graph itself evaluates them."""
    lines: list[str] = []
    zeros, ones = _Vector(lines, "zero"), _Vector(lines, "ones")
    values = {literal: _Vector(lines, f"in[{place}]") for place, literal in enumerate(inputs)}
    pairs = [pair for pair in zip(*words, strict=True) if pair[0] != pair[1]]
    found = graph.evaluate(values, [literal for pair in pairs for literal in pair], ones, zeros)
    wrong = reduce(or_, (one ^ other for one, other in zip(found[::2], found[1::2], strict=True)), zeros)
    return _SOURCE.format(counted=counted, inputs=len(inputs), gates="\n".join(lines), result=wrong.name)


def _compile(source: str, folder: Path) -> Callable[[int, int, int, ctypes.Array[ctypes.c_uint8]], int]:
    require_tools()
    (folder / "simulate.cpp").write_text(source)
    command = ["g++", "-std=c++20", "-O1", "-march=native", "-fPIC", "-shared", "-Wno-psabi"]
    command += ["-o", "simulate.so", "simulate.cpp"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or ["no message"]
        raise ToolError(f"g++ must be able to compile the gates: {lines[0]}")
    library = ctypes.CDLL(str(folder / "simulate.so"))
    function = library.run_blocks
    function.restype = ctypes.c_uint64
    function.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint8)]
    return function
