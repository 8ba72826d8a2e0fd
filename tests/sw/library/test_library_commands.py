"""``xpulpnn library`` and ``xpulpnn pack``: what they write, and what they refuse in one line."""

from pathlib import Path

import numpy as np
import pytest

from xpulpnn_sim.cli.common import read_results
from xpulpnn_sim.cli.main import main
from xpulpnn_sw.toolchain import compilers

ARRAYS = {
    "weights": np.arange(-8, 8).reshape(2, 8),
    "bias": np.array([3, -3]),
    "kappa": np.array([5, 7]),
    "lambda": np.array([1000, 2000]),
    "shift": np.array(6),
}
FEW = ["--kernels", "linear,relu", "--precision", "4x4x4,i4x4xi4"]


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "weights.npz"
    np.savez(path, **ARRAYS)
    return path


@pytest.mark.flow
def test_a_library_has_headers_objects_and_a_table(tmp_path):
    record = tmp_path / "record.json"
    assert main(["library", *FEW, "-o", str(tmp_path), "--json", str(record)]) == 0
    names = read_results(record)[0]["functions"]
    assert {"xp_linear_4x4x4_x2_4x1", "xp_relu_i4xi4_xpulpnn"} < set(names)
    header = (tmp_path / "include/xpulpnn_kernels.h").read_text()
    table = (tmp_path / "README.md").read_text()
    library = (tmp_path / "lib/libxpulpnn.a").read_bytes()
    for name in names:
        assert f"void {name}(" in header
        assert f"| `{name}` |" in table
        assert f"{name}.o".encode() in library or f"{name}\0".encode() in library
    structures = (tmp_path / "include/xp_arguments.h").read_text()
    used = {line.partition("struct ")[2].partition(" ")[0] for line in header.splitlines() if line.startswith("void")}
    assert all(f"struct {name} {{" in structures for name in used)


def test_a_missing_compiler_is_told_before_anything_is_written(tmp_path, monkeypatch, refused):
    monkeypatch.setattr(compilers, "_find_gcc", lambda: None)
    monkeypatch.setattr(compilers, "_find_zig", lambda: None)
    folder = tmp_path / "library"
    assert refused("library", "-o", folder).startswith("C compiler must be installed")
    assert not folder.exists()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--kernels pool", "--kernel"),
        ("--kernels conv,", "--kernel"),
        ("--precision 8x8", "precision"),
        ("--variant nn_4x4 --preset ri5cy", "--variant"),
    ],
)
def test_what_no_library_has(words, named, tmp_path, refused):
    folder = tmp_path / "library"
    assert refused("library", *words.split(), "-o", folder).startswith(f"{named} must be ")
    assert not folder.exists()


def test_packed_weights_as_arrays(weights, tmp_path):
    output = tmp_path / "layer.npz"
    words = ["pack", "linear", "8:2", str(weights), "--variant", "nn_4x1", "--precision", "8x4x4"]
    assert main([*words, "-o", str(output)]) == 0
    with np.load(output) as packed:
        assert str(packed["function"]) == "xp_conv_8x4x4_nn_4x1"
        assert int(packed["shift"]) == ARRAYS["shift"]
        # per block of four channels the biases, then lambda and kappa of each
        block = [3, -3, 0, 0, 1000, 5, 2000, 7, 0, 0, 0, 0]
        np.testing.assert_array_equal(packed["parameters"].view(np.int32)[:12], block)
        # the rows, in words of eight elements: in which order is the kernel's business
        elements = packed["weights"][:, np.newaxis] >> np.arange(0, 32, 4, dtype=np.uint32) & 15
        values = np.sort((elements.astype(int).reshape(-1) ^ 8) - 8)
        np.testing.assert_array_equal(values[values != 0], np.sort(ARRAYS["weights"][ARRAYS["weights"] != 0]))


def packed_maps(words: list[str], folder: Path, **arrays) -> dict[str, np.ndarray]:
    """What a layer without weights becomes."""
    numbers, output = folder / "numbers.npz", folder / "packed.npz"
    if arrays:
        np.savez(numbers, **{name: np.array(value) for name, value in arrays.items()})
    assert main(["pack", *words[:2], *([str(numbers)] if arrays else []), *words[2:], "-o", str(output)]) == 0
    with np.load(output) as packed:
        return {name: packed[name] for name in packed.files}


def test_scales_of_an_addition_become_tables(tmp_path):
    packed = packed_maps(
        ["add", "4x4x8", "--precision", "i8xu4x8"], tmp_path, factors=[140, 1800], summands=[90, -200], shifts=[7, 8]
    )
    assert str(packed["function"]) == "xp_add_i8xu4x8_xpulpnn2"
    first, second = (packed[f"{which}_table"].view(np.uint8) for which in ("first", "second"))
    elements = np.arange(256).astype(np.int8).astype(int)
    np.testing.assert_array_equal(first, np.clip(elements * 140 + 90 >> 7, 0, 255))
    np.testing.assert_array_equal(second, np.clip(np.arange(16) * 1800 - 200 >> 8, 0, 255))
    assert (packed["first_bytes"], packed["second_bytes"], packed["steps"]) == (128, 64, 32)


def test_numbers_of_other_maps_become_arguments(tmp_path):
    packed = packed_maps(["add", "4x4x8:shift"], tmp_path, factors=[140, -18], shift=9)
    found = [int(packed[name].view(np.int32)) for name in ("first_factor", "second_factor", "shift")]
    assert found == [140, -18, 9]
    assert packed["summand"] == 0
    packed = packed_maps(["add", "4x4x8:shift"], tmp_path, factors=[140, -18], summand=-700, shift=9)
    assert packed["summand"].view(np.int32) == -700
    packed = packed_maps(["avgpool", "4x4x8:2x2:s=2:scaled"], tmp_path, factor=140, summand=-8, shift=5)
    assert [int(packed[name].view(np.int32)) for name in ("factor", "summand", "shift")] == [140, -8, 5]
    for words in (
        ["maxpool", "4x4x8:2x2:s=2"],
        ["relu", "4x4x8"],
        ["avgpool", "4x4x8:2x2:s=2"],
        ["transpose", "4x4x8"],
    ):
        packed = packed_maps(words, tmp_path)
        assert packed["input_bytes"] == 128
        assert str(packed["function"]).startswith(f"xp_{words[0]}_")


NOT_PACKED = (
    ("linear 8:3", ARRAYS, "shape of weights must be (3, 8), not (2, 8)"),
    ("linear 8:2:raw", ARRAYS, "arrays must be weights, bias (bias if there is one), not also kappa"),
    ("linear 8:2 --variant nn_4x4", ARRAYS, "variant must be one of rv32im_2x1, "),
    ("depthwise 4x4x2:2x4 --requantise shift", ARRAYS, "arrays must be weights, bias, shift (bias if there is "),
    ("add 4x4x8", {"factors": [1, 2], "shifts": [1, 2]}, "arrays must be factors, summands, shifts, not wi"),
    ("add 4x4x8:shift", {"factors": [1], "shift": 1}, "factors must be [2], a number for each map, not of"),
    ("avgpool 4x4x8:2x2:scaled", {"factor": -1, "summand": 0, "shift": 1}, "factor must be at least 0, not -1"),
    ("maxpool 4x4x8:2x2 --requantise shift", {}, "requantisation must be left out with maxpool, not shift"),
    ("conv 4x4x8:4x3x3", {}, "arrays must be weights, bias, kappa, lambda, shift (bias if there is one), not wi"),
)


@pytest.mark.parametrize(("words", "arrays", "text"), NOT_PACKED)
def test_what_cannot_be_packed(words, arrays, text, tmp_path, refused):
    numbers, output = tmp_path / "numbers.npz", tmp_path / "layer.c"
    np.savez(numbers, **{name: np.array(value) for name, value in arrays.items()})
    kernel, layer, *rest = words.split()
    assert refused("pack", kernel, layer, *([numbers] if arrays else []), *rest, "-o", output).startswith(text)
    assert not output.exists()


def test_files_that_are_none(weights, tmp_path, refused):
    single, text, objects = (tmp_path / name for name in ("weights.npy", "text.npz", "objects.npz"))
    np.save(single, ARRAYS["weights"])
    text.write_text("no numbers")
    np.savez(objects, weights=np.array([None]))
    for path in (single, text, objects, tmp_path / "missing.npz"):
        assert refused("pack", "linear", "8:2", path).startswith("weights must be a")
    for name in ("layer.txt", "1.c"):
        assert refused("pack", "linear", "8:2", weights, "-o", tmp_path / name).startswith("--output must ")
