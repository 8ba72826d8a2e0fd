"""Programs for energy estimates: self-checking code of plain RV32IM, and one that sleeps."""

import zlib
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.reference.programs.elf import Executable, Segment
from xpulpnn_sw.assembly.asm import assemble
from xpulpnn_sw.kernels.layout import ImageBuilder

_TEXT, _DATA = 0x1000, 0x10000
_SEED = 4
_SORTED, _CRC_BYTES, _TEXT_BYTES, _PATTERN_BYTES, _SIDE, _NODES = 48, 96, 768, 4, 8, 96
_POLYNOMIAL = 0xEDB88320
_LETTERS = 4
SLEEP_CYCLES = 20_000
GENERAL_CODE = "general code"

_SOURCE = """
start:
# insertion sort of words, in place
    li   s0, {array}
    li   s1, {product}
    addi t0, s0, 4
next_word:
    lw   t1, 0(t0)
    mv   t2, t0
shift:
    lw   t3, -4(t2)
    ble  t3, t1, place
    sw   t3, 0(t2)
    addi t2, t2, -4
    bne  t2, s0, shift
place:
    sw   t1, 0(t2)
    addi t0, t0, 4
    bne  t0, s1, next_word
# CRC-32, bit by bit
    li   s0, {message}
    li   s1, {message_end}
    li   s2, {polynomial}
    li   a0, -1
next_byte:
    lbu  t0, 0(s0)
    xor  a0, a0, t0
    li   t1, 8
next_bit:
    andi t2, a0, 1
    srli a0, a0, 1
    neg  t2, t2
    and  t2, t2, s2
    xor  a0, a0, t2
    addi t1, t1, -1
    bnez t1, next_bit
    addi s0, s0, 1
    bne  s0, s1, next_byte
    not  a0, a0
    li   t0, {results}
    sw   a0, 0(t0)
# occurrences of a pattern in a text
    li   s0, {text}
    li   s1, {text_end}
    li   s2, {pattern}
    li   s3, {pattern_bytes}
    li   a0, 0
next_place:
    li   t0, 0
compare:
    add  t1, s0, t0
    add  t2, s2, t0
    lbu  t1, 0(t1)
    lbu  t2, 0(t2)
    bne  t1, t2, differs
    addi t0, t0, 1
    bne  t0, s3, compare
    addi a0, a0, 1
differs:
    addi s0, s0, 1
    bne  s0, s1, next_place
    li   t0, {results}
    sw   a0, 4(t0)
# product of two square matrices of half-words
    li   s0, {left}
    li   s3, {product}
    li   s5, {side}
    mv   s6, s5
next_row:
    li   s1, {right}
    mv   s4, s5
next_column:
    mv   t0, s0
    mv   t1, s1
    mv   t2, s5
    li   a0, 0
multiply:
    lh   t3, 0(t0)
    lh   t4, 0(t1)
    mul  t3, t3, t4
    add  a0, a0, t3
    addi t0, t0, 2
    addi t1, t1, {row_bytes}
    addi t2, t2, -1
    bnez t2, multiply
    sw   a0, 0(s3)
    addi s3, s3, 4
    addi s1, s1, 2
    addi s4, s4, -1
    bnez s4, next_column
    addi s0, s0, {row_bytes}
    addi s6, s6, -1
    bnez s6, next_row
# sum of a linked list, and a remainder per node
    li   s0, {list}
    li   s1, 97
    li   a0, 0
    li   a1, 0
next_node:
    lw   t0, 0(s0)
    lw   s0, 4(s0)
    add  a0, a0, t0
    remu t1, t0, s1
    add  a1, a1, t1
    bnez s0, next_node
    li   t0, {results}
    sw   a0, 8(t0)
    sw   a1, 12(t0)
# all results against the expected ones
    li   s0, {array}
    li   s1, {expected}
    li   s2, {expected}
    li   a0, 1
verify:
    lw   t0, 0(s0)
    lw   t1, 0(s2)
    beq  t0, t1, right
    li   a0, 3
right:
    addi s0, s0, 4
    addi s2, s2, 4
    bne  s0, s1, verify
    li   t0, {tohost}
    sw   a0, 0(t0)
stay:
    j    stay
"""

_SLEEP = """
start:
    li   t0, {mask}
    csrrw zero, mie, t0
    wfi
    li   t0, {tohost}
    li   a0, 1
    sw   a0, 0(t0)
stay: j  stay
"""


@cache
def general_code() -> Executable:
    rng = np.random.default_rng(_SEED)
    array = rng.integers(-(1 << 31), 1 << 31, _SORTED).astype(np.int32)
    message = rng.integers(0, 256, _CRC_BYTES).astype(np.uint8)
    text = rng.integers(ord("a"), ord("a") + _LETTERS, _TEXT_BYTES).astype(np.uint8)
    pattern = rng.integers(ord("a"), ord("a") + _LETTERS, _PATTERN_BYTES).astype(np.uint8)
    left, right = rng.integers(-(1 << 15), 1 << 15, (2, _SIDE, _SIDE)).astype(np.int16)
    values = rng.integers(0, 1 << 32, _NODES, dtype=np.uint32)
    places = text.size - pattern.size
    occurrences = sum(text[at : at + pattern.size].tobytes() == pattern.tobytes() for at in range(places))
    sums = [values.sum(dtype=np.uint32), (values % 97).sum(dtype=np.uint32)]
    results = np.array([zlib.crc32(message.tobytes()), occurrences, *sums], np.uint32)
    product = left.astype(np.int32) @ right.astype(np.int32)
    data = ImageBuilder(_DATA)
    data.place("array", array.tobytes())
    data.reserve("product", product.nbytes)
    data.reserve("results", results.nbytes)
    data.place("expected", np.concatenate((np.sort(array).view(np.uint32), product.ravel().view(np.uint32), results)))
    for name, values_of in {"message": message, "text": text, "pattern": pattern, "left": left, "right": right}.items():
        data.place(name, values_of.tobytes())
    data.place("list", _list(values, data.end, rng))
    tohost = data.reserve("tohost", results.itemsize)
    addresses = {name: symbol.address for name, symbol in data.symbols.items()}
    source = _SOURCE.format(
        **addresses,
        message_end=addresses["message"] + message.size,
        text_end=addresses["text"] + places,
        pattern_bytes=pattern.size,
        polynomial=_POLYNOMIAL,
        side=_SIDE,
        row_bytes=_SIDE * left.itemsize,
    )
    return _executable(GENERAL_CODE, source, data.finish().data.tobytes(), tohost)


@cache
def sleeping(name: str, line: int) -> Executable:
    """Return a program that sleeps until the interrupt ``line`` rises."""
    return _executable(name, _SLEEP.format(mask=1 << line, tohost=_DATA), bytes(WORD_BYTES), _DATA)


def _executable(name: str, source: str, data: bytes, tohost: int) -> Executable:
    code = assemble(source, _TEXT).to_bytes()
    return Executable(
        path=Path(name),
        entry=_TEXT,
        segments=(Segment(_TEXT, code, len(code)), Segment(_DATA, data, len(data))),
        symbols={"tohost": tohost},
        tohost=tohost,
    )


def _list(values: NDArray[np.uint32], base: int, rng: np.random.Generator) -> NDArray[np.uint32]:
    order = np.concatenate(([0], 1 + rng.permutation(len(values) - 1)))
    nodes = np.zeros((len(values), 2), np.uint32)
    nodes[order, 0] = values
    nodes[order[:-1], 1] = base + nodes.itemsize * 2 * order[1:]
    return nodes
