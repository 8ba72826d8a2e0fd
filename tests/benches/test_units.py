"""Every benched unit on every simulator."""

from functools import cache
from pathlib import Path

import pytest

from xpulpnn.verilog import EmittedVerilog
from xpulpnn_sim.benches.handover import seed_from_environment
from xpulpnn_sim.benches.runner import available, run_bench
from xpulpnn_sim.benches.units import UNITS

pytestmark = pytest.mark.bench

RUNS: list[tuple[str, str, int | None]] = [
    (name, simulator, None) for name, unit in UNITS.items() for simulator in unit.simulators
]
# with this seed a bank stood still for a master that was served already
RUNS.append(("tcdm-broadcast", "icarus", 3))


@cache
def design(unit: str) -> EmittedVerilog:
    return UNITS[unit].emit()


@pytest.mark.parametrize(
    ("unit", "simulator", "chosen"), RUNS, ids=["-".join(str(part) for part in run if part) for run in RUNS]
)
def test_unit(unit: str, simulator: str, chosen: int | None, pytestconfig: pytest.Config, tmp_path: Path) -> None:
    if not available(simulator):
        pytest.skip(f"{simulator} is not installed")
    seed, cache = chosen or seed_from_environment(), pytestconfig.rootpath / "build" / "benches"
    print(f"XPULPNN_SEED={seed}")
    data = UNITS[unit].describe()
    run_bench(design(unit), unit, simulator, cache=cache, results=tmp_path, seed=seed, data=data)
