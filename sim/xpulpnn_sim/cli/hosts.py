"""The option ``--host`` of commands that simulate a core of somebody else."""

from dataclasses import fields
from typing import Any, Literal

from xpulpnn.errors import InputError
from xpulpnn_sim.cosimulation.model.host import Host

HostName = Literal["cv32e40x", "cv32e40x-mended"]

_OWN_OPTIONS = (
    *("preset", "settings", "cores", "banks", "icache", "l2_latency", "exact", "jtag", "hold", "bus_error"),
    *("engine", "self_test", "halt_rate"),
)
_NAMES = {"settings": "set"}


def host_of(options: Any) -> Host | None:
    """Return the host of a run, or None without one. Raises :class:`InputError` for options of our own cores."""
    if options.host is None:
        return None
    given = (field.name for field in fields(options) if getattr(options, field.name) != field.default)
    for name in given:
        if name in _OWN_OPTIONS:
            raise InputError(f"--{_NAMES.get(name, name).replace('_', '-')} must be left out with --host")
    return Host(name=options.host)
