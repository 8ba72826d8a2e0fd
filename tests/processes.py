"""Waiting for what other processes write, and for their end; and caches of their own."""

import shutil
import time
from pathlib import Path

from xpulpnn_sim.reference.iss import library

PATIENCE_S = 60


def own_cache(folder: Path) -> str:
    """A cache that holds the compiled simulator alone, so that no test compiles it again."""
    folder.mkdir(exist_ok=True)
    simulator = Path(library.library()._name)
    if not (folder / simulator.name).exists():
        shutil.copy2(simulator, folder)
    return str(folder)


def wait_for(path: Path, count: int = 1) -> None:
    """Wait until a file has so many lines."""
    until = time.monotonic() + PATIENCE_S
    while not path.exists() or len(path.read_text().splitlines()) < count:
        assert time.monotonic() < until
        time.sleep(0.05)


def gone(pid: int) -> bool:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


def all_gone(pids: Path) -> bool:
    return all(gone(int(pid)) for pid in pids.read_text().split())
