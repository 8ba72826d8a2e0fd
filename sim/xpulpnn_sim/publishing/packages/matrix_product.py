"""A small matrix product in every element width: the inner loops of the PULP-NN kernels as the configuration allows.

Four filters and two pixels at a time, activations unsigned, weights signed, accumulators as results and, requantised,
as the narrow elements they would be stored as.
"""

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import WORD_BYTES, XLEN
from xpulpnn_sim.publishing.packages.checks import Checks
from xpulpnn_sim.publishing.packages.vectors import dot_product
from xpulpnn_sim.reference.statements.machine import sx, zx

FILTERS, PIXELS, WORDS = 4, 2, 6  # rows of weights and activations, and words of a row

_SPARE = 1  # words behind a row: the loops with Mac&Load fetch one ahead

_ROW = (WORDS + _SPARE) * WORD_BYTES
_SUMS = ("a2", "a3", "a4", "a5", "a6", "a7", "s2", "s3")  # Accumulators, filter by filter

_WEIGHTS = ("s4", "s5", "s6", "s7")  # pointers to the rows of weights

_ACTIVATIONS = ("s8", "s9")  # pointers to the rows of activations

_SHIFT = 6
_RELOAD_ACTIVATION, _RELOAD_WEIGHT, _WEIGHT_LSB = 8, 16, 1


def matrix_products(checks: Checks) -> None:
    """A product per element width; bytes, one by one, without any."""
    for fmt in ElemFmt:
        if fmt.width in checks.config.widths:
            _product(checks, fmt, _packed_loop(checks, fmt))
    if not checks.config.widths:
        _product(checks, ElemFmt.B, _scalar_loop(), byte_at_a_time=True)


def _product(checks: Checks, fmt: ElemFmt, loop: str, *, byte_at_a_time: bool = False) -> None:
    kind = "one element at a time" if byte_at_a_time else f"packed elements of {fmt.width} bit"
    checks.title(f"matrix product, {FILTERS} filters, {PIXELS} pixels, {kind}")
    rows = [checks.operands[row * _ROW : row * _ROW + WORDS * WORD_BYTES] for row in range(FILTERS + PIXELS)]
    pointers = (*_WEIGHTS, *_ACTIVATIONS)
    checks.code("; ".join(f"li {name}, operands + {row * _ROW}" for row, name in enumerate(pointers)))
    checks.code("; ".join(f"li {name}, 0" for name in _SUMS))
    checks.code(loop)
    for number, name in enumerate(_SUMS):
        weights, activations = rows[number // PIXELS], rows[FILTERS + number % PIXELS]
        total = sum(
            dot_product(fmt, _word(activations, place), _word(weights, place), a_signed=False, b_signed=True)
            for place in range(WORDS)
        )
        text = f"filter {number // PIXELS}, pixel {number % PIXELS}, {fmt.width} bit"
        checks.expect(name, zx(total, XLEN), f"sum of {text}")
        if not byte_at_a_time:
            top = (1 << fmt.width) - 1
            checks.code(f"    srai {name}, {name}, {_SHIFT}; p.clipui {name}, {name}, {min(fmt.width + 1, 31)}")
            checks.expect(name, min(max(sx(total, XLEN) >> _SHIFT, 0), top), f"requantised, {text}")


def _word(row: bytes, place: int) -> int:
    return int.from_bytes(row[place * WORD_BYTES : (place + 1) * WORD_BYTES], "little")


def _packed_loop(checks: Checks, fmt: ElemFmt) -> str:
    config = checks.config
    if config.mac_load_nn:
        return _nn_loop(fmt)
    return _cu_loop(fmt) if config.mac_load_cu else _simd_loop(fmt)


def _nn_loop(fmt: ElemFmt) -> str:
    """Both factors from the NN-RF: nine instructions for eight products, the loads among them."""
    name = f"pv.mlsdotsup.{fmt.suffix}"

    def product(rd: str, pixel: int, row: int, reload: int = 0) -> str:
        base = _ACTIVATIONS[pixel] if reload == _RELOAD_ACTIVATION else _WEIGHTS[row]
        return f"    {name} {rd}, ({base}!), {pixel | row << _WEIGHT_LSB | reload}"

    fill = [product("x0", 0, row, _RELOAD_WEIGHT) for row in range(FILTERS)]
    fill += [product("x0", pixel, 0, _RELOAD_ACTIVATION) for pixel in range(PIXELS)]
    body: list[str] = []
    for row in range(FILTERS):
        last = row == FILTERS - 1
        reloads = (_RELOAD_ACTIVATION, _RELOAD_ACTIVATION) if last else (0, _RELOAD_WEIGHT)
        body += [product(_SUMS[row * PIXELS + pixel], pixel, row, reloads[pixel]) for pixel in range(PIXELS)]
    end = product("x0", 0, FILTERS - 1, _RELOAD_WEIGHT)
    return "\n".join([*fill, f"    lp.setupi 0, {WORDS}, 1f", *body, f"1:{end[2:]}"])


def _cu_loop(fmt: ElemFmt) -> str:
    """Weights in the NN-RF, activations in a register, one pixel after the other."""
    name = f"pv.cusdotusp.{fmt.suffix}"
    lines: list[str] = []
    for pixel in range(PIXELS):
        lines += [f"    li {base}, operands + {row * _ROW}" for row, base in enumerate(_WEIGHTS)]
        lines += [f"    {name}.{row} x0, ({base}!), x0" for row, base in enumerate(_WEIGHTS)]
        lines += [f"    li a0, {WORDS}", "    lp.setup 0, a0, 1f", f"    p.lw a1, 4({_ACTIVATIONS[pixel]}!)"]
        body = [f"{name}.{row} {_SUMS[row * PIXELS + pixel]}, ({base}!), a1" for row, base in enumerate(_WEIGHTS)]
        lines += [f"{'1:' if row == FILTERS - 1 else '':4}{text}" for row, text in enumerate(body)]
    return "\n".join(lines)


def _simd_loop(fmt: ElemFmt) -> str:
    """All words in registers, loaded with post-increment."""
    words = ("t0", "t1", "t2", "t3")
    lines = [f"    li a0, {WORDS}", "    lp.setup 0, a0, 1f"]
    lines += [f"    p.lw {word}, 4({base}!)" for word, base in zip(words, _WEIGHTS, strict=True)]
    lines += [f"    p.lw {word}, 4({base}!)" for word, base in zip(("t4", "s10"), _ACTIVATIONS, strict=True)]
    body = [
        f"pv.sdotusp.{fmt.suffix} {_SUMS[row * PIXELS + pixel]}, {activation}, {word}"
        for row, word in enumerate(words)
        for pixel, activation in enumerate(("t4", "s10"))
    ]
    return "\n".join([*lines, *(f"    {text}" for text in body[:-1]), f"1:  {body[-1]}"])


def _scalar_loop() -> str:
    """A load for every factor, a multiplication and an addition."""
    lines = [f"    li a0, {WORDS * WORD_BYTES}", "1:"]
    pairs = zip(("t4", "s10"), _ACTIVATIONS, strict=True)
    lines += [f"    lbu {word}, 0({base}); addi {base}, {base}, 1" for word, base in pairs]
    for row, base in enumerate(_WEIGHTS):
        lines.append(f"    lb t0, 0({base}); addi {base}, {base}, 1")
        for pixel, activation in enumerate(("t4", "s10")):
            name = _SUMS[row * PIXELS + pixel]
            lines.append(f"    mul t1, t0, {activation}; add {name}, {name}, t1")
    return "\n".join([*lines, "    addi a0, a0, -1", "    bne a0, x0, 1b"])
