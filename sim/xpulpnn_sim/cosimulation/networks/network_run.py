"""A network as a program of one core or of a cluster: cycles layer by layer, the results of every layer checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_BITS, HALF_BYTES, QUANTISED_PIXELS, WORD_BYTES
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.cosimulation.model.session import RunResult, stalls_of
from xpulpnn_sim.cosimulation.networks.deployed_run import build_deployed
from xpulpnn_sim.cosimulation.networks.network_work import (
    BuiltNetwork,
    LayerResults,
    NetworkCase,
    NetworkResult,
    layer_record,
    memory_plan,
    require_memory,
)
from xpulpnn_sim.cosimulation.workloads.workload import Progress, executable_of, function_accounts
from xpulpnn_sw.kernels.layout import Symbol
from xpulpnn_sw.kernels.program import Program
from xpulpnn_sw.kernels.programs.bare import BareProgram, bare_program
from xpulpnn_sw.networks.chain import Chain, chain

_BYTES = {"b": 1, "h": HALF_BYTES, "w": WORD_BYTES}
_RELOADS = 0b11000  # bits of the selector of a Mac&Load of which one loads an entry


def access_bytes(program: Program) -> NDArray[np.int64]:
    """Bytes that each static instruction loads and stores whenever it is executed, ``[instruction][0 or 1]``."""
    widths = [_widths(insn, int(word)) for insn, word in zip(program.insns, program.words, strict=True)]
    return np.array(widths, np.int64).reshape(-1, 2)


def _widths(insn: Insn, word: int) -> tuple[int, int]:
    if insn.is_store:
        return 0, _BYTES[insn.op[1]]
    if insn.is_load:
        return _BYTES["w" if insn.op == "elw" else insn.op[1]], 0
    if insn.op == "pv.qnt" and insn.fmt is not None:
        return HALF_BYTES * QUANTISED_PIXELS * insn.fmt.width, 0
    if insn.is_nn_form and not insn.reloads_other:
        return (WORD_BYTES if insn.decode(word)["nnimm5"] & _RELOADS else 0), 0
    return (WORD_BYTES if insn.is_mac_load or insn.loads_parameter else 0), 0


def build_network(case: NetworkCase) -> BuiltNetwork:
    """The program of a case, which runs for its input and others.

    Raises :class:`~xpulpnn.errors.LayerError` for a network that does not fit into the memory of the cluster,
    :class:`~xpulpnn.errors.InputError` for one that does not fit into that outside, or of one core.
    """
    # before anything is made of them
    bits = sum(stage.tensors.weights.size * stage.precision.w for stage in case.network.stages if stage.multiplies)
    require_memory(case, bits // BYTE_BITS, "weights")
    built = build_deployed(case, case.config) if isinstance(case.config, ClusterConfig) else _build_chain(case)
    require_memory(case, built.bytes_needed, "code and data")
    return built


def run_network(case: NetworkCase, progress: Progress | None = None) -> NetworkResult:
    """Compute a network once and compare the results of every layer with the golden model's.

    ``cycles`` of the record are those of the call, on a cluster from the first transfer until the results are in the
    memory outside. ``progress`` takes the cycles from time to time. Raises :class:`~xpulpnn.errors.LayerError` for a
    network that does not fit into the memory of the cluster.
    """
    return build_network(case).run(case, progress)


def _build_chain(case: NetworkCase) -> "BuiltChain":
    made = chain(case.computed, case.given, case.variants)
    program = bare_program(made.function)
    executable = executable_of(program, case.network.name)
    return BuiltChain(case=case, made=made, program=program, executable=executable)


@dataclass(frozen=True, eq=False, kw_only=True)
class BuiltChain(BuiltNetwork):
    """A network as a program of one core."""

    made: Chain
    program: BareProgram

    @property
    def symbols(self) -> Mapping[str, Symbol]:
        """Places of the operands."""
        return self.made.function.image.symbols

    @property
    def bytes_needed(self) -> int:
        """Bytes of code and data."""
        return len(self.program.text) + len(self.program.data)

    @cached_property
    def _accesses(self) -> NDArray[np.int64]:
        return access_bytes(self.made.function.function)

    def results(self, outcome: RunResult) -> LayerResults:
        """Decode the results, each in memory of its own."""
        image, memory = self.made.function.image, outcome.memory[self.program.data_base]
        return [step.results.decode(image, memory).astype(np.int64) for step in self.made.steps]

    def figures(self, case: NetworkCase, outcome: RunResult) -> dict[str, Any]:
        """Return the part of the record that only one core has."""
        function, text = self.made.function, self.made.function.function
        (rows,) = function_accounts(outcome, text, self.program.text_base)
        return {
            "instructions": int(rows[:, WaitCause.NONE].sum()),
            "cycles": self.program.measured(outcome.memory[self.program.data_base]),
            "stalls": stalls_of(rows, devices=False),
            "code_bytes": text.words.nbytes,
            "data_bytes": function.image.data.nbytes,
            "layers": self._layers(rows),
            "plan": memory_plan(case.computed, function.image.symbols),
        }

    def _layers(self, rows: NDArray[np.uint64]) -> list[dict[str, Any]]:
        layers: list[dict[str, Any]] = []
        for step in self.made.steps:
            here = self.made.function.function.region(step.stage.name)
            moved = rows[here, WaitCause.NONE].astype(np.int64) @ self._accesses[here]
            layers.append(
                layer_record(step.stage, step.variant, int(rows[here].sum()), [rows[here]])
                | {"weight_bytes": step.weight_bytes, "result_bytes": step.result_bytes}
                | dict(zip(("read", "written"), moved.tolist(), strict=True))
            )
        return layers
