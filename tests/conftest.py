"""What all tests share: a cache that is not the user's, and little garbage collection."""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest

os.environ.setdefault("XPULPNN_CACHE", str(Path(__file__).parent.parent / "build" / "cache"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Ten thousand tests and the modules they import stay to the end: searching them again and again for garbage takes
    a quarter of the time of many tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        # as in the command line
        gc.set_threshold(20_000)
