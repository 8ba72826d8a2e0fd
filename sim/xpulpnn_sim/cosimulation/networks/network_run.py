"""Networks as programs of a core or of a cluster, with the cycles and checked results of every layer."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import require
from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_BITS, HALF_BYTES, QUANTISED_PIXELS, WORD_BYTES
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.cosimulation.model.session import RunResult, stalls_of
from xpulpnn_sim.cosimulation.networks import network_work
from xpulpnn_sim.cosimulation.workloads.cluster_run import BEGIN, DONE, READY, RELEASED, moving_cycles, step_end
from xpulpnn_sim.cosimulation.workloads.workload import executable_of, function_cycles, image_after
from xpulpnn_sim.reference.iss.fetched import Fetched
from xpulpnn_sw.kernels.kernel import OUTPUT
from xpulpnn_sw.kernels.programs.bare import bare_program
from xpulpnn_sw.kernels.tiling.transfer import aligned
from xpulpnn_sw.networks.deployed_program import DeployedProgram, deployed_program
from xpulpnn_sw.networks.deployment import Deployment
from xpulpnn_sw.networks.kernels import chain

_LOAD, _STORE = "load", "store"  # names of steps without a layer


class BuiltDeployment(network_work.BuiltNetwork):
    def __init__(self, case: network_work.NetworkCase, cluster: ClusterConfig) -> None:
        require(cluster.dma, "dma of the cluster must be true for networks, not false")
        room = {"cores": cluster.cores, "memory": cluster.tcdm_bytes}
        self.cluster = cluster
        self.program = deployed_program(case.legalised, case.legalised_input, case.variants, **room)
        outside = self.program.outside
        executable = executable_of(self.program, case.network.name, [outside])
        super().__init__(case, executable, outside.symbols, len(self.program.text) + outside.data.size)

    def layer_results(self, outcome: RunResult) -> network_work.LayerResults:
        program = self.program
        stored = program.outside.view(program.outputs[-1].symbol, image_after(outcome, program.outside))
        return [*program.results(outcome.output), program.final(stored.tobytes())]

    def target_figures(self, outcome: RunResult) -> dict[str, Any]:
        """Return the record; cycles of a layer count from barrier to barrier, stalls are summed over all cores."""
        program, plan = self.program, self.program.deployment
        times = program.times(outcome.memory[TCDM_BASE], image_after(outcome, program.outside))
        spans = _spans(plan)
        numbers = [number for number, span in enumerate(spans) for _ in span]
        steps = [_record(program, outcome, times, span) for span in spans]
        transfers = [[transfer for step in span for transfer in program.transfers[step]] for span in spans]
        executed = program.starts[-1] - program.text_base
        rows = np.concatenate([account[: executed // HALF_BYTES] for account in outcome.accounts])
        return {
            "instructions": int(rows[:, WaitCause.NONE].sum()),
            "cycles": sum(step["cycles"] for step in steps),
            "stalls": stalls_of(rows, devices=True),
            "tcdm_bytes": self.cluster.tcdm_bytes,
            "l2_latency": self.machine.l2_latency,
            "code_bytes": len(program.text),
            "data_bytes": plan.extent,
            "l2_bytes": len(program.text) + program.outside.data.size,
            **{name: sum(step[name] for step in steps) for name in ("loaded", "stored", "moving", "waiting")},
            "layers": [*self._layers(outcome, spans, steps)],
            "steps": steps,
            "plan": [
                {"name": piece.name, "address": TCDM_BASE + plan.offsets[piece.name], "bytes": aligned(piece.size)}
                | {"first": numbers[piece.first], "last": numbers[piece.last]}
                for piece in plan.pieces
            ],
            "outside": network_work.outside_plan(program.outside.symbols, transfers),
        }

    def _layers(
        self, outcome: RunResult, spans: Sequence[range], steps: Sequence[dict[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        plan = self.program.deployment
        for span, own in zip(spans, steps, strict=True):
            layer = plan.steps[span.start].layer
            if layer is None:
                continue
            stage, run = plan.network.stages[layer], plan.runs[layer]
            accounts = [_rows(self.program, account, span, layer) for account in outcome.accounts]
            yield (
                network_work.layer_record(stage, run.variant.name, own["cycles"], accounts)
                | {"weight_bytes": run.weight_bytes, "result_bytes": run.length(OUTPUT)}
                | {"cores": plan.tiled[layer].cores if layer in plan.tiled else self.cluster.cores}
                | {name: own[name] for name in ("tiles", "tcdm_bytes", "loaded", "stored", "moving", "waiting")}
            )


def _spans(plan: Deployment) -> list[range]:
    owners = [~number if step.layer is None else step.layer for number, step in enumerate(plan.steps)]
    groups = (list(group) for _, group in groupby(range(len(owners)), owners.__getitem__))
    return [range(group[0], group[-1] + 1) for group in groups]


def _rows(program: DeployedProgram, account: NDArray[Any], steps: range, layer: int) -> NDArray[Any]:
    spans = (program.kernels[layer : layer + 2], (program.starts[steps.start], program.starts[steps.stop]))
    at = [[(address - program.text_base) // HALF_BYTES for address in span] for span in spans]
    return np.concatenate([account[first:after] for first, after in at])


def _record(program: DeployedProgram, outcome: RunResult, times: NDArray[np.int64], steps: range) -> dict[str, Any]:
    plan, first = program.deployment, program.deployment.steps[steps.start]
    parts = [_step(program, outcome, times, number) for number in steps]
    is_tiled = first.tile is not None
    name = _LOAD if first.loads else _STORE
    sums = ("cycles", "loaded", "stored", "moving", "waiting")
    return {
        "name": name if first.layer is None else plan.network.stages[first.layer].name,
        "begin": parts[0]["begin"],
        "tcdm_bytes": max(plan.demand(number) for number in steps),
        "tiles": sum(plan.computes(plan.steps[number]) for number in steps) if is_tiled else 0,
        **{name: sum(part[name] for part in parts) for name in sums},
    }


def _step(program: DeployedProgram, outcome: RunResult, times: NDArray[np.int64], number: int) -> dict[str, int]:
    plan, own = program.deployment, times[number]
    begin, end = int(own[0, RELEASED]), step_end(times, number)
    computed = int(own[:, DONE if plan.computes(plan.steps[number]) else BEGIN].max())
    return {
        "begin": begin - int(times[0, 0, RELEASED]),
        "cycles": end - begin,
        "loaded": sum(transfer.bytes for transfer in program.transfers[number] if transfer.inwards),
        "stored": sum(transfer.bytes for transfer in program.transfers[number] if not transfer.inwards),
        "moving": moving_cycles(outcome, begin, end),
        "waiting": max(int(own[0, READY]) - computed, 0) if program.transfers[number] else 0,
    }


def _widths(insn: Insn, word: int) -> tuple[int, int]:
    if insn.op == "pv.qnt" and insn.fmt is not None:
        return HALF_BYTES * QUANTISED_PIXELS * insn.fmt.width, 0
    size = Fetched(word, insn, word, WORD_BYTES).size
    return (0, size) if insn.is_store else (size, 0)


def build_network(case: network_work.NetworkCase) -> network_work.BuiltNetwork:
    """Build the program of a network for the input of ``case``; raises an error if it does not fit into memory. A run
    on a cluster counts its ``cycles`` from the first transfer to the last result in external memory."""
    bits = sum(stage.tensors.weights.size * stage.precision.w for stage in case.network.stages if stage.multiplies)
    network_work.require_memory(case, bits // BYTE_BITS, "weights")
    return BuiltDeployment(case, case.config) if isinstance(case.config, ClusterConfig) else BuiltChain(case)


class BuiltChain(network_work.BuiltNetwork):
    def __init__(self, case: network_work.NetworkCase) -> None:
        self.chain = chain(case.legalised, case.legalised_input, case.variants)
        self.program = program = bare_program(self.chain.function)
        executable, symbols = executable_of(program, case.network.name), self.chain.function.image.symbols
        super().__init__(case, executable, symbols, len(program.text) + len(program.data))

    @cached_property
    def _accesses(self) -> NDArray[np.int64]:
        program = self.chain.function.function
        widths = [_widths(insn, int(word)) for insn, word in zip(program.insns, program.words, strict=True)]
        return np.array(widths, np.int64).reshape(-1, 2)

    def layer_results(self, outcome: RunResult) -> network_work.LayerResults:
        image, memory = self.chain.function.image, outcome.memory[self.program.data_base]
        return [step.results.decode(image, memory).astype(np.int64) for step in self.chain.steps]

    def target_figures(self, outcome: RunResult) -> dict[str, Any]:
        function, text = self.chain.function, self.chain.function.function
        (rows,) = function_cycles(outcome, text, self.program.text_base)
        return {
            "instructions": int(rows[:, WaitCause.NONE].sum()),
            "cycles": self.program.measured_cycles(outcome.memory[self.program.data_base]),
            "stalls": stalls_of(rows, devices=False),
            "code_bytes": text.words.nbytes,
            "data_bytes": function.image.data.nbytes,
            "layers": self._layers(rows),
            "plan": network_work.memory_plan(self.case.legalised, function.image.symbols),
        }

    def _layers(self, rows: NDArray[np.uint64]) -> list[dict[str, Any]]:
        layers: list[dict[str, Any]] = []
        for step in self.chain.steps:
            region = self.chain.function.function.region(step.stage.name)
            moved = rows[region, WaitCause.NONE].astype(np.int64) @ self._accesses[region]
            result_bytes = int(np.prod(step.results.in_rows.shape[:-1])) * step.results.pixel_bytes
            layers.append(
                network_work.layer_record(step.stage, step.run.variant.name, int(rows[region].sum()), [rows[region]])
                | {"weight_bytes": step.run.weight_bytes, "result_bytes": result_bytes}
                | dict(zip(("read", "written"), moved.tolist(), strict=True))
            )
        return layers
