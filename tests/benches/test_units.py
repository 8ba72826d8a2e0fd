"""Each kind of unit with a bench; failing benches, designs that do not compile and bad seeds are reported."""

from functools import cache
from pathlib import Path

import pytest
from cocotb_tools import config

from xpulpnn.errors import ToolError
from xpulpnn.verilog import EmittedVerilog
from xpulpnn_sim.benches.launcher_data import seed_from_environment
from xpulpnn_sim.benches.runner import SIMULATORS, available, compile_design, require_passed, run_bench
from xpulpnn_sim.benches.units import UNITS

pytestmark = pytest.mark.bench

# `xpulpnn mutate UNIT` runs, in Verilator, a bench with all its vectors on the unit and its mutants; here each runs on
# one simulator: Icarus, or Verilator those on which it is faster; and on none what is a part of a unit that runs, or
# the same in another structure, size or preset
NONE = "nnrf-4 nnrf-8 dotp-shared-inferred dotp-and dotp-and-inferred dotp-none-inferred dotp-two-widths simd-alu"
NONE += " private-cache-plain core-demux-dma"
NONE += " ex-stage-inferred backend-ri5cy backend-2 backend-cu event-unit-16 core-demux dma axi-ext"
NONE += " xif-cv32e40px xif-cva6"
NONE += " dm dm-8 core-2 core-full wishbone-instr wishbone-refill"
# and what all cores have that run programs
NONE += " regfile regfile-lut-ram regfile-array-pairs mult-inferred mult-wide-inferred"
VERILATOR = "backend-full csr-file-counters compressed-decoder private-cache icache event-unit-3"
VECTORS = {"alu": 3, "dotp-shared": 6, "dotp-register": 6, "mult-late": 3, "div": 12}
VECTORS |= {"mult-dot-product": 4, "ex-stage": 1, "lsu": 4, "decoder-full": 1, "decoder-ri5cy": 1}
FEWER = {name: {"vectors_per_row": vectors} for name, vectors in VECTORS.items()}
DIRECTED = {"mult": (5, 3), "mult-wide": (5, 3), "div": (3, 0)}
DIRECTED |= {"mult-dot-product": (0, 1), "ex-stage": (0, 1), "alu": (0, 0)}
for name, (corners, places) in DIRECTED.items():
    FEWER.setdefault(name, {}).update(corners=corners, places=places)
for name in ("dotp-shared", "dotp-register"):
    FEWER[name]["corners"] = 2
FEWER |= {"quantiser": {"operations": 60}, "icache": {"far": 1 << 11}, "tcdm-strict": {"cycles": 200}}
FEWER |= {"backend-full": {"pairs": 200}, "compressed-decoder": {"stride": 3}, "core-late": {"part": 12}}
FEWER |= {"dm-3": {"accesses": 6}, "jtag-dtm": {"scans": 10}, "dma-late": {"every": 6, "transfers": 12}}
FEWER |= {name: {"episodes": 1, "part": 3} for name in UNITS if name.startswith("xif")}
FEWER |= {"event-unit": {"episodes": 2}, "event-unit-3": {"episodes": 2}}
RUNS = [(name, "icarus", None) for name in UNITS if name not in f"{NONE} {VERILATOR}".split()]
RUNS += [(name, "verilator", None) for name in VERILATOR.split()]
# with this seed a bank stands still for a master that was served already, if it waits for cores alone
RUNS.append(("tcdm-broadcast", "icarus", 2))

design = cache(lambda unit: UNITS[unit].emit())


@pytest.mark.parametrize(
    ("unit", "simulator", "chosen"), RUNS, ids=["-".join(str(part) for part in run if part) for run in RUNS]
)
def test_unit(unit: str, simulator: str, chosen: int | None, pytestconfig: pytest.Config, tmp_path: Path) -> None:
    if not available(simulator):
        pytest.skip(f"{simulator} is not installed")
    seed, cache = chosen or seed_from_environment(), pytestconfig.rootpath / "build" / "benches"
    print(f"XPULPNN_SEED={seed}")
    described, fewer = UNITS[unit].describe(), FEWER.get(unit, {})
    assert fewer.keys() <= described.keys()
    data = described | fewer
    outcome = run_bench(design(unit), unit, simulator, cache=cache, results=tmp_path, seed=seed, data=data)
    require_passed(outcome, unit, simulator, seed)
    assert outcome.tests


SEED = 4711


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_failing_bench_names_the_seed(simulator: str, pytestconfig: pytest.Config, tmp_path: Path) -> None:
    if not available(simulator):
        pytest.skip(f"{simulator} is not installed")
    unit = UNITS["div"]
    data = dict(unit.describe())
    *names, controls = zip(*data["rows"], strict=True)
    data["rows"] = list(zip(*names, reversed(controls), strict=True))
    cache = pytestconfig.rootpath / "build" / "benches"
    outcome = run_bench(unit.emit(), "div", simulator, cache=cache, results=tmp_path, seed=SEED, data=data)
    with pytest.raises(ToolError, match=f"bench of div on {simulator} must pass, not fail .XPULPNN_SEED={SEED}"):
        require_passed(outcome, "div", simulator, SEED)


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_build_failure_shows_the_log(simulator: str, tmp_path: Path) -> None:
    if not available(simulator):
        pytest.skip(f"{simulator} is not installed")
    manifest = {"top": "broken", "ports": [{"name": "clk", "direction": "input"}]}
    text = "module broken(input clk); assign missing = clk +; endmodule\n"
    broken = EmittedVerilog(header="// broken\n", modules={"broken": text}, manifest=manifest, rtlil={})
    with pytest.raises(ToolError, match=rf"build of broken for {simulator} must succeed, not fail:\n(.|\n)*error"):
        compile_design(broken, simulator, tmp_path)


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_bench_with_any_path(simulator: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not available(simulator):
        pytest.skip(f"{simulator} is not installed")
    odd = tmp_path / "o d \xfc'$HOME`#(1)&"
    odd.mkdir()
    (odd / "cocotb").symlink_to(config.share_dir.parent)
    for name in ("share", "libs"):
        monkeypatch.setattr(config, f"{name}_dir", odd / "cocotb" / name)
    outcome = run_bench(
        design("nnrf-6"),
        "nnrf-6",
        simulator,
        cache=odd,
        results=odd / "results",
        seed=1,
        data=UNITS["nnrf-6"].describe(),
    )
    require_passed(outcome, "nnrf-6", simulator, 1)


def test_seed_must_be_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPULPNN_SEED", "x")
    with pytest.raises(ToolError, match=r"^XPULPNN_SEED must be an integer, not x$"):
        seed_from_environment()
