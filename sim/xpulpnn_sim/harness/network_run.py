"""A network on one core or on those of a cluster: cycles layer by layer, the results of every layer checked."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.isa.machine import HALF_BYTES, WORD_BYTES
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.harness.kernel_run import executable_of
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.program_run import run_program
from xpulpnn_sim.harness.references import reference
from xpulpnn_sim.harness.session import stalls_of
from xpulpnn_sw.layout import Ints
from xpulpnn_sw.networks.chain import Chain, Step, chain
from xpulpnn_sw.networks.network import Network
from xpulpnn_sw.programs.bare import bare_program
from xpulpnn_sw.programs.cluster import cluster_program

_DIGITS = 4

_REPORT_BYTES = 1024
"""Room behind the data of a network, for what the cores of a cluster report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCase:
    """A network to run for an input.

    Parameters
    ----------
    network : Network
        Its layers.
    image : array of int
        The input, ``[row][column][channel]``.
    config : CoreConfig or ClusterConfig
        The core, or the cluster all of whose cores share each layer.
    machine : Machine
        Its surroundings.
    checked : bool
        Whether every retirement is checked, not only the results.
    """

    network: Network
    image: Ints
    config: CoreConfig | ClusterConfig
    machine: Machine
    checked: bool = True

    @property
    def cores(self) -> int:
        """Cores that share the work."""
        return self.config.cores if isinstance(self.config, ClusterConfig) else 1

    @property
    def core(self) -> CoreConfig:
        """One of them."""
        return self.config.core if isinstance(self.config, ClusterConfig) else self.config

    def sharing(self, cores: int) -> "NetworkCase":
        """The same on a cluster of so many cores, whose TCDM is the usual one or larger if need be."""
        config = ClusterConfig(core=self.core, cores=cores)
        case = replace(self, config=config)
        needed = case.chain().function.image.data.nbytes + _REPORT_BYTES
        return replace(case, config=replace(config, tcdm_bytes=max(config.tcdm_bytes, 1 << (needed - 1).bit_length())))

    def chain(self) -> Chain:
        """The function: every layer by the fastest variant that the core can run."""
        variants = [stage.fastest(self.core.extensions, self.core.widths) for stage in self.network.stages]
        return chain(self.network, self.image, variants, cores=self.cores)


@dataclass(frozen=True, slots=True)
class NetworkResult:
    """What came of a case: its record, its first mismatches, and the results of the last layer."""

    record: dict[str, Any]
    reports: list[str]
    scores: NDArray[np.int64]


def run_network(case: NetworkCase, progress: Callable[[int], None] | None = None) -> NetworkResult:
    """Compute a network once and compare the results of every layer with the golden model's.

    ``cycles`` of the record are those of the call, on a cluster from barrier to barrier; those of a layer are the first
    core's, its stalls those of all cores. ``progress`` takes the cycles from time to time.
    """
    run = case.chain()
    function, text = run.function, run.function.function
    tcdm_bytes = case.config.tcdm_bytes if isinstance(case.config, ClusterConfig) else None
    program = bare_program(function) if tcdm_bytes is None else cluster_program(function, case.cores)
    executable = executable_of(program, function.name)
    outcome = run_program(executable, case.config, case.machine, check=case.checked, account=True, progress=progress)
    memory = outcome.memory[program.data_base]
    reports = [outcome.difference] if outcome.difference else []
    if not outcome.exit.ok:
        reports.append(outcome.exit.text)
    first = (int(text.pcs[0]) - program.text_base) // HALF_BYTES
    accounts = [rows[first :: WORD_BYTES // HALF_BYTES][: len(text)] for rows in outcome.accounts]
    layers: list[dict[str, Any]] = []
    current = case.image
    scores = np.zeros(0, np.int64)
    for step in run.steps:
        current = reference(step.stage.layer, step.stage.fed(current), step.stage.precision).astype(np.int64)
        scores = step.results.decode(function.image, memory)
        wrong = np.argwhere(scores != current.reshape(scores.shape))
        if len(wrong):
            at = tuple(wrong[0].tolist())
            expected = current.reshape(scores.shape)[at]
            place = "".join(f"[{index}]" for index in at)
            name = step.stage.name
            reports.append(f"{name}{place}: expected {expected}, got {scores[at]} ({len(wrong)} wrong results)")
        here = text.region(step.stage.name)
        layers.append(_layer(step, [rows[here] for rows in accounts], len(wrong)))
    mismatches = outcome.mismatches + sum(layer["mismatches"] for layer in layers)
    cycles = program.measured(memory)
    record = {
        "kernel": case.network.name,
        "cores": case.cores,
        "instructions": sum(int(rows[:, WaitCause.NONE].sum()) for rows in accounts),
        "cycles": cycles,
        "macs": function.macs,
        "cycles_per_mac": round(cycles / function.macs, _DIGITS),
        "stalls": stalls_of(np.concatenate(accounts), devices=len(accounts) > 1),
        "tcdm_bytes": tcdm_bytes,
        "code_bytes": text.words.nbytes,
        "data_bytes": function.image.data.nbytes,
        "layers": layers,
        "mismatches": mismatches if outcome.exit.ok else max(mismatches, 1),
        "wall_s": round(outcome.wall_s, _DIGITS),
        "sim_cycles_per_s": round(outcome.cycles / outcome.wall_s),
    }
    return NetworkResult(record, reports, scores.reshape(-1))


def _layer(step: Step, accounts: list[NDArray[Any]], wrong: int) -> dict[str, Any]:
    """The record of a layer from the accounts of its instructions on every core."""
    stage, cycles = step.stage, int(accounts[0].sum())
    macs = stage.layer.macs if stage.multiplies else 0
    return {
        "name": stage.name,
        "kernel": stage.kind.name,
        "layer": str(stage.layer),
        "precision": str(stage.precision),
        "variant": step.variant,
        "cycles": cycles,
        "macs": macs,
        "macs_per_cycle": round(macs / max(cycles, 1), _DIGITS),
        "stalls": stalls_of(np.concatenate(accounts), devices=len(accounts) > 1),
        "weight_bytes": step.weight_bytes,
        "result_bytes": step.result_bytes,
        "mismatches": wrong,
    }
