"""Programs in the manner of the tests of PULP-NN: the headers that they include, and what these compute."""

from dataclasses import replace

import numpy as np
import pytest

from xpulpnn.config import ClusterConfig, preset
from xpulpnn_sim.reference.golden import layers
from xpulpnn_sw.library.utils_header import utils_header
from xpulpnn_sw.toolchain.build import build
from xpulpnn_sw.toolchain.build_options import ClusterLayout, Options

from ..elf import SOURCES, run

CORE = preset("xpulpnn")
WARNED = ("-Wall", "-Werror")
MAIN = SOURCES / "public_names.c"
CALLS = "pulp_nn_conv_u8_u4_i4( pulp_nn_maxpool_u4( pulp_nn_linear_u4_u8_i8("


@pytest.fixture(scope="module")
def library(public_library) -> Options:
    """A library of the functions that the program calls."""
    return public_library(CORE, ["8x4x4", "4x8x8"], CALLS)


def golden_header(rng: np.random.Generator) -> str:
    """Sizes, operands one to an element, and the results of a convolution, a pool and a linear layer."""
    side, inputs, channels, classes = 6, 8, 8, 5
    image = rng.integers(0, 256, (side, side, inputs))
    filters = rng.integers(-8, 8, (channels, 3, 3, inputs))
    sums = layers.conv(image, filters, np.zeros(channels, int), (1, 1), layers.Pads(1, 1, 1, 1))
    kappa = rng.integers(20, 40, channels)
    shift = int(sums.std() * 30 / 8).bit_length()
    lam = (8 << shift) - kappa * sums.reshape(-1, channels).mean(axis=0).astype(int)
    map_ = layers.quantise_bn(sums, kappa, lam, shift, 4)
    pooled = layers.max_pool(map_, layers.Window(2, 2, (2, 2), layers.Pads()))
    weights = rng.integers(-40, 128, (classes, pooled.size))
    products = (weights @ pooled.reshape(-1)).astype(np.int32)
    scores = layers.quantise_multiply(products[np.newaxis, :], 3, 9, 8)
    assert np.unique(map_).size == 16
    assert np.unique(scores).size == classes
    assert np.unique(pooled).size > 3
    arrays = {
        "IMAGE": image,
        "FILTERS": filters,
        "WEIGHTS": weights,
        "KAPPA": kappa,
        "LAMBDA": lam,
        "MAP": map_,
        "LARGEST": pooled,
        "SCORES": scores,
    }
    numbers = {"SIDE": side, "INPUTS": inputs, "CHANNELS": channels, "CLASSES": classes, "MAP_SHIFT": shift}
    numbers |= {"SCORE_FACTOR": 3, "SCORE_SHIFT": 9}
    lines = [f"#define {name} {number}" for name, number in numbers.items()]
    lines += [f"#define {name} {{{', '.join(map(str, array.reshape(-1)))}}}" for name, array in arrays.items()]
    return "\n".join([*lines, ""])


@pytest.mark.flow
@pytest.mark.parametrize(("cores", "define"), [(1, ()), (8, ("OLDER",))])
def test_a_program_of_the_public_library_compiles_and_passes(tmp_path, library, cores, define):
    (tmp_path / "golden.h").write_text(golden_header(np.random.default_rng(5)))
    elf = tmp_path / "main.elf"
    include = (*library.include, tmp_path)
    options = replace(library, cluster=ClusterLayout(cores=cores), include=include, define=define)
    assert build([MAIN], elf, options=options) == ""
    ran = run(elf, ClusterConfig(core=CORE, cores=cores))
    assert ran.output == f"cores: {cores}, errors: 0, counted: 1\n"
    assert ran.end.ok


def results(phi: int, factors: tuple[int, int, int], pixels: tuple[int, int], sign: str, bits: int) -> list[int]:
    """Of the functions of a kind of element: multiplied, normalised, added."""
    m, k, lam = factors
    least = -(1 << bits - 1) if sign == "i" else 0
    x, y = (pixel % (1 << bits) + least for pixel in pixels)
    values = (m * phi >> 6, k * phi + lam >> 6, x * m + y * -7 >> 3)
    return [min(max(value, least), least + (1 << bits) - 1) for value in values]


@pytest.mark.flow
@pytest.mark.parametrize("wide", [False, True])
def test_small_functions_equal_their_definitions(tmp_path, wide):
    rng = np.random.default_rng(7)
    kinds = [(sign, bits) for sign in "ui" for bits in (8, 4, 2)]
    expected: list[int] = []
    calls: list[str] = []
    for sign, bits in kinds:
        name, offset = f"{sign}{bits}", 1 << bits - 1 if sign == "i" else 0
        for phi in rng.integers(-(1 << bits + 3), 1 << bits + 5, 12).tolist():
            k, lam, *pixels = rng.integers(1, 64, 4).tolist()
            lam = lam << 40 if wide and lam > 50 else lam
            x, y = (pixel % (1 << bits) - offset for pixel in pixels)
            calls += [
                f"pulp_nn_quant_{name}({phi}, 5, 6)",
                f"pulp_nn_bn_quant_{name}({phi}, {k}, {lam}ll, 6)",
                f"pulp_nn_add_quant_{name}({x}, {y}, 5, -7, 3)",
            ]
            expected += results(phi, (5, k, lam), (pixels[0], pixels[1]), sign, bits)
        if bits < 8:
            thresholds = np.sort(rng.integers(-99, 99, (1 << bits) - 1))
            for value in (-100, *thresholds.tolist(), 100):
                calls.append(f"pulp_nn_{name}_quant({value}, (int16_t[]){{{', '.join(map(str, thresholds))}}})")
                expected.append(int((thresholds < value).sum()) - offset)
            lanes = rng.integers(0, 1 << bits, 4).tolist()
            word = sum(lane << bits * place for place, lane in enumerate(lanes))
            kind = "uint8_t" if sign == "u" else "int8_t"
            packed = f"({kind}[]){{{', '.join(f'({kind}){byte}' for byte in word.to_bytes(bits // 2, 'little'))}}}"
            calls += [f"pulp_nn_{name}_to_{sign}8_r({packed})[{place}]" for place in range(4)]
            expected += [lane - (1 << bits) if offset and lane >= offset else lane for lane in lanes]
    calls += ["log2(1000)", "clip4(77)", "clips2(-9)", "min(3, -4)", "bitextu(0x5a0, 8, 4)", "mins32(2, -5)"]
    expected += [9, 15, -2, -4, 0x5A, -5]
    body = "".join(f"    results[{number}] = {call};\n" for number, call in enumerate(calls))
    (tmp_path / "pulp_nn_utils.h").write_text(utils_header(wide=wide))
    (tmp_path / "main.c").write_text(
        f"#include <pulp_nn_utils.h>\nint results[{len(calls)}];\nint main(void) {{\n{body}    return 0;\n}}\n"
    )
    elf = tmp_path / "main.elf"
    build([tmp_path / "main.c"], elf, options=Options(config=CORE, include=(tmp_path,), extra=WARNED))
    ran = run(elf, CORE)
    assert ran.end.ok
    got = np.frombuffer(ran.read("results", 4 * len(calls)), "<i4").tolist()
    assert list(zip(calls, got, strict=True)) == list(zip(calls, expected, strict=True))
