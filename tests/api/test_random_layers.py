"""Random layers: everything gets its turn, the same seed gives the same, and the gates compute them right."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tests.designs import BEYOND, FULL

from xpulpnn.config import preset
from xpulpnn.errors import InputError
from xpulpnn.isa.formats import Extension
from xpulpnn_sim.api.cosimulation import CoreChoice
from xpulpnn_sim.api.random_layers import covered, random_cases, turns
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.kernel_run import case_tensors, reference, run_case
from xpulpnn_sw.kernels.catalogue import KERNELS
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.precision import Precision

ALL = CoreChoice(FULL, BEYOND)
PRODUCTS = ("conv", "conv1d", "linear", "matmul", "pointwise")
WIDTHS = tuple(product((8, 4, 2), (8, 4, 2), (8, 4, 2, 32)))
"""Bits of input, weights, and results with accumulators."""


def of_cores(kernel: str) -> tuple[str, ...]:
    """Return the variants of a kernel that need no coprocessor."""
    return tuple(name for name, level in KERNELS[kernel].variants.items() if Extension.XIF not in level.extensions)


@pytest.mark.flow
@pytest.mark.parametrize("kernel", ["conv", "linear"])
def test_all_widths_and_variants_have_a_turn(kernel):
    choices = turns(KERNELS[kernel], ALL)
    met = {(possible[0].x, possible[0].w, possible[0].y, variant) for possible, variant in choices}
    assert len(met) == len(choices)
    assert met >= {(*widths, name) for widths in WIDTHS for name in of_cores(kernel)}
    assert (
        len(turns(KERNELS[kernel], CoreChoice(preset("ri5cy"))))
        < len(turns(KERNELS[kernel], CoreChoice(FULL)))
        < len(choices)
    )


@pytest.mark.flow
@pytest.mark.parametrize("kernel", KERNELS)
def test_as_many_layers_as_turns_meet_them_all(kernel):
    names = of_cores(kernel)[-1:]
    count = len(turns(KERNELS[kernel], ALL, variants=names))
    cases = random_cases(KERNELS[kernel], ALL, count, machine=Machine(seed=5), variants=names)
    assert {case.config for case in cases} == {
        FULL if KERNELS[kernel].variants[names[0]].extensions <= FULL.extensions else BEYOND
    }
    assert covered(cases) == count
    assert covered(cases[1:]) == count - 1


@pytest.mark.flow
def test_a_case_is_known_by_its_seed():
    cases = random_cases(KERNELS["conv"], CoreChoice(FULL), 5, machine=Machine(seed=40))
    assert random_cases(KERNELS["conv"], CoreChoice(FULL), 1, machine=Machine(seed=43)) == cases[3:4]
    assert len({str(case.layer) for case in cases}) == len(cases)


@pytest.mark.flow
@pytest.mark.parametrize("kernel", KERNELS)
def test_results_differ_or_operands_are_at_their_ends(kernel):
    cases = random_cases(KERNELS[kernel], CoreChoice(FULL), 40, machine=Machine(seed=7))
    extreme = [case for case in cases if case.extreme]
    assert 0 < len(extreme) < len(cases) // 3
    for case in cases:
        results = reference(case.layer, case_tensors(case), case.precision)
        most = np.unique(results, return_counts=True)[1].max() / results.size
        # of two signs one is likely more frequent
        assert case.extreme or results.size < 8 or most <= (0.5 if case.precision.y > 1 else 0.8)
    for case in extreme:
        tensors, precision = case_tensors(case), case.precision
        for names, bits, signed in (
            (("activations", "first"), precision.x, precision.x_signed),
            (("weights", "second"), precision.w, precision.w_signed),
        ):
            ends = {-(1 << (bits - 1)), (1 << (bits - 1)) - 1} if signed else {0, (1 << bits) - 1}
            ends = {-1, 1} if bits == 1 else ends
            for name in {*names} & {*vars(tensors)}:
                assert {*np.unique(getattr(tensors, name)).tolist()} <= ends


@pytest.mark.flow
@pytest.mark.parametrize("kernel", KERNELS)
def test_single_pixels_channels_and_outputs(kernel):
    layers = [case.layer for case in random_cases(KERNELS[kernel], CoreChoice(FULL), 120, machine=Machine(seed=3))]
    for name in {"pixels", "channels", "out_channels", "inputs", "outputs", "reduction"} & {*dir(layers[0])}:
        counts = Counter(getattr(layer, name) for layer in layers)
        assert counts[1] > 2, name
        assert len(counts) > 5, name


@pytest.mark.flow
def test_only_what_is_asked_for():
    precision = Precision.parse("i8x4x2")
    cases = random_cases(
        KERNELS["linear"], CoreChoice(FULL), 4, machine=Machine(), precisions=[precision], variants=["nn_2x1"]
    )
    assert {(case.precision, case.variant) for case in cases} == {(precision, "nn_2x1")}
    qnt = replace(FULL, qnt=True)
    by_hardware = turns(KERNELS["conv"], CoreChoice(qnt), variants=["nn_4x4"], rules=[Rule.QNT])
    assert {possible[0].y for possible, _ in by_hardware} == {4, 2, 32}
    with pytest.raises(InputError, match=r"^weights of cu_4x2 must be signed where inputs are, not i8xu8x8$"):
        turns(KERNELS["conv"], CoreChoice(FULL), precisions=[Precision.parse("i8xu8x8")], variants=["cu_4x2"])


@pytest.mark.cosim
@pytest.mark.parametrize("kernel", PRODUCTS)
def test_random_layers_on_the_gates(kernel):
    """A few; some wait for their memory. Any number: ``xpulpnn cosim KERNEL --random``."""
    for case in random_cases(KERNELS[kernel], CoreChoice(FULL), 2, machine=Machine(seed=20)):
        result = run_case(case)
        assert result.record["mismatches"] == 0, (case, result.reports)
