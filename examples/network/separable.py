"""A network of depthwise and pointwise layers like MobileNet's, with random weights, at 8, 4 and 2 bits.

python examples/network/separable.py      # build/separable: separable8.json, separable8.npz and so on
"""

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np

from xpulpnn_sw.kernels.catalogue import find_kernel
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.library.packed_layer import layer_arrays
from xpulpnn_sw.networks.network_file import NetworkBuilder, serialised

SIDE, CLASSES = 24, 2
CHANNELS = (8, 16, 32, 32, 64, 64, 128, 128)  # behind each pair of layers; every other one makes the map half as wide


def layers(bits: int) -> list[tuple[str, str, str]]:
    """Kernel, layer and precision of each: the first sees a picture of three colours, the last one gives scores."""
    widths, side = f"{bits}x{bits}x{bits}", SIDE
    found = [("conv", f"{2 * SIDE}x{2 * SIDE}x3:{CHANNELS[0]}x3x3:s=2,p=0x1x0x1", widths)]
    for number, (before, after) in enumerate(pairwise(CHANNELS)):
        step = ":s=2,p=0x1x0x1" if number % 2 else ""
        found.append(("depthwise", f"{side}x{side}x{before}:3x3{step}", widths))
        side //= 1 + number % 2
        found.append(("pointwise", f"{side}x{side}x{before}:{after}", widths))
    found.append(("avgpool", f"{side}x{side}x{CHANNELS[-1]}:{side}x{side}:scaled", widths))
    return [*found, ("linear", f"{CHANNELS[-1]}:{CLASSES}:raw", f"{bits}x{bits}xi32")]


def main() -> None:
    """Write the files of each width."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/separable"), help="folder")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for bits in (8, 4, 2):
        network, rng = NetworkBuilder(f"separable{bits}"), np.random.default_rng(0)
        for number, (name, text, widths) in enumerate(layers(bits)):
            layer, precision = find_kernel(name).layer.parse(text), Precision.parse(widths)
            arrays = layer_arrays(layer, find_kernel(name).tensors(layer, precision, rng))
            given = {key: np.asarray(values) for key, values in arrays.items() if values is not None}
            network.add(f"{name}{number}", name, text, widths, given)
        text, arrays = serialised(network.finish(), f"{network.name}.npz")
        (folder / f"{network.name}.json").write_text(text)
        (folder / f"{network.name}.npz").write_bytes(arrays)
        print(folder / f"{network.name}.json")


if __name__ == "__main__":
    main()
