"""Small functions of PULP-NN, which its kernels and programs of others call, against their definitions."""

import numpy as np
import pytest

from xpulpnn.config import preset
from xpulpnn_sw.library.utils_header import utils_header
from xpulpnn_sw.toolchain.build import build
from xpulpnn_sw.toolchain.build_options import Options

from ..elf import run

pytestmark = pytest.mark.flow


def small_results(phi: int, factors: tuple[int, int, int], pixels: tuple[int, int], sign: str, bits: int) -> list[int]:
    m, k, lam = factors
    least = -(1 << bits - 1) if sign == "i" else 0
    x, y = (pixel % (1 << bits) + least for pixel in pixels)
    values = (m * phi >> 6, k * phi + lam >> 6, x * m + y * -7 >> 3)
    return [min(max(value, least), least + (1 << bits) - 1) for value in values]


@pytest.mark.parametrize(("wide", "core"), [(False, "xpulpnn"), (True, "xpulpnn2")])
def test_small_functions_equal_their_definitions(tmp_path, wide, core):
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
            expected += small_results(phi, (5, k, lam), (pixels[0], pixels[1]), sign, bits)
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
    options = Options(config=preset(core), include=(tmp_path,), extra=("-Wall", "-Werror"))
    build([tmp_path / "main.c"], elf, options=options)
    ran = run(elf, preset(core))
    assert ran.end.ok
    got = np.frombuffer(ran.read("results", 4 * len(calls)), "<i4").tolist()
    assert list(zip(calls, got, strict=True)) == list(zip(calls, expected, strict=True))
