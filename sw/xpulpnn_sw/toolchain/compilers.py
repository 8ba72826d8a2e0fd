"""Stock C compilers, Debian's RISC-V GCC and the clang of the ziglang wheel, and the C library for them.

The library is compiled once for each compiler from picolibc sources in a wheel.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from xpulpnn.errors import InputError, ToolError
from xpulpnn.user_cache import cached_file

RUNTIME = Path(__file__).parent / "runtime"

CPP_SUFFIXES = (".cpp", ".cc", ".cxx", ".C")
C_SUFFIXES, ASSEMBLY_SUFFIXES, LINKED_SUFFIXES = (".c", *CPP_SUFFIXES), (".S", ".s"), (".o", ".obj", ".a")
SOURCE_SUFFIXES = (*C_SUFFIXES, *ASSEMBLY_SUFFIXES, *LINKED_SUFFIXES)

COMPILERS = ("gcc", "zig", "clang")
INSTALL_HINT = "apt-get install gcc-riscv64-unknown-elf, and clang-19 for clang, or pip install ziglang"

_CLANG_NAMES = ("clang-19", "clang-20", "clang-21", "clang")
_GCC_NAMES = ("riscv64-unknown-elf-gcc", "riscv32-unknown-elf-gcc")
# instruction set by compiler
TARGETS: Mapping[str, tuple[str, ...]] = {
    # the older ISA specification includes csr and fence.i instructions in RV32I and has a libgcc for rv32imc
    "gcc": ("-march=rv32imc", "-misa-spec=2.2", "-mabi=ilp32"),
    "zig": ("-target", "riscv32-freestanding", "-mcpu=generic_rv32+m+c"),
    "clang": ("--target=riscv32-unknown-elf", "-march=rv32imc", "-mabi=ilp32"),
}

# the last one since public PULP sources mix vectors of equal size
_COMMON = (
    *("-g", "-ffunction-sections", "-fdata-sections", "-fno-pic", "-fno-stack-protector", "-fno-unwind-tables"),
    *("-fno-asynchronous-unwind-tables", "-flax-vector-conversions"),
)
CPP_FLAGS = ("-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics")
# of libc++, which the zig wheel has in sources; it gets these from its own build
_LIBCPP_SETTINGS = {
    "ABI_VERSION": "1",
    "ABI_NAMESPACE": "__1",
    "HARDENING_MODE_DEFAULT": "_LIBCPP_HARDENING_MODE_NONE",
    "ASSERTION_SEMANTIC_DEFAULT": "_LIBCPP_ASSERTION_SEMANTIC_QUICK_ENFORCE",
    "PSTL_BACKEND_SERIAL": "1",
    **{f"HAS_{name}": "0" for name in ("THREADS", "MONOTONIC_CLOCK", "TERMINAL", "FILESYSTEM", "RANDOM_DEVICE")},
    **{f"HAS_{name}": "0" for name in ("LOCALIZATION", "UNICODE", "WIDE_CHARACTERS", "TIME_ZONE_DATABASE")},
    **{f"HAS_{name}": "0" for name in ("VENDOR_AVAILABILITY_ANNOTATIONS", "MUSL_LIBC")},
}
_LIBCPP_SOURCES = (
    *("algorithm", "any", "charconv", "expected", "functional", "hash", "memory", "new_handler", "new_helpers"),
    *("optional", "random_shuffle", "stdexcept", "string", "valarray", "variant", "vector", "verbose_abort"),
)
_LIBCPP_MARK = b"NSt3__1"  # in names of what objects need of libc++
# a main that runs off its end returns 0 in hosted mode only; and clang takes for errors what GCC and the public PULP
# sources take for warnings
_CLANG = (
    *("-fhosted", "-fomit-frame-pointer", "-Wno-error=implicit-function-declaration", "-Wno-error=return-mismatch"),
    *("-Wno-error=incompatible-pointer-types", "-Wno-error=int-conversion", "-Wno-error=implicit-int"),
)
_COMPILING: Mapping[str, tuple[str, ...]] = {
    "gcc": (),
    # zig compiles as for a debug build; the last hides a warning on an option of zig
    "zig": ("-fno-sanitize=all", "-UNDEBUG", *_CLANG, "-Wno-error=unused-command-line-argument"),
    # what the assembler of GCC takes
    "clang": (*_CLANG, "-gdwarf-4", "-fno-dwarf-directory-asm", "-fno-addrsig"),
}
# what stops a compiler at assembly text
TO_ASSEMBLY: Mapping[str, tuple[str, ...]] = {
    "gcc": ("-S",),
    # inline assembly must not be parsed by the integrated assembler
    "zig": ("-S", "-fno-integrated-as"),
    "clang": ("-S", "-Xclang", "-no-integrated-as"),
}

LINKING: Mapping[str, tuple[str, ...]] = {
    "gcc": ("-nostdlib", "-nostartfiles", "-Wl,--gc-sections", "-Wl,-z,max-page-size=4096"),
    "zig": ("-static", "-Wl,--gc-sections"),
}
LIBRARIES: Mapping[str, tuple[str, ...]] = {"gcc": ("-lgcc",), "zig": ()}

# what zig says of its own options
_NOISE = tuple(f"zig: warning: argument unused during compilation: '{option}" for option in ("-c'", "-Xclangas "))
_WHEEL = "pythondata-software-picolibc"
_HEADERS = ("libc/tinystdio", "libc/include", "libc/machine/riscv")
_PRIVATE_HEADERS = "libm/common"
# other files that sources include
_INCLUDED = (
    *("libc/locale/*.h", "libc/tinystdio/conv_flt.c", "libc/ctype/*.[ct]*", "libc/posix/engine.c"),
    *("libc/string/*.t", "libc/tinystdio/ultoa_invert.c", "libc/tinystdio/strtod.c"),
)
# functions of C99 without fma, tgamma and lgamma, which are inexact in picolibc; trunc, and floor and ceil of double
# precision, are in the runtime
_REAL_FUNCTIONS = (
    *("fabs", "copysign", "fmin", "fmax", "fdim", "fmod", "remainder", "remquo", "modf", "sqrt", "cbrt", "hypot"),
    *("round", "lround", "llround", "rint", "lrint", "llrint", "nearbyint", "nextafter", "nan"),
    *("frexp", "ldexp", "scalbn", "scalbln", "logb", "ilogb", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10"),
    *("pow", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    # internal functions of these
    *("erf", "rem_pio2", "finite", "fpclassify", "issignaling"),
)
_LONG_FUNCTIONS = frozenset(f"{name}l" for name in _REAL_FUNCTIONS)  # of long double, in double precision
_SOURCES = {
    "libc/tinystdio": ("*",),
    "libc/string": ("*",),
    "libc/stdlib": (
        *("a64l", "abs", "ato*", "btowc", "div", "*rand48", "seed48", "lcong48", "environ", "getenv*", "getopt"),
        *("getsubopt", "imax*", "itoa", "utoa", "l64a", "labs", "ldiv", "llabs", "lldiv", "mb*", "putenv", "rand*"),
        *("realloc[af]*", "rpmatch", "sb_charsets", "setenv", "srand*", "wc*"),
    ),
    "libc/search": ("*qsort*", "bsearch", "t*", "hcreate*", "hash_func"),
    "libc/ctype": ("*",),
    "libc/errno": ("*",),
    "libc/time": ("*",),
    "libc/signal": ("signal", "raise", "psignal"),
    "libc/locale": ("*",),
    "libc/posix": ("basename", "dirname", "fnmatch", "reg*", "coll*"),
    "libc/misc": ("ffs", "unctrl"),
    "libc/machine/riscv": ("setjmp",),
    "libm/math": (
        *(f"s{kind}_{name}" for name in _REAL_FUNCTIONS for kind in ("", "f")),
        *("sf_floor", "sf_ceil", "k_*", "kf_*"),
    ),
    "libm/common": (
        *(form.format(name) for name in _REAL_FUNCTIONS for form in ("s_{}", "sf_{}", "{}", "{}f", "{}l")),
        *("math_err*", "*_data"),
    ),
}
# parts for files and processes of an operating system, of other number formats, and what the runtime has itself
_EXCLUDED = {
    *("vfprintf", "vfprintff", "vfiprintf", "vfiscanf", "vfscanff", "sprintff", "snprintff", "dtoa_engine"),
    *("dtoa_data", "ftoa_engine", "ftoa_data", "atod_engine", "atof_engine", "conv_flt", "ultoa_invert", "fmemopen"),
    *("mktemp", "posixiob", "remove", "tmpfile", "tmpnam", "fflush", "strdup_r", "strndup_r", "gcvtf", "strfromf"),
    *("wcsftime", "compare_exchange", "exchange", "clock", "time", "strtod", "strtof"),
}
CONVERSIONS = ("printf.c", "strtod.c")  # compiled with the library


class CompileError(ToolError):
    def __init__(self, messages: str) -> None:
        super().__init__(messages)
        self.messages = messages


@dataclass(frozen=True, slots=True)
class Compiler:
    kind: str  # one of COMPILERS
    command: tuple[str, ...]
    gcc: str = ""  # assembles and links for clang

    @property
    def assembler(self) -> "Compiler":
        """The compiler that assembles and links, and has compiled the C library."""
        return Compiler("gcc", (self.gcc,)) if self.gcc else self

    @property
    def archiver(self) -> tuple[str, ...]:
        if self.kind == "zig":
            return (*self.command[:-1], "ar")
        return ((self.gcc or self.command[0]).removesuffix("gcc") + "ar",)


def _installed() -> Iterator[Compiler]:
    gcc = [place for place in map(shutil.which, _GCC_NAMES) if place]
    for place in gcc:
        yield Compiler("gcc", (place,))
    if util.find_spec("ziglang") is not None:
        yield Compiler("zig", (sys.executable, "-m", "ziglang", "cc"))
    elif place := shutil.which("zig"):
        yield Compiler("zig", (place, "cc"))
    for place in filter(None, map(shutil.which, _CLANG_NAMES if gcc else ())):
        yield Compiler("clang", (place,), gcc[0])


def find_compiler(kind: str | None = None) -> Compiler:
    """Return the compiler ``kind``, or the first that is installed; raises :class:`ToolError` if there is none."""
    if kind is not None and kind not in COMPILERS:
        raise InputError(f"compiler must be one of {', '.join(COMPILERS)}, not {kind}")
    for compiler in _installed():
        if kind in (None, compiler.kind):
            return compiler
    raise ToolError(f"{kind or 'C compiler'} must be installed ({INSTALL_HINT}), not missing")


def target_flags(kind: str) -> tuple[str, ...]:
    return (*TARGETS[kind], *_COMMON, *_COMPILING[kind])


def _libcpp(compiler: Compiler) -> Path | None:
    spec = util.find_spec("ziglang") if compiler.kind == "zig" else None
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "lib/libcxx"


def cpp_flags(compiler: Compiler) -> list[str]:
    """Return the options for C++: no exceptions, no run-time types, and the headers of libc++ where they are."""
    root = _libcpp(compiler)
    if root is None:
        return [*CPP_FLAGS]
    defines = [f"-D_LIBCPP_{name}={value}" for name, value in _LIBCPP_SETTINGS.items()]
    # before the headers of C, which those of C++ include
    return [*CPP_FLAGS, *defines, f"-I{root / 'include'}", f"-I{root.parent / 'libcxxabi/include'}"]


def run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, errors="replace", stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise ToolError(f"{command[0]} must be executable, not failing with: {error.strerror}") from None
    lines = (done.stdout + done.stderr).splitlines(keepends=True)
    printed = "".join(line for line in lines if not line.startswith(_NOISE))
    if done.returncode:
        raise CompileError(printed)
    return printed


def library_root() -> Path:
    spec = util.find_spec(_WHEEL.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise ToolError(f"the C library must be installed (pip install {_WHEEL}), not missing")
    return Path(spec.origin).parent / "data/newlib"


def header_flags(root: Path | None = None) -> list[str]:
    """Return the include options for the headers of the C library, in its wheel or copied to ``root``."""
    return [f"-isystem{(root or library_root()) / folder}" for folder in _HEADERS]


def source_flags(root: Path | None = None) -> list[str]:
    """Return the options for the sources of the C library, without those of :func:`header_flags`."""
    return ["-O2", "-fno-builtin", "-w", f"-I{(root or library_root()) / _PRIVATE_HEADERS}"]


def _sources() -> list[Path]:
    root = library_root()
    sources = (sorted((root / folder).glob(f"{name}.[cS]")) for folder, names in _SOURCES.items() for name in names)
    return list(dict.fromkeys(path for paths in sources for path in paths if path.stem not in _EXCLUDED))


def library_files() -> tuple[list[Path], list[Path]]:
    """Return the relative paths of the C library's sources, and of the files that these include."""
    root = library_root()
    patterns = (*_INCLUDED, *(f"{folder}/**/*.h" for folder in (*_HEADERS, *_SOURCES)))
    included = dict.fromkeys(path for pattern in patterns for path in sorted(root.glob(pattern)))
    return [path.relative_to(root) for path in _sources()], [path.relative_to(root) for path in included]


def library_archive(compiler: Compiler, jobs: int) -> Path:
    """Return the path of the compiled C library, which is built unless it is in the cache."""
    configuration = [(RUNTIME / name).read_text() for name in ("include/picolibc.h", *CONVERSIONS, "conversion.h")]
    flags = [*target_flags(compiler.kind), *header_flags(), f"-isystem{RUNTIME / 'include'}", *source_flags()]
    return _archive(compiler, jobs, flags, [*_sources(), *(RUNTIME / name for name in CONVERSIONS)], configuration)


def cpp_archives(compiler: Compiler, objects: Iterable[Path], jobs: int) -> list[Path]:
    """Return the compiled libc++, which is built unless it is in the cache, if ``objects`` need it."""
    root = _libcpp(compiler)
    if root is None or not any(_LIBCPP_MARK in path.read_bytes() for path in objects):
        return []
    flags = [*target_flags(compiler.kind), *cpp_flags(compiler), f"-I{root / 'src'}", f"-I{root / 'libc'}"]
    flags += ["-std=c++23", "-O2", "-w"]
    flags += [f"-isystem{RUNTIME / 'include'}", *header_flags(), "-D_LIBCPP_BUILDING_LIBRARY"]
    return [_archive(compiler, jobs, flags, [root / f"src/{name}.cpp" for name in _LIBCPP_SOURCES], ())]


def _archive(
    compiler: Compiler, jobs: int, flags: Sequence[str], sources: Sequence[Path], configuration: Sequence[str]
) -> Path:
    from concurrent.futures import ThreadPoolExecutor
    from importlib.metadata import version

    versions = (version(_WHEEL), run([*compiler.command, "--version"]))
    identity = (compiler.command, versions, flags, configuration, sources)

    def build(archive: Path) -> None:
        objects = {path: archive.parent / f"{path.parent.name}-{path.stem}.o" for path in sources}
        extra = {path: ["-D_LDBL_EQ_DBL"] if path.stem in _LONG_FUNCTIONS else [] for path in sources}
        commands = (
            [*compiler.command, *flags, *extra[path], "-c", str(path), "-o", str(to)] for path, to in objects.items()
        )
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(run, commands))
        run([*compiler.archiver, "qcs", str(archive), *map(str, objects.values())])

    return cached_file(identity, ".a", build)
