"""The simulator in lock step with a design, as a checker of blocks of retirements."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sim.cosimulation.checks.retirements import Checker, Findings
from xpulpnn_sim.cosimulation.model.model import Block
from xpulpnn_sim.cosimulation.model.schema import GRANT
from xpulpnn_sim.reference.iss.cluster_lockstep import ClusterLockstep
from xpulpnn_sim.reference.iss.lockstep import Lockstep
from xpulpnn_sim.reference.programs.retirement import RETIREMENT, Records


def lockstep_checker(reference: Lockstep) -> Checker:
    """The simulator in lock step as a checker of one hart; the first difference ends it."""
    done = False

    def compare(block: Block) -> Findings:
        nonlocal done
        difference = None if done else reference.compare(block.records(), block.lines())
        if difference is None:
            return Findings()
        done = True
        return Findings(1, difference.text, difference.order)

    return compare


class ClusterLockstepCheck:
    """The simulator's harts in lock step as a checker of all cores; the first difference ends it."""

    def __init__(self, reference: ClusterLockstep) -> None:
        self._reference = reference
        self._harts = range(len(reference.harts))
        self._done = False

    def __call__(self, block: Block) -> Findings:
        """Compare the next block."""
        return self._compare([block.records(hart) for hart in self._harts], block.grants)

    def finish(self, retired: Sequence[int]) -> Findings:
        """The run is over: compare what is left, and the number of retirements of each hart with those compared."""
        nothing = np.zeros(0, RETIREMENT)
        findings = self._compare([nothing for _ in self._harts], np.zeros(0, GRANT), last=True)
        compared = [hart.compared for hart in self._reference.harts]
        if findings.count or compared == list(retired):
            return findings
        return Findings(1, f"retirements in lock step must be {list(retired)}, not {compared}")

    def _compare(self, records: Sequence[Records], grants: NDArray[Any], *, last: bool = False) -> Findings:
        difference = None if self._done else self._reference.compare(records, grants, last=last)
        if difference is None:
            return Findings()
        self._done = True
        return Findings(1, difference.text, difference.order)
