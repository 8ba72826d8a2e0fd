"""RISC-V's architecture tests (riscv-arch-test 3), found by path, on the simulator and on the RTL in lock step."""

import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError, require
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.iss.session import IssSession
from xpulpnn_sim.reference.programs.elf import Executable, load
from xpulpnn_sw.toolchain.build import Options, build

ENGINES = ("iss", "rtl")
_HEADER = "arch_test.h"
_ISA = "RV32IMCZicsr_Zifencei"
_PLATFORM = {"hw_data_misaligned_support": "True"}
_CASE = re.compile(r'RVTEST_CASE\(\s*\w+\s*,\s*"//(.*?)"', re.DOTALL)
_RULE = re.compile(r"^(check|def)\s+(\w+)\s*(:?=)\s*(.*)$")
_LIMIT = 1_000_000  # instructions or cycles of a test, at most
_BEGIN, _END = "begin_signature", "end_signature"
# the tests' own trap handlers are copied to where mtvec points at the start
_MODEL = f"""\
#define RVMODEL_BOOT j 1f; .balign 256; handlers: .skip 1024; 1: la t0, handlers; csrw mtvec, t0
#define RVMODEL_HALT li t0, 1; la t1, tohost; 1: sw t0, 0(t1); j 1b
#define RVMODEL_DATA_BEGIN .balign 8; .global tohost; tohost: .dword 0; .balign 16; .global {_BEGIN}; {_BEGIN}:
#define RVMODEL_DATA_END .balign {WORD_BYTES}; .global {_END}; {_END}:
"""
_EMPTY = (
    *("IO_INIT", "IO_WRITE_STR(r, s)", "IO_CHECK()", "SET_MSW_INT", "CLEAR_MSW_INT", "CLEAR_MTIMER_INT"),
    *("CLEAR_MEXT_INT", "IO_ASSERT_GPR_EQ(s, r, i)", "IO_ASSERT_SFPR_EQ(f, r, i)", "IO_ASSERT_DFPR_EQ(d, r, i)"),
)


@dataclass(frozen=True, slots=True)
class ArchitectureTest:
    path: Path
    macros: tuple[str, ...]  # of its cases that apply to the core; without any it is left out


@dataclass(frozen=True, slots=True)
class Outcome:
    test: ArchitectureTest
    words: int  # length of the signature
    failures: tuple[str, ...]


def architecture_tests(path: Path) -> list[ArchitectureTest]:
    """Return the tests for RV32 in a folder or file of the suite."""
    found = [path] if path.is_file() else sorted(path.rglob("*.S"))
    tests = [
        ArchitectureTest(file, _macros(file.read_text(errors="replace"))) for file in found if "rv64" not in str(file)
    ]
    require(tests, f"PATH must hold tests of riscv-arch-test, *.S, not {path}")
    return tests


def header_folder(test: Path) -> Path:
    for folder in test.resolve().parents:
        if (folder / "env" / _HEADER).is_file():
            return folder / "env"
    raise InputError(f"PATH must be in a riscv-test-suite with env/{_HEADER}, not {test}")


def _macros(text: str) -> tuple[str, ...]:
    macros = dict[str, None]()
    for case in _CASE.findall(text):
        rules = [rule.groups() for part in case.split(";") if (rule := _RULE.match(part.strip()))]
        if all(_holds(name, value) for kind, name, _, value in rules if kind == "check"):
            macros |= {f"{name}={value}": None for kind, name, _, value in rules if kind == "def"}
    return tuple(macros)


def _holds(name: str, value: str) -> bool:
    pattern = re.fullmatch(r"regex\((.*)\)", value.strip())
    actual = _ISA if name == "ISA" else _PLATFORM.get(name, "")
    return actual == value.strip() if pattern is None else re.match(pattern[1], actual) is not None


def run_test(test: ArchitectureTest, config: CoreConfig, engine: str, compiler: str, reference: Path | None) -> Outcome:
    """Compile and run one test; its signature must be that of ``reference``, if given, and of the other engine."""
    with tempfile.TemporaryDirectory(prefix="xpulpnn-arch-") as name:
        folder = Path(name)
        empty = "".join(f"#define RVMODEL_{macro}\n" for macro in _EMPTY)
        (folder / "model_test.h").write_text(_MODEL + empty)
        options = Options(
            config=config,
            include=(folder, header_folder(test.path)),
            define=("XLEN=32", *test.macros),
            linking=("-Wl,-e,rvtest_entry_point",),
            start_files=False,
            jobs=1,
        )
        build([test.path], folder / "test.elf", compiler=compiler, options=options)
        executable = load(folder / "test.elf")
    signatures, failures = _signatures(executable, config, engine)
    if reference is not None:
        signatures["reference"] = _signature_file(reference, test.path)
    first = signatures["iss"]
    failures += [_difference(first, other, label) for label, other in signatures.items() if other != first]
    return Outcome(test, len(first), tuple(failures))


def _signatures(executable: Executable, config: CoreConfig, engine: str) -> tuple[dict[str, list[int]], list[str]]:
    start = executable.symbols[_BEGIN]
    size = executable.symbols[_END] - start
    session = IssSession(executable, config, output=lambda _: None)
    end, failures = session.run(_LIMIT), list[str]()
    readers: dict[str, Callable[[int, int], bytes]] = {"iss": session.memory.read_bytes}
    if not end.ok:
        failures.append(f"iss: {end.text}")
    elif engine == "rtl":
        result = run_program(executable, config, Machine(max_cycles=2 * _LIMIT), lockstep=True)
        failures += [] if result.exit.ok else [f"rtl: {result.exit.text}"]
        readers["rtl"] = result.read
    return {name: _words(read(start, size)) for name, read in readers.items()}, failures


def _words(data: bytes) -> list[int]:
    return [int.from_bytes(data[at : at + WORD_BYTES], "little") for at in range(0, len(data), WORD_BYTES)]


def _signature_file(folder: Path, test: Path) -> list[int]:
    path = folder / f"{test.stem}.signature"
    try:
        return [int(line, 16) for line in path.read_text().split()]
    except (OSError, ValueError):
        raise InputError(f"--reference must hold {path.name} with a word in hexadecimal on each line") from None


def _difference(expected: Sequence[int], got: Sequence[int], label: str) -> str:
    for at, (right, other) in enumerate(zip(expected, got, strict=False)):
        if right != other:
            return f"{label}: word {at} of the signature must be 0x{right:08x}, not 0x{other:08x}"
    return f"{label}: the signature must have {len(expected)} words, not {len(got)}"
