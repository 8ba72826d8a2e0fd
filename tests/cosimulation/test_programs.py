"""Directed and random programs on the Verilated core."""

from dataclasses import replace

import numpy as np
import pytest

from xpulpnn.config import PRESETS
from xpulpnn_sim.cli.common import read_results
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sim.verification.directed.programs import DIRECTED
from xpulpnn_sim.verification.random.designs import core_design
from xpulpnn_sim.verification.random.layout import BUS_ERRORS
from xpulpnn_sim.verification.random.trials import Plan, run_seed

pytestmark = pytest.mark.cosim

OPTIONS = ("qnt", "mac_load_cross", "mac_load_dot", "requantise")
FULL = replace(PRESETS["xpulpnn-full"], **dict.fromkeys(OPTIONS, True))
SETTINGS = [word for name in OPTIONS for word in ("--set", f"{name}=true")]
MAX_CYCLES = 500_000
MACHINES = {
    "ideal": Machine(max_cycles=MAX_CYCLES, bus_errors=BUS_ERRORS, hart_id=0x5A3C_69F0),
    "slow": Machine(
        bus_errors=BUS_ERRORS,
        grant_stalls=0.3,
        response_latency=5,
        fetch_grant_stalls=0.3,
        fetch_latency=4,
        seed=3,
        max_cycles=MAX_CYCLES,
        hart_id=0xA5C3_960F,
    ),
}
IRQ_RATES = {"ideal": 0.002, "slow": 0.0004}
PROGRAMS = 10


def machine_for(timing, case):
    """Interrupts only where the program enables them."""
    values = {name: getattr(MACHINES[timing], name) for name in Machine.__dataclass_fields__}
    return Machine(**{**values, "irq_rate": IRQ_RATES[timing] * case.interrupts})


@pytest.mark.parametrize("timing", MACHINES)
@pytest.mark.parametrize("case", DIRECTED, ids=lambda case: case.name)
def test_directed(case, timing):
    machine = machine_for(timing, case)
    # the simulator is the same whatever the memory does: once is enough
    result = run_program(case.program().executable(), FULL, machine, lockstep=timing == "ideal", check=True)
    assert result.difference is None, result.difference
    assert result.exit.ok, result.exit.text
    assert case.problems(result.read) == []


def test_interrupts_are_taken():
    taken = sum(
        run_program(case.program().executable(), FULL, machine_for("ideal", case)).interrupts
        for case in DIRECTED
        if case.interrupts
    )
    assert taken > 10


def test_random_programs():
    plan = Plan(config=FULL, label=" ".join(["--preset xpulpnn-full", *SETTINGS]))
    for seed in range(PROGRAMS):
        result = run_seed(seed, plan, core_design())
        assert result.verdict.reason is Reason.PASS, f"{plan.command(seed)}\n{result.verdict.text}"


def test_verify_command(tmp_path, capsys):
    path = tmp_path / "verify.json"
    assert main(["verify", "--instructions", "2000", "--seed", "5", "--jobs", "1", "--json", str(path)]) == 0
    assert "differences" in capsys.readouterr().out
    found = read_results(path)[0]
    assert found["instructions"] >= 2000
    assert found["differences"] == 0
    assert np.sum([row["retirements"] for row in found["rows"].values()]) > 0
