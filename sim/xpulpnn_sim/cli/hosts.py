"""The option ``--host`` of commands that simulate a core of somebody else."""

from typing import Any, Literal

from xpulpnn.config import CoreConfig
from xpulpnn_sim.cli.configurations import refuse
from xpulpnn_sim.cosimulation.model.host import Host, host_config

HostName = Literal["cv32e40x", "cv32e40x-mended"]

_OWN_OPTIONS = (
    *("preset", "cores", "banks", "icache", "l2_latency", "exact", "jtag", "hold", "bus_error"),
    *("engine", "self_test", "halt_rate"),
)


def host_of(options: Any, named: str = "") -> tuple[Host, CoreConfig]:
    """Return the host that the options name, and its configuration, by default that of the core ``named`` by a program.
    Raises :class:`InputError` for options of our own cores."""
    refuse(options, _OWN_OPTIONS, "must be left out with --host")
    config = host_config(named, options.assignments)
    return Host.of(options.host, config), config
