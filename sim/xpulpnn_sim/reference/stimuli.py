"""Stimuli shared by the benches: corner cases per element format and seeded random operands and instruction words."""

from collections.abc import Iterable
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xpulpnn.isa.cluster import BLOCK_BYTES
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, WORD_MASK, XLEN

Words = npt.NDArray[np.uint32]  # a column of 32-bit words

OFFSET_BITS = range(WORD_BYTES.bit_length() - 1, BLOCK_BYTES.bit_length() - 1)
"""Number of address bits that select a word in a block of registers."""


def near_offsets(registers: Iterable[int]) -> list[int]:
    """Return the offsets, other than of registers, that differ from a register's offset in one bit."""
    given = set(registers)
    return sorted({offset ^ 1 << bit for offset in given for bit in OFFSET_BITS} - given)


def lane_corners(width: int) -> list[int]:
    """Return corner values of an element of ``width`` bits in unsigned form: 0, 1, -1, most negative, most positive."""
    sign = 1 << (width - 1)
    return [0, 1, 2 * sign - 1, sign, sign - 1]


def corner_words(width: int) -> list[int]:
    """Return words whose ``width``-bit elements are corner cases: all elements equal, two corner cases alternating, and
    one element at either end of the word with zeros elsewhere."""
    lanes = XLEN // width
    corners = lane_corners(width)

    def word(lane_values: list[int]) -> int:
        return sum(value << (lane * width) for lane, value in enumerate(lane_values))

    mixed = [[first, second] * (lanes // 2) if lanes > 1 else [first] for first in corners for second in corners]
    alone = [[value] + [0] * (lanes - 1) for value in corners] + [[0] * (lanes - 1) + [value] for value in corners]
    return list(dict.fromkeys(word(values) for values in mixed + alone))


def random_word(rng: Random) -> int:
    """Return a random word that is uniform, sparse, dense, or has a run of equal top bits to provoke carries."""
    raw = rng.getrandbits(XLEN)
    match rng.randrange(4):
        case 0:
            return raw & rng.getrandbits(XLEN)
        case 1:
            return raw | rng.getrandbits(XLEN)
        case 2:
            negative = WORD_MASK if raw & 1 else 0
            return (raw >> rng.randrange(XLEN)) ^ negative
        case _:
            return raw


_LOW_ZEROS = 0.2


def random_words(rng: Random, count: int) -> Words:
    """Return ``count`` words of :func:`random_word`; one in five is shifted left by a random amount."""
    words = [random_word(rng) for _ in range(count)]
    shifts = [rng.randrange(XLEN) if rng.random() < _LOW_ZEROS else 0 for _ in range(count)]
    return np.array([word << shift & WORD_MASK for word, shift in zip(words, shifts, strict=True)], dtype=np.uint32)


_NEAR_BOUNDS = 0.8  # how often the sum of a pv.rq is next to a bound


class Requantisation(NamedTuple):
    kappa: int
    lam: int
    scale: int  # shift and, for pv.rqx, zero point


def requantisation(insn: Insn, accumulator: int, scale: int, rng: Random) -> Requantisation:
    """Return operands of a pv.rq or pv.rqx whose result is often next to a bound of clipping or rounding; of ``scale``
    only the bits that count change."""
    if insn.is_exact:
        return _exact_requantisation(insn, accumulator, scale, rng)
    # both parameters differ from the operands, so that a mix-up is detected
    kappa, places, total = random_word(rng), scale % XLEN, rng.getrandbits(XLEN)
    if rng.random() < _NEAR_BOUNDS:
        levels = 1 << insn.elements.width
        inside = rng.randrange(-levels // 2, levels)
        near = rng.choice((0, levels - 1, -levels // 2, levels // 2 - 1, inside, inside))
        # sometimes a single bit above the result differs from its sign
        far = rng.choice((0, 0, 1 << rng.randrange(XLEN)))
        dropped = rng.choice((0, -1, rng.getrandbits(XLEN))) & (1 << places) - 1
        total = (near + rng.randint(-1, 1) << places) + dropped ^ far
    return Requantisation(kappa, total - kappa * accumulator & WORD_MASK, scale)


def _exact_requantisation(insn: Insn, accumulator: int, scale: int, rng: Random) -> Requantisation:
    levels = 1 << insn.elements.width
    least = -levels // 2 if insn.a_signed else 0
    places = rng.choice((0, 1, 31, 32, 62, 63, *(rng.randrange(64) for _ in range(6))))
    zero = rng.choice((0, rng.randrange(-128, 128)))
    sign = rng.choice((1, -1))
    # `far` differs in one bit from a number that is not clipped; `moved` is a power of two plus the zero point
    far = rng.randrange(least, least + levels) ^ 1 << rng.randrange(2 * XLEN - places)
    moved = zero + (sign << rng.randint(BYTE_BITS - 1, BYTE_BITS + 2))
    result = rng.choice((least, least + levels - 1, rng.randrange(least, -least + 256), far, far, moved))
    half = 1 << places >> 1
    dropped = rng.choice((-half, -half - 1, half - 1, half, rng.randrange(-half, half + 1)))
    scaled = (result + rng.randint(-1, 1) - zero << places) + dropped
    # the least power of two by which the sum can be a product of 32-bit numbers
    power = sign << min(max(abs(scaled).bit_length() - XLEN + 1, 0), XLEN - 2)
    anything = (1 << rng.randrange(31), sign, -(1 << 31), (1 << 31) - 1, rng.randrange(1, 1 << 31), 0)
    kappa = rng.choice((power, power, power, *anything))
    total = scaled // (kappa or 1)
    if abs(total) >= 1 << 31 or rng.random() < 0.2:
        total = rng.choice((-(1 << 31), (1 << 31) - 1, rng.getrandbits(XLEN)))
    word = scale & ~0xFF3F | (zero & 0xFF) << 8 | places
    return Requantisation(kappa & WORD_MASK, total - accumulator & WORD_MASK, word)


def separating_words(rng: Random) -> list[int]:
    """Return words in random order in which every two bit positions take all four combinations of values."""
    places = [sum(1 << bit for bit in range(XLEN) if bit >> digit & 1) for digit in range((XLEN - 1).bit_length())]
    words = [value ^ flip for value in (0, *places) for flip in (0, WORD_MASK)]
    rng.shuffle(words)
    return words


def corner_pairs(width: int) -> tuple[Words, Words]:
    """Return two columns of operands that combine every corner word with every uniform corner word."""
    first = corner_words(width)
    second = corner_words(width)[:: max(1, len(first) // len(lane_corners(width)))]
    left, right = np.meshgrid(np.array(first, dtype=np.uint32), np.array(second, dtype=np.uint32))
    return left.ravel(), right.ravel()


def paired_corners(width: int, rng: Random) -> tuple[Words, Words]:
    """Return two columns of operands in which every two corner values meet in an element."""
    corners, lanes = lane_corners(width), XLEN // width
    pairs = [(first, other) for first in corners for other in corners]
    pairs += rng.choices(pairs, k=-len(pairs) % lanes)
    rng.shuffle(pairs)

    def column(elements: Iterable[int]) -> Words:
        values = np.array([*elements], np.uint32).reshape(-1, lanes)
        return (values << (np.arange(lanes, dtype=np.uint32) * np.uint32(width))).sum(axis=1, dtype=np.uint32)

    return column(first for first, _ in pairs), column(other for _, other in pairs)


def operand_columns(width: int, count: int, rng: Random) -> tuple[Words, Words, Words]:
    """Return ``count`` words each for rs1, rs2 and rd: corner pairs in random order, then random words."""
    left, right = corner_pairs(width)
    order = list(range(len(left)))
    rng.shuffle(order)
    # At least half of the column stays random.
    chosen = order[: max(1, count // 2)]
    rest = count - len(chosen)
    rs1 = np.concatenate([left[chosen], random_words(rng, rest)])
    rs2 = np.concatenate([right[chosen], random_words(rng, rest)])
    return rs1, rs2, random_words(rng, count)


def element_width(insn: Insn) -> int:
    return XLEN if insn.fmt is None else insn.fmt.width


def instruction_words(insn: Insn, count: int, rng: Random) -> Words:
    """Return ``count`` words of an instruction: free bits are all zeros in the first, all ones in the second, then
    random. Words that the instruction excludes are replaced."""
    fixed = int(insn.pattern.replace("-", "0"), 2)
    free = int(insn.pattern.replace("1", "0").replace("-", "1"), 2)
    words = [fixed, fixed | free] + [fixed | rng.getrandbits(XLEN) & free for _ in range(count)]
    legal = [word for word in words if insn.matches(word)]
    while len(legal) < count:
        word = fixed | rng.getrandbits(XLEN) & free
        if insn.matches(word):
            legal.append(word)
    return np.array(legal[:count], dtype=np.uint32)
