"""Speed of simulation and checking: ``make bench``.

Figures depend on the machine; each line names its conditions. Models are built beforehand and not timed.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from xpulpnn.config import preset
from xpulpnn.isa.table import find
from xpulpnn_sim import cli
from xpulpnn_sim.golden.effects import Sources
from xpulpnn_sim.golden.execute import execute
from xpulpnn_sim.harness.core_run import run
from xpulpnn_sim.harness.engine import BusTiming
from xpulpnn_sim.harness.kernel_run import Case, case_kernel, case_tensors, run_case
from xpulpnn_sim.harness.models import simulated
from xpulpnn_sim.harness.program_run import executable_of
from xpulpnn_sw.layer import ConvLayer
from xpulpnn_sw.precision import Precision
from xpulpnn_sw.programs.bare import bare_program

LAYER = "16x16x32:64x3x3"
VECTORS = 100_000


def papers_case(checked: bool, exact: bool) -> Case:
    """The papers' layer, 8 bit, nn_4x4, on the preset ``xpulpnn-full``, as ``cosim`` and ``cosim --exact`` run it."""
    return Case(
        layer=ConvLayer.parse(LAYER),
        precision=Precision.uniform(8),
        variant="nn_4x4",
        config=preset("xpulpnn-full") if exact else simulated(preset("xpulpnn-full")),
        timing=BusTiming(grant_stalls=0.0, response_latency=1, seed=0),
        checked=checked,
    )


def streaming(checked: bool, exact: bool = False) -> float:
    """Cycles per second of the back end."""
    case = papers_case(checked, exact)
    run_case(case)
    return run_case(case).record["sim_cycles_per_s"]


def core(checked: bool, exact: bool = False) -> float:
    """Cycles per second of the whole core with the kernel as a program in memory."""
    case = papers_case(checked, exact)
    program = executable_of(bare_program(case_kernel(case, case_tensors(case))), "nn_4x4")
    run(program, case.config)
    result = run(program, case.config, check=checked)
    if not result.exit.ok:
        sys.exit(result.exit.text)
    return result.sim_cycles_per_s


def vectors() -> float:
    """Vectors per second of ``check-vectors`` on the RTL, file reading included."""
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
            if cli.main(["check-vectors", str(file), "--json", str(result)]):
                sys.exit("check-vectors failed")
        return json.loads(result.read_text())["vectors_per_s"]


def emission() -> float:
    """Seconds to generate the Verilog of the back end."""
    from xpulpnn_sim.tops import emit_top

    start = time.perf_counter()
    emit_top("backend", preset("xpulpnn-full"))
    return time.perf_counter() - start


def main() -> int:
    """Measure, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    arguments = parser.parse_args()
    figures = {
        f"streaming, {LAYER}, 8 bit, nn_4x4, unchecked (cycles/s)": streaming(checked=False),
        f"streaming, {LAYER}, 8 bit, nn_4x4, every retirement checked (cycles/s)": streaming(checked=True),
        f"streaming, {LAYER}, 8 bit, nn_4x4, --exact, unchecked (cycles/s)": streaming(checked=False, exact=True),
        f"core, {LAYER}, 8 bit, nn_4x4, unchecked (cycles/s)": core(checked=False),
        f"core, {LAYER}, 8 bit, nn_4x4, every retirement checked (cycles/s)": core(checked=True),
        f"core, {LAYER}, 8 bit, nn_4x4, --exact, unchecked (cycles/s)": core(checked=False, exact=True),
        f"check-vectors, {VECTORS} x pv.sdotusp.n, engine rtl (vectors/s)": vectors(),
        "Verilog of the back end, preset xpulpnn-full (s)": emission(),
    }
    table = Table("measurement", "figure", box=None)
    for name, value in figures.items():
        table.add_row(name, f"{value:,.0f}" if value > 100 else f"{value:.2f}")
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
