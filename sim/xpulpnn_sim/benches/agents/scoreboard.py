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
    """Compares observed with expected values; a mismatch fails the test with its stimulus, the unit and the seed.

    The unit is named as in ``verify unit``, in other runs after the top module.
    """

    def __init__(self) -> None:
        self.unit: str = bench_data()["unit"]
        self.seed = seed_from_environment()

    def equal(self, observed: object, expected: object, where: str) -> None:
        """Compare two values of any type; raise ``AssertionError``, which names ``where``, if they differ."""
        assert observed == expected, f"{self.unit} {where}: got {observed}, expected {expected} (seed {self.seed})"

    async def stays_low(self, dut: Dut, ports: Iterable[str], cycles: int, where: str) -> None:
        """Check in each of the next cycles that all these outputs are 0."""
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
        """Compare columns, one row for each cycle.

        Parameters
        ----------
        expected : Mapping[str, ArrayLike]
            Integers of any width by port name, shape (cycles,).
        observed : Mapping[str, Any]
            Columns of at least these ports, as :func:`run_vectors` returns them.
        context : Mapping[str, ArrayLike], optional
            Columns of which the failure shows the values in the wrong rows; usually the stimulus.
        label : str
            Begins the failure, after the unit.
        rows : ArrayLike, optional
            Numbers of the rows that count; all of them by default.

        Raises
        ------
        AssertionError
            A column has another number of rows, or a value differs; the first eight rows are shown.
        """
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
    """Drive the rows of ``stimulus``, one per cycle; return the values of ``outputs`` in the same cycles.

    Inputs change right after the rising edge, outputs are sampled at the falling edge: an output that depends on the
    inputs without a register is in the row of these inputs, the value after a register in the next row.

    Parameters
    ----------
    dut : handle
        Unit under test; with a clock ``clk``, else a cycle is 10 ns.
    stimulus : Mapping[str, ArrayLike]
        Unsigned integers by input port, shape (cycles,).
    outputs : Sequence[str]
        Ports to sample.

    Returns
    -------
    dict[str, ndarray]
        Unsigned integers by output port, shape (cycles,).

    Raises
    ------
    ValueError
        Columns differ in length, or a sampled bit is x or z.
    """
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
