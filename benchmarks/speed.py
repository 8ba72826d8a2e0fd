"""Speed of simulation and checking: ``make bench``.

Figures depend on the machine; each line names its conditions. Models that run are built beforehand and not timed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import timeit
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from xpulpnn.config import ClusterConfig, preset
from xpulpnn.isa.table import find
from xpulpnn.user_cache import CACHE_VARIABLE
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cosimulation.model.build import build_model, compiler
from xpulpnn_sim.cosimulation.model.libraries import cached_emission, rig_of, simulated
from xpulpnn_sim.cosimulation.workloads.cluster_run import ENGINE, run_kernel
from xpulpnn_sim.cosimulation.workloads.kernel_run import ENGINES, Case, run_case
from xpulpnn_sim.reference.golden.effects import Sources
from xpulpnn_sim.reference.golden.execute import execute
from xpulpnn_sw.layers.layer import ConvLayer
from xpulpnn_sw.layers.precision import Precision

LAYER = "16x16x32:64x3x3"
VECTORS = 100_000


def simulation(engine: str, checked: bool, exact: bool = False) -> float:
    """Cycles per second of the papers' layer, 8 bit, nn_4x4, on ``xpulpnn-full``, as ``cosim`` and ``--exact`` run it.

    The second of two runs counts, so that the model is built and read.
    """
    case = Case(
        layer=ConvLayer.parse(LAYER),
        precision=Precision.uniform(8),
        variant="nn_4x4",
        config=preset("xpulpnn-full") if exact else simulated(preset("xpulpnn-full")),
        checked=checked,
    )
    record = {}
    for _ in range(2):
        record = run_case(case, engine).record
        if record["mismatches"]:
            sys.exit(f"{engine} found {record['mismatches']} mismatches")
    return record["sim_cycles_per_s"]


def _cluster() -> ClusterConfig:
    return simulated(ClusterConfig(core=preset("xpulpnn-full"), icache_private=0))


def cluster_compilation() -> float:
    """Seconds to compile the model of a cluster of eight such cores from its Verilog."""
    config = replace(_cluster(), rvfi=True, memories="ports")
    rig = replace(rig_of(*cached_emission("cluster", config, both_edges=True)), both_edges=True)
    usual = os.environ.get(CACHE_VARIABLE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder
        start = time.perf_counter()
        build_model(rig)
        seconds = time.perf_counter() - start
    if usual is None:
        del os.environ[CACHE_VARIABLE]
    else:
        os.environ[CACHE_VARIABLE] = usual
    return seconds


def cluster_simulation(checked: bool) -> float:
    """Cycles per second of the same kernel on that cluster."""
    case = Case(
        layer=ConvLayer.parse(LAYER),
        precision=Precision.uniform(8),
        variant="nn_4x4",
        config=_cluster(),
        checked=checked,
    )
    record = {}
    for _ in range(2):
        record = run_kernel(case).record
        if record["mismatches"]:
            sys.exit(f"cluster found {record['mismatches']} mismatches")
    return record["sim_cycles_per_s"]


def vectors() -> float:
    """Vectors per second of ``verify vectors`` on the RTL, file reading included."""
    insn = find("pv.sdotusp.n")
    word = insn.encode(rd=10, rs1=11, rs2=12)
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(0, 1 << 32, (3, VECTORS), dtype=np.uint32)
    effects = execute(insn, Sources(rs1=a, rs2=b, rd=c, word=np.full(VECTORS, word, np.uint32)))
    with tempfile.TemporaryDirectory() as folder:
        file, result = Path(folder) / "vectors.jsonl", Path(folder) / "result.json"
        rows = zip(a.tolist(), b.tolist(), c.tolist(), effects.rd.tolist(), strict=True)
        file.write_text(
            "".join(
                json.dumps({"insn": insn.mnemonic, "word": word, "rs1": x, "rs2": y, "rd_in": z, "rd_out": r}) + "\n"
                for x, y, z, r in rows
            )
        )
        for _ in range(2):
            if cli.main(["verify", "vectors", str(file), "--json", str(result)]):
                sys.exit("verify vectors failed")
        return json.loads(result.read_text())["vectors_per_s"]


def emission() -> float:
    """Seconds to generate the Verilog of the back end."""
    from xpulpnn_sim.tools.components import emit_top

    start = time.perf_counter()
    emit_top("backend", preset("xpulpnn-full"))
    return time.perf_counter() - start


def start_up() -> float:
    """Seconds of ``iss`` of an empty program, as a command of its own: the shortest of ten."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "main.c", Path(folder) / "main.elf"
        source.write_text("int main(void) { return 0; }\n")
        if cli.main(["cc", "--quiet", str(source), "-o", str(program)]):
            sys.exit("cc failed")
        command = [sys.executable, "-m", "xpulpnn_sim", "iss", str(program)]
        run = partial(subprocess.run, command, check=True, stderr=subprocess.DEVNULL)
        return min(timeit.repeat(run, number=1, repeat=10))


def main() -> int:
    """Measure, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    arguments = parser.parse_args()
    simulations = (
        ("unchecked", False, False),
        ("every retirement checked", True, False),
        ("--exact, unchecked", False, True),
    )
    figures = (
        {
            f"{engine}, {LAYER}, 8 bit, nn_4x4, {how}, {compiler()} (cycles/s)": simulation(engine, checked, exact)
            for engine in ENGINES
            for how, checked, exact in simulations
        }
        | {
            f"{ENGINE} of 8 cores, {LAYER}, 8 bit, nn_4x4, {how}, {compiler()} (cycles/s)": cluster_simulation(checked)
            for how, checked in (("unchecked", False), ("every retirement checked", True))
        }
        | {
            f"model of {ENGINE} of 8 cores, compiled by {compiler()} (s)": cluster_compilation(),
            f"verify vectors, {VECTORS} x pv.sdotusp.n, engine rtl (vectors/s)": vectors(),
            "Verilog of the back end, preset xpulpnn-full (s)": emission(),
            "iss of an empty program, simulator compiled before (s)": start_up(),
        }
    )
    table = Table("measurement", "figure", box=None)
    for name, value in figures.items():
        table.add_row(name, f"{value:,.0f}" if value > 100 else f"{value:.2f}")
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
