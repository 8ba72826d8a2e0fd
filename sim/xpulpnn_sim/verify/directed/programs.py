"""All directed programs."""

from xpulpnn.config import CoreConfig
from xpulpnn_sim.verify.directed.access_faults import ACCESS_FAULTS
from xpulpnn_sim.verify.directed.base import BASE
from xpulpnn_sim.verify.directed.bits import BITS
from xpulpnn_sim.verify.directed.case import Directed
from xpulpnn_sim.verify.directed.compressed import COMPRESSED
from xpulpnn_sim.verify.directed.counters import COUNTERS
from xpulpnn_sim.verify.directed.csr_numbers import CSR_NUMBERS
from xpulpnn_sim.verify.directed.far import FAR_AWAY
from xpulpnn_sim.verify.directed.loops import LOOPS
from xpulpnn_sim.verify.directed.mac_load import MAC_LOAD
from xpulpnn_sim.verify.directed.mac_load_forms import MAC_LOAD_FORMS
from xpulpnn_sim.verify.directed.operands import OPERANDS
from xpulpnn_sim.verify.directed.quantisation import QUANTISATION
from xpulpnn_sim.verify.directed.requantisation import REQUANTISATION
from xpulpnn_sim.verify.directed.system import SYSTEM

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
