"""The C library of the runtime: mathematics against the host's, the heap against a model, the rest by its results."""

import math
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.designs import FULL

from xpulpnn.config import PRESETS
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.programs.elf import load
from xpulpnn_sw.toolchain import build as toolchain
from xpulpnn_sw.toolchain.build import Options

from .. import elf
from ..elf import SOURCES

CONFIG = PRESETS["xpulpnn"]
SEED = 11
COUNT = 6


def run(source: Path, compiler: str, folder: Path, *others: Path, **options) -> elf.Ran:
    path = folder / "program.elf"
    toolchain.build([source, *others], path, compiler=compiler, options=Options(config=CONFIG, **options))
    return elf.run(path, CONFIG)


def single(value: float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def in_c(reference: Callable[..., float], *arguments: float) -> float:
    try:
        return float(reference(*arguments))
    except OverflowError:
        return math.inf
    except ValueError:
        return -math.inf if arguments == (0,) else math.nan


def whole(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda x: math.copysign(function(x), x) if math.isfinite(x) else x


FUNCTIONS: dict[str, tuple[Callable[..., float], int]] = {
    "fabs": (abs, 0), "floor": (whole(math.floor), 0), "ceil": (whole(math.ceil), 0), "trunc": (whole(math.trunc), 0),
    "round": (whole(lambda x: int(x + math.copysign(0.5, x)) if abs(x) < 2**52 else int(x)), 0),
    "rint": (whole(round), 0), "nearbyint": (whole(round), 0), "sqrt": (math.sqrt, 0), "cbrt": (math.cbrt, 2),
    "exp": (math.exp, 2), "exp2": (math.exp2, 2), "expm1": (math.expm1, 2), "log": (math.log, 2),
    "log1p": (lambda x: -math.inf if x == -1 else math.log1p(x), 2), "log2": (math.log2, 2), "log10": (math.log10, 2),
    "sin": (math.sin, 2), "cos": (math.cos, 2), "tan": (math.tan, 4), "asin": (math.asin, 2), "acos": (math.acos, 2),
    "atan": (math.atan, 2), "sinh": (lambda x: math.copysign(in_c(math.sinh, abs(x)), x), 2), "cosh": (math.cosh, 2),
    "tanh": (math.tanh, 4), "asinh": (math.asinh, 2), "acosh": (lambda x: math.acosh(x) if x >= 1 else math.nan, 2),
    "atanh": (lambda x: math.copysign(math.inf, x) if abs(x) == 1 else math.atanh(x), 2), "erf": (math.erf, 2),
    "erfc": (math.erfc, 2), "fmod": (math.fmod, 0), "remainder": (math.remainder, 0), "hypot": (math.hypot, 2),
    "fdim": (lambda x, y: max(x - y, 0.0), 0), "pow": (math.pow, 2), "atan2": (math.atan2, 2),
    "copysign": (math.copysign, 0),
    # the other number where one is none
    "fmin": (lambda x, y: y if math.isnan(x) else min(x, y), 0),
    "fmax": (lambda x, y: y if math.isnan(x) else max(x, y), 0),
}  # fmt: skip
"""Reference in double precision and largest error in units of the last place."""

# the others of C99, which only have to be there
OTHERS = """
    nextafter(x[1], 2) + nextafterf(x[1], 2) + logb(x[2]) + logbf(x[2]) + nan("") + nanf("") + scalbn(x[1], 2)
    + scalbnf(x[1], 2) + scalbln(x[1], 2) + scalblnf(x[1], 2) + ldexp(x[1], 2) + ldexpf(x[1], 2) + modf(x[1], &real)
    + modff(x[1], &single) + frexp(x[1], &number) + frexpf(x[1], &number) + remquo(x[1], 2, &number)
    + remquof(x[1], 2, &number) + ilogb(x[2]) + ilogbf(x[2]) + lrint(x[1]) + lrintf(x[1]) + llrint(x[1]) + llrintf(x[1])
    + lround(x[1]) + lroundf(x[1]) + llround(x[1]) + llroundf(x[1])"""
OF_TWO = ("fmod", "remainder", "hypot", "fdim", "pow", "atan2", "copysign", "fmin", "fmax")
SPECIAL = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, -3433704.4, 1e15 + 0.5),
    *(1e-40, 1e-310, 3.4e38, -1e300, math.inf, -math.inf, math.nan),
)


def in_source(value: float) -> str:
    special = {math.inf: "INFINITY", -math.inf: "-INFINITY"}
    return value.hex() if math.isfinite(value) else special.get(value, "NAN")


def arguments(rng: random.Random) -> list[float]:
    """Numbers of all sizes that matter, also around multiples of pi / 2."""
    spread = [math.ldexp(rng.uniform(-2, 2), rng.randint(-30, 30)) for _ in range(COUNT)]
    near = [rng.randint(-40, 40) * math.pi / 2 + rng.uniform(-1e-6, 1e-6) for _ in range(COUNT)]
    return [*SPECIAL, *spread, *near]


def ulps(got: float, expected: float, *, is_single: bool) -> float:
    """The error in units of the last place; infinite where one of them is special and the other is not the same."""
    if math.isnan(expected) or got == expected:
        same = math.isnan(got) if math.isnan(expected) else math.copysign(1, got) == math.copysign(1, expected)
        return 0 if same else math.inf
    if not math.isfinite(got) or math.isinf(expected):
        return math.inf
    place = max(math.ulp(expected), math.ulp(2.0**-126) if is_single else 0)
    return abs(got - expected) / (place * (1 << 29) if is_single else place)


@pytest.mark.flow
def test_mathematics(kind: str, tmp_path: Path):
    """The functions in both precisions; powers of special numbers are left to the C library's own tests."""
    rng = random.Random(SEED)
    xs, ys = arguments(rng), [rng.uniform(-20, 20) for _ in range(len(SPECIAL) + 2 * COUNT)]
    lines = ["#include <math.h>"]
    for suffix, element in (("", "double"), ("f", "float")):
        for name, values in (("x", xs), ("y", ys)):
            numbers = ", ".join(in_source(single(value) if suffix else value) for value in values)
            lines.append(f"static const {element} {name}{suffix}[] = {{{numbers}}};")
    calls: list[str] = []
    expected: list[tuple[str, float, bool, int]] = []
    for name, (reference, bound) in FUNCTIONS.items():
        first = len(SPECIAL) if name == "pow" else 0
        for suffix in ("", "f"):
            words = f"x{suffix}[i], y{suffix}[i]" if name in OF_TWO else f"x{suffix}[i]"
            calls.append(f"    for (int i = {first}; i < {len(xs)}; ++i) *to++ = {name}{suffix}({words});")
            for given in zip(xs[first:], ys[first:], strict=True):
                values = [single(value) if suffix else value for value in given[: 1 + (name in OF_TWO)]]
                value = in_c(reference, *values)
                expected.append((f"{name}{suffix}{values}", single(value) if suffix else value, bool(suffix), bound))
    lines += [f"volatile double results[{len(expected)}];", "int main(void) {", "    volatile double *to = results;"]
    lines += ["    double real; float single; int number;", f"    *to = {OTHERS};"]
    source = tmp_path / "math.c"
    source.write_text("\n".join([*lines, *calls, "    return 0;\n}\n"]))
    ran = run(source, kind, tmp_path, extra=("-fno-builtin", "-w"), opt="-O0")
    assert ran.end.ok, ran.end.text
    got = struct.unpack(f"<{len(expected)}d", ran.read("results", 8 * len(expected)))
    errors = [ulps(value, exact, is_single=short) for value, (_, exact, short, _) in zip(got, expected, strict=True)]
    for value, error, (call, exact, is_single, bound) in zip(got, errors, expected, strict=True):
        assert error <= (min(bound, 2) if is_single else bound), f"{call} is {value!r}, not {exact!r}"
    assert max(errors) > 0, "nothing but exact results"


@pytest.mark.flow
def test_heap(compiler: str, tmp_path: Path):
    ran = run(SOURCES / "heap.c", compiler, tmp_path, heap=16 << 10)
    assert ran.end.ok, f"{ran.end.text}: line of heap.c"


@pytest.mark.flow
def test_library(kind: str, tmp_path: Path):
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
    path = tmp_path / "library.elf"
    sources = [SOURCES / name for name in ("library.c", "saved_registers.S")]
    toolchain.build(sources, path, compiler=compiler, options=Options(config=PRESETS["xpulpnn-full"]))
    result = run_program(load(path), FULL, Machine(max_cycles=2_000_000), check=True, lockstep=True)
    assert result.exit.ok, result.exit.text
    assert result.mismatches == 0
