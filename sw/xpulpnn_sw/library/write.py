"""Writes a library into a folder."""

import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.programs.function import ARGUMENTS_HEADER, arguments_header, kernel_function
from xpulpnn_sw.library.header import KERNELS_HEADER, LIBRARY_FILE, kernels_header, readme
from xpulpnn_sw.library.public import PublicFunction
from xpulpnn_sw.library.public_header import PUBLIC_HEADER, public_header
from xpulpnn_sw.library.utils_header import UTILS_HEADER, utils_header
from xpulpnn_sw.toolchain.build import archive
from xpulpnn_sw.toolchain.build_options import Options

_PARTS = Path(__file__).parent / "c"  # what functions with public names have in common
_COMMON = "common"  # the part that the others call


def texts(
    functions: Sequence[KernelRun], core: str, settings: str, public: Sequence[PublicFunction] = ()
) -> dict[str, str]:
    """Everything but the objects, by path in the library's folder."""
    written = {
        f"include/{ARGUMENTS_HEADER}": arguments_header(),
        f"include/{KERNELS_HEADER}": kernels_header(functions),
        "README.md": readme(functions, core, settings, public),
    }
    if public:
        wide = any(one.type.startswith("int64_t") for function in public for one in function.parameters)
        written[f"include/{PUBLIC_HEADER}"] = public_header(public)
        written[f"include/{UTILS_HEADER}"] = utils_header(wide=wide)
    return written


def objects(
    functions: Sequence[KernelRun],
    folder: Path,
    *,
    compiler: str | None,
    options: Options,
    public: Sequence[PublicFunction] = (),
) -> Path:
    """Assemble the functions, an object each, into the library of a folder, where it appears complete or not at all.

    ``public`` functions are compiled besides; those that they call must be among ``functions``.
    Raises :class:`~xpulpnn_sw.toolchain.compilers.CompileError` and :class:`~xpulpnn.errors.ToolError`.
    """
    library = folder / "lib" / LIBRARY_FILE
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="xpulpnn-library-") as name:
        place = Path(name)
        written = {f"{run.name}.s": kernel_function(run) for run in functions}
        written |= {f"{function.name}.c": function.source for function in public}
        for file, text in written.items():
            (place / file).write_text(text)
        (place / ARGUMENTS_HEADER).write_text(arguments_header())
        sources = [place / file for file in written]
        sources += _parts(public)
        archive(
            sources, library, compiler=compiler, options=replace(options, include=(*options.include, _PARTS, place))
        )
    return library


def _parts(public: Sequence[PublicFunction]) -> list[Path]:
    names: set[str] = set()
    for function in public:
        for match in re.finditer(r"xp_nn_(\w+?)(?:_shift)?\(&?kernel", function.source):
            names |= {_COMMON, "pool" if match[1].endswith("pool") else match[1]}
    return [_PARTS / f"xp_nn_{name}.c" for name in sorted(names)]
