"""``xpulpnn net``: a network out of a file on the RTL."""

import json
import struct
import zlib

import numpy as np
import pytest

from xpulpnn_sim import cli

LAYERS = [
    {"name": "first", "kernel": "conv", "layer": "4x4x3:4x3x3:image", "precision": "8x8x8", "requantise": "shift"},
    {"name": "last", "kernel": "linear", "layer": "64:2:raw", "precision": "8x8xi32"},
]


def png(pixels: np.ndarray) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    height, width, _ = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


@pytest.fixture
def network(tmp_path):
    """Answers 0 for what is brighter at the left, 1 for what is brighter at the right."""
    sides = np.tile(np.repeat([1, -1], 8), 4)
    arrays = {
        "first.weights": np.ones((4, 3, 3, 3), np.int8),
        "first.shift": np.array(5),
        "last.weights": np.stack([sides, -sides]),
    }
    np.savez(tmp_path / "sides.npz", **arrays)
    path = tmp_path / "sides.json"
    path.write_text(json.dumps({"name": "sides", "arrays": "sides.npz", "layers": LAYERS}))
    return path


@pytest.mark.cosim
def test_answers_and_record(network, tmp_path, capsys):
    for label in range(2):
        pixels = np.zeros((4, 4, 3), np.uint8)
        pixels[:, 2 * label : 2 * label + 2] = 90
        (tmp_path / f"side_{label}.png").write_bytes(png(pixels))
    (tmp_path / "wrong_1.png").write_bytes((tmp_path / "side_0.png").read_bytes())
    records = tmp_path / "records.json"
    command = ["net", str(network), "--preset", "xpulpnn-full", "--images", str(tmp_path)]
    assert cli.main([*command, "--json", str(records), "--plot", str(tmp_path / "net.html")]) == 0
    found = json.loads(records.read_text())
    assert [(record["label"], record["answer"], record["mismatches"]) for record in found] == [
        (0, 0, 0),
        (1, 1, 0),
        (1, 0, 0),
    ]
    assert [layer["layer"] for layer in found[0]["layers"]] == ["4x4x3:4x3x3:image", "64:2:raw"]
    shown = capsys.readouterr().out
    assert "2 of 3 images classified as labelled" in shown
    assert "PULP-NN" not in shown
    assert "sides on one core" in (tmp_path / "net.html").read_text()


BAD_INPUT = {
    "no file": (["none.json"], "network must be a JSON file that can be read, not none.json: "),
    "no images": (["{}", "--images", "."], "--images must be a folder of PNG files, not ."),
    "seed": (["{}", "--seed", "-1"], "--seed must be at least 0, not -1"),
    "cores": (["{}", "--cores", "0"], "--cores must be a list out of 1,2,"),
    "memory": (
        ["{}", "--cores", "4", "--set", "tcdm_bytes=2048"],
        "operands, buffers and stacks must be at most the TCDM's 2048 bytes, not ",
    ),
    "folder": (["{}", "--plot", "{}/net.html"], "--plot must "),
}


@pytest.mark.unit
@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_line_and_code_2(case, network, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    words, message = BAD_INPUT[case]
    assert cli.main(["net", *(word.format(network) for word in words)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}")
    assert error.count("\n") == 1
