"""Shared by all tests: a cache not the user's, unoptimised models, little garbage collection, refused commands, and
networks of others."""

import gc
import os
import re
import signal
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

os.environ.setdefault("XPULPNN_CACHE", str(Path(__file__).parent.parent / "build" / "cache"))
# most models run for less time than their optimisation takes; `make cosim` runs an optimised one
os.environ.setdefault("XPULPNN_MODEL_LEVEL", "0")
# nohup and shells that start jobs behind them ignore signals, which tests send to commands
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
# set by pytest-xdist; tables in pipes would be as narrow
os.environ.pop("COLUMNS", None)


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
        gc.set_threshold(20_000)


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test without a marker is of a unit."""
    if not any(map(item.get_closest_marker, ("bench", "cosim", "flow"))):
        item.add_marker("unit")


@pytest.fixture
def refused(capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that must end with exit code 2 and one line; returns the line behind ``error:``."""
    from xpulpnn_sim.cli import main as cli

    def run(*words: object) -> str:
        capfd.readouterr()
        assert cli.main([*map(str, words)]) == 2
        printed = capfd.readouterr()
        match = re.fullmatch(r"error: (.*)\n", printed.err)
        assert match, printed.err
        assert printed.out == ""
        return match[1]

    return run


@pytest.fixture
def nets() -> Path:
    """The folder XPULPNN_NETS: TFC_1W1A.onnx, resnet8_int8.tflite, cnv_w1a1_cifar10.npz, cmsis_cifar10.npz, cifar20."""
    folder = os.environ.get("XPULPNN_NETS")
    if folder is None:
        pytest.skip("XPULPNN_NETS names no folder")
    return Path(folder)
