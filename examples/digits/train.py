"""Trains a network of two layers on 8x8 digits at 8, 4 and 2 bits in numpy, as `xpulpnn net` reads it.

pip download --no-deps scikit-learn -d build
python examples/digits/train.py build/scikit_learn-*.whl -o build/digits

The data set is in the wheel of scikit-learn, which need not be installed. A quarter of the images, chosen by the seed,
is for the test and written beside the networks.
"""

import argparse
import gzip
import io
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
from model import SCALINGS, Net

from xpulpnn.errors import InputError, XpulpnnError
from xpulpnn_sim.cosimulation.networks.images import Images
from xpulpnn_sim.cosimulation.networks.summary import classified
from xpulpnn_sim.tools.files import require_folder, write_bytes, write_text
from xpulpnn_sw.networks.network_file import serialised

MEMBER = "sklearn/datasets/data/digits.csv.gz"
SIDE = 8
EPOCHS, BATCH, RATE = 100, 32, 3e-3
FARTHEST, NOISE = 0.7, 0.1
"""How far images are moved while the network learns, in pixels, and the deviation of noise in samples of 0..1."""

BITS = (8, 4, 2)
TEST_PART = 4
"""One image of so many is for the test."""


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images, ``[image][row][column]``, and labels out of a wheel of scikit-learn or the file in it.

    Raises :class:`InputError` for another file.
    """
    try:
        packed = zipfile.ZipFile(path).read(MEMBER) if path.suffix == ".whl" else path.read_bytes()
        rows = np.loadtxt(io.BytesIO(gzip.decompress(packed)), delimiter=",", dtype=np.int64, ndmin=2)
        return rows[:, :-1].reshape(-1, SIDE, SIDE), rows[:, -1]
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(
            f"data set must be a wheel of scikit-learn or its digits.csv.gz, not {path}: {error}"
        ) from None


def varied(inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The images, ``[image][sample]``, each moved a little to a side or a corner, with noise."""
    images = inputs.reshape(-1, SIDE, SIDE)
    down, right = (
        rng.integers(0, 3, (len(images), 1, 1)) + np.arange(SIDE).reshape(shape) for shape in ((-1, 1), (1, -1))
    )
    moved = np.pad(images, ((0, 0), (1, 1), (1, 1)))[np.arange(len(images))[:, None, None], down, right]
    parts = FARTHEST * rng.random((len(images), 1, 1))
    return np.clip(images + (moved - images) * parts + rng.normal(0, NOISE, images.shape), 0, 1).reshape(inputs.shape)


def train(net: Net, inputs: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> None:
    """Go on with the training of a network, by rates that fall."""
    for epoch in range(EPOCHS):
        rate = RATE * (1 + np.cos(np.pi * epoch / EPOCHS)) / 2
        order = rng.permutation(len(inputs))
        for first in range(0, len(order), BATCH):
            chosen = order[first : first + BATCH]
            net.learn(varied(inputs[chosen], rng), labels[chosen], rate)


def run(images: np.ndarray, labels: np.ndarray, output: Path, seed: int) -> None:
    """Train every width, write it and measure it."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(images))
    split = len(images) // TEST_PART
    test, training = order[:split], order[split:]
    packed = io.BytesIO()
    np.savez_compressed(packed, images=images[test].astype(np.uint8), labels=labels[test].astype(np.uint8))
    write_bytes(output / "images.npz", packed.getvalue())
    held = Images(path=output / "images.npz", samples=images[test], labels=labels[test])
    for bits in BITS:
        samples = SCALINGS[bits].scaled(images, bits, signed=False).reshape(len(images), -1)
        unit = 1 / samples.max()
        inputs = samples[training] * unit
        net = Net(rng)
        train(net, inputs, labels[training], rng)
        net.start(bits, inputs)
        train(net, inputs, labels[training], rng)
        described = net.described(unit)
        path = output / f"digits{bits}.json"
        text, arrays = serialised(described, path.with_suffix(".npz").name)
        write_bytes(path.with_suffix(".npz"), arrays)
        write_text(path, text)
        print(f"{path}: {100 * classified(described, held).accuracy:.2f} % of {split}")


def main() -> None:
    """Read the arguments and the data."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("data", type=Path, help="wheel of scikit-learn, or digits.csv.gz out of it")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/digits"), help="default build/digits")
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    arguments = parser.parse_args()
    try:
        require_folder(arguments.output, "--output")
        run(*read(arguments.data), arguments.output, arguments.seed)
    except XpulpnnError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
