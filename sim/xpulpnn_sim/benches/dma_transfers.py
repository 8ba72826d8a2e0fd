"""Random and directed commands for the DMA engine."""

from collections.abc import Iterator, Sequence
from random import Random

from xpulpnn.config import TCDM_SPACE
from xpulpnn.isa.cluster import DMA_LENGTH_BITS, L2_BASE, TCDM_BASE, DmaCommand
from xpulpnn.isa.machine import WORD_MASK, XLEN
from xpulpnn_sim.benches.dma_env import ALIASES, L2_BYTES, TCDM_BYTES, WINDOW_BYTES, are_disjoint
from xpulpnn_sim.reference.golden.dma import moves
from xpulpnn_sim.reference.stimuli import separating_words

Words = list[int]

IN, OUT, WITHIN = "in", "out", "within"
DIRECTIONS = (IN, OUT, WITHIN)
END_FLAGS = (DmaCommand.EVENT, DmaCommand.INTERRUPT, DmaCommand.BROADCAST)
TCDM_TARGETS = TCDM_BASE + TCDM_BYTES // 2
L2_TARGETS = L2_BYTES // 2  # offset of targets; sources are in the lower half of each memory
ALL_LINES = DmaCommand.EXTERNAL_2D | DmaCommand.TCDM_2D | DmaCommand.INCREMENT
_MOST_BYTES = 300
_REACH = 16000  # greatest distance from the first line of a transfer to its last


def end_flags(number: int) -> int:
    return sum(flag for bit, flag in enumerate(END_FLAGS) if number >> bit & 1)


def transfer(direction: str, length: int, ext: int, tcdm: int, flags: int = 0, base: int = L2_BASE) -> Words:
    """Return a 1D command; ``ext`` and ``tcdm`` are offsets in the lower half (source) or upper half of a memory."""
    bases = {IN: (base, TCDM_TARGETS), OUT: (base + L2_TARGETS, TCDM_BASE), WITHIN: (TCDM_BASE, TCDM_TARGETS)}
    outside, inside = bases[direction]
    command = length | flags | (DmaCommand.FROM_EXTERNAL if direction != OUT else 0)
    return [command, inside + tcdm, outside + ext]


def windows(direction: str, count: int, number: int, rng: Random) -> Words:
    ext, tcdm = (rng.randrange(0, 64, 8) + 512 * number for _ in range(2))
    flags = DmaCommand.INCREMENT | end_flags(rng.randrange(8))
    return transfer(direction, WINDOW_BYTES * count, ext, tcdm, flags, rng.choice(ALIASES))


def two_lines(direction: str, length: int, size: int, offsets: Sequence[int], rng: Random) -> Words:
    flags = ALL_LINES | end_flags(rng.randrange(8))
    return [*transfer(direction, length, offsets[0], offsets[1], flags), size, 2 * size + 9, size, 2 * size + 3]


def plain_transfers(rng: Random) -> Iterator[Words]:
    """Yield commands with all alignments of source and target, with consecutive lengths up to 300."""
    length = rng.randrange(_MOST_BYTES)
    for direction in DIRECTIONS:
        for ext in range(8):
            for tcdm in range(8):
                length = length % _MOST_BYTES + 1
                offsets = [rng.randrange(0, TCDM_BYTES // 2 - 2 * _MOST_BYTES, 8) for _ in range(2)]
                flags = DmaCommand.INCREMENT | end_flags(rng.randrange(8))
                yield transfer(direction, length, offsets[0] + ext, offsets[1] + tcdm, flags, rng.choice(ALIASES))


def transfers_in_lines(rng: Random, count: int) -> Iterator[Words]:
    """Yield commands with lines of any length and stride in source, target or both, also without address increment."""
    for _ in range(count):
        direction = rng.choice(DIRECTIONS)
        length = rng.choice((rng.randrange(0, 40), rng.randrange(40, _MOST_BYTES)))
        flags, lines = rng.choice((0, *[int(DmaCommand.INCREMENT)] * 5)) | end_flags(rng.randrange(8)), []
        starts = []
        for flag in (DmaCommand.EXTERNAL_2D, DmaCommand.TCDM_2D):
            long = 1 << rng.randrange(9, DMA_LENGTH_BITS) | rng.randrange(20)
            size = rng.choice((0, rng.randrange(1, 20), rng.randrange(0, length + 10), long))
            number = -(-length // size) if size else 1
            most = max(min(_REACH // max(number, 1), 700), size + 1)
            stride = rng.choice((size, rng.randrange(size, most), -rng.randrange(size, most)))
            used = rng.random() < 0.7
            if used:
                flags |= flag
                lines += [size, stride & WORD_MASK]
            start = rng.randrange(TCDM_BYTES // 2 - _REACH - 2 * _MOST_BYTES)
            starts.append(start + (_REACH if used and stride < 0 else 0))
        yield [*transfer(direction, length, starts[0], starts[1], flags), *lines]


def transfers_anywhere(rng: Random) -> Iterator[Words]:
    """Yield 2D commands; any two address bits differ in some command, so that swapped address bits are noticed."""
    for direction in DIRECTIONS:
        for words in zip(*(separating_words(rng) for _ in range(4)), strict=True):
            words_apart = _three_lines(direction, words, rng)
            while not are_disjoint(*moves(words_apart)):
                words_apart = _three_lines(direction, [rng.getrandbits(XLEN) for _ in words], rng)
            yield words_apart


def _three_lines(direction: str, words: Sequence[int], rng: Random) -> Words:
    """Return a 2D command of three lines with the addresses and strides ``words``; unused bits are random."""
    tcdm, tcdm_stride, ext, ext_stride = words
    if direction == WITHIN:
        ext = TCDM_BASE | ext % TCDM_SPACE
    size = rng.randrange(9, 20)
    flags = ALL_LINES | end_flags(rng.randrange(8))
    command, *_ = transfer(direction, 3 * size, 0, 0, flags | rng.getrandbits(8) << 24)
    counts = [size | rng.getrandbits(XLEN - DMA_LENGTH_BITS) << DMA_LENGTH_BITS for _ in range(2)]
    return [command, tcdm, ext, counts[0], ext_stride, counts[1], tcdm_stride]
