"""Networks that come with the project, and the training of the one that needs nothing but numpy."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from xpulpnn_sim.cosimulation.networks.images import read_images
from xpulpnn_sim.cosimulation.networks.summary import classified
from xpulpnn_sim.reference.golden.network import run_scores
from xpulpnn_sw.networks.form import read_network

ROOT = Path(__file__).parent.parent.parent
FASHION, DIGITS = ROOT / "examples/fashion", ROOT / "examples/digits"


@pytest.mark.unit
@pytest.mark.parametrize(("bits", "least"), [(8, 36), (4, 35), (2, 33)])
def test_fashion(bits, least):
    described = read_network(FASHION / f"fashion{bits}.json")
    widths = [(stage.precision.x, stage.precision.w) for stage in described.network.stages if stage.multiplies]
    assert widths == [(8, 8)] + [(bits, bits)] * 3
    assert classified(described, read_images(FASHION / "images.npz")).right >= least


NOUGHT = ("..+##+..", ".+#++#+.", ".#+..+#.", ".#+..+#.", ".#+..+#.", ".#+..+#.", ".+#++#+.", "..+##+..")
SEVEN = (".######.", ".######.", "....+##.", "...+##..", "..+##...", "..###...", "..###...", "..##+...")


@pytest.mark.unit
@pytest.mark.parametrize(("bits", "digits"), [(8, {0: NOUGHT, 7: SEVEN}), (4, {0: NOUGHT, 7: SEVEN}), (2, {0: NOUGHT})])
def test_digits(bits, digits):
    described = read_network(DIGITS / f"digits{bits}.json")
    widths = [str(stage.precision) for stage in described.network.stages]
    assert widths == [f"{bits}x{bits}x{bits}", f"{bits}x{bits}xi32"]
    samples = np.array([[[".+#".index(pixel) * 8 for pixel in row] for row in rows] for rows in digits.values()])
    assert run_scores(described.network, described.batch(samples)).argmax(axis=1).tolist() == list(digits)


def train(data: Path, output: Path) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(str(ROOT / root) for root in ("rtl", "sim", "sw"))
    words = [sys.executable, str(DIGITS / "train.py"), str(data), "-o", str(output)]
    return subprocess.run(words, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False)


@pytest.mark.flow
def test_training(tmp_path):
    rng = np.random.default_rng(0)
    patterns, labels = rng.choice([0, 16], (10, 64)), np.arange(80) % 10
    rows = np.column_stack([np.clip(patterns[labels] + rng.integers(-2, 3, (80, 64)), 0, 16), labels])
    data = tmp_path / "digits.csv.gz"
    data.write_bytes(gzip.compress("\n".join(",".join(map(str, row)) for row in rows.tolist()).encode()))
    done = train(data, tmp_path / "first")
    assert done.returncode == 0, done.stderr
    assert [line.partition(": ")[2] for line in done.stdout.splitlines()] == ["100.00 % of 20"] * 3
    described = read_network(tmp_path / "first/digits2.json")
    assert classified(described, read_images(tmp_path / "first/images.npz")).accuracy == 1
    assert train(data, tmp_path / "second").returncode == 0
    names = sorted(path.name for path in (tmp_path / "first").iterdir())
    assert names == [
        "digits2.json",
        "digits2.npz",
        "digits4.json",
        "digits4.npz",
        "digits8.json",
        "digits8.npz",
        "images.npz",
    ]
    for name in names:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


@pytest.mark.unit
@pytest.mark.flow
def test_other_data_is_refused(tmp_path):
    data = tmp_path / "digits.csv.gz"
    data.write_bytes(b"0,1,2")
    done = train(data, tmp_path / "out")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: data set must be a wheel of scikit-learn or its digits.csv.gz, not {data}: ")
    assert done.stderr.count("\n") == 1
    assert not list((tmp_path / "out").iterdir())
