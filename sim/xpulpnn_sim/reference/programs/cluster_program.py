"""Checks that a program fits a machine, as to the number of cores and the memory of a cluster."""

from collections.abc import Sequence
from pathlib import Path

from xpulpnn.config import TCDM_SPACE, ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.cluster import CONTROL, TCDM_ALIAS, TCDM_BASE, TEST_SET_BIT
from xpulpnn_sim.reference.programs.elf import Executable, Window, load, windows

_SINGLE_CORE_STACK = "__stack_top"
_CLUSTER_STACKS = "__stacks_top"  # symbols of the linker scripts of the runtime, for one core and for a cluster

_SPACES = {
    TCDM_ALIAS: "the alias of the TCDM",
    TCDM_BASE | 1 << TEST_SET_BIT: "the test&set view of the TCDM",
    CONTROL: "the peripherals of the cluster",
}
"""Addresses of a cluster where nothing can be loaded to."""


def require_one_core(executable: Executable) -> None:
    """Raise :class:`InputError` if a program is for a cluster, where it is to run on one core alone."""
    if executable.cluster is not None:
        raise InputError(
            f"{executable.path} must be run with --cores {executable.cluster.cores}, the cluster it is compiled for, "
            "not on one core alone"
        )


def require_cluster(executable: Executable, config: ClusterConfig, ram: Sequence[Window] = ()) -> None:
    """Raise :class:`InputError` if a program is for one core, for more cores or for a larger TCDM than ``config`` has,
    or if it or ``ram`` lies where nothing can be loaded to."""
    path, needed = executable.path, executable.cluster
    if needed is None:
        symbols = executable.symbols
        if config.cores > 1 and _SINGLE_CORE_STACK in symbols and _CLUSTER_STACKS not in symbols:
            raise InputError(f"{path} must be compiled for a cluster to run on {config.cores} cores, not for one core")
    else:
        for name, own, least in (
            ("cores", config.cores, needed.cores),
            ("tcdm_bytes", config.tcdm_bytes, needed.tcdm_bytes),
        ):
            if own < least:
                raise InputError(f"{name} must be at least {least}, which {path} is compiled for, not {own}")
    segments = [(segment.address, segment.size) for segment in executable.segments]
    for who, pieces in ((str(path), segments), ("ram", ram)):
        for base, size in pieces:
            _require_place(who, base, size, config)


def _require_place(who: str, base: int, size: int, config: ClusterConfig) -> None:
    end = TCDM_BASE + config.tcdm_bytes
    if _overlap(base, size, TCDM_BASE) and base + size > end:
        raise InputError(
            f"{who} must fit into the TCDM, which ends at 0x{end:08x}, not have a piece up to 0x{base + size:08x}"
        )
    for first, name in _SPACES.items():
        if _overlap(base, size, first):
            raise InputError(f"{who} must keep out of {name}, not have {size} bytes at 0x{base:08x}")


def _overlap(base: int, size: int, space: int) -> bool:
    return base < space + TCDM_SPACE and space < base + size


def cluster_windows(executable: Executable, config: ClusterConfig, ram: Sequence[Window] = ()) -> tuple[Window, ...]:
    """The memory of a run on a cluster: the whole TCDM, the segments outside it and ``ram``."""
    return windows(executable, [(TCDM_BASE, config.tcdm_bytes), *ram])


def load_for(path: Path, config: CoreConfig | ClusterConfig, ram: Sequence[Window] = ()) -> Executable:
    """The program in a file for one core or for a cluster, with memory ``ram`` beside its segments. Raises
    :class:`InputError` if the file is no program, or one for another number of cores."""
    if isinstance(config, CoreConfig):
        executable = load(path, ram=ram)
        require_one_core(executable)
    else:
        executable = load(path, ram=[*ram, (TCDM_BASE, config.tcdm_bytes)])
        require_cluster(executable, config)
    return executable
