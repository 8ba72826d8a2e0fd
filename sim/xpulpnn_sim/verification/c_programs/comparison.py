"""Compile random C programs for this machine and for the core with and without the loop pass; compare results."""

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ToolError, require
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.iss.session import IssSession
from xpulpnn_sim.reference.programs.elf import load
from xpulpnn_sim.reference.programs.exits import Output
from xpulpnn_sim.verification.c_programs.generator import SHARED
from xpulpnn_sim.verification.c_programs.loop_programs import PIECES, program
from xpulpnn_sim.verification.random.program_runs import Tally
from xpulpnn_sim.verification.random.shrink import minimise_list
from xpulpnn_sw.assembly.looppass.optimise import PassReport
from xpulpnn_sw.toolchain.build import Options, build

# short programs: the simulator takes some million times as long for an instruction as a processor
_OPTIONS = (
    *("--no-argc", "--concise", "--no-float"),
    *("--max-funcs", "4", "--max-block-depth", "3", "--max-block-size", "4", "--max-expr-complexity", "5"),
)
# the same number has the same type on a machine whose long is longer
_LONG = re.compile(r"\b(0[xX][0-9A-Fa-f]+|\d+)(U?)L\b")
# what a file of several programs has once, and what each has of its own
_NAMES = re.compile(r"\b(func_|g_|S|U)(\d+)\b")
_CHANGES = (
    (re.compile(r"\bint main \(void\)"), "uint32_t program_{0}(void)"),
    (re.compile(r"crc32_gentab\(\);"), "if (!crc32_tab[1]) crc32_gentab(); crc32_context = 0xFFFFFFFFU;"),
    (re.compile(r"platform_main_end\((.*), print_hash_value\);\s*return 0;"), r"return \1;"),
)


def header_folder() -> Path:
    command = shutil.which("csmith")
    if command is not None:
        headers = sorted(Path(command).parent.parent.glob("include/csmith*/csmith.h"))
        if headers:
            return headers[-1].parent
    raise ToolError("csmith and its headers must be installed (apt-get install csmith libcsmith-dev), not missing")


def csmith_program(seed: int) -> str:
    """Return the C text of ``uint32_t program_SEED(void)``, which may be in one file with other programs."""
    command = ["csmith", "--seed", str(seed), *_OPTIONS]
    # it leaves a file about the machine where it runs
    with tempfile.TemporaryDirectory(prefix="xpulpnn-csmith-") as folder:
        done = subprocess.run(command, capture_output=True, errors="replace", check=False, cwd=folder)
    require(not done.returncode, f"csmith must draw program {seed}, not say: {done.stderr.strip()}", ToolError)
    text = _NAMES.sub(rf"\g<0>_{seed}", _LONG.sub(r"\1\2", done.stdout))
    for pattern, by in _CHANGES:
        text, count = pattern.subn(by.format(seed), text)
        require(count == 1, f"csmith must write main as version 2.3 does, not as in program {seed}", ToolError)
    return text


@dataclass(frozen=True, slots=True)
class Generator:
    draw: Callable[[int, Sequence[int]], str]  # text of a program that defines `program_SEED`, with some of its pieces
    pieces: tuple[int, ...]  # functions that may be left out
    programs_in_file: int  # programs whose texts may follow each other
    runs_plain: bool  # whether each program also runs without the pass, and not only one with a wrong result
    flags: tuple[str, ...]  # options for the compilers
    folder: Callable[[], tuple[Path, ...]]  # folders of its headers; raises :class:`ToolError` if it is not installed


GENERATORS = {
    "loops": Generator(
        program,
        tuple(range(PIECES)),
        programs_in_file=1,
        runs_plain=True,
        flags=("-fwrapv", "-fno-strict-aliasing", "-w"),
        folder=tuple,
    ),
    "csmith": Generator(
        lambda seed, _pieces: csmith_program(seed),
        (),
        programs_in_file=10,
        runs_plain=False,
        flags=("-w",),
        folder=lambda: (header_folder(),),
    ),
}


def _main(seeds: Iterable[int], calls: Iterable[str]) -> str:
    lines = ["#include <stdint.h>", "#include <stdio.h>", *(f"uint32_t program_{seed}(void);" for seed in seeds)]
    return "\n".join([*lines, SHARED, "int main(void) {", *calls, "    return 0;", "}", ""])


def driver(seeds: Iterable[int]) -> str:
    return _main(seeds, (f'    printf("{seed} %08x\\n", (unsigned)program_{seed}());' for seed in seeds))


_WATCH = """\
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
static sigjmp_buf given_up;
static long blocks = -1;
void __sanitizer_cov_trace_pc(void) { if (!blocks--) siglongjmp(given_up, 1); }
/* an endless loop without any statement is not counted */
static void late(int number) { siglongjmp(given_up, number); }
static void watch(long most) {
    struct itimerval tenth = {.it_value.tv_usec = most >= 0 ? 100000 : 0};
    signal(SIGVTALRM, late);
    setitimer(ITIMER_VIRTUAL, &tenth, 0);
    blocks = most;
}
"""


def _host_driver(seeds: Iterable[int]) -> str:
    calls = (
        f'    if (sigsetjmp(given_up, 1)) puts("{seed} {_TOO_LONG}");\n'
        f"    else {{ watch({_MOST_BLOCKS}); unsigned value = program_{seed}(); watch(-1); "
        f'printf("{seed} %08x\\n", value); }}'
        for seed in seeds
    )
    return _WATCH + _main(seeds, calls)


LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os")
BATCH = 20  # programs in one executable: linking and starting take longer than running
ENGINES = ("iss", "rtl")
_HOST_COMPILERS = ("gcc", "cc", "clang")
_WITHOUT_DEBUG = ("-O1", "-O3")
"""Levels compiled with ``-g0``, because debug information puts labels and directives between the instructions."""
_LIMIT = 20_000_000  # instructions or cycles of an executable, at most
_HOST_SECONDS = 600
_MOST_BLOCKS = 50_000  # basic blocks that a program may run through
_TOO_LONG = "too-long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    config: CoreConfig
    compiler: str  # `gcc` or `zig`
    level: str  # Optimisation, such as `-O2`
    engine: str = "iss"  # what runs the program with the pass: `iss` or `rtl`; the one without always runs on the ISS
    generator: str = "loops"  # what draws the programs


@dataclass(frozen=True, slots=True)
class Failure:
    seed: int
    setting: Setting  # how it was compiled
    host: str  # its result on this machine; empty if there is none
    plain: str  # on the core without the pass
    passed: str  # on the core with it
    pieces: tuple[int, ...] = ()  # functions that are enough to see it, if it can do without some

    @property
    def text(self) -> str:
        shown = [value or "no result" for value in (self.host, self.plain, self.passed)]
        where = f"{self.setting.compiler} {self.setting.level} on {self.setting.engine}"
        pieces = f" (pieces {','.join(map(str, self.pieces))})" if self.pieces else ""
        return f"program {self.seed}, {where}: host {shown[0]}, without {shown[1]}, with {shown[2]}{pieces}"


@dataclass(slots=True)
class ProgramComparison(Tally):
    programs: int = 0  # how many ran
    dropped: int = 0  # how many were left out, since they run for too long
    runs: int = 0  # executions on the core that were compared
    failures: list[Failure] = field(default_factory=list[Failure])  # those with differing results
    report: PassReport = field(default_factory=PassReport)  # changes by the pass
    # instructions executed `without` and `with` the pass (cycles on the RTL engine)
    instructions: Counter[str] = field(default_factory=lambda: Counter(without=0, **{"with": 0}))


def host_compiler() -> str:
    compiler = next((name for name in _HOST_COMPILERS if shutil.which(name)), None)
    if compiler is None:
        raise ToolError(f"a C compiler for this machine must be installed ({', '.join(_HOST_COMPILERS)}), not missing")
    return compiler


def _host_lines(texts: dict[int, str], generator: Generator, folder: Path) -> dict[str, str]:
    sources = _written(texts, generator, folder)
    executable, main = folder / "host", folder / "host.o"
    (folder / "host.c").write_text(_host_driver(texts))
    include = [f"-I{path}" for path in generator.folder()]
    flags = ["-O1", *generator.flags, "-fwrapv", "-fno-strict-aliasing", *include]
    _compile_here([*flags, "-c", str(folder / "host.c"), "-o", str(main)])
    _compile_here([*flags, "-fsanitize-coverage=trace-pc", str(main), *map(str, sources), "-o", str(executable)])
    done = subprocess.run([str(executable)], capture_output=True, errors="replace", check=False, timeout=_HOST_SECONDS)
    return _results(done.stdout)


def _compile_here(options: Sequence[str]) -> None:
    done = subprocess.run([host_compiler(), *options], capture_output=True, errors="replace", check=False)
    if done.returncode:
        raise ToolError(f"the compiler of this machine must take the programs, not say: {done.stderr}")


def _written(texts: dict[int, str], generator: Generator, folder: Path) -> list[Path]:
    together, size, sources = list(texts.values()), generator.programs_in_file, list[Path]()
    for start in range(0, len(together), size):
        sources.append(folder / f"programs_{start}.c")
        sources[-1].write_text("\n".join(together[start : start + size]))
    return sources


def _results(printed: str) -> dict[str, str]:
    pairs = [line.split() for line in printed.splitlines()]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and len(pair[1]) == len(_TOO_LONG)}


def _target_lines(path: Path, setting: Setting, engine: str) -> tuple[dict[str, str], int]:
    """Run an executable; return the result of each program by seed, and the instructions or cycles of the run."""
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
    return _results(b"".join(output.data for output in printed).decode(errors="replace")), count


def run_texts(texts: dict[int, str], settings: Sequence[Setting]) -> ProgramComparison:
    """Compile and run C programs, given as text by seed and each defining ``program_SEED``, with every setting."""
    result = ProgramComparison()
    generator = GENERATORS[settings[0].generator]
    with tempfile.TemporaryDirectory(prefix="xpulpnn-c-") as name:
        folder = Path(name)
        host = _host_lines(texts, generator, folder)
        texts = {seed: text for seed, text in texts.items() if host.get(str(seed)) != _TOO_LONG}
        result.dropped, result.programs = len(host) - len(texts), len(texts)
        for setting in settings if texts else ():
            failures = _run_setting(texts, host, setting, result, folder)
            if failures and len(texts) > 1:
                # a program that does not end takes those behind it along
                seeds = [failure.seed for failure in failures]
                alone = (_run_setting({seed: texts[seed]}, host, setting, result, folder) for seed in seeds)
                failures = [failure for part in alone for failure in part] or failures
            result.failures += failures
            result.runs += len(texts)
    return result


def _run_setting(
    texts: dict[int, str], host: dict[str, str], setting: Setting, result: ProgramComparison, folder: Path
) -> list[Failure]:
    """Run programs compiled with one setting; return those whose results differ from each other or from ``host``."""
    generator = GENERATORS[setting.generator]
    (folder / "main.c").write_text(driver(texts))
    sources = [folder / "main.c", *_written(texts, generator, folder)]

    def lines(label: str, engine: str) -> dict[str, str]:
        options = Options(
            config=setting.config,
            opt=setting.level,
            include=generator.folder(),
            extra=(*generator.flags, *(("-g0",) if setting.level in _WITHOUT_DEBUG else ())),
            loop_pass=label == "with",
            report=result.report,
            jobs=1,
        )
        build(sources, folder / f"{label}.elf", compiler=setting.compiler, options=options)
        results, count = _target_lines(folder / f"{label}.elf", setting, engine)
        result.instructions[label] += count
        return results

    expected = {str(seed): host.get(str(seed), "") for seed in texts}
    passed = lines("with", setting.engine)
    plain = lines("without", "iss") if generator.runs_plain or passed != expected else passed
    return [
        Failure(
            seed,
            setting,
            host=expected[str(seed)],
            plain=plain.get(str(seed), ""),
            passed=passed.get(str(seed), ""),
            pieces=generator.pieces,
        )
        for seed in texts
        if not expected[str(seed)] == plain.get(str(seed)) == passed.get(str(seed)) != ""
    ]


def run_seeds(seeds: Iterable[int], settings: Sequence[Setting]) -> ProgramComparison:
    generator = GENERATORS[settings[0].generator]
    return run_texts({seed: generator.draw(seed, generator.pieces) for seed in seeds}, settings)


def shrink_c_program(failure: Failure) -> Failure:
    smallest, draw = failure, GENERATORS[failure.setting.generator].draw

    def fails(pieces: tuple[int, ...]) -> bool:
        nonlocal smallest
        failures = run_texts({failure.seed: draw(failure.seed, pieces)}, [failure.setting]).failures
        if failures:
            smallest = replace(failures[0], pieces=pieces)
        return bool(failures)

    if failure.pieces:
        minimise_list(failure.pieces, fails)
    return smallest
