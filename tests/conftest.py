"""What all tests share: a cache that is not the user's, compiled modules, and little garbage collection."""

import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

# hundreds of processes import the same modules: an environment may forbid to keep them compiled
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

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
