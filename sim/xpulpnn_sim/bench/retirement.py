"""The retirement port of a back end or a core as records, and their comparison with the simulator."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from xpulpnn_sim.bench.cadence import Dut, PortMonitor
from xpulpnn_sim.bench.scoreboard import Scoreboard
from xpulpnn_sim.iss.lockstep import Lockstep
from xpulpnn_sim.retirement import RETIREMENT, Records

_RS1_LSB, _RS2_LSB = 15, 20
_REGISTER_MASK = 31


class RetirementMonitor(PortMonitor):
    """Collects retirements.

    Parameters
    ----------
    dut : handle
        A unit whose ports ``<prefix>valid``, ``<prefix>insn`` and so on are a retirement port. Without an ``order``
        (back end) its ``raw`` is the instruction as fetched and ``insn`` the expanded one.
    prefix : str
        "rvfi_" or "rvfi__".
    extra : sequence of str
        More ports to sample with each retirement.
    """

    def __init__(self, dut: Dut, prefix: str, extra: Sequence[str] = ()) -> None:
        names = [name for name in RETIREMENT.names or () if hasattr(dut, prefix + name)]
        self._names = names if "order" in names else ["raw", *names]
        super().__init__(dut, [*(prefix + name for name in self._names), *extra], f"{prefix}valid")

    def records(self) -> Records:
        """What has been collected."""
        columns = dict(zip(self._names, zip(*self.rows, strict=True), strict=False)) if self.rows else {}
        records = np.zeros(len(self.rows), RETIREMENT)
        for name, values in columns.items():
            records[name if name != "raw" else "insn"] = values
        if "raw" in columns:
            insn = np.array(columns["insn"], np.uint32)
            records["insn"], records["order"] = columns["raw"], np.arange(len(records))
            records["rs1_addr"], records["rs2_addr"] = (insn >> lsb & _REGISTER_MASK for lsb in (_RS1_LSB, _RS2_LSB))
        records["cycle"] = self.cycles
        return records


def check_retirements(
    lockstep: Lockstep, records: Records, board: Scoreboard, lines: npt.ArrayLike | None = None
) -> None:
    """Raise ``AssertionError`` at the first record that is not what the simulator does there."""
    difference = lockstep.compare(records, lines)
    assert difference is None, f"{board.unit} (seed {board.seed}): {difference.text if difference else ''}"
    board.compare({"order": range(len(records))}, {"order": records["order"]})
