"""Tuples of all directed programs, and the selection of those that a configuration can run."""

from functools import cache

from xpulpnn.config import CoreConfig
from xpulpnn_sim.reference.bare.layout import BUS_ERRORS
from xpulpnn_sim.reference.directed import (
    access_faults,
    base,
    encodings,
    loops,
    mac_load,
    mac_load_pair,
    quantisation,
    requantisation,
    system,
)
from xpulpnn_sim.reference.directed.case import Directed
from xpulpnn_sim.reference.iss.session import IssSession
from xpulpnn_sim.reference.programs.exits import Reason

_MODULES = (base, encodings, loops, mac_load, mac_load_pair, system, access_faults, quantisation, requantisation)
DIRECTED = tuple(case for module in _MODULES for case in module.PROGRAMS)
"""All directed programs, ordered by the instruction group that they test."""


def programs_of(config: CoreConfig) -> list[Directed]:
    return [case for case in DIRECTED if case.runs_on(config)]


@cache
def short_programs(config: CoreConfig, limit: int) -> list[Directed]:
    """Return the directed programs that end, or wait for an interrupt, within ``limit`` instructions."""

    def ends(case: Directed) -> bool:
        session = IssSession(case.program().executable(), config, errors=BUS_ERRORS, output=lambda _: None)
        return session.run(limit).reason is not Reason.MAX_CYCLES

    return [case for case in programs_of(config) if len(case.lines) < limit and ends(case)]
