"""Trains a small network on Fashion-MNIST at 8, 4 and 2 bits and writes it as `xpulpnn net` reads it.

pip install torch==2.13.0 ".[networks]"
apt-get download dataset-fashion-mnist && dpkg-deb -x dataset-fashion-mnist_*.deb build/data
python examples/fashion/train.py build/data/usr/share/datasets/fashion-mnist -o build/fashion

It is trained in floating point first, then each width goes on from the one before. One thread and a seed: the same
version of torch on the same kind of processor makes the same weights again.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from export import described
from floating import model
from model import CLASSES, FLOAT_CLIP, PIXEL_BITS, SIDE, Net
from torch.nn import functional

from xpulpnn.errors import InputError, XpulpnnError
from xpulpnn_sim.cosimulation.networks.images import Images, read_images
from xpulpnn_sim.cosimulation.networks.summary import classified
from xpulpnn_sim.tools.files import require_folder, write_bytes, write_text
from xpulpnn_sw.networks.network_file import serialised

STEPS = {None: 938, 8: 469, 4: 160, 2: 240}
"""Batches that are learned from, by bits; 469 have every image once."""

RATES = {None: 3e-3, 8: 1e-3, 4: 1e-3, 2: 2e-3}
"""The highest learning rates."""

BATCH = 128
SHOWN = 80
"""Steps between two lines about them, and of the mean of the losses, about."""


def read(folder: Path, prefix: str) -> Images:
    """The images of Fashion-MNIST whose file begins so; raises :class:`InputError` for others, or none."""
    path = folder / f"{prefix}-images-idx3-ubyte.gz"
    if not path.is_file():
        raise InputError(f"data set must be a folder with {path.name}, not {folder}")
    found = read_images(path)
    found.checked_labels(CLASSES)
    if found.samples.shape[1:] != (SIDE, SIDE):
        raise InputError(f"images must be {SIDE}x{SIDE}, not of shape {found.samples.shape} in {found.path}")
    return found


def tensor(images: np.ndarray) -> torch.Tensor:
    """The samples from 0 to 1, ``[image][1][row][column]``."""
    return torch.from_numpy(images.astype(np.float32) / ((1 << PIXEL_BITS) - 1)).unsqueeze(1)


def train(net: Net, data: Images, steps: int, rate: float, shuffler: torch.Generator) -> None:
    """Go on with the training of a network; the rate rises and falls once."""
    images, labels = tensor(data.samples), torch.from_numpy(data.checked_labels(CLASSES))
    optimiser = torch.optim.Adam(net.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps, pct_start=0.2)
    net.train()
    started, last = time.process_time(), 0.0
    for step, chosen in zip(range(1, steps + 1), batches(len(images), shuffler), strict=False):
        optimiser.zero_grad()
        loss = functional.cross_entropy(net(images[chosen]), labels[chosen])
        loss.backward()
        optimiser.step()
        schedule.step()
        last += (loss.item() - last) / min(step, SHOWN)
        if step % SHOWN == 0 or step == steps:
            seconds = time.process_time() - started
            print(f"  step {step} of {steps}: loss {last:.4f}, {seconds:.0f} s", file=sys.stderr)


def batches(images: int, shuffler: torch.Generator) -> Iterator[torch.Tensor]:
    """Numbers of images, every image once before one comes again."""
    while True:
        yield from torch.randperm(images, generator=shuffler).split(BATCH)


def run(data: Images, test: Images, output: Path, seed: int) -> None:
    """Train every width, write it and measure it."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(mode=True)
    shuffler = torch.Generator().manual_seed(seed)
    net = Net()
    for bits, steps in STEPS.items():
        print(f"{bits or 'no'} bits", file=sys.stderr)
        if bits is not None:
            net.start(bits)
        train(net, data, steps, RATES[bits], shuffler)
        if bits is None:
            write_bytes(output / "fashion.onnx", model(net, FLOAT_CLIP))
            continue
        network = described(net, bits)
        path = output / f"fashion{bits}.json"
        text, arrays = serialised(network, path.with_suffix(".npz").name)
        write_bytes(path.with_suffix(".npz"), arrays)
        write_text(path, text)
        print(f"{path}: {100 * classified(network, test).accuracy:.2f} % of {len(test.samples)}")


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
