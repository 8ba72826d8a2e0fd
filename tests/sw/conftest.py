"""The C compilers that are installed, and files in a working directory."""

from collections.abc import Callable
from pathlib import Path

import pytest

from xpulpnn.config import PRESETS
from xpulpnn.errors import ToolError
from xpulpnn_sw.toolchain import build as toolchain
from xpulpnn_sw.toolchain import compilers
from xpulpnn_sw.toolchain.build import Options
from xpulpnn_sw.toolchain.build_options import ClusterLayout

from .elf import FORK, SOURCES, ClusterBuild


@pytest.fixture(params=compilers.COMPILERS)
def kind(request: pytest.FixtureRequest) -> str:
    try:
        compilers.find_compiler(request.param)
    except ToolError:
        pytest.skip(f"{request.param} is not installed")
    return request.param


@pytest.fixture
def compiler() -> str:
    """The kind of the compiler that is preferred."""
    try:
        return compilers.find_compiler().kind
    except ToolError:
        pytest.skip("no C compiler for the core is installed")


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Writes a file into the working directory, an empty one of the test, and returns its name."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, text: str = "") -> str:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
        return name

    return write


@pytest.fixture
def build(tmp_path: Path) -> ClusterBuild:
    """Compiles a file of the folder ``c``, or a text, for a cluster."""

    def compiled(
        source: str, *, cores: int = 8, kind: str | None = None, layout=None, core=PRESETS["xpulpnn"], **options
    ) -> Path:
        try:
            compilers.find_compiler(kind)
        except ToolError:
            pytest.skip(f"{kind} is not installed")
        path = SOURCES / source if source.endswith(".c") else tmp_path / "main.c"
        if path.parent == tmp_path:
            path.write_text(FORK + source)
        extra = () if kind == "zig" else ("-Wall", "-Werror")
        chosen = Options(config=core, cluster=layout or ClusterLayout(cores=cores), extra=extra, **options)
        assert toolchain.build([path], tmp_path / "main.elf", compiler=kind, options=chosen) == ""
        return tmp_path / "main.elf"

    return compiled
