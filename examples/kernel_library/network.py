"""A C application with a library of kernels: packs a layer, builds, runs on the simulator.

The weights are random; those of a trained layer would be saved the same way. Expected results are computed by numpy.

python examples/kernel_library/network.py      # build/kernel_library: library, packed layer, program
"""

import argparse
from pathlib import Path

import numpy as np

from xpulpnn_sim import simulate
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.reference.golden import layers
from xpulpnn_sw.kernels.layout import pack_words

HERE = Path(__file__).parent
LAYER = "8x8x16:16x3x3"
BITS = 4
SEED = 5
SPARE = 1
"""Words behind the input that the kernel may read."""


def c_array(name: str, values: np.ndarray) -> str:
    """Words as C text."""
    words = ", ".join(f"0x{word:08x}" for word in values.reshape(-1).tolist())
    return f"static const uint32_t {name}[] = {{{words}}};\n"


def write_layer(folder: Path) -> None:
    """Write the layer's arrays, an input, and what must come of it."""
    rng = np.random.default_rng(SEED)
    weights = rng.integers(-8, 8, (16, 3, 3, 16))
    bias, kappa = rng.integers(-100, 100, 16), rng.integers(5, 15, 16)
    offset, shift = rng.integers(8000, 12000, 16), 10
    np.savez(folder / "weights.npz", weights=weights, bias=bias, kappa=kappa, shift=shift, **{"lambda": offset})
    image = rng.integers(0, 16, (8, 8, 16))
    sums = layers.conv(image, weights, bias, (1, 1), layers.Pads(1, 1, 1, 1))
    features = layers.quantise_bn(sums, kappa, offset, shift, BITS)
    expected = layers.max_pool(features, layers.Window(2, 2, stride=(2, 2)))
    read_ahead = np.zeros(SPARE, np.uint32)
    data = "#include <stdint.h>\n" + c_array("input", np.append(pack_words(image, BITS), read_ahead))
    (folder / "data.h").write_text(data + c_array("expected", pack_words(expected, BITS)))


def network(folder: Path) -> None:
    """Build the application in ``folder`` and run it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_layer(folder)
    library, layer, elf = folder / "library", folder / "layer.c", folder / "network.elf"
    places = [f"-I{folder}", f"-I{library}/include", f"-L{library}/lib"]
    for words in (
        ["library", "--kernel", "conv+maxpool", "--precision", "4x4x4", "--windows", "2x2:s=2", "-o", library],
        ["pack", "conv", LAYER, folder / "weights.npz", "--precision", "4x4x4", "-o", layer],
        ["cc", HERE / "main.c", layer, *places, "-lxpulpnn", "-o", elf],
    ):
        if main([str(word) for word in words]):
            raise SystemExit(1)
    ran = simulate(elf)
    print(ran.output.decode(), end="")
    if not ran.exit.ok:
        raise SystemExit(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("build/kernel_library"), metavar="DIR")
    network(parser.parse_args().output)
