"""The scoreboard of every bench, and vectors: values that are driven and observed, with a row for each cycle."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xpulpnn_sim.benches.agents.base import Dut, half_cycle, sample
from xpulpnn_sim.benches.launcher_data import bench_data, seed_from_environment

Columns = Mapping[str, npt.ArrayLike]  # one array per port; position = cycle
_SHOWN_MISMATCHES = 8


class Scoreboard:
    """Compares observed with expected values; reports a mismatch with its stimulus, the unit and the seed."""

    def __init__(self) -> None:
        self.unit: str = bench_data()["unit"]
        self.seed = seed_from_environment()

    def equal(self, observed: object, expected: object, where: str) -> None:
        assert observed == expected, f"{self.unit} {where}: got {observed}, expected {expected} (seed {self.seed})"

    async def stays_low(self, dut: Dut, ports: Iterable[str], cycles: int, where: str) -> None:
        handles = {name: getattr(dut, name) for name in ports}
        for _ in range(cycles):
            await half_cycle(dut, rising=False)
            self.equal([name for name, handle in handles.items() if sample(handle)], [], where)
            await half_cycle(dut, rising=True)

    def compare(
        self,
        expected: Mapping[str, npt.ArrayLike],
        observed: Mapping[str, Any],
        context: Columns | None = None,
        label: str = "",
        rows: npt.ArrayLike | None = None,
    ) -> None:
        """Compare columns in all rows, or only in ``rows``."""
        for name, column in expected.items():
            want, got = _exact(column), _exact(observed[name])
            assert want.shape == got.shape, f"{self.unit} {label}: {len(got)} values of {name}, expected {len(want)}"
            wrong = np.flatnonzero(want != got)
            wrong = wrong if rows is None else np.intersect1d(wrong, rows)
            lines = [
                f"\n  [{row}] {name}={got[row]:#x}, expected {want[row]:#x}"
                + "".join(f" {key}={np.asarray(value)[row]:#x}" for key, value in (context or {}).items())
                for row in wrong[:_SHOWN_MISMATCHES]
            ]
            count = f"{len(wrong)} of {len(want)} {name} differ (seed {self.seed})"
            assert not len(wrong), f"{self.unit} {label}: {count}{''.join(lines)}"


def _exact(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return a column of integers of 64 bits or, if the port is wider, of Python integers."""
    column = np.asarray(values)
    if column.dtype in (np.uint64, np.object_):
        return np.array([int(value) for value in column], dtype=np.object_)
    return column.astype(np.int64)


async def run_vectors(dut: Dut, stimulus: Columns, outputs: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Drive the rows of ``stimulus``, one per cycle; return the values of ``outputs`` in the same cycles."""
    inputs = [getattr(dut, name) for name in stimulus]
    observed: dict[str, list[int]] = {name: [] for name in outputs}
    sampled = [(getattr(dut, name), values) for name, values in observed.items()]
    current: tuple[int | None, ...] = (None,) * len(inputs)
    for row in zip(*(np.asarray(column).tolist() for column in stimulus.values()), strict=True):
        for handle, old, new in zip(inputs, current, row, strict=True):
            if old != new:
                handle.value = new
        current = row
        await half_cycle(dut, rising=False)
        for handle, values in sampled:
            values.append(sample(handle))
        await half_cycle(dut, rising=True)
    return {name: np.array(values) for name, values in observed.items()}
