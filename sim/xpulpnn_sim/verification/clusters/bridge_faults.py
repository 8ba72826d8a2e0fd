"""Faults of a cluster's bridges to Wishbone, and the programs that find them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xpulpnn.isa.cluster import CONTROL, Control
from xpulpnn_sim.proofs.faults.fault import Fault
from xpulpnn_sim.reference.bare.program import ProgramBlock
from xpulpnn_sim.verification.clusters.cluster_runs import ClusterSource
from xpulpnn_sim.verification.clusters.program import ClusterProgram, store_lines
from xpulpnn_sim.verification.random.faulty_core import FaultDetection, faulty_model, find_by_programs
from xpulpnn_sim.verification.random.program_runs import ProgramCase


@dataclass(frozen=True, kw_only=True)
class _FaultySource(ClusterSource):
    """Random programs in which core 0 first activates a fault of the bridges to Wishbone."""

    fault: int

    def case(self, seed: int) -> ProgramCase[ClusterProgram]:
        case = super().case(seed)
        first, *others = case.program.phases
        choice = ProgramBlock("fault", tuple(store_lines(CONTROL, (Control.RETURN, self.fault))))
        phases = (replace(first, parts=((choice, *first.parts[0]), *first.parts[1:])), *others)
        return replace(case, program=replace(case.program, phases=phases))


def find_bridge_faults(
    source: ClusterSource, faults: Sequence[Fault], instructions: int, seed: int = 0
) -> Iterator[FaultDetection]:
    """For each fault, run random programs on the faulty cluster until one fails or enough instructions have retired."""
    config, latency = source.config, source.l2_latency
    library = faulty_model(config, faults, "cluster-wishbone")
    for number, fault in enumerate(faults, start=1):
        faulty = _FaultySource(config=config, l2_latency=latency, library=library, fault=number)
        yield find_by_programs(fault, faulty, instructions, seed)
