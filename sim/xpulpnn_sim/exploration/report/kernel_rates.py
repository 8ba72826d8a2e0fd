"""Throughput and efficiency of kernels in the units of data sheets, such as GMAC/s."""

from collections.abc import Sequence
from dataclasses import dataclass

from xpulpnn_sim.exploration.report import comparison
from xpulpnn_sim.exploration.results import EnergyResult, FlowResult, PointResult

_PS_GHZ = 1000.0
_UM2_PER_MM2 = 1e6
_MHZ_PER_GHZ = 1000.0


@dataclass(frozen=True, slots=True)
class KernelRate:
    point: int  # number of the point, from 1
    label: str
    top: str
    flow: FlowResult  # source of clock and area
    record: dict[str, object]  # cycles of the kernel on the back end of the same configuration, or on the cluster
    energy: EnergyResult | None  # of the same kernel, if estimated; None for FPGA flows

    @property
    def clock_ghz(self) -> float:
        """Return the inverse of the longest path; for an FPGA the median clock after routing."""
        if self.flow.is_fpga:
            return (self.flow.fmax or 0.0) / _MHZ_PER_GHZ
        return _PS_GHZ / self.flow.delay_ps if self.flow.delay_ps else 0.0

    @property
    def gmacs(self) -> float:
        """Return multiply-accumulates per ns."""
        rate = self.record["macs_per_cycle"]
        return self.clock_ghz * rate if isinstance(rate, int | float) else 0.0

    @property
    def gmacs_per_mm2(self) -> float | None:
        """Return multiply-accumulates per ns and mm2; None without a physical area."""
        return self.gmacs * _UM2_PER_MM2 / self.flow.area_um2 if self.flow.area_um2 else None


def kernel_rates(points: Sequence[PointResult]) -> list[KernelRate]:
    """Return the rate of the fastest variant of every kernel on every point, for every flow on a real technology."""
    rates: list[KernelRate] = []
    for number, point in enumerate(points, 1):
        for name in comparison.kernel_names(points):
            record = comparison.best_record(point, name)
            if record is None or record.get("mismatches"):
                continue
            workload = "{kernel}:{bits}:{variant}:{layer}".format(**record)
            energy = next((energy for energy in point.energies if energy.workload == workload), None)
            for flow in point.flows:
                # delays of the built-in library are not physical
                if flow.delay_ps and (flow.is_fpga or flow.area_um2 is not None):
                    shown = None if flow.is_fpga else energy
                    rates.append(KernelRate(number, point.label, point.top, flow, record, shown))
    return rates


def netlist_of(energy: EnergyResult) -> str:
    area = "" if energy.area_kge is None else f", {energy.area_kge:.2f} kGE"
    return f"{energy.top}{area}"
