"""The retirement port of a unit as records, and their comparison with the simulator."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn.isa.retirement import CYCLE, RETIREMENT_FIELDS, VALID, WAIT, WaitCause
from xpulpnn_sim.benches.cadence import Dut, PortMonitor, Scoreboard, sample
from xpulpnn_sim.benches.obi import ALL_BYTES, Grant
from xpulpnn_sim.reference.iss.lockstep import Lockstep
from xpulpnn_sim.reference.programs.retirement import RETIREMENT, Records


class RetirementMonitor(PortMonitor):
    """Collects retirements. Rejects a cycle without one for which the unit names no cause."""

    def __init__(self, dut: Dut, prefix: str, extra: Sequence[str] = ()) -> None:
        super().__init__(dut, [*(prefix + field.name for field in RETIREMENT_FIELDS), *extra], prefix + VALID.name)
        self._wait = getattr(dut, prefix + WAIT.name)

    def _skip(self) -> None:
        assert sample(self._wait) != WaitCause.NONE, "nothing retires for no reason"

    def records(self) -> Records:
        """Retirements collected so far."""
        records = np.zeros(len(self.rows), RETIREMENT)
        for field, values in zip(RETIREMENT_FIELDS, zip(*self.rows, strict=True), strict=False):
            records[field.name] = values
        records[CYCLE.name] = self.cycles
        return records


def _grants(records: Records) -> Iterator[tuple[int, bool, int]]:
    """Aligned address, whether it writes and byte enables of every word that the records say they accessed."""
    for record in records[records["mem_rmask"] | records["mem_wmask"] != 0]:
        address, reads, writes = (int(record[f"mem_{name}"]) for name in ("addr", "rmask", "wmask"))
        byte = address % WORD_BYTES
        for spill in range(2):
            enables = (reads | writes) << byte >> WORD_BYTES * spill & ALL_BYTES
            if enables:
                yield (address - byte + WORD_BYTES * spill) & WORD_MASK, writes > 0, enables


def check_retirements(
    lockstep: Lockstep, records: Records, log: Sequence[Grant], board: Scoreboard, lines: npt.ArrayLike | None = None
) -> None:
    """Raise ``AssertionError`` at the first record that is not what the simulator does there.

    The data bus must have granted what the records accessed, in their order, and nothing else.
    """
    difference = lockstep.compare(records, lines)
    assert difference is None, f"{board.unit} (seed {board.seed}): {difference.text if difference else ''}"
    board.compare({"order": range(len(records))}, {"order": records["order"]})
    got = [(grant.address, bool(grant.write), grant.enables) for grant in log]
    for number, (grant, want) in enumerate(zip_longest(got, _grants(records))):
        board.equal(grant, want, f"grant {number} of the data bus (address, write, enables)")
