"""Weights of CIFAR-10 networks in npz files, against the networks' own arithmetic on counts of bits."""

import re
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.cosimulation.networks.images import read_images
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.networks.importers.registry import ImportOptions, import_model, request_of

CHANNELS = (3, 5, 8, 6, 7, 9, 16)
OUTPUTS = (12, 10, 16)


def imported(path, **options):
    return import_model(path, ImportOptions(name="model", **options))


def cnv(rng):
    sizes = [*pairwise(CHANNELS), *zip((16, *OUTPUTS), OUTPUTS, strict=False)]
    arrays = {}
    for number, (inputs, outputs) in enumerate(sizes):
        products = inputs * (9 if number < 6 else 1)
        # a byte more than there must be: rows may be padded
        arrays[f"w{number}"] = rng.integers(0, 256, (outputs, -(-products // 8) + 1), np.uint8)
        if number < 8:
            centre, spread = (0, 300) if number == 0 else (products // 2, 3)
            arrays[f"t{number}"] = centre + rng.integers(-spread, spread, outputs, endpoint=True)
    return arrays


def answers(arrays, pixels):
    """Scores of one image, as the hardware of BNN-PYNQ counts."""
    values = np.clip(np.floor((pixels / 255 * 2 - 1) * 128), -128, 127)
    for number in range(9):
        rows = arrays[f"w{number}"]
        inputs = values.shape[-1] * (9 if number < 6 else 1)
        bits = np.array([[int(row[bit // 8]) >> bit % 8 & 1 for bit in range(inputs)] for row in rows])
        if number < 6:
            seen = np.lib.stride_tricks.sliding_window_view(values, (3, 3), axis=(0, 1)).transpose(0, 1, 3, 4, 2)
            operands = seen.reshape(*seen.shape[:2], -1)
        else:
            operands = values.reshape(-1)
        if number == 0:
            values = 2 * (operands @ (2 * bits - 1).T) > arrays["t0"]
            continue
        counts = operands.astype(int) @ bits.T + (1 - operands.astype(int)) @ (1 - bits.T)
        if number == 8:
            return counts[:10]
        values = counts > arrays[f"t{number}"]
        if number in (1, 3):
            rows, columns = (size // 2 for size in values.shape[:2])
            values = values[: 2 * rows, : 2 * columns].reshape(rows, 2, columns, 2, -1).any(axis=(1, 3))
    raise AssertionError


@pytest.mark.flow
def test_cnv(tmp_path):
    rng = np.random.default_rng(1)
    arrays = cnv(rng)
    np.savez(tmp_path / "cnv.npz", **arrays)
    described = imported(tmp_path / "cnv.npz")
    pixels = rng.integers(0, 256, (3, 32, 32, 3))
    pixels[0, 0, 0] = 0, 255, 127
    *_, signs, scores = run_reference(described.network, described.batch(pixels))
    for image, score in zip(pixels, scores, strict=True):
        # a sum of ten products is twice the count less ten
        assert (score == 2 * answers(arrays, image) - OUTPUTS[1]).all()
    assert np.unique(signs).tolist() == [-1, 1]
    assert len(np.unique(scores)) > 3
    np.savez(tmp_path / "cnv.npz", **arrays, classes=np.array(4))
    assert imported(tmp_path / "cnv.npz").classes == 4


BAD = {
    "arrays must be conv1, conv2": dict.fromkeys(cnv(np.random.default_rng(0))) | {"a": np.ones(3, int)},
    "arrays must be w0, w1": {"t3": None},
    "t1 must be integers": {"t1": np.ones(8)},
    "w2 must be uint8": {"w2": np.ones((6, 8), np.uint8)},
    "shape of t2": {"t2": np.ones(5, int)},
    "classes": {"classes": np.array(17)},
}


@pytest.mark.flow
@pytest.mark.parametrize("named", BAD)
def test_other_arrays_are_named(tmp_path, named):
    arrays = cnv(np.random.default_rng(0)) | BAD[named]
    np.savez(tmp_path / "cnv.npz", **{name: values for name, values in arrays.items() if values is not None})
    with pytest.raises(InputError, match=f"^{re.escape(named)}"):
        imported(tmp_path / "cnv.npz")


def test_what_npz_files_say_themselves(tmp_path):
    np.savez(tmp_path / "cnv.npz", **cnv(np.random.default_rng(0)))
    for options in ({"samples": (Fraction(0), Fraction(1))}, {"quantise": request_of("8")}):
        with pytest.raises(InputError, match=r"^(samples, mean and deviation|bits) must be left out with an npz"):
            imported(tmp_path / "cnv.npz", **options)


@pytest.mark.parametrize(("name", "right"), [("cnv_w1a1_cifar10", 20), ("cmsis_cifar10", 19)])
def test_real_weights(nets, name, right):
    described = imported(nets / f"{name}.npz")
    images = read_images(nets / "cifar20")
    scores = run_reference(described.network, described.batch(images.samples))[-1]
    assert (scores.argmax(axis=1) == images.labels).sum() == right
