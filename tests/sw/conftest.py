"""The C compilers that are installed."""

import pytest

from xpulpnn.errors import ToolError
from xpulpnn_sw import compilers


@pytest.fixture(params=compilers.COMPILERS)
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of compiler, each that is installed in turn."""
    try:
        compilers.find(request.param)
    except ToolError:
        pytest.skip(f"{request.param} is not installed")
    return request.param
