"""The retirement port of a unit as records, and their comparison with the simulator."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from xpulpnn.isa.retirement import CYCLE, RETIREMENT_FIELDS, VALID, WAIT, WaitCause
from xpulpnn_sim.bench.cadence import Dut, PortMonitor, sample
from xpulpnn_sim.bench.scoreboard import Scoreboard
from xpulpnn_sim.iss.lockstep import Lockstep
from xpulpnn_sim.retirement import RETIREMENT, Records


class RetirementMonitor(PortMonitor):
    """Collects retirements. Rejects a cycle without one for which the unit names no cause.

    Parameters
    ----------
    dut : handle
        A unit with a retirement port.
    prefix : str
        What the names of its ports begin with.
    extra : sequence of str
        More ports to sample with each retirement.
    """

    def __init__(self, dut: Dut, prefix: str, extra: Sequence[str] = ()) -> None:
        super().__init__(dut, [*(prefix + field.name for field in RETIREMENT_FIELDS), *extra], prefix + VALID.name)
        self._wait = getattr(dut, prefix + WAIT.name)

    def _skip(self) -> None:
        assert sample(self._wait) != WaitCause.NONE, "nothing retires for no reason"

    def records(self) -> Records:
        """What has been collected."""
        records = np.zeros(len(self.rows), RETIREMENT)
        for field, values in zip(RETIREMENT_FIELDS, zip(*self.rows, strict=True), strict=False):
            records[field.name] = values
        records[CYCLE.name] = self.cycles
        return records


def check_retirements(
    lockstep: Lockstep, records: Records, board: Scoreboard, lines: npt.ArrayLike | None = None
) -> None:
    """Raise ``AssertionError`` at the first record that is not what the simulator does there."""
    difference = lockstep.compare(records, lines)
    assert difference is None, f"{board.unit} (seed {board.seed}): {difference.text if difference else ''}"
    board.compare({"order": range(len(records))}, {"order": records["order"]})
