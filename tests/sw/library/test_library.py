"""The C library of the runtime: mathematics against the host's, the heap against a model, the rest by its results."""

import math
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from xpulpnn.config import PRESETS
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.programs.elf import load
from xpulpnn_sw.toolchain import build as toolchain
from xpulpnn_sw.toolchain.build import Options

from .. import elf
from ..elf import SOURCES

CONFIG = PRESETS["xpulpnn"]
SEED = 11
COUNT = 12
"""Random arguments of every function."""


def run(source: Path, compiler: str, folder: Path, *others: Path, **options) -> elf.Ran:
    """Compile a program of one file, and others with it, and run it."""
    path = folder / "program.elf"
    toolchain.build([source, *others], path, compiler=compiler, options=Options(config=CONFIG, **options))
    return elf.run(path, CONFIG)


def double(value: float) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


def single(value: float) -> float:
    """The value rounded to single precision."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def c_round(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x) if abs(x) < 2**52 else x


def whole(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda x: math.copysign(float(function(x)), x) if math.isfinite(x) else x


def safe(function: Callable[..., float], *arguments: float) -> float:
    """What C gives where Python raises an exception."""
    try:
        return function(*arguments)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def in_c(name: str, reference: Callable[..., float], x: float, *others: float) -> float:
    """What the standard says of not-a-number, infinities and zeros."""
    value = safe(reference, x, *others)
    if not others:
        return x if math.isnan(x) else value
    (y,) = others
    if name in ("fmin", "fmax"):
        return y if math.isnan(x) else x if math.isnan(y) else value
    if name == "pow" and math.isinf(value) and x < 0:
        return math.copysign(value, -1) if y % 2 == 1 else value
    if name == "pow" and x == 0 and y < 0:
        return math.copysign(math.inf, x) if y % 2 == 1 else math.inf
    return value


def logarithm(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: -math.inf if x == 0 else function(x)


UNARY: dict[str, tuple[Callable[[float], float], int]] = {
    "fabs": (abs, 0),
    "floor": (whole(math.floor), 0),
    "ceil": (whole(math.ceil), 0),
    "trunc": (whole(math.trunc), 0),
    "round": (c_round, 0),
    "sqrt": (math.sqrt, 0),
    "exp": (math.exp, 2),
    "exp2": (math.exp2, 2),
    "log": (logarithm(math.log), 2),
    "log2": (logarithm(math.log2), 2),
    "log10": (logarithm(math.log10), 2),
    "sin": (math.sin, 2),
    "cos": (math.cos, 2),
    "tan": (math.tan, 4),
    "atan": (math.atan, 2),
    "tanh": (math.tanh, 4),
}
"""Reference in double precision and largest error in units of the last place."""

BINARY: dict[str, tuple[Callable[[float, float], float], int]] = {
    "fmod": (math.fmod, 0),
    "pow": (math.pow, 2),
    "atan2": (math.atan2, 2),
    "fmin": (min, 0),
    "fmax": (max, 0),
    "copysign": (math.copysign, 0),
}
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-40, 1e-310, 3.4e38, -1e300, math.inf, -math.inf, math.nan)


def arguments(rng: random.Random, count: int) -> list[float]:
    """Numbers of all sizes that matter, also around multiples of pi / 2."""
    spread = [math.ldexp(rng.uniform(-2, 2), rng.randint(-30, 30)) for _ in range(count // 3)]
    near = [rng.randint(-40, 40) * math.pi / 2 + rng.uniform(-1e-6, 1e-6) for _ in range(count // 3)]
    small = [rng.uniform(-20, 20) for _ in range(count - 2 * (count // 3))]
    return [*SPECIAL, *spread, *near, *small]


def program(lines: list[str], tables: dict[str, list[int]], results: int) -> str:
    data = [
        f"static const uint64_t {name}[] = {{{','.join(f'{value}ull' for value in values)}}};"
        for name, values in tables.items()
    ]
    return "\n".join(
        [
            "#include <math.h>",
            "#include <stdint.h>",
            *data,
            f"volatile uint64_t results[{results}];",
            "static inline double number(uint64_t bits) { union { uint64_t b; double d; } u = {bits}; return u.d; }",
            "static inline uint64_t bits(double d) { union { double d; uint64_t b; } u = {d}; return u.b; }",
            "int main(void) {",
            "    volatile uint64_t *to = results;",
            *lines,
            "    return 0;",
            "}",
        ]
    )


def ulps(got: float, expected: float, *, is_single: bool) -> float:
    """The error in units of the last place."""
    if math.isnan(got) or math.isnan(expected):
        return 0 if math.isnan(got) and math.isnan(expected) else math.inf
    if got == expected:
        return 0 if math.copysign(1, got) == math.copysign(1, expected) else math.inf
    if math.isinf(got) or math.isinf(expected):
        return math.inf
    place = max(math.ulp(expected), math.ulp(2.0**-126) if is_single else 0)
    return abs(got - expected) / (place * (1 << 29) if is_single else place)


@pytest.mark.flow
def test_mathematics(kind: str, tmp_path: Path):
    rng = random.Random(SEED)
    xs, ys = arguments(rng, COUNT), arguments(rng, COUNT)
    rng.shuffle(ys)
    singles = [single(x) for x in xs], [single(y) for y in ys]
    tables = {"xs": xs, "ys": ys, "sxs": singles[0], "sys": singles[1]}
    lines: list[str] = []
    expected: list[tuple[str, float, bool, int]] = []
    for name, (reference, bound) in (UNARY | BINARY).items():
        for suffix, tables_of, cast in (("", (xs, ys), ""), ("f", singles, "(float)")):
            count = 1 if name in UNARY else 2
            operands = ", ".join(f"{cast}number({'s' * bool(suffix)}{table}[i])" for table in ("xs", "ys")[:count])
            lines.append(f"    for (int i = 0; i < {len(xs)}; i++) *to++ = bits({name}{suffix}({operands}));")
            for given in zip(*tables_of[:count], strict=True):
                value = in_c(name, reference, *given)
                text = f"{name}{suffix}({', '.join(map(repr, given))})"
                expected.append((text, single(value) if suffix else value, bool(suffix), bound))
    source = tmp_path / "math.c"
    bit_tables = {name: [double(value) for value in values] for name, values in tables.items()}
    source.write_text(program(lines, bit_tables, len(expected)))
    ran = run(source, kind, tmp_path, extra=("-fno-builtin",))
    assert ran.end.ok, ran.end.text
    got = struct.unpack(f"<{len(expected)}d", ran.read("results", 8 * len(expected)))
    worst: dict[str, float] = {}
    for value, (call, wanted, is_single, bound) in zip(got, expected, strict=True):
        error = ulps(value, wanted, is_single=is_single)
        name = call.partition("(")[0]
        worst[name] = max(worst.get(name, 0), error)
        assert error <= (min(bound, 1) if is_single else bound), f"{call} is {value!r}, not {wanted!r}"
    assert max(worst.values()) > 0, "nothing but exact results"


@pytest.mark.flow
def test_heap(compiler: str, tmp_path: Path):
    ran = run(SOURCES / "heap.c", compiler, tmp_path, heap=16 << 10)
    assert ran.end.ok, f"{ran.end.text}: line of heap.c"


@pytest.mark.flow
def test_library(kind: str, tmp_path: Path):
    """One compiler without optimisation, the other with it."""
    level = "-O2" if kind == "gcc" else "-O0"
    ran = run(SOURCES / "library.c", kind, tmp_path, SOURCES / "saved_registers.S", opt=level)
    assert ran.end.ok, f"{ran.end.text}: line of library.c"
    assert ran.output == ""


@pytest.mark.flow
def test_the_heap_is_there_where_it_is_used_only(compiler: str, tmp_path: Path):
    source = tmp_path / "main.c"
    source.write_text("int main(void) { return 0; }")
    assert "malloc" not in run(source, compiler, tmp_path, ram=96 << 10).symbols
    # what is kept in volatile variables is not optimised away
    body = "a = malloc(24000); b = malloc(1000); return a == 0 || b != 0;"
    text = f"void *volatile a, *volatile b; int main(void) {{ {body} }}"
    source.write_text(f"#include <stdlib.h>\n{text}")
    ran = run(source, compiler, tmp_path, ram=96 << 10)
    assert ran.end.ok, ran.end.text
    assert ran.symbols["xp_heap_end"] - ran.symbols["xp_heap"] == 24 << 10


@pytest.mark.cosim
def test_programs_on_the_core(compiler: str, tmp_path: Path):
    """Every instruction of the library and of translated assembly, compared with the simulator."""
    config = PRESETS["xpulpnn-full"]
    path = tmp_path / "library.elf"
    sources = [SOURCES / name for name in ("library.c", "saved_registers.S")]
    toolchain.build(sources, path, compiler=compiler, options=Options(config=config))
    result = run_program(load(path), simulated(config), Machine(max_cycles=2_000_000), check=True, lockstep=True)
    assert result.exit.ok, result.exit.text
    assert result.mismatches == 0
