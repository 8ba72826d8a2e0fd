"""Energy of emitted designs, mapped by Yosys onto the built-in library."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from tests.exploration.test_energy import CYCLES, activity

from xpulpnn.config import PRESETS, CoreConfig, DotpConfig, Isolation
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import Interrupt
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.exploration.energy import estimate
from xpulpnn_sim.exploration.energy.estimate import (
    METHOD,
    clock_gated_netlist,
    estimate_energy,
    kernel_workload,
    program_workload,
)
from xpulpnn_sim.exploration.energy.gate_model import CLOCK, Circuit
from xpulpnn_sim.exploration.energy.programs import sleeping
from xpulpnn_sim.exploration.flows import KernelSpec
from xpulpnn_sim.exploration.generic_library import generic_library
from xpulpnn_sim.exploration.library import NO_TECHNOLOGY
from xpulpnn_sim.exploration.results import EnergyResult, emit_design, from_json

pytestmark = pytest.mark.flow

ISOLATIONS: tuple[Isolation, ...] = ("none", "and", "register")

PLAIN = CoreConfig(xpulpv2=False, xpulpnn=False, mac_load_nn=False, dotp=PRESETS["ri5cy"].dotp)
KERNEL = "matmul:8:rv32im_2x2:4x16x4"


def idle_toggles(interpreter: Path, isolation: Isolation) -> tuple[float, float]:
    """Transitions per cycle in the 4-bit and in the 2-bit region while only 2-bit operands come."""
    dotp = DotpConfig(widths=frozenset({4, 2}), multipliers="replicated", isolation=isolation)
    library = generic_library()
    path, _ = clock_gated_netlist(emit_design("dotp", replace(PRESETS["xpulpnn"], dotp=dotp)), library)
    circuit = Circuit(path, "dotp", library.liberty, library.flip_flop)
    rng = np.random.default_rng(5)
    fixed = {"ctrl": [ElemFmt.C.value >> bit & 1 for bit in range(2)] + [1] * 3, "enable": [1]}
    columns: list[list[int]] = []
    for name, nets in circuit.inputs.items():
        if name in fixed:
            columns += [[bit] for bit in fixed[name]]
        elif name in ("rs1", "rs2", "rd"):
            columns += rng.integers(0, 2, (len(nets), CYCLES)).tolist()
        elif name != CLOCK:
            columns += [[0]] * len(nets)
    seen = activity(interpreter, circuit, *columns)

    def inside(region: str) -> float:
        nets = [gate.output for gate in circuit.gates if gate.path == region]
        return float(seen.toggles[nets].sum()) / seen.transitions

    return inside("region_n"), inside("region_c")


def test_isolation_quiets_the_idle_region(interpreter: Path) -> None:
    idle, busy = zip(*(idle_toggles(interpreter, isolation) for isolation in ISOLATIONS), strict=True)
    assert min(idle[0], *busy) > 100
    assert idle[1] == 0
    # the operands still reach the data inputs of the region's registers
    assert idle[2] < idle[0] / 10


def test_a_core_asleep_behind_its_clock_gate() -> None:
    woken = Machine(irqs=((1000, Interrupt.EXTERNAL),))
    program, results = sleeping("asleep", Interrupt.EXTERNAL), []
    for config in (PLAIN, replace(PLAIN, clock_gate=True)):
        workload = program_workload(program, config, woken)
        results += estimate_energy(config, workload, generic_library(), window=512)[:1]
    free, gated = results
    # cycles 250 to 762 of about 1010, all of them asleep
    assert gated.part_fj("clock") < free.part_fj("clock") / 3
    # the clock gate, and what enables it
    assert free.part_fj("leakage") < gated.part_fj("leakage") < 1.05 * free.part_fj("leakage")
    assert gated.part_fj("clock") > 0


def test_estimate_of_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = kernel_workload(replace(KernelSpec.parse(KERNEL).case(PLAIN), config=PLAIN), "backend")
    result, files, _ = estimate_energy(PLAIN, workload, generic_library(), window=512)
    assert (result.workload, result.top, result.cycles) == (KERNEL, "backend", 512)
    assert result.energy_per_cycle_fj == pytest.approx(sum(module.total for module in result.modules))
    assert result.energy_per_mac_fj == pytest.approx(result.energy_per_cycle_fj * result.cycles / result.macs, rel=1e-3)
    assert result.method == METHOD
    assert NO_TECHNOLOGY in result.conditions
    # a register file of 31 words and a 32-bit multiplier at least, each bit of them more than a gate
    assert 10 < result.area_kge < 60
    energies = {module.path: module for module in result.modules}
    assert min(module.total for module in result.modules) >= 0
    assert energies["id_stage.regfile"].clock > 0
    assert energies["ex_stage.mult"].switching > energies["ex_stage.div"].switching > 0
    assert from_json(EnergyResult, asdict(result)) == result
    assert {"backend.v", "mapped.v", "yosys.ys", "yosys.log", "modules.abc", "gated.v"} <= files.keys()
    assert "module backend" in files["mapped.v"]
    # again, with everything from disk
    monkeypatch.setattr(estimate, "_estimate", pytest.fail)
    assert estimate_energy(PLAIN, workload, generic_library(), window=512) == (result, files, True)
