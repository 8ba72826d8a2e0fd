"""A network on one core or on those of a cluster: cycles layer by layer, the results of every layer checked."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.machine import HALF_BYTES, WORD_BYTES
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.elf import Executable
from xpulpnn_sim.harness.accesses import access_bytes
from xpulpnn_sim.harness.deployed_run import build_deployed
from xpulpnn_sim.harness.kernel_run import executable_of
from xpulpnn_sim.harness.memory_plan import memory_plan
from xpulpnn_sim.harness.network_case import NetworkCase, NetworkResult, finished, layer_record
from xpulpnn_sim.harness.network_input import with_input
from xpulpnn_sim.harness.network_memory import require_memory, require_weights
from xpulpnn_sim.harness.program_run import run_program
from xpulpnn_sim.harness.session import stalls_of
from xpulpnn_sw.networks.chain import Chain, chain
from xpulpnn_sw.programs.bare import BareProgram, bare_program

Progress = Callable[[int], None]


class Built(Protocol):
    """The program of a network for a target, made once for all inputs."""

    def executable_for(self, case: NetworkCase) -> Executable:
        """The program with the input of ``case``, of the same network on the same target."""
        ...

    def run(self, case: NetworkCase, progress: Progress | None = None) -> NetworkResult:
        """Run it for the input of ``case``: :func:`run_network`."""
        ...


def build_network(case: NetworkCase) -> Built:
    """The program of a case, which runs for its input and others.

    Raises :class:`~xpulpnn.errors.LayerError` for a network that does not fit into the memory of the cluster,
    :class:`~xpulpnn.errors.InputError` for one that does not fit into that outside, or of one core.
    """
    require_weights(case)
    if isinstance(case.config, ClusterConfig):
        built = build_deployed(case, case.config)
        require_memory(case, len(built.program.text) + built.program.outside.data.size)
        return built
    made = chain(case.computed, case.given, case.variants)
    program = bare_program(made.function)
    require_memory(case, len(program.text) + len(program.data))
    return BuiltChain(case=case, made=made, program=program, executable=executable_of(program, case.network.name))


def run_network(case: NetworkCase, progress: Progress | None = None) -> NetworkResult:
    """Compute a network once and compare the results of every layer with the golden model's.

    ``cycles`` of the record are those of the call, on a cluster from the first transfer until the results are in the
    memory outside. ``progress`` takes the cycles from time to time. Raises :class:`~xpulpnn.errors.LayerError` for a
    network that does not fit into the memory of the cluster.
    """
    return build_network(case).run(case, progress)


@dataclass(frozen=True, eq=False, kw_only=True)
class BuiltChain:
    """A network as a program of one core."""

    case: NetworkCase  # what it was made of
    made: Chain
    program: BareProgram
    executable: Executable  # the program for the input of the case

    def executable_for(self, case: NetworkCase) -> Executable:
        """As :meth:`Built.executable_for`."""
        return with_input(self.executable, self.made.function.image.symbols, self.case, case.image)

    @cached_property
    def _accesses(self) -> NDArray[np.int64]:
        return access_bytes(self.made.function.function)

    def run(self, case: NetworkCase, progress: Progress | None = None) -> NetworkResult:
        """As :meth:`Built.run`."""
        made, program = self.made, self.program
        function, text = made.function, made.function.function
        executable = self.executable_for(case)
        outcome = run_program(
            executable, case.config, case.machine, check=case.checked, account=True, progress=progress
        )
        memory = outcome.memory[program.data_base]
        first = (int(text.pcs[0]) - program.text_base) // HALF_BYTES
        rows = outcome.accounts[0][first :: WORD_BYTES // HALF_BYTES][: len(text)]
        layers = [
            layer_record(step.stage, step.variant, int(rows[here].sum()), [rows[here]])
            | {"weight_bytes": step.weight_bytes, "result_bytes": step.result_bytes}
            | dict(
                zip(
                    ("read", "written"),
                    (rows[here, WaitCause.NONE].astype(np.int64) @ self._accesses[here]).tolist(),
                    strict=True,
                )
            )
            for step in made.steps
            for here in (text.region(step.stage.name),)
        ]
        figures: dict[str, Any] = {
            "instructions": int(rows[:, WaitCause.NONE].sum()),
            "cycles": program.measured(memory),
            "stalls": stalls_of(rows, devices=False),
            "code_bytes": text.words.nbytes,
            "data_bytes": function.image.data.nbytes,
            "layers": layers,
            "plan": memory_plan(case.computed, function.image.symbols),
        }
        results = [step.results.decode(function.image, memory).astype(np.int64) for step in made.steps]
        return finished(case, outcome, figures, results)
