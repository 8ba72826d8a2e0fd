"""Kernels as programs of clusters, on the simulator of several harts."""

import re

import numpy as np
import pytest

from xpulpnn.config import ClusterConfig, preset
from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn_sim.cosimulation.workloads.cluster_run import cluster_executable
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case, case_kernel, case_tensors, reference, short_precision
from xpulpnn_sw.kernels.programs import bare
from xpulpnn_sw.kernels.programs.bare import cluster_program
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layers.convolution import ConvLayer, MatmulLayer

from .elf import run

FULL = preset("xpulpnn-full")


def results(layer, variant: str, cores: int, quantum: int, placement="padded") -> tuple[str, np.ndarray, np.ndarray]:
    """How the program ends, what it leaves as its results, and what they must be."""
    bits = 4
    precision = short_precision("conv" if isinstance(layer, ConvLayer) else "matmul", bits)
    config = preset("xpulpnn2") if variant.startswith("x2") else FULL
    cluster = ClusterConfig(core=config, cores=cores)
    case = Case(layer=layer, precision=precision, variant=variant, config=cluster, placement=placement)
    tensors = case_tensors(case)
    kernel = case_kernel(case, tensors)
    program = cluster_program(kernel, cores)
    ran = run(cluster_executable(case, program), cluster, quantum=quantum)
    memory = np.frombuffer(ran.session.memory.read_bytes(TCDM_BASE, len(program.data)), np.uint8)
    return ran.end.text, kernel.output.decode(kernel.image, memory), reference(layer, tensors, precision)


@pytest.mark.parametrize(
    ("text", "variant", "cores", "quantum"),
    [
        ("5x6x8:8x3x3", "nn_4x4", 1, 64),
        ("5x6x8:8x3x3", "nn_4x4", 8, 1),
        ("5x6x8:8x3x3", "nn_4x4", 8, 1000),
        ("5x6x8:8x3x3", "rv32im_2x2", 3, 7),
        ("7x4x8:4x2x3:s=2x1", "cu_4x2", 16, 5),
        ("4x16x13", "nn_4x2", 8, 3),
        *(("4x3x8:4x3x3", variant, 3, 5) for variant in VARIANTS),
    ],
)
def test_cores_compute_the_layer_together(text, variant, cores, quantum):
    layer = ConvLayer.parse(text) if ":" in text else MatmulLayer.parse(text)
    end, got, expected = results(layer, variant, cores, quantum)
    assert end == "pass"
    np.testing.assert_array_equal(got, expected)


def test_a_program_without_its_barrier_ends_too_early(monkeypatch):
    """Core 0 is done first and reports at once; the shares of the others are not there yet."""
    waits = "    p.elw t0, {barrier}(gp)\n"
    begin, *others, end = bare.CLUSTER_CALLER.split(waits)
    assert len(others) == 2
    monkeypatch.setattr(bare, "CLUSTER_CALLER", begin + waits + "".join(others) + end)
    end, got, expected = results(ConvLayer.parse("5x6x8:8x3x3"), "nn_4x4", 8, 10_000)
    assert end == "pass"
    assert (got != expected).any()


@pytest.mark.parametrize(
    ("right", "wrong", "ends"),
    [
        ("bne a1, zero, set", "bne a1, zero, sleep", r"deadlock.*waits for barrier 0"),
        # another value in a register of the caller
        ("csrr s1, mcycle", "csrr s1, mcycle; li s2, 5", "core 0: fail"),
    ],
)
def test_wrong_callers_are_noticed(monkeypatch, right, wrong, ends):
    monkeypatch.setattr(bare, "CLUSTER_CALLER", bare.CLUSTER_CALLER.replace(right, wrong))
    end, _, _ = results(ConvLayer.parse("5x6x8:8x3x3"), "nn_4x4", 4, 64)
    assert re.match(ends, end, re.DOTALL), end
