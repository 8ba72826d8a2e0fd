"""A sample run: every kind of figure, a point that failed, one with an FPGA result."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from xpulpnn_sim.exploration.finished_run import FinishedRun
from xpulpnn_sim.exploration.report.html import write_report
from xpulpnn_sim.exploration.results import (
    CriticalPath,
    EnergyResult,
    FlowResult,
    FlowRun,
    ModuleArea,
    ModuleEnergy,
    PathStep,
    PointResult,
)
from xpulpnn_sim.tools.named_table import Column, NamedTable

MODULES = {
    "ex_stage": ("ex_stage", 0.04),
    "ex_stage.alu": ("alu", 0.06),
    "ex_stage.alu.adder": ("simd_adder", 0.08),
    "ex_stage.alu.shifter": ("simd_shifter", 0.10),
    "ex_stage.alu.divider": ("div", 0.09),
    "ex_stage.mult": ("mult", 0.17),
    "ex_stage.dotp": ("dotp_unit", 0.03),
    "ex_stage.dotp.array16": ("products_16", 0.13),
    "ex_stage.dotp.array8": ("products_8", 0.10),
    "ex_stage.dotp.array4": ("products_4", 0.06),
    "ex_stage.dotp.array2": ("products_2", 0.03),
    "ex_stage.dotp.isolation": ("isolation", 0.04),
    "ex_stage.nnrf": ("nnrf", 0.07),
}
"""Sample hierarchy: module and share of the area."""

ORIGINS = {"function": 0.74, "readers": 0.245, "shared": 0.015}

CELLS = ("sg13g2_nand2_1", "sg13g2_xor2_1", "sg13g2_a21oi_1", "sg13g2_nor2_2", "sg13g2_buf_4")


def asic_flow(script: str, area: float, delay: float, narrow: bool) -> FlowResult:
    present = {path: part for path, part in MODULES.items() if narrow or not path.endswith(("array4", "array2"))}
    scale = area * 1000 / sum(share for _, share in present.values())
    own = {path: scale * share for path, (_, share) in present.items()}
    steps = [
        PathStep(
            net=f"dotp.array16.sum_{i}[{i}]", cell=CELLS[i % 5], delay_ps=delay * 58.8 / 30, arrival_ps=164.0 * i,
            instance="mult" if 3 < i < 10 else "dotp.array16",
        )
        for i in range(1, 31)
    ]  # fmt: skip
    return FlowResult(
        flow="asic",
        script=script,
        tools={"yosys": "0.23", "abc": "1.01", "opensta": "2.0.17"},
        conditions=[
            "Cell area without routing; no wire load; 1 GE = 7.2576 um2 (sg13g2_nand2_1).",
            f"ABC {script} script, driver sg13g2_buf_4, output load 6 fF; longest combinational path.",
        ],
        area_um2=area * 7257.6,
        area_kge=area,
        cells=int(area * 430),
        flip_flops=192,
        delay_ps=delay * 58.8,
        delay_fo4=delay,
        path=CriticalPath(
            tool="a timer", netlist="mapped", start="operand_a_i[3]", end="result_o[31]", delay_ps=delay * 58.8,
            steps=steps, others={"OpenSTA 2.0.17": delay * 59.0},
        ),
        modules=[
            ModuleArea(
                path=path, module=present[path][0], own_ge=ge, own_cells=int(ge * 0.4),
                total_ge=sum(other for below, other in own.items() if below == path or below.startswith(f"{path}.")),
            )
            for path, ge in own.items()
        ],
    )  # fmt: skip


def fpga_flow(clocks: list[float]) -> FlowResult:
    return FlowResult(
        flow="ecp5", tools={"nextpnr-ecp5": "0.9"}, conditions=["Registered wrapper, LFE5U-25F, 4 placement seeds."],
        luts=5391, flip_flops=612, dsps=7, brams=0, fmax_mhz=clocks,
    )  # fmt: skip


def energy(workload: str, per_cycle: float, per_mac: float | None) -> EnergyResult:
    return EnergyResult(
        workload=workload, top="backend", tools={"verilator": "5.048"},
        conditions=["Zero-delay switching of the mapped netlist: no glitches; 1.2 V, 25 C, 250 MHz."],
        cycles=20000, macs=0 if per_mac is None else 20000 * per_cycle / per_mac, energy_per_cycle_fj=per_cycle,
        energy_per_mac_fj=per_mac, area_kge=50.5, method="mapped for area, with clock gates",
        modules=[
            ModuleEnergy(
                path=path.replace("ex_stage", "backend.ex_stage"), module=module, switching=per_cycle * share * 0.4,
                internal=per_cycle * share * 0.35, clock=per_cycle * share * 0.2, leakage=per_cycle * share * 0.05,
            )
            for path, (module, share) in MODULES.items()
        ],
    )  # fmt: skip


def kernel(bits: int, variant: str, cycles: int, rate: float, per_sdotp: float) -> dict[str, object]:
    return {
        "kernel": "matmul", "layer": "64x288x256", "bits": bits, "variant": variant, "cores": 1, "engine": "stream",
        "cycles": cycles, "cycles_per_sdotp": per_sdotp, "macs_per_cycle": rate, "mismatches": 0,
    }  # fmt: skip


def point(number: int, preset: str, multipliers: str, isolation: str, recoding: str) -> PointResult:
    """One of the sweep: figures follow from the parameters, with a little scatter that depends on the number."""
    settings = {"dotp.multipliers": multipliers, "dotp.isolation": isolation, "dotp.recoding": recoding}
    narrow = preset != "ri5cy"
    area = 21.0 + 5.5 * narrow + 1.5 * (preset == "xpulpnn-full") - 3.0 * (multipliers == "shared")
    area += {"none": 0.0, "and": 0.7, "register": 1.6}[isolation] - 1.9 * (recoding == "booth") + 0.07 * (number % 5)
    delay = 88.0 + 4.0 * (multipliers == "shared") + 3.0 * (recoding == "booth") + 2.0 * narrow + 0.4 * (number % 7)
    quiet = {"none": 1.12, "and": 1.03, "register": 1.0}[isolation]
    variant, scale = ("nn_4x4", 1.0) if narrow else ("xpulpv2_4x2", 0.7)
    kernels = [kernel(8, variant, 1_210_000, 3.9 * scale, 1.03 / scale)]
    energies = [energy(f"matmul:8:{variant}", 11_800 * quiet * area / 25, 11_800 * quiet * area / 25 / 3.9 / scale)]
    if narrow:
        kernels += [kernel(4, variant, 610_000, 7.7, 1.04), kernel(2, variant, 310_000, 15.1, 1.06)]
    energies.append(energy("general code", 9_400 * quiet * area / 25, None))
    return PointResult(
        label=f"{preset} {multipliers} {isolation} {recoding}", top="ex-stage", preset=preset, settings=settings,
        configuration={"xpulpnn": narrow, "dotp": {k.partition(".")[2]: v for k, v in settings.items()}, "rvfi": False},
        folder=f"points/{number:02}",
        flows=[asic_flow("area", area, delay, narrow), asic_flow("speed", area * 1.18, delay * 0.74, narrow)],
        kernels=kernels, energies=energies,
    )  # fmt: skip


def sweep() -> list[PointResult]:
    """24 points: one failed in synthesis after its kernels, one has an FPGA result too.

    One was mapped three times for area, for a clock.
    """
    choices = product(
        ("ri5cy", "xpulpnn", "xpulpnn-full"), ("replicated", "shared"), ("none", "and"), ("tool", "booth")
    )
    points = [point(number, *choice) for number, choice in enumerate(choices, 1)]
    points[9] = replace(
        points[9], flows=[], energies=[], error="yosys must finish the design, not stop: <cell> $_DLATCH_"
    )
    points[4] = replace(points[4], flows=[*points[4].flows, fpga_flow([31.2, 33.9, 30.4, 32.8])])
    area, speed = points[1].flows
    unit = (area.delay_ps or 0.0) / (area.delay_fo4 or 1.0)
    runs = [
        FlowRun(number=number, area_kge=(area.area_kge or 0.0) + more, delay_ps=(area.delay_ps or 0.0) + later * unit)
        for number, more, later in ((1, -0.5, 0.0), (2, 0.0, 2.0), (3, 0.25, -1.0))
    ]
    repeated = replace(area, runs=runs, area_run=2, clock_ps=5500.0, origins=ORIGINS)
    points[1] = replace(points[1], flows=[repeated, speed])
    return points


RUN = FinishedRun(
    title="EX stage: multipliers, isolation and recoding",
    command="xpulpnn explore --top ex-stage --sweep dotp.multipliers=replicated,shared --flow asic,ecp5",
    date="2026-11-21",
    baseline="ri5cy replicated none tool",
    tools={"xpulpnn": "0.1.0", "amaranth": "0.5.10"},
    wall_s=734.0,
)
PAPER = NamedTable(
    title="Table II of the XpulpNN paper",
    columns=[
        Column(name="figure"),
        Column(name="ours", unit="kGE", group="area script", digits=1),
        Column(name="overhead", unit="%", group="area script", digits=1, signed=True),
        Column(name="paper", unit="%", digits=1, signed=True),
    ],
    rows=[
        ["EX stage, baseline", 21.3, None, None],
        ["EX stage, extended", 26.1, 22.5, 32.6],
        ["core", 58.0, 13.1, 17.5],
    ],
    notes=["The paper's figures are from 22FDX after placement."],
    marked=frozenset({0}),
)


@pytest.fixture
def make_point() -> Callable[..., PointResult]:
    return point


@pytest.fixture
def points() -> list[PointResult]:
    return sweep()


@pytest.fixture
def run(points: list[PointResult]) -> FinishedRun:
    return replace(RUN, points=tuple(points))


@pytest.fixture
def paper() -> NamedTable:
    return PAPER


@pytest.fixture(scope="package")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, replace(RUN, points=tuple(sweep()), extra=(PAPER,)))
    return path
