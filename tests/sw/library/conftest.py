"""Libraries of the functions that some tests call."""

import re
from collections.abc import Callable, Sequence

import pytest

from xpulpnn.config import CoreConfig
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.library.public import PublicFunctions
from xpulpnn_sw.library.write import objects, texts
from xpulpnn_sw.toolchain.build_options import Options


@pytest.fixture(scope="module")
def public_library(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Options]:
    """Builds a library of the functions with public names that texts call; returns the options of programs with it."""

    def build(core: CoreConfig, precisions: Sequence[str], *callers: str) -> Options:
        folder = tmp_path_factory.mktemp("library")
        used = set(re.findall(r"x?pulp_nn_\w+(?=\()", " ".join(callers)))
        every = PublicFunctions([Precision.parse(one) for one in precisions], Rule.BN32, core)
        public = [function for function in every if not used.isdisjoint(function.names)]
        assert used <= {name for function in public for name in function.names}
        kernels = list({run.name: run for function in public for run in function.kernels}.values())
        for path, text in texts(kernels, "", "", public).items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text)
        warned = ("-Wall", "-Werror")
        objects(kernels, folder, compiler=None, options=Options(config=core, extra=warned), public=public)
        linking = (f"-L{folder / 'lib'}", "-lxpulpnn")
        return Options(config=core, include=(folder / "include",), linking=linking, extra=warned)

    return build
