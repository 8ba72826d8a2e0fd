"""Comparison of what a unit showed with what it should have shown."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from xpulpnn_sim.benches.cadence import Columns
from xpulpnn_sim.benches.handover import bench_data, seed_from_environment

_SHOWN_MISMATCHES = 8


def _exact(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """A column of integers: 64 bits, or Python integers if a port is wider than that."""
    column = np.asarray(values)
    if column.dtype in (np.uint64, np.object_):
        return np.array([int(value) for value in column], dtype=np.object_)
    return column.astype(np.int64)


class Scoreboard:
    """Compares observed with expected values and tells the first differences with their stimulus, unit and seed."""

    def __init__(self) -> None:
        self.unit: str = bench_data()["unit"]
        self.seed = seed_from_environment()

    def compare(
        self,
        expected: Mapping[str, npt.ArrayLike],
        observed: Mapping[str, Any],
        context: Columns | None = None,
        label: str = "",
    ) -> None:
        """Raise ``AssertionError`` if a column of ``expected`` differs anywhere from that of ``observed``."""
        for name, column in expected.items():
            want, got = _exact(column), _exact(observed[name])
            assert want.shape == got.shape, f"{self.unit} {label}: {len(got)} values of {name}, expected {len(want)}"
            wrong = np.flatnonzero(want != got)
            lines = [
                f"\n  [{row}] {name}={got[row]:#x}, expected {want[row]:#x}"
                + "".join(f" {key}={np.asarray(value)[row]:#x}" for key, value in (context or {}).items())
                for row in wrong[:_SHOWN_MISMATCHES]
            ]
            count = f"{len(wrong)} of {len(want)} {name} differ (seed {self.seed})"
            assert not len(wrong), f"{self.unit} {label}: {count}{''.join(lines)}"

    def equal(self, got: object, want: object, where: str) -> None:
        """Raise ``AssertionError`` if ``got`` is not ``want``."""
        assert got == want, f"{self.unit} {where}: got {got}, expected {want} (seed {self.seed})"
