"""A network on one core or on those of a cluster: cycles layer by layer, the results of every layer checked."""

from collections.abc import Callable

import numpy as np

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.machine import HALF_BYTES, WORD_BYTES
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.harness.deployed_run import run_deployed
from xpulpnn_sim.harness.kernel_run import executable_of
from xpulpnn_sim.harness.network_case import NetworkCase, NetworkResult, finished, layer_record
from xpulpnn_sim.harness.program_run import run_program
from xpulpnn_sim.harness.session import stalls_of
from xpulpnn_sw.networks.chain import chain
from xpulpnn_sw.programs.bare import bare_program


def run_network(case: NetworkCase, progress: Callable[[int], None] | None = None) -> NetworkResult:
    """Compute a network once and compare the results of every layer with the golden model's.

    ``cycles`` of the record are those of the call, on a cluster from the first transfer until the results are in the
    memory outside. ``progress`` takes the cycles from time to time. Raises :class:`~xpulpnn.errors.LayerError` for a
    network that does not fit into the memory of the cluster.
    """
    if isinstance(case.config, ClusterConfig):
        return run_deployed(case, case.config, progress)
    made = chain(case.computed, case.image, case.variants)
    function, text = made.function, made.function.function
    program = bare_program(function)
    executable = executable_of(program, function.name)
    outcome = run_program(executable, case.config, case.machine, check=case.checked, account=True, progress=progress)
    memory = outcome.memory[program.data_base]
    first = (int(text.pcs[0]) - program.text_base) // HALF_BYTES
    rows = outcome.accounts[0][first :: WORD_BYTES // HALF_BYTES][: len(text)]
    layers = [
        layer_record(step.stage, step.variant, int(rows[here].sum()), [rows[here]])
        | {"weight_bytes": step.weight_bytes, "result_bytes": step.result_bytes}
        for step in made.steps
        for here in (text.region(step.stage.name),)
    ]
    figures = {
        "instructions": int(rows[:, WaitCause.NONE].sum()),
        "cycles": program.measured(memory),
        "stalls": stalls_of(rows, devices=False),
        "code_bytes": text.words.nbytes,
        "data_bytes": function.image.data.nbytes,
        "layers": layers,
    }
    results = [step.results.decode(function.image, memory).astype(np.int64) for step in made.steps]
    return finished(case, outcome, figures, results)
