"""Compiled programs on the simulator: how they end, what they print, what they leave in memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn_sim.reference.iss.cluster import ClusterSession
from xpulpnn_sim.reference.iss.session import IssSession
from xpulpnn_sim.reference.programs.elf import Executable, load
from xpulpnn_sim.reference.programs.exits import STDERR, STDOUT, Exit, Output, Reason

SOURCES = Path(__file__).parent / "c"
LIMIT = 20_000_000


FORK = "#include <stdio.h>\n#include <stdlib.h>\n#include <xp_cluster.h>\n"
"""The first lines of each text that is compiled for a cluster."""

ClusterBuild = Callable[..., Path]


@dataclass(frozen=True)
class Ran:
    end: Exit
    output: str
    errors: str
    session: IssSession | ClusterSession
    symbols: Mapping[str, int]

    def read(self, symbol: str, size: int) -> bytes:
        return self.session.memory.read_bytes(self.symbols[symbol], size)


def run(
    program: Path | Executable,
    config: CoreConfig | ClusterConfig,
    *,
    quantum: int = 64,
    at: Mapping[int, int] | None = None,
    patch: Mapping[str, int] | None = None,
) -> Ran:
    """Run a program: ``at`` maps a number of instructions to the lines raised from there on, ``patch`` sets words."""
    executable, printed = load(program) if isinstance(program, Path) else program, list[Output]()
    if isinstance(config, ClusterConfig):
        session = ClusterSession(executable, config, quantum=quantum, output=printed.append)
    else:
        session = IssSession(executable, config, output=printed.append)
    for name, value in (patch or {}).items():
        session.memory.write_bytes(executable.symbols[name], value.to_bytes(4, "little"))
    for count, lines in sorted((at or {}).items()):
        assert session.run(count).reason is Reason.MAX_CYCLES
        session.iss.csrs["mip"] = lines
    end = session.run(LIMIT)
    texts = {file: b"".join(part.data for part in printed if part.descriptor == file) for file in (STDOUT, STDERR)}
    return Ran(end, texts[STDOUT].decode(), texts[STDERR].decode(), session, executable.symbols)


def simulate(path: Path, cores: int, quantum: int = 64, **config: Any) -> Ran:
    return run(path, ClusterConfig(cores=cores, **config), quantum=quantum)
