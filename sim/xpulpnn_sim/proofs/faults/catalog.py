"""Lists of all faults of a core that proofs must find."""

from collections.abc import Collection

from xpulpnn.config import CoreConfig
from xpulpnn_sim.proofs.faults.core import CORE_FAULTS
from xpulpnn_sim.proofs.faults.fault import Fault
from xpulpnn_sim.proofs.faults.halts import HALT_FAULTS
from xpulpnn_sim.proofs.faults.instructions import INSTRUCTION_FAULTS

PROOF_FAULTS = (*CORE_FAULTS, *INSTRUCTION_FAULTS, *HALT_FAULTS)


def faults_for(config: CoreConfig, checks: Collection[str]) -> list[Fault]:
    return [fault for fault in PROOF_FAULTS if fault.fits(config) and not set(checks).isdisjoint(fault.checks)]
