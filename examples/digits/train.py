"""Trains a network of two layers on 8x8 digits at 8, 4 and 2 bits in numpy, as `xpulpnn net` reads it.

pip download --no-deps scikit-learn -d build
python examples/digits/train.py build/scikit_learn-*.whl -o build/digits

The data set is in the wheel of scikit-learn, which need not be installed. A quarter of the images, chosen by the seed,
is for the test and written beside the networks.
"""

import argparse
import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
from model import SCALINGS, Net

from xpulpnn.errors import XpulpnnError
from xpulpnn_sim.files import write_text
from xpulpnn_sim.golden.network import run_scores
from xpulpnn_sw.networks.form import written

MEMBER = "sklearn/datasets/data/digits.csv.gz"
SIDE, BRIGHTEST = 8, 16
EPOCHS, BATCH, RATE = 60, 32, 3e-3
BITS = (8, 4, 2)


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images, ``[image][row][column]``, and labels out of a wheel of scikit-learn or the file in it."""
    try:
        packed = zipfile.ZipFile(path).read(MEMBER) if path.suffix == ".whl" else path.read_bytes()
        rows = np.loadtxt(io.BytesIO(gzip.decompress(packed)), delimiter=",", dtype=np.int64)
        return rows[:, :-1].reshape(-1, SIDE, SIDE), rows[:, -1]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise SystemExit(
            f"data set must be a wheel of scikit-learn or its digits.csv.gz, not {path}: {error}"
        ) from None


def train(net: Net, inputs: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> None:
    """Go on with the training of a network, by rates that fall."""
    for epoch in range(EPOCHS):
        rate = RATE * (1 + np.cos(np.pi * epoch / EPOCHS)) / 2
        order = rng.permutation(len(inputs))
        for first in range(0, len(order), BATCH):
            chosen = order[first : first + BATCH]
            net.learn(inputs[chosen], labels[chosen], rate)


def main() -> None:
    """Train, write and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("data", type=Path, help="wheel of scikit-learn, or digits.csv.gz out of it")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/digits"), help="default build/digits")
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    arguments = parser.parse_args()
    images, labels = read(arguments.data)
    rng = np.random.default_rng(arguments.seed)
    order = rng.permutation(len(images))
    split = len(images) // 4
    test, training = order[:split], order[split:]
    arguments.output.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        arguments.output / "images.npz", images=images[test].astype(np.uint8), labels=labels[test].astype(np.uint8)
    )
    for bits in BITS:
        samples = SCALINGS[bits].scaled(images, bits, signed=False).reshape(len(images), -1)
        unit = 1 / samples.max()
        net = Net(rng)
        train(net, samples[training] * unit, labels[training], rng)
        net.start(bits, samples[training] * unit)
        train(net, samples[training] * unit, labels[training], rng)
        try:
            described = net.described(unit)
        except XpulpnnError as error:
            raise SystemExit(str(error)) from None
        path = arguments.output / f"digits{bits}.json"
        text, arrays = written(described, path.with_suffix(".npz").name)
        path.with_suffix(".npz").write_bytes(arrays)
        write_text(path, text)
        right = (run_scores(described.network, described.batch(images[test])).argmax(1) == labels[test]).mean()
        print(f"{path}: {100 * right:.2f} % of {split}")


if __name__ == "__main__":
    main()
