"""Checks that a program fits a machine, as to the number of cores and the memory of a cluster."""

from collections.abc import Sequence
from pathlib import Path

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.cluster import TCDM_BASE, TEST_SET_BIT
from xpulpnn_sim.elf import Executable, Window, load, windows

_SINGLE_CORE_STACK = "__stack_top"
_CLUSTER_STACKS = "__stacks_top"
"""Symbols of the linker scripts of the runtime, for one core and for a cluster."""


def require_one_core(executable: Executable) -> None:
    """Raise :class:`InputError` if a program is for a cluster, where it is to run on one core alone."""
    if executable.cluster is not None:
        raise InputError(
            f"{executable.path} must be run with --cores {executable.cluster.cores}, the cluster it is compiled for, "
            "not on one core alone"
        )


def require_cluster(executable: Executable, config: ClusterConfig) -> None:
    """Raise :class:`InputError` if a program is for one core, for more cores or for a larger TCDM than ``config`` has,
    or occupies the space of the TCDM beyond its end."""
    path, needed = executable.path, executable.cluster
    if needed is None:
        symbols = executable.symbols
        if config.cores > 1 and _SINGLE_CORE_STACK in symbols and _CLUSTER_STACKS not in symbols:
            raise InputError(f"{path} must be compiled with --cluster to run on {config.cores} cores, not for one core")
    else:
        if needed.cores > config.cores:
            raise InputError(
                f"--cores must be at least {needed.cores}, which {path} is compiled for, not {config.cores}"
            )
        if needed.tcdm_bytes > config.tcdm_bytes:
            raise InputError(
                f"tcdm_bytes must be at least {needed.tcdm_bytes}, which {path} is compiled for, "
                f"not {config.tcdm_bytes}"
            )
    end = TCDM_BASE + config.tcdm_bytes
    for segment in executable.segments:
        last = segment.address + segment.size
        if TCDM_BASE <= segment.address < _space_end() and last > end:
            raise InputError(
                f"{path} must fit into the TCDM, which ends at 0x{end:08x}, not have a segment up to 0x{last:08x}"
            )


def _space_end() -> int:
    """The address behind all views of the TCDM and the peripherals of the cluster."""
    return TCDM_BASE + (4 << TEST_SET_BIT)


def cluster_windows(executable: Executable, config: ClusterConfig, ram: Sequence[Window] = ()) -> tuple[Window, ...]:
    """The memory of a run on a cluster: the whole TCDM, the segments outside it and ``ram``."""
    return windows(executable, [(TCDM_BASE, config.tcdm_bytes), *ram])


def load_for(path: Path, config: CoreConfig | ClusterConfig, ram: Sequence[Window] = ()) -> Executable:
    """The program in a file for one core or for a cluster, with memory ``ram`` beside its segments.

    Raises :class:`InputError` if the file is no program, or one for another number of cores.
    """
    if isinstance(config, CoreConfig):
        executable = load(path, ram=ram)
        require_one_core(executable)
    else:
        executable = load(path, ram=[*ram, (TCDM_BASE, config.tcdm_bytes)])
        require_cluster(executable, config)
    return executable
