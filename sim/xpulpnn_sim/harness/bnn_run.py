"""The binarised classifier on one core or on those of a cluster: its cycles layer by layer, all maps checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.isa.machine import HALF_BYTES, WORD_BYTES
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.elf import Segment
from xpulpnn_sim.golden import binary
from xpulpnn_sim.harness.kernel_run import executable_of
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.program_run import run_program
from xpulpnn_sw.bnn import network
from xpulpnn_sw.bnn.classifier import Classifier, classifier
from xpulpnn_sw.bnn.code import MAP_SIDE
from xpulpnn_sw.bnn.network import random_weights, synthetic_image
from xpulpnn_sw.kernels.variants import WORD_BITS
from xpulpnn_sw.programs.bare import bare_program
from xpulpnn_sw.programs.cluster import cluster_program

HARDWARE, SOFTWARE = "hardware", "software"
POPCOUNTS = (HARDWARE, SOFTWARE)
"""How bits are counted: by ``p.cnt``, or by shifts and masks."""

_OPERATIONS = {"xor": ("xor",), "compare": ("slt", "slti", "sltu", "sltiu")}
"""Instructions that are counted, as in the paper: words compared, and numbers that become bits."""

_DIGITS = 4
_INNER = slice(network.BORDER, network.BORDER + network.POOLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class BnnCase:
    """A classification to run."""

    variant: str = "dense"
    popcount: str
    config: CoreConfig | ClusterConfig  # the core, or the cluster all of whose cores share the work
    machine: Machine  # its surroundings; its seed is also that of weights and image
    checked: bool = True  # whether every retirement is checked

    @property
    def cores(self) -> int:
        """Cores that share the work."""
        return self.config.cores if isinstance(self.config, ClusterConfig) else 1


@dataclass(frozen=True, slots=True)
class BnnResult:
    """What came of a case: its record, and its first mismatches."""

    record: dict[str, Any]
    reports: list[str]


def run_bnn(case: BnnCase) -> BnnResult:
    """Classify a synthetic image with random weights and compare every layer's results with the golden model's.

    ``cycles`` of the record are those of the call, on a cluster from barrier to barrier; ``layers`` those of core 0.
    """
    random = np.random.default_rng(case.machine.seed)
    weights, image = random_weights(random), synthetic_image(random)
    software = case.popcount == SOFTWARE
    run = classifier(weights, image, variant=case.variant, software=software, cores=case.cores)
    function = run.function
    alone = not isinstance(case.config, ClusterConfig)
    program = bare_program(function) if alone else cluster_program(function, case.cores)
    executable = executable_of(program, function.name)
    outside = Segment(run.outside_base, run.outside.astype("<u4").tobytes(), run.outside.nbytes)
    executable = replace(executable, segments=(*executable.segments, outside))
    outcome = run_program(executable, case.config, case.machine, check=case.checked, account=True)
    memory = outcome.memory[program.data_base]
    expected = _expected(weights, image)
    wrong = {name: int((values != expected[name]).sum()) for name, values in _found(case, run, memory).items()}
    reports = [outcome.difference] if outcome.difference else []
    reports += [f"{name}: {count} of {expected[name].size} wrong" for name, count in wrong.items() if count]
    if not outcome.exit.ok:
        reports.append(outcome.exit.text)
    mismatches = outcome.mismatches + sum(wrong.values())
    first = (int(function.function.pcs[0]) - program.text_base) // HALF_BYTES
    accounts = [rows[first :: WORD_BYTES // HALF_BYTES][: len(function.function)] for rows in outcome.accounts]
    totals = np.sum([rows.sum(axis=0) for rows in accounts], axis=0)
    cycles_at = accounts[0].sum(axis=1)
    cycles = program.measured(memory)
    names = dict.fromkeys(function.function.regions)
    record = {
        "kernel": "bnn",
        "variant": case.variant,
        "popcount": case.popcount,
        "cores": case.cores,
        "instructions": int(totals[WaitCause.NONE]),
        "cycles": cycles,
        "operations": {name: _executed(run, accounts, *names) for name, names in _OPERATIONS.items()},
        "macs": function.macs,
        "cycles_per_mac": round(cycles / function.macs, _DIGITS),
        "layers": {name: int(cycles_at[function.function.region(name)].sum()) for name in names},
        "stalls": {cause.name.lower(): int(totals[cause]) for cause in WaitCause if cause},
        "mismatches": mismatches if outcome.exit.ok else max(mismatches, 1),
        "wall_s": round(outcome.wall_s, _DIGITS),
        "sim_cycles_per_s": round(outcome.cycles / outcome.wall_s),
    }
    return BnnResult(record, reports)


def _expected(weights: network.Weights, image: NDArray[np.uint8]) -> Mapping[str, NDArray[np.int64]]:
    """The bits of every layer's results, and the last ones."""
    stages = binary.classify(image, (weights.conv1, weights.conv2), (weights.fc1, weights.fc2, weights.fc3))
    names = ("map1", "map2", "hidden1", "hidden2", "output")
    found = dict(zip(names, stages, strict=True))
    return {name: values if name == "output" else (values > 0).astype(np.int64) for name, values in found.items()}


def _executed(run: Classifier, accounts: Sequence[NDArray[np.integer[Any]]], *operations: str) -> int:
    """How often instructions that do these were executed."""
    chosen = [insn.op in operations for insn in run.function.function.insns]
    return int(sum(rows[chosen, WaitCause.NONE].sum() for rows in accounts))


def _found(case: BnnCase, run: Classifier, memory: NDArray[np.uint8]) -> Mapping[str, NDArray[np.int64]]:
    """The same from memory."""
    image = run.function.image

    def words(name: str) -> NDArray[np.int64]:
        return image.view(name, memory).view("<u4").astype(np.int64)

    def channels(values: NDArray[np.int64]) -> NDArray[np.int64]:
        return values[..., np.newaxis] >> np.arange(network.CHANNELS) & 1

    def first_map() -> NDArray[np.int64]:
        match case.variant:
            case "window":
                sums = image.view("map1", memory).view("i1").reshape(MAP_SIDE, MAP_SIDE, network.CHANNELS)
                return (sums > 0).astype(np.int64)
            case "crumbs":
                # even channels, then odd ones; of a crumb the upper bit is that of the sign
                crumbs = words("map1").reshape(MAP_SIDE, MAP_SIDE, 2)[..., np.newaxis]
                bits = 1 - (crumbs >> np.arange(1, WORD_BITS, 2) & 1)
                return bits.swapaxes(2, 3).reshape(MAP_SIDE, MAP_SIDE, network.CHANNELS)
            case _:
                return channels(words("map1").reshape(MAP_SIDE, MAP_SIDE))

    return {
        "map1": first_map()[_INNER, _INNER],
        "map2": channels(words("map2").reshape(network.LAST, network.LAST)),
        "hidden1": words("hidden1")[: network.HIDDEN],
        "hidden2": words("hidden2")[: network.HIDDEN],
        "output": run.function.output.decode(image, memory)[0],
    }
