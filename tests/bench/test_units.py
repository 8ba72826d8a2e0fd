"""Every benched unit on every simulator."""

from functools import cache
from pathlib import Path

import pytest

from xpulpnn_sim.bench.runner import SIMULATORS, Design, available, run_bench, seed_from_environment
from xpulpnn_sim.harness.units import UNITS

pytestmark = pytest.mark.bench

RUNS = [(unit, simulator) for simulator in SIMULATORS for unit in UNITS if simulator in UNITS[unit].simulators]


@cache
def design(unit: str) -> Design:
    return UNITS[unit].design()


@pytest.mark.parametrize(("unit", "simulator"), RUNS, ids=[f"{unit}-{simulator}" for unit, simulator in RUNS])
def test_unit(unit: str, simulator: str, pytestconfig: pytest.Config, tmp_path: Path) -> None:
    if not available(simulator):
        pytest.skip(f"{simulator} is not installed")
    seed = seed_from_environment()
    print(f"XPULPNN_SEED={seed}")
    run_bench(
        design(unit),
        f"xpulpnn_sim.bench.{UNITS[unit].bench}",
        simulator,
        cache=pytestconfig.rootpath / "build" / "benches",
        results=tmp_path,
        seed=seed,
        data=UNITS[unit].describe(),
    )
