"""The bench of the coprocessor fails if the coprocessor ignores what a core does in its own way."""

import re
from pathlib import Path

import pytest

from xpulpnn_sim.benches.runner import available, run_bench
from xpulpnn_sim.benches.units import UNITS

pytestmark = pytest.mark.bench

LATE = "before its instruction is in the last stage"
QUIRKS = {
    ("xif-cv32e40x", "orphans"): "result|stuck",
    ("xif-cv32e40x", "load_when_oldest"): LATE,
    ("xif-cv32e40x-port", "load_when_oldest"): LATE,
    ("xif-cve2", "one_at_a_time"): "its result ends",
    ("xif-cve2", "commit_at_issue"): "stuck",
}
"""Settings that are off, and what the bench says then."""


@pytest.mark.parametrize(("unit", "quirk"), QUIRKS)
def test_ignored_quirk_fails(unit: str, quirk: str, pytestconfig: pytest.Config, tmp_path: Path) -> None:
    if not available("icarus"):
        pytest.skip("icarus is not installed")
    settings = [f"{quirk}=off", "simd=off", "mixed_weights=off", "requantise=none"]
    benched = UNITS[unit].with_configuration("", settings)
    data, cache = benched.describe() | {"episodes": 1}, pytestconfig.rootpath / "build" / "benches"
    outcome = run_bench(benched.emit(), unit, "icarus", cache=cache, results=tmp_path, seed=1, data=data)
    failures = [test.failure for test in outcome.failures if test.name.startswith("programs_match_golden")]
    assert failures
    assert all(re.search(QUIRKS[unit, quirk], failure) for failure in failures)
