"""All directed programs."""

from xpulpnn.config import CoreConfig
from xpulpnn_sim.verification.directed.access_faults import ACCESS_FAULTS, FAR_AWAY
from xpulpnn_sim.verification.directed.base import BASE, BITS, COMPRESSED, OPERANDS
from xpulpnn_sim.verification.directed.case import Directed
from xpulpnn_sim.verification.directed.loops import LOOPS
from xpulpnn_sim.verification.directed.mac_load import MAC_LOAD, MAC_LOAD_FORMS
from xpulpnn_sim.verification.directed.quantisation import QUANTISATION
from xpulpnn_sim.verification.directed.requantisation import REQUANTISATION
from xpulpnn_sim.verification.directed.system import COUNTERS, CSR_NUMBERS, SYSTEM

DIRECTED = (
    *BASE,
    *COMPRESSED,
    *LOOPS,
    *MAC_LOAD,
    *MAC_LOAD_FORMS,
    *SYSTEM,
    *CSR_NUMBERS,
    *ACCESS_FAULTS,
    *FAR_AWAY,
    *COUNTERS,
    *BITS,
    *OPERANDS,
    *QUANTISATION,
    *REQUANTISATION,
)
"""Every program, by group."""


def programs_of(config: CoreConfig) -> list[Directed]:
    """The programs a configuration can run."""
    return [case for case in DIRECTED if case.runs_on(config)]
