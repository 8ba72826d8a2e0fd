"""The examples do what they say; networks that come with the project, and the training that needs nothing but numpy."""

import gzip
import os
import re
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.programs import read_results

import xpulpnn_sim
from xpulpnn_sim import run, simulate
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.cosimulation.networks.images import read_images
from xpulpnn_sim.cosimulation.networks.summary import classified
from xpulpnn_sim.reference.golden.network import run_scores
from xpulpnn_sw.networks.network_file import read_network

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"


def ended(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(str(ROOT / root) for root in ("rtl", "sim", "sw"))
    words = [sys.executable, str(EXAMPLES / script), *arguments]
    return subprocess.run(words, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False)


def printed_by(script: str, *arguments: str) -> str:
    done = ended(script, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.cosim
def test_intrinsics(tmp_path):
    elf = tmp_path / "matmul.elf"
    assert main(["cc", "--compiler", "zig", str(EXAMPLES / "intrinsics/matmul.c"), "-o", str(elf)]) == 0
    on_core, on_simulator = run(elf, check=True), simulate(elf)
    assert on_core.exit.ok
    assert on_simulator.exit.ok
    assert on_core.mismatches == 0
    # what is printed after the call may depend on the cycles printed before it
    assert on_core.instructions == pytest.approx(on_simulator.instructions, rel=0.01)
    plain, mac_load, wrong = map(int, re.findall(rb"\d+", on_core.output))
    assert wrong == 0
    assert plain > 50 * mac_load
    assert on_simulator.output.endswith(b" 0 wrong\n")


@pytest.mark.flow
def test_scheduler(tmp_path, capsys):
    elf = str(tmp_path / "scheduler.elf")
    options = ["--preset", "cluster2", "--set", "nn_csrs=true", "--cores", "2"]
    assert main(["cc", "--compiler", "zig", str(EXAMPLES / "scheduler/scheduler.c"), *options, "-o", elf]) == 0
    assert main(["iss", elf, *options]) == 0
    assert re.search(r"\d+ results of 6 tasks, \d+ switches of core 0, 0 wrong", capsys.readouterr().out)


@pytest.mark.cosim
def test_kernel_library(tmp_path):
    printed = printed_by("kernel_library/network.py", "-o", str(tmp_path))
    assert printed.endswith(" cycles, 0 wrong bytes\n")
    on_core = run(tmp_path / "network.elf", check=True)
    assert on_core.exit.ok
    assert on_core.mismatches == 0
    assert on_core.output.endswith(b" cycles, 0 wrong bytes\n")


@pytest.mark.cosim
def test_network(tmp_path):
    printed = printed_by("network/sides.py", "-o", str(tmp_path))
    assert main(["net", printed.strip(), "--preset", "xpulpnn-full", "--json", str(tmp_path / "net.json")]) == 0
    (record,) = read_results(tmp_path / "net.json")
    assert [layer["name"] for layer in record["layers"]] == ["blur", "shrink", "compare"]
    assert record["mismatches"] == 0


@pytest.mark.flow
def test_separable_network(tmp_path):
    printed = printed_by("network/separable.py", "-o", str(tmp_path))
    networks = [read_network(Path(line)).network for line in printed.splitlines()]
    assert [stage.precision.x for network in networks for stage in network.stages[:1]] == [8, 4, 2]
    assert {sum(stage.kind.name == "depthwise" for stage in network.stages) for network in networks} == {7}


@pytest.mark.flow
def test_soc():
    # that it also writes its Verilog is seen by `make examples`
    assert printed_by("soc/soc.py") == "hello 30\n"


@pytest.mark.flow
def test_sweep(tmp_path, monkeypatch, capsys):
    # the structure of the preset, whose model others have too; `make examples` compares structures
    whole = xpulpnn_sim.explore
    monkeypatch.setattr(xpulpnn_sim, "explore", lambda options: whole(replace(options, sweep=options.sweep[:1])))
    monkeypatch.setattr(sys, "argv", ["sweep.py", "--widths", "16+8+4+2", "-o", str(tmp_path)])
    runpy.run_path(str(EXAMPLES / "sweep/sweep.py"), run_name="__main__")
    printed = capsys.readouterr().out
    ((area, rate),) = re.findall(r"^ xpulpnn widths=16\+8\+4\+2 +([\d.]+) +[\d.]+ +([\d.]+) +[\d.]+ *$", printed, re.M)
    # an adder of 32 bits has more than 100 gates; the inner loop alone has 32 MAC in 14 cycles
    assert float(area) > 0.1
    assert 2 <= float(rate) < 32 / 14
    assert (tmp_path / "report.html").is_file()


@pytest.mark.parametrize(("bits", "least"), [(8, 36), (4, 35), (2, 33)])
def test_fashion(bits, least):
    described = read_network(EXAMPLES / f"fashion/fashion{bits}.json")
    widths = [(stage.precision.x, stage.precision.w) for stage in described.network.stages if stage.multiplies]
    assert widths == [(8, 8)] + [(bits, bits)] * 3
    assert classified(described, read_images(EXAMPLES / "fashion/images.npz")).right >= least


NOUGHT = ("..+##+..", ".+#++#+.", ".#+..+#.", ".#+..+#.", ".#+..+#.", ".#+..+#.", ".+#++#+.", "..+##+..")
SEVEN = (".######.", ".######.", "....+##.", "...+##..", "..+##...", "..###...", "..###...", "..##+...")


@pytest.mark.flow
@pytest.mark.parametrize(("bits", "digits"), [(8, {0: NOUGHT, 7: SEVEN}), (4, {0: NOUGHT, 7: SEVEN}), (2, {0: NOUGHT})])
def test_digits(bits, digits):
    described = read_network(EXAMPLES / f"digits/digits{bits}.json")
    widths = [str(stage.precision) for stage in described.network.stages]
    assert widths == [f"{bits}x{bits}x{bits}", f"{bits}x{bits}xi32"]
    samples = np.array([[[".+#".index(pixel) * 8 for pixel in row] for row in rows] for rows in digits.values()])
    assert run_scores(described.network, described.batch(samples)).argmax(axis=1).tolist() == list(digits)


@pytest.mark.flow
def test_training(tmp_path):
    rng = np.random.default_rng(0)
    patterns, labels = rng.choice([0, 16], (10, 64)), np.arange(80) % 10
    rows = np.column_stack([np.clip(patterns[labels] + rng.integers(-2, 3, (80, 64)), 0, 16), labels])
    data = tmp_path / "digits.csv.gz"
    data.write_bytes(gzip.compress("\n".join(",".join(map(str, row)) for row in rows.tolist()).encode()))
    train = ("digits/train.py", str(data), "-o")
    printed = printed_by(*train, str(tmp_path / "first"))
    assert [line.partition(": ")[2] for line in printed.splitlines()] == ["100.00 % of 20"] * 3
    described = read_network(tmp_path / "first/digits2.json")
    assert classified(described, read_images(tmp_path / "first/images.npz")).accuracy == 1
    printed_by(*train, str(tmp_path / "second"))
    names = sorted(path.name for path in (tmp_path / "first").iterdir())
    assert names == [*(f"digits{bits}.{kind}" for bits in (2, 4, 8) for kind in ("json", "npz")), "images.npz"]
    for name in names:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


@pytest.mark.flow
def test_other_data_is_refused(tmp_path):
    data = tmp_path / "digits.csv.gz"
    data.write_bytes(b"0,1,2")
    done = ended("digits/train.py", str(data), "-o", str(tmp_path / "out"))
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: data set must be a wheel of scikit-learn or its digits.csv.gz, not {data}: ")
    assert done.stderr.count("\n") == 1
    assert not list((tmp_path / "out").iterdir())
