"""Faults of a cluster's bridges to Wishbone, and the programs that find them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from xpulpnn.isa.cluster import CONTROL, Control
from xpulpnn_sim.proofs.faults.fault import Fault
from xpulpnn_sim.reference.bare.program import ProgramBlock
from xpulpnn_sim.verification.clusters.cluster_trials import ClusterPlan, run_one
from xpulpnn_sim.verification.clusters.generator import generate_cluster
from xpulpnn_sim.verification.clusters.program import ClusterProgram, store_lines
from xpulpnn_sim.verification.random.designs import Verdict
from xpulpnn_sim.verification.random.faulty_core import FoundFault, faulty_model, found_by_programs


def find_bridge_faults(
    plan: ClusterPlan, faults: Sequence[Fault], instructions: int, seed: int = 0
) -> Iterator[FoundFault]:
    """Run random programs on the cluster with each fault until one fails or there are enough instructions."""
    faulty = replace(plan, library=faulty_model(plan.config, faults, "cluster-wishbone"))
    for number, fault in enumerate(faults, start=1):
        yield found_by_programs(fault, partial(_verdict, faulty, number), instructions, seed)


def _verdict(plan: ClusterPlan, number: int, program: int) -> Verdict:
    return run_one(_with_fault(generate_cluster(plan.config, program), number), plan, plan.machine(program))


def _with_fault(program: ClusterProgram, number: int) -> ClusterProgram:
    """The program, whose first instructions of core 0 choose a fault."""
    first, *rest = program.phases
    choice = ProgramBlock("fault", tuple(store_lines(CONTROL, (Control.RETURN, number))))
    return replace(program, phases=(replace(first, parts=((choice, *first.parts[0]), *first.parts[1:])), *rest))
