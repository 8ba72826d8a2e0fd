"""Layers of a few pixels and channels: a sample with every kernel, variant, precision and rule on the gates."""

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.designs import BEYOND, FULL

from xpulpnn.config import preset
from xpulpnn.errors import LayerError
from xpulpnn_sim.api.kernel_sweep import CHANNELS, PIXELS, SweepResult, combinations, run_combinations, select_pass
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cosimulation.workloads import kernel_series
from xpulpnn_sw.kernels.catalogue import KERNELS
from xpulpnn_sw.kernels.operands import check_rule
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.precision import Precision

CORES = (BEYOND, FULL)
"""All that there is; the second has the exact rule in software."""

SAMPLE = 20  # combinations of a kernel; `xpulpnn verify kernels` runs all


every = cache(lambda kernel: [*combinations((kernel,), CORES)])


def sample(kernel: str, seed: int = 0):
    selected = select_pass(every(kernel), seed)
    return selected[seed :: max(1, len(selected) // SAMPLE)]


def ran(chosen, seed: int = 0) -> SweepResult:
    total = SweepResult()
    for config in CORES:
        if own := [choice for choice in chosen if choice.config == config]:
            total.merge(run_combinations(own, seed))
    return total


@pytest.mark.cosim
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_sample_of_all_combinations(kernel):
    chosen = sample(kernel)
    result = ran(chosen)
    assert (result.wrong, result.reports, result.layers) == (0, [], len(PIXELS) * len(chosen))
    assert sum(result.refused.values()) < result.layers / 10


@pytest.mark.cosim
def test_single_pixels_of_cores_that_widen_weights():
    """Those that one core computes in place only if there are several pixels; a sample might miss them."""
    pointwise = select_pass(every("pointwise"), 1)
    mixing = [c for c in pointwise if c.variant == "x3_4x4" and c.precision.x in (2 * c.precision.w, 8)]
    result = ran([c for c in mixing if c.precision.w < c.precision.x <= 8][::3], 1)
    assert (result.wrong, result.reports) == (0, [])
    assert result.layers > 50


def test_a_pass_is_a_square():
    """Each number of inputs meets each of outputs equally often, and a kernel's sign is another in the next pass."""
    first, second = (select_pass(every("pointwise"), number) for number in (0, 1))
    layers = [(case.layer, case.specialise, cores) for choice in first for case, cores in choice.cases(0)]
    for pixels in PIXELS:
        own = [layer for layer in layers if (layer[0].height, layer[0].width) == pixels]
        pairs = Counter((layer.channels, layer.out_channels) for layer, *_ in own)
        assert len(pairs) == CHANNELS**2
        assert max(pairs.values()) - min(pairs.values()) <= 1
        ways = Counter((specialise, cores) for _, specialise, cores in own)
        assert len(ways) == 4
        assert max(ways.values()) - min(ways.values()) <= 1
    assert [replace(a, precision=b.precision) for a, b in zip(first, second, strict=True)] == second
    assert all(a.precision != b.precision for a, b in zip(first, second, strict=True) if a.precision.x > 1)


@pytest.mark.cosim
def test_wrong_results_are_reported(monkeypatch):
    chosen, right = sample("relu")[:2], kernel_series.reference
    monkeypatch.setattr(kernel_series, "reference", lambda *of: right(*of) + 1)
    result = ran(chosen)
    assert result.wrong == result.layers == len(result.reports) == len(PIXELS) * len(chosen)


@pytest.mark.cosim
def test_a_kernel_that_stops_the_others_is_found(monkeypatch):
    """The others are right in programs without it."""
    chosen, build = sample("relu")[:1], kernel_series.series
    (bad, _), *_ = chosen[0].cases(0)

    def stopping(runs, cores):
        made = build(runs, cores)
        if bad.layer not in [run.layer for run in runs]:
            return made
        program = replace(made.function.function, words=np.zeros_like(made.function.function.words))
        return replace(made, function=replace(made.function, function=program))

    monkeypatch.setattr(kernel_series, "series", stopping)
    result = ran(chosen)
    assert (result.wrong, result.layers) == (1, len(PIXELS) * len(chosen))
    assert result.reports[0].startswith(f"{bad.name}")


@pytest.mark.cosim
def test_the_command(capsys, tmp_path):
    words = "verify kernels --kernel relu+transpose --preset xpulpnn-full --jobs 1 --every 3 --json"
    assert cli.main([*words.split(), str(tmp_path / "found.json")]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:3] == [["relu", "3", "12", "0", "0.0", "0"], ["transpose", "2", "8", "0", "0.0", "0"]]


def test_thresholds_have_no_results_of_16_bits(refused):
    with pytest.raises(LayerError, match=r"^results of the rule thresholds must be at most 8 bits wide, not 16$"):
        check_rule(KERNELS["conv"].variant("nn_4x4"), Precision.parse("8x8x16"), Rule.THRESHOLDS)
    check_rule(KERNELS["conv"].variant("nn_4x4"), Precision.parse("8x8x8"), Rule.THRESHOLDS)
    assert "at most 8 bits" in refused(
        "cosim", "conv", "--bits", "16", "--variant", "nn_4x4", "--requantise", "thresholds"
    )


def test_a_core_without_any_of_it(refused):
    assert preset("ri5cy").extensions
    assert "must be" in refused("verify", "kernels", "--kernel", "none")
