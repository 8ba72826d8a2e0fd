"""Trains a small network on Fashion-MNIST at 8, 4 and 2 bits and writes it as `xpulpnn net` reads it.

pip install torch==2.13.0
apt-get download dataset-fashion-mnist && dpkg-deb -x dataset-fashion-mnist_*.deb build/data
python examples/fashion/train.py build/data/usr/share/datasets/fashion-mnist -o build/fashion

It is trained in floating point first, then each width goes on from the one before. One thread and a seed: the same
machine makes the same weights again.
"""

import argparse
import gzip
import sys
import time
from pathlib import Path

import numpy as np
import torch
from export import described
from model import PIXEL_BITS, SIDE, Net
from torch.nn import functional

from xpulpnn.errors import InputError, XpulpnnError
from xpulpnn_sim.files import require_folder, write_bytes, write_text
from xpulpnn_sim.golden.network import run_scores
from xpulpnn_sw.networks.form import written

EPOCHS = {None: 2, 8: 1, 4: 1, 2: 2}
"""Times that all images are seen, by bits."""

RATES = {None: 3e-3, 8: 1e-3, 4: 1e-3, 2: 2e-3}
"""The highest learning rates."""

BATCH = 128
HEADER = {"images": 16, "labels": 8}
"""Bytes before the data of an IDX file."""

Images = tuple[np.ndarray, np.ndarray]


def read(folder: Path, prefix: str) -> Images:
    """Images, ``[image][row][column]``, and labels out of the packed files of Fashion-MNIST.

    Raises :class:`InputError` for a folder without them, and for files that are none of them.
    """
    found: list[np.ndarray] = []
    for what, rank in (("images", 3), ("labels", 1)):
        path = folder / f"{prefix}-{what}-idx{rank}-ubyte.gz"
        try:
            found.append(np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=HEADER[what]))
        except (OSError, EOFError, ValueError) as error:
            raise InputError(f"data set must be a folder with {path.name}, not {folder}: {error}") from None
    if found[0].size != found[1].size * SIDE**2:
        raise InputError(f"images must be as many as labels, not of {found[0].size} samples for {found[1].size}")
    return found[0].reshape(-1, SIDE, SIDE), found[1]


def tensor(images: np.ndarray) -> torch.Tensor:
    """The samples from 0 to 1, ``[image][1][row][column]``."""
    return torch.from_numpy(images.astype(np.float32) / ((1 << PIXEL_BITS) - 1)).unsqueeze(1)


def train(net: Net, data: Images, epochs: int, rate: float, shuffler: torch.Generator) -> None:
    """Go on with the training of a network; the rate rises and falls once."""
    images, labels = tensor(data[0]), torch.from_numpy(data[1].astype(np.int64))
    optimiser = torch.optim.Adam(net.parameters())
    steps = epochs * -(-len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps, pct_start=0.2)
    net.train()
    for epoch in range(epochs):
        started, losses = time.process_time(), 0.0
        for chosen in torch.randperm(len(images), generator=shuffler).split(BATCH):
            optimiser.zero_grad()
            loss = functional.cross_entropy(net(images[chosen]), labels[chosen])
            loss.backward()
            optimiser.step()
            schedule.step()
            losses += loss.item() * len(chosen)
        seconds = time.process_time() - started
        print(f"  epoch {epoch + 1} of {epochs}: loss {losses / len(images):.4f}, {seconds:.0f} s", file=sys.stderr)


def run(data: Images, test: Images, output: Path, seed: int) -> None:
    """Train every width, write it and measure it."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(mode=True)
    shuffler = torch.Generator().manual_seed(seed)
    net = Net()
    for bits, epochs in EPOCHS.items():
        print(f"{bits or 'no'} bits", file=sys.stderr)
        if bits is not None:
            net.start(bits)
        train(net, data, epochs, RATES[bits], shuffler)
        if bits is None:
            continue
        network = described(net, bits)
        path = output / f"fashion{bits}.json"
        text, arrays = written(network, path.with_suffix(".npz").name)
        write_bytes(path.with_suffix(".npz"), arrays)
        write_text(path, text)
        right = (run_scores(network.network, network.batch(test[0])).argmax(1) == test[1]).mean()
        print(f"{path}: {100 * right:.2f} % of {len(test[1])}")


def main() -> None:
    """Read the arguments and the data."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("data", type=Path, help="folder with the files of Fashion-MNIST")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/fashion"), help="default build/fashion")
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    arguments = parser.parse_args()
    try:
        require_folder(arguments.output, "--output")
        data, test = read(arguments.data, "train"), read(arguments.data, "t10k")
        run(data, test, arguments.output, arguments.seed)
    except XpulpnnError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
