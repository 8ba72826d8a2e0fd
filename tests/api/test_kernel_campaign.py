"""Random layers: everything gets its turn, the same seed gives the same, and the gates compute them right."""

from dataclasses import replace
from itertools import product

import pytest

from xpulpnn.config import preset
from xpulpnn.errors import InputError
from xpulpnn_sim.api.kernel_campaign import LAYERS, covered, random_cases, turns
from xpulpnn_sim.harness.kernel_run import run_case
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.models import simulated
from xpulpnn_sw.kernels.kinds import KINDS
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.precision import Precision

FULL = simulated(preset("xpulpnn-full"))
"""As the command line runs kernels unless told otherwise, so that models are shared."""

PRODUCTS = ("conv", "conv1d", "linear", "matmul", "pointwise")
WIDTHS = tuple(product((8, 4, 2), (8, 4, 2), (8, 4, 2, 32)))
"""Of input, weights, and results with accumulators."""


@pytest.mark.unit
@pytest.mark.parametrize("kernel", PRODUCTS)
def test_all_widths_and_variants_have_a_turn(kernel):
    found = turns(kernel, FULL)
    met = {(possible[0].x, possible[0].w, possible[0].y, variant) for possible, variant in found}
    assert len(met) == len(found)
    assert met >= {(*widths, name) for widths in WIDTHS for name in KINDS[kernel].variants}
    assert len(turns(kernel, preset("ri5cy"))) < len(found)


@pytest.mark.unit
@pytest.mark.parametrize("kernel", LAYERS)
def test_as_many_layers_as_turns_meet_them_all(kernel):
    names = tuple(KINDS[kernel].variants)[-1:]
    count = len(turns(kernel, FULL, variants=names))
    cases = random_cases(kernel, count, config=FULL, machine=Machine(seed=5), variants=names)
    assert covered(cases) == count
    assert covered(cases[1:]) == count - 1


@pytest.mark.unit
def test_a_case_is_known_by_its_seed():
    cases = random_cases("conv", 5, config=FULL, machine=Machine(seed=40))
    assert random_cases("conv", 1, config=FULL, machine=Machine(seed=43)) == cases[3:4]
    assert len({str(case.layer) for case in cases}) == len(cases)


@pytest.mark.unit
def test_only_what_is_asked_for():
    asked = Precision.parse("i8x4x2")
    cases = random_cases("linear", 4, config=FULL, machine=Machine(), precisions=[asked], variants=["nn_2x1"])
    assert {(case.precision, case.variant) for case in cases} == {(asked, "nn_2x1")}
    qnt = replace(FULL, qnt=True)
    by_hardware = turns("conv", qnt, variants=["nn_4x4"], rules=[Rule.QNT])
    assert {possible[0].y for possible, _ in by_hardware} == {4, 2, 32}
    with pytest.raises(InputError, match=r"^weights of cu_4x2 must be signed where inputs are, not i8xu8x8$"):
        turns("conv", FULL, precisions=[Precision.parse("i8xu8x8")], variants=["cu_4x2"])


@pytest.mark.cosim
@pytest.mark.parametrize("kernel", PRODUCTS)
def test_random_layers_on_the_gates(kernel):
    """A few; some wait for their memory."""
    for case in random_cases(kernel, 4, config=FULL, machine=Machine(seed=20)):
        result = run_case(case)
        assert result.record["mismatches"] == 0, (case, result.reports)
