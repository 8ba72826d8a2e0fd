"""The C compilers anybody has, Debian's RISC-V GCC and the clang of the ziglang wheel: finding, flags, running."""

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from xpulpnn.errors import InputError, ToolError

RUNTIME = Path(__file__).parent / "runtime"

COMPILERS = ("gcc", "zig")
INSTALL_HINT = "apt-get install gcc-riscv64-unknown-elf, or pip install ziglang"

_GCC_NAMES = ("riscv64-unknown-elf-gcc", "riscv32-unknown-elf-gcc")
# what tells a compiler the instruction set
TARGETS: Mapping[str, tuple[str, ...]] = {
    # the older ISA specification counts csr and fence.i instructions to RV32I and has the libgcc for rv32imc
    "gcc": ("-march=rv32imc", "-misa-spec=2.2", "-mabi=ilp32"),
    "zig": ("-target", "riscv32-freestanding", "-mcpu=generic_rv32+m+c"),
}

_COMMON = (
    "-g",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-pic",
    "-fno-stack-protector",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    # public PULP sources assign vectors of the same size to each other
    "-flax-vector-conversions",
)
_COMPILING: Mapping[str, tuple[str, ...]] = {
    "gcc": (),
    # zig compiles as for a debug build; a main that runs off its end returns 0 in hosted mode only;
    # and clang takes for errors what GCC and the public PULP sources take for warnings
    "zig": (
        "-fno-sanitize=all",
        "-fhosted",
        "-fomit-frame-pointer",
        "-UNDEBUG",
        # of an option of zig's own, whose warning is left out
        "-Wno-error=unused-command-line-argument",
        "-Wno-error=implicit-function-declaration",
        "-Wno-error=incompatible-pointer-types",
        "-Wno-error=int-conversion",
        "-Wno-error=return-mismatch",
    ),
}
# what stops a compiler at assembly text
TO_ASSEMBLY: Mapping[str, tuple[str, ...]] = {
    "gcc": ("-S",),
    # inline assembly is passed on as it stands, not parsed by an assembler that knows less
    "zig": ("-S", "-fno-integrated-as"),
}

LINKING: Mapping[str, tuple[str, ...]] = {
    "gcc": (
        "-nostdlib",
        "-nostartfiles",
        "-Wl,--gc-sections",
        "-Wl,-z,max-page-size=4096",
    ),
    "zig": ("-static", "-Wl,--gc-sections"),
}
LIBRARIES: Mapping[str, tuple[str, ...]] = {"gcc": ("-lgcc",), "zig": ()}

# what zig says of its own options
_NOISE = tuple(f"zig: warning: argument unused during compilation: '{option}" for option in ("-c'", "-Xclangas "))


class CompileError(ToolError):
    """The compiler or linker refused a program."""

    def __init__(self, messages: str) -> None:
        super().__init__(messages)
        self.messages = messages


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler that is installed."""

    kind: str  # `gcc` or `zig`
    command: tuple[str, ...]  # how it is called

    @property
    def archiver(self) -> tuple[str, ...]:
        """The command of its ``ar``."""
        if self.kind == "zig":
            return (*self.command[:-1], "ar")
        return (self.command[0].removesuffix("gcc") + "ar",)


def _find_gcc() -> Compiler | None:
    place = next((found for name in _GCC_NAMES if (found := shutil.which(name))), None)
    return None if place is None else Compiler("gcc", (place,))


def _find_zig() -> Compiler | None:
    if util.find_spec("ziglang") is not None:
        return Compiler("zig", (sys.executable, "-m", "ziglang", "cc"))
    place = shutil.which("zig")
    return None if place is None else Compiler("zig", (place, "cc"))


def find_compiler(kind: str | None = None) -> Compiler:
    """The compiler called ``kind``, or the first that is installed; raises :class:`ToolError` with what to install."""
    if kind is not None and kind not in COMPILERS:
        raise InputError(f"compiler must be one of {', '.join(COMPILERS)}, not {kind}")
    finders = {"gcc": _find_gcc, "zig": _find_zig}
    for name in COMPILERS if kind is None else (kind,):
        compiler = finders[name]()
        if compiler is not None:
            return compiler
    raise ToolError(f"{kind or 'C compiler'} must be installed ({INSTALL_HINT}), not missing")


def target_flags(kind: str) -> tuple[str, ...]:
    """Return the options that tell a compiler of this kind the target and how its code is linked."""
    return (*TARGETS[kind], *_COMMON, *_COMPILING[kind])


def run(command: Sequence[str]) -> str:
    """Return the output of a compiler; raises :class:`CompileError` if it failed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise ToolError(f"{command[0]} must be executable, not failing with: {error.strerror}") from None
    lines = (done.stdout + done.stderr).splitlines(keepends=True)
    printed = "".join(line for line in lines if not line.startswith(_NOISE))
    if done.returncode:
        raise CompileError(printed)
    return printed
