"""A network written by hand: which side of a picture is brighter, in the form that `xpulpnn net` reads.

python examples/network/sides.py      # build/sides: sides.json, sides.npz
"""

import argparse
import json
from pathlib import Path

import numpy as np

SIDE, FILTERS = 16, 8
HALF = SIDE // 2

LAYERS = [
    {
        "name": "blur",
        "kernel": "conv",
        "layer": f"{SIDE}x{SIDE}x3:{FILTERS}x5x5:p=2:image",
        "precision": "8x8x8",
        "requantise": "shift",
    },
    {"name": "shrink", "kernel": "maxpool", "layer": f"{SIDE}x{SIDE}x{FILTERS}:2x2:s=2", "precision": "8x8x8"},
    {"name": "compare", "kernel": "linear", "layer": f"{HALF * HALF * FILTERS}:2:raw", "precision": "8x8xi32"},
]
"""A mean over windows of 5x5 pixels of three colours, its maximum in fields of 2x2, and differences of two halves."""


def arrays() -> dict[str, np.ndarray]:
    """Weights of the layers: ones, then +1 for what is on the own side and -1 for what is on the other."""
    columns = np.where(np.arange(HALF) < HALF // 2, 1, -1)
    left = np.broadcast_to(columns[np.newaxis, :, np.newaxis], (HALF, HALF, FILTERS)).reshape(-1)
    return {
        "blur.weights": np.ones((FILTERS, 5, 5, 3), np.int8),
        "blur.shift": np.array(7),
        "compare.weights": np.stack([left, -left]),
    }


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/sides"), help="folder (default build/sides)")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "sides.npz", **arrays())
    text = json.dumps({"name": "sides", "arrays": "sides.npz", "layers": LAYERS}, indent=2)
    (folder / "sides.json").write_text(f"{text}\n")
    print(folder / "sides.json")


if __name__ == "__main__":
    main()
