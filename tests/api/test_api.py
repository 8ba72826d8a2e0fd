"""The functions of the packages: what the subcommands do, as data classes."""

import json
from pathlib import Path

import pytest
from tests.programs import read_results

import xpulpnn
import xpulpnn_sim
from xpulpnn import SimdAlu, preset
from xpulpnn.errors import ConfigError, InputError, LayerError
from xpulpnn.isa.table import find
from xpulpnn.verilog import emit
from xpulpnn_sim import ExploreOptions, Machine, check_vectors, cosim
from xpulpnn_sim.cli.main import main
from xpulpnn_sw.layers.precision import Precision

SMALL = "8x32x8"
TIMINGS = ("wall_s", "sim_cycles_per_s")


@pytest.mark.cosim
@pytest.mark.parametrize(
    ("given", "options"), [({}, ()), ({"cores": [2], "banks": [8], "icache": 0}, ("--cores=2", "--banks=8"))]
)
def test_cosim_returns_what_the_command_writes(tmp_path, given, options):
    seen, variants = [], ["nn_4x2", "nn_4x4"]
    results = cosim("matmul", layers=[SMALL], precisions=[4], variants=variants, progress=seen.append, **given)
    assert tuple(seen) == results
    words = ["cosim", "matmul", "--layer", SMALL, "--bits", "4", "--variant", "nn_4x2,nn_4x4", *options]
    assert main([*words, "--json", str(tmp_path / "records.json")]) == 0
    written = read_results(tmp_path / "records.json")
    for result, record in zip(results, written, strict=True):
        assert list(result.record) == list(record)
        assert {name: value for name, value in result.record.items() if name not in TIMINGS} == {
            name: value for name, value in record.items() if name not in TIMINGS
        }
    assert [result.record["macs"] for result in results] == [8 * 32 * 8] * 2
    assert [result.record["mismatches"] for result in results] == [0, 0]


@pytest.mark.cosim
def test_cosim_on_processes_gives_the_same_results_in_the_same_order():
    request = {"layers": [SMALL], "precisions": [8, "4x4x4", Precision.uniform(2)], "variants": ["nn_4x4"]}
    first, second = cosim("matmul", **request), cosim("matmul", jobs=2, **request)
    assert [result.record["precision"] for result in first] == ["8x8xi32", "4x4x4", "2x2x2"]
    assert [result.record["cycles"] for result in first] == [result.record["cycles"] for result in second]


@pytest.mark.cosim
def test_slow_memory_is_part_of_the_machine():
    quick, slow = (
        cosim("matmul", layers=[SMALL], precisions=[4], variants=["nn_4x2"], machine=machine)[0].record["cycles"]
        for machine in (None, Machine(grant_stalls=0.5))
    )
    assert slow > quick


@pytest.mark.parametrize(
    ("changed", "error", "text"),
    [
        ({"kernel": "pool"}, InputError, "kernel must be one of conv, conv1d, pointwise, linear, matmul, "),
        ({"engine": "fast"}, InputError, "engine must be one of stream, core, not fast"),
        ({"config": "riscy"}, ConfigError, "preset must be one of"),
        ({"layers": ["1x2"]}, LayerError, "layer must be"),
        ({"jobs": 0}, InputError, "jobs must be at least 1, not 0"),
        ({"banks": [4]}, InputError, "banks, arbiters, icache and tiling must come with cores, not alone"),
        ({"cores": [2], "placements": ["loose"]}, InputError, "placement must be one of padded, aligned, not loose"),
        ({"config": preset("ri5cy"), "variants": ["nn_4x4"]}, InputError, "variant must be one that the configuration"),
    ],
)
def test_bad_arguments_are_told_before_anything_is_built(changed, error, text):
    with pytest.raises(error, match=f"^{text}"):
        cosim(**changed)


@pytest.mark.flow
def test_check_vectors_reports_each_difference(tmp_path):
    word = find("pv.add.b", "rd,rs1,rs2").encode(rd=10, rs1=11, rs2=12)
    good = {"insn": "pv.add.b", "word": word, "rs1": 0x01FF0203, "rs2": 0x01010101, "rd_in": 0, "rd_out": 0x02000304}
    lines = [good, good | {"rd_out": 0x02000305}, good | {"insn": "pv.unheard"}]
    path = tmp_path / "vectors.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    counts = []
    report = check_vectors([path], engine="golden", progress=counts.append)
    assert (report.vectors, report.mismatches, report.skipped) == (2, 1, 1)
    assert sum(counts) == 2
    (mismatch,) = report.first
    assert (mismatch.vector.origin[1], mismatch.expected, mismatch.got) == (2, 0x02000305, 0x02000304)
    with pytest.raises(InputError, match=r"^engine must be one of rtl, golden, not iss$"):
        check_vectors([path], engine="iss")


def test_names_of_the_packages_are_listed():
    assert {"cosim", "run", "explore", "simulate"} <= set(dir(xpulpnn_sim))
    assert {"Core", "preset", "Cluster", "ClusterConfig", "CLUSTER_PRESETS"} <= set(dir(xpulpnn))


def test_texts_stand_for_paths_and_single_ones_of_several():
    given = ExploreOptions(output="x", liberty="a.lib", preset="ri5cy", kernel="matmul:8", flow="asic")
    paths = {"output": Path("x"), "liberty": (Path("a.lib"),)}
    assert given == ExploreOptions(**paths, preset=("ri5cy",), kernel=("matmul:8",), flow="asic")


def test_verilog_echoes_the_configuration_of_the_component():
    config = preset("ri5cy")
    given = emit(SimdAlu(config), "alu", config=config)
    assert emit(SimdAlu(config), "alu").text == given.text
    assert emit(SimdAlu(config), "alu").manifest["configuration"] == given.manifest["configuration"] != {}
