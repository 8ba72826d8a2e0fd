"""Random C programs, run three ways: compiled for this machine, for the core, and for the core with the loop pass."""

import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ToolError
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.iss.session import IssSession
from xpulpnn_sim.reference.programs.elf import load
from xpulpnn_sim.reference.programs.exits import Output
from xpulpnn_sim.verification.c_programs.generator import ARRAYS, program_piece
from xpulpnn_sim.verification.random.shrink import minimise_list
from xpulpnn_sim.verification.random.trials import Tally
from xpulpnn_sw.assembly.looppass.optimise import PassReport
from xpulpnn_sw.toolchain.build import Options, build

PIECES = 6  # functions of a program
_ELEMENTS = 512
_CALLS = ((0, 0, 0), (1, 3, 7), (13, 5, 2_654_435_761), (-3, 40, 4_294_967_289), (38, -2, 97))
"""Arguments every piece is called with: bounds below, at and above each other."""

PRELUDE = """\
#include <stdint.h>
#define NOINLINE __attribute__((noinline))
#ifdef __riscv
#include "xpulpnn.h"
#define DOT(a, b, acc) xp_sdotsp_b((uint32_t)(a), (uint32_t)(b), (acc))
#define MAXIMUM(a, b) ((int32_t)xp_max((uint32_t)(a), (uint32_t)(b)))
#define NEXT(pointer) ((uint32_t)xp_lw_post(&(pointer), 4))
#define TURNS(name, count) xp_hwloop_begin(0, name, count)
#define TURNS_END(name) xp_hwloop_end(0, name)
#define LOOPS XP_HWLOOP_FUNCTION
#else
static int32_t dot(uint32_t a, uint32_t b, int32_t acc) {
    for (int i = 0; i < 4; i++) acc += (int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i);
    return acc;
}
#define DOT(a, b, acc) dot((uint32_t)(a), (uint32_t)(b), (acc))
#define MAXIMUM(a, b) ((int32_t)(a) > (int32_t)(b) ? (int32_t)(a) : (int32_t)(b))
#define NEXT(pointer) ((uint32_t)*(pointer)++)
#define TURNS(name, count) for (uint32_t name = (count); name; name--) {
#define TURNS_END(name) }
#define LOOPS NOINLINE
#endif
#define ADD(value) (h = h * 31u + (uint32_t)(value))
typedef struct { int32_t a; int16_t b; uint8_t c; uint8_t d; int32_t e; } item_t;
"""


def program(seed: int, pieces: Sequence[int] = tuple(range(PIECES))) -> str:
    """A C file that defines ``uint32_t program_SEED(void)``: a number made of all results and of the memory."""
    lines = [f"/* random C program {seed} */", PRELUDE]
    lines += [f"static {kind} g_{name}[{_ELEMENTS}];" for name, kind in ARRAYS.items()]
    texts = [program_piece(seed, number) for number in pieces]
    lines += ["static item_t g_i[64];"]
    if any("g_v" in text for text in texts):
        lines.append("static volatile int32_t g_v;")
    lines.append("static NOINLINE uint32_t mix(uint32_t h, uint32_t v) { return (h ^ v) * 16777619u + (h >> 13); }")
    lines += texts
    lines += [f"uint32_t program_{seed}(void) {{", f"    uint32_t h = {seed}u;"]
    lines.append(f"    for (int i = 0; i < {_ELEMENTS}; i++) {{")
    lines += [
        f"        g_{name}[i] = ({kind})((h = h * 1664525u + 1013904223u) >> 7);" for name, kind in ARRAYS.items()
    ]
    lines.append("    }")
    lines.append("    for (int i = 0; i < 64; i++) { g_i[i].a = (int32_t)h + i; g_i[i].b = (int16_t)i; g_i[i].d = 3; }")
    for number in pieces:
        lines += [f"    h = p{number}(h, {n}, {m}, {u}u);" for n, m, u in _CALLS]
    for name in ARRAYS:
        lines.append(f"    for (int i = 0; i < {_ELEMENTS}; i++) h = h * 31u + (uint32_t)g_{name}[i];")
    lines.append("    for (int i = 0; i < 64; i++) h = h * 31u + (uint32_t)(g_i[i].a + g_i[i].c + g_i[i].e);")
    lines += ["    return h;", "}"]
    return "\n".join(lines) + "\n"


def driver(seeds: Sequence[int]) -> str:
    """A main function that prints the number of each program on a line."""
    lines = ["#include <stdint.h>", "#include <stdio.h>"]
    lines += [f"uint32_t program_{seed}(void);" for seed in seeds]
    lines += ["int main(void) {"]
    lines += [f'    printf("{seed} %08x\\n", (unsigned)program_{seed}());' for seed in seeds]
    lines += ["    return 0;", "}"]
    return "\n".join(lines) + "\n"


LEVELS = ("-O1", "-O2", "-O3", "-Os")
BATCH = 20  # programs in one executable: linking and starting take longer than running
ENGINES = ("iss", "rtl")
_HOST_COMPILERS = ("gcc", "cc", "clang")
_DEFINED = ("-fwrapv", "-fno-strict-aliasing", "-w")
_WITHOUT_DEBUG = ("-O1", "-O3")
"""Levels without debug information, whose labels and directives stand between the instructions otherwise."""
_LIMIT = 20_000_000  # instructions or cycles of an executable, at most
_HOST_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Compiler, level and engine of programs."""

    config: CoreConfig
    compiler: str  # `gcc` or `zig`
    level: str  # Optimisation, such as `-O2`
    engine: str = "iss"  # what runs the program with the pass: `iss` or `rtl`; the one without always runs on the ISS


@dataclass(frozen=True, slots=True)
class Failure:
    """A program whose results differ."""

    seed: int
    setting: Setting  # how it was compiled
    host: str  # its result on this machine; empty if there is none
    plain: str  # on the core without the pass
    passed: str  # on the core with it
    pieces: tuple[int, ...] = tuple(range(PIECES))  # functions that are enough to see it

    @property
    def text(self) -> str:
        """One line for people."""
        shown = [value or "no result" for value in (self.host, self.plain, self.passed)]
        where = f"{self.setting.compiler} {self.setting.level} on {self.setting.engine}"
        pieces = ",".join(map(str, self.pieces))
        return f"program {self.seed}, {where}: host {shown[0]}, without {shown[1]}, with {shown[2]} (pieces {pieces})"


@dataclass(slots=True)
class ProgramComparison(Tally):
    """Results of some programs, compared."""

    programs: int = 0  # how many ran
    failures: list[Failure] = field(default_factory=list[Failure])  # those with differing results
    report: PassReport = field(default_factory=PassReport)  # changes by the pass
    # instructions executed `without` and `with` the pass (cycles on the RTL engine)
    instructions: Counter[str] = field(default_factory=lambda: Counter(without=0, **{"with": 0}))


def host_compiler() -> str:
    """The C compiler of this machine; raises :class:`ToolError` if there is none."""
    found = next((name for name in _HOST_COMPILERS if shutil.which(name)), None)
    if found is None:
        raise ToolError(f"a C compiler for this machine must be installed ({', '.join(_HOST_COMPILERS)}), not missing")
    return found


def _host_lines(sources: Sequence[Path], folder: Path) -> dict[str, str]:
    executable = folder / "host"
    command = [host_compiler(), "-O1", *_DEFINED, *map(str, sources), "-o", str(executable)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"the compiler of this machine must take the programs, not say: {done.stderr}")
    done = subprocess.run([str(executable)], capture_output=True, text=True, check=False, timeout=_HOST_SECONDS)
    return _results(done.stdout)


def _results(printed: str) -> dict[str, str]:
    """``{seed: number}`` of the lines a program printed, complete or not."""
    pairs = [line.split() for line in printed.splitlines()]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and len(pair[1]) == 8}


def _target_lines(path: Path, setting: Setting, engine: str) -> tuple[dict[str, str], int]:
    """Results of programs on the core by seed, and the instructions or cycles they took."""
    executable = load(path)
    printed: list[Output] = []
    if engine == "rtl":
        from xpulpnn_sim.cosimulation.model.machine import Machine

        result = run_program(
            executable, setting.config, Machine(max_cycles=_LIMIT), lockstep=True, output=printed.append
        )
        count = result.cycles
    else:
        session = IssSession(executable, setting.config, output=printed.append)
        session.run(_LIMIT)
        count = session.iss.executed
    return _results(b"".join(one.data for one in printed).decode(errors="replace")), count


def run_texts(texts: dict[int, str], setting: Setting) -> ProgramComparison:
    """Compile and run programs given as C text by seed, each defining ``program_SEED``."""
    result = ProgramComparison(programs=len(texts))
    with tempfile.TemporaryDirectory(prefix="xpulpnn-c-") as name:
        folder = Path(name)
        sources = [folder / "main.c"]
        sources[0].write_text(driver(list(texts)))
        for seed, text in texts.items():
            sources.append(folder / f"program_{seed}.c")
            sources[-1].write_text(text)
        host = _host_lines(sources, folder)
        lines: list[dict[str, str]] = []
        for label, engine in (("without", "iss"), ("with", setting.engine)):
            options = Options(
                config=setting.config,
                opt=setting.level,
                extra=(*_DEFINED, *(("-g0",) if setting.level in _WITHOUT_DEBUG else ())),
                loop_pass=label == "with",
                report=result.report,
                jobs=1,
            )
            build(sources, folder / f"{label}.elf", compiler=setting.compiler, options=options)
            found, count = _target_lines(folder / f"{label}.elf", setting, engine)
            lines.append(found)
            result.instructions[label] += count
    for seed in texts:
        values = [found.get(str(seed), "") for found in (host, *lines)]
        if len(set(values)) > 1 or not values[0]:
            result.failures.append(Failure(seed, setting, host=values[0], plain=values[1], passed=values[2]))
    return result


def run_seeds(seeds: Iterable[int], setting: Setting) -> ProgramComparison:
    """Generate and run programs."""
    return run_texts({seed: program(seed) for seed in seeds}, setting)


def shrink_c_program(failure: Failure, progress: Callable[[int], None] | None = None) -> Failure:
    """The failure with as few pieces of the program as show it."""
    smallest = failure

    def fails(pieces: tuple[int, ...]) -> bool:
        nonlocal smallest
        found = run_texts({failure.seed: program(failure.seed, pieces)}, failure.setting).failures
        if found:
            smallest = replace(found[0], pieces=pieces)
        if progress is not None:
            progress(len(smallest.pieces))
        return bool(found)

    minimise_list(failure.pieces, fails)
    return smallest
