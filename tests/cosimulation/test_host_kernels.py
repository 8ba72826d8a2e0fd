"""Kernels on CV32E40X with the coprocessor, from the command line."""

import pytest
from tests.programs import read_results

from xpulpnn_sim.cli.main import main
from xpulpnn_sim.cosimulation.model import host

pytestmark = pytest.mark.cosim

OPTIONS = ["--host", "cv32e40x", "--set", "memory=obi", "--set", "requantise=exact", "--jobs", "1"]
SLOW = [
    "--grant-stalls",
    "0.3",
    "--response-latency",
    "3",
    "--seed",
    "3",
]  # the published core loses results behind waits


@pytest.mark.parametrize(
    ("kernel", "layer", "widths", "variants"),
    [
        ("conv", "4x4x8:8x3x3", ["--bits", "8"], ["rv32im_2x2", "blk_4x4", "blkq_4x4", "step_4x4", "stepq_4x4"]),
        ("conv", "4x5x16:6x2x3", ["--precision", "4xi2xi4", *SLOW], ["blkq_4x4", "stepq_4x4"]),
        ("matmul", "9x44x7", ["--bits", "4"], ["step_4x4", "blk_4x4"]),
        ("linear", "150:9", ["--bits", "2"], ["blkq_4x1"]),
    ],
)
def test_kernels(kernel, layer, widths, variants, tmp_path):
    pytest.importorskip(host.PACKAGE, reason="needs pythondata-cpu-cv32e40x: pip install '.[xif]'")
    path = tmp_path / "kernels.json"
    words = ["--layer", layer, *widths, "--variant", ",".join(variants), "--json", str(path)]
    assert main(["cosim", kernel, *OPTIONS, *words]) == 0
    records = read_results(path)
    assert [record["variant"] for record in records] == variants
    assert {(record["engine"], record["mismatches"]) for record in records} == {("cv32e40x", 0)}
    assert all(record["cycles"] > record["instructions"] > 0 for record in records)
    # a coprocessor makes two dot products in a cycle
    assert all(record["cycles_per_sdotp"] > 0.5 for record in records)


BAD = {
    "--engine core": "--engine must be left out with --host",
    "--irq-rate 0.01": "--irq-rate must be left out with --engine stream",
    "--waves a.fst": "--waves must be left out with --host",
    "--preset xpulpnn": "--preset must be left out with --host",
    "--variant nn_4x4": "variant must be one that the configuration can run, not nn_4x4 (needs XpulpMLnn",
    "--set requantise=none --variant blkq_4x4": "not blkq_4x4 (needs XpulpXifRq)",
    "--set queue=9": "queue must be 2 to 8, not 9",
}


@pytest.mark.parametrize("words", BAD)
def test_what_a_host_refuses(words, capsys):
    assert main(["cosim", "conv", "--host", "cv32e40x", *words.split()]) == 2
    assert BAD[words] in capsys.readouterr().err
