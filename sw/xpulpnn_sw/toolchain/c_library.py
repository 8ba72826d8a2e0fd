"""The C library of programs: sources of picolibc, from a wheel, compiled once for each compiler."""

import hashlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib import util
from importlib.metadata import version
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn.user_cache import alone, cache_directory, counts
from xpulpnn_sw.toolchain.compilers import RUNTIME, Compiler, run, target_flags

_WHEEL = "pythondata-software-picolibc"
_HEADERS = ("libc/tinystdio", "libc/include", "libc/machine/riscv")
_PRIVATE_HEADERS = "libm/common"
_INCLUDED = ("libc/locale/*.h", "libc/tinystdio/ultoa_invert.c")  # by sources, besides the headers beside them
# trunc, and floor and ceil of double precision, are in our runtime
_REAL_FUNCTIONS = (
    *("fabs", "copysign", "fmin", "fmax", "round", "fmod", "modf", "frexp", "ldexp", "sqrt"),
    *("exp", "exp2", "log", "log2", "log10", "pow", "sin", "cos", "tan", "atan", "atan2", "tanh"),
    # what these are made of
    *("expm1", "scalbn", "rem_pio2", "finite", "fpclassify", "issignaling"),
)
_SOURCES = {
    "libc/tinystdio": (
        *("printf", "fprintf", "sprintf", "snprintf", "vprintf", "vfprintf", "vsnprintf", "dtoa_engine", "dtoa_data"),
        *("putchar", "puts", "fputc", "fputs", "fwrite", "filestrput", "strtol", "strtoul", "strtoll", "strtoull"),
    ),
    "libc/string": (
        *("memcpy", "memmove", "memset", "memcmp", "memchr", "strlen", "strnlen", "strcmp", "strncmp", "strcpy"),
        *("strncpy", "strcat", "strncat", "strchr", "strrchr", "strstr"),
    ),
    "libc/stdlib": ("atoi", "atol", "rand", "srand", "random", "srandom", "abs", "labs", "llabs", "div"),
    "libc/search": ("qsort", "bsearch"),
    "libc/ctype": ("is[!w]*[!l]", "iscntrl", "tolower", "toupper", "ctype_"),
    "libc/errno": ("errno",),
    "libc/machine/riscv": ("setjmp",),
    "libm/math": (
        *(f"s{kind}_{name}" for name in _REAL_FUNCTIONS for kind in ("", "f")),
        *("sf_floor", "sf_ceil", "k_*", "kf_*"),
    ),
    "libm/common": (
        *(form.format(name) for name in _REAL_FUNCTIONS for form in ("s_{}", "sf_{}", "{}", "{}f")),
        *("math_err*", "*_data"),
    ),
}


def library_root() -> Path:
    """Folder of the library where it is installed."""
    found = util.find_spec(_WHEEL.replace("-", "_"))
    if found is None or found.origin is None:
        raise ToolError(f"the C library must be installed (pip install {_WHEEL}), not missing")
    return Path(found.origin).parent / "data/newlib"


def header_flags(root: Path | None = None) -> list[str]:
    """Options with which a compiler finds the headers of the library, where it is installed or in a copy."""
    return [f"-isystem{(root or library_root()) / folder}" for folder in _HEADERS]


def source_flags(root: Path | None = None) -> list[str]:
    """Options with which the sources of the library are compiled, besides those for its headers."""
    return ["-O2", "-fno-builtin", "-w", f"-I{(root or library_root()) / _PRIVATE_HEADERS}"]


def _sources() -> list[Path]:
    root = library_root()
    found = (sorted((root / folder).glob(f"{name}.[cS]")) for folder, names in _SOURCES.items() for name in names)
    return [path for paths in found for path in paths]


def library_files() -> tuple[list[Path], list[Path]]:
    """The files of a copy of the library by their places in it: sources to be compiled, and what they include."""
    root = library_root()
    patterns = (*_INCLUDED, *(f"{folder}/**/*.h" for folder in (*_HEADERS, *_SOURCES)))
    included = dict.fromkeys(path for pattern in patterns for path in sorted(root.glob(pattern)))
    return [path.relative_to(root) for path in _sources()], [path.relative_to(root) for path in included]


def library_archive(compiler: Compiler, jobs: int) -> Path:
    """Path of the compiled library, which is built if the cache does not hold it."""
    flags = [*target_flags(compiler.kind), *header_flags(), f"-isystem{RUNTIME / 'include'}", *source_flags()]
    configuration = (RUNTIME / "include/picolibc.h").read_text()
    versions = (version(_WHEEL), run([*compiler.command, "--version"]))
    identity = (compiler.command, versions, flags, configuration, _SOURCES)
    archive = cache_directory() / f"{hashlib.sha256(repr(identity).encode()).hexdigest()[:24]}.a"
    if counts(archive):
        return archive
    with (
        alone(archive.with_suffix(".lock")),
        tempfile.TemporaryDirectory(dir=archive.parent, prefix="building-") as name,
    ):
        if counts(archive):
            return archive
        objects = {path: Path(name) / f"{path.parent.name}-{path.stem}.o" for path in _sources()}
        commands = ([*compiler.command, *flags, "-c", str(path), "-o", str(to)] for path, to in objects.items())
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(run, commands))
        built = Path(name) / archive.name
        run([*compiler.archiver, "qcs", str(built), *map(str, objects.values())])
        built.replace(archive)
    return archive
