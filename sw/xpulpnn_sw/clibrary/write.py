"""Writes a library into a folder."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from xpulpnn_sw.build_options import Options
from xpulpnn_sw.clibrary.header import HEADER, LIBRARY, header, readme
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.programs.function import ARGUMENTS_HEADER, arguments_header, kernel_function
from xpulpnn_sw.toolchain import archive


def texts(functions: Sequence[KernelRun], core: str, settings: str) -> dict[str, str]:
    """Everything but the objects, by path in the library's folder."""
    return {
        f"include/{ARGUMENTS_HEADER}": arguments_header(),
        f"include/{HEADER}": header(functions),
        "README.md": readme(functions, core, settings),
    }


def objects(functions: Sequence[KernelRun], folder: Path, *, compiler: str | None, options: Options) -> Path:
    """Assemble the functions, an object each, into the library of a folder, where it appears complete or not at all.

    Raises :class:`~xpulpnn_sw.compilers.CompileError` and :class:`~xpulpnn.errors.ToolError`.
    """
    library = folder / "lib" / LIBRARY
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="xpulpnn-library-") as name:
        sources: list[Path] = []
        for run in functions:
            source = Path(name) / f"{run.name}.s"
            source.write_text(kernel_function(run))
            sources.append(source)
        archive(sources, library, compiler=compiler, options=options)
    return library
