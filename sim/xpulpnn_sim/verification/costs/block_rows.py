"""Blocks of four pixels and four filters on CV32E40X with the coprocessor, and the cycles that a dot product takes."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn.isa.xif import FILTERS, PIXELS
from xpulpnn.xif.config import XifHost
from xpulpnn_sim.reference.bare.layout import WINDOW
from xpulpnn_sim.verification.costs.measurement import CostRow

STEPS = 16
PRODUCTS = STEPS * PIXELS * FILTERS
_UNROLLED = 8  # steps in an iteration of a loop
_DATA = f"li a0, 0x{WINDOW:x}; li a1, 0x{WINDOW + 0x400:x}; li a2, {STEPS}"
_ACTIVATIONS, _WEIGHTS = ("a3", "a4", "a5", "a6"), ("s2", "s3", "s4", "s5")
_READ = f"pa.rd t0, {PIXELS * FILTERS - 1}"  # waits for all products
_LIMITS = {"pa.acc": 1.6, "pa.blk": 0.87, "xif": 0.60, "obi": 0.58}
"""Cycles that a dot product may take with two of them at a time, loads, start and end included."""


@dataclass(frozen=True, slots=True)
class BlockRow(CostRow):
    products: int = PRODUCTS
    limit: float = 1.0  # cycles of a dot product


def _loads(registers: tuple[str, ...], pointer: str, step: int) -> list[str]:
    words = range(len(registers) * step, len(registers) * (step + 1))
    return [f"lw {register}, {WORD_BYTES * word}({pointer})" for register, word in zip(registers, words, strict=True)]


def _operands(step: int) -> tuple[list[str], list[str]]:
    return _loads(_ACTIVATIONS, "a0", step), _loads(_WEIGHTS, "a1", step)


def _by_accumulator(step: int) -> list[str]:
    pairs = ((pixel, of_filter) for pixel in range(PIXELS) for of_filter in range(FILTERS))
    products = [f"pa.accsp.b {PIXELS * p + f}, {_ACTIVATIONS[p]}, {_WEIGHTS[f]}" for p, f in pairs]
    return [*chain(*_operands(step)), *products]


def _by_block(step: int) -> list[str]:
    """Make the products of words loaded before, two blocks with the loads of the next step behind each."""
    activations, weights = _operands(step + 1)
    pairs = ("pa.ld 0, a3, a4", "pa.ld 1, a5, a6")
    return ["pa.blksp.b 0, s2, s3", *activations, "pa.blksp.b 1, s4, s5", *weights, *pairs]


def _loop(body: list[str]) -> str:
    bytes_moved = WORD_BYTES * PIXELS * _UNROLLED
    moves = f"addi a0, a0, {bytes_moved}; addi a1, a1, {bytes_moved}; addi a2, a2, {-_UNROLLED}"
    return f"77: {'; '.join(body)}; {moves}; bne a2, zero, 77b"


def block_rows(config: XifHost) -> Iterator[BlockRow]:
    yield BlockRow("pa.acc, dependent", "", "; ".join(["pa.accsp.b 0, a0, a1"] * STEPS), {}, products=STEPS)
    steps = range(_UNROLLED)
    code = _loop([line for step in steps for line in _by_accumulator(step)])
    times = 2 // int(config.xif.dots)
    yield BlockRow("lw and pa.acc", "", f"pa.clr; {code}; {_READ}", {}, _DATA, limit=_LIMITS["pa.acc"])
    first = "; ".join([*chain(*_operands(0)), *_by_block(0)[-2:]])
    code = _loop([line for step in steps for line in _by_block(step)])
    yield BlockRow("lw and pa.blk", "", f"pa.clr; {first}; {code}; {_READ}", {}, _DATA, limit=times * _LIMITS["pa.blk"])
    memory = config.xif.memory
    if memory != "none":
        code = f"pa.clr; pa.ptr a0, a1; pa.stepsp.b a2; {_READ}"
        yield BlockRow(f"pa.step by {memory}", "", code, {}, _DATA, limit=times * _LIMITS[memory])
